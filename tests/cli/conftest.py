# SPDX-License-Identifier: Apache-2.0
"""Running the command line inside the test, in an empty folder."""

import pytest

from lmeval.cli.main import main


class CommandLine:
    """Runs `lmeval …` and keeps what it printed."""

    def __init__(self, capsys, folder):
        self._capsys = capsys
        self.folder = folder

    def __call__(self, *arguments):
        self._capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        printed = self._capsys.readouterr()
        self.out, self.err = printed.out, printed.err
        assert "Traceback" not in self.out + self.err
        return code


@pytest.fixture
def lmeval(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / ".cache"))
    return CommandLine(capsys, tmp_path)
