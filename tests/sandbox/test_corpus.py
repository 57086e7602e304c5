# SPDX-License-Identifier: Apache-2.0
"""The corpus of escapes and edge cases, whole: on each Python, as root and not, with less walls."""

import functools
import itertools
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import pytest

import lmeval.sandbox

HERE = pathlib.Path(__file__).parent
NOBODY = 65534
ENTRIES = 144
# The corpus's hanging predictions take that long each; less, and on a busy machine those that fill
# the memory run out of time before they run out of memory.
LIMITS = ("--cpu_s", "1.5", "--wall_s", "4")


@functools.cache
def pythons() -> dict[str, str]:
    """Version to path of each Python: this one, those on PATH and in LMEVAL_TEST_PYTHONS."""
    names = os.environ.get("LMEVAL_TEST_PYTHONS", "").split(os.pathsep)
    names += [f"python3.{minor}" for minor in range(10, 16)]
    found = {}
    for name in (sys.executable, *names):
        path = shutil.which(name) if name else None
        if path is None:
            continue
        ask = "import sys; print('%d.%d' % sys.version_info[:2], sys.executable)"
        answer = subprocess.run([path, "-c", ask], capture_output=True, text=True)
        if answer.returncode == 0:
            version, executable = answer.stdout.split()
            found.setdefault(version, executable)
    return found


@pytest.fixture(scope="module")
def public_copy():
    """The sandbox and the corpus where any user can read them, without the rest of lmeval."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="sandbox-corpus-"))
    folder.chmod(0o755)
    package = folder / "lmeval" / "sandbox"
    shutil.copytree(pathlib.Path(lmeval.sandbox.__file__).parent, package)
    shutil.copytree(HERE / "escapes", folder / "escapes")
    shutil.copy(HERE / "corpus_runner.py", folder)
    subprocess.run(["chmod", "-R", "a+rX", folder], check=True)
    yield folder
    shutil.rmtree(folder)


def run_corpus(folder, python, *options, user=None):
    command = [python, "-B", "corpus_runner.py", ".", "escapes", *options]
    identity = {} if user is None else {"user": user, "group": user, "extra_groups": []}
    finished = subprocess.run(command, cwd=folder, capture_output=True, text=True, **identity)
    assert finished.returncode == 0, finished.stderr
    result = json.loads(finished.stdout)
    assert result["count"] == ENTRIES
    assert result["faults"] == {}
    return result["report"]


def readable_python(version: str, user: int | None) -> str:
    """A Python of that version that the user may start."""
    candidates = [
        pythons()[version],
        f"/usr/bin/python{version}",
        f"/usr/local/bin/python{version}",
    ]
    for python in candidates:
        start = [python, "-c", "pass"]
        try:
            identity = {} if user is None else {"user": user, "group": user, "extra_groups": []}
            if subprocess.run(start, capture_output=True, cwd="/", **identity).returncode == 0:
                return python
        except OSError:
            continue
    pytest.skip(f"no Python {version} that user {user} may start")


def test_the_corpus_is_whole():
    manifest = (HERE / "escapes" / "manifest.jsonl").read_text(encoding="utf-8").splitlines()
    files = [json.loads(line)["file"] for line in manifest]
    assert len(set(files)) == ENTRIES
    assert {path.name for path in (HERE / "escapes").glob("*.py")} == set(files)
    # these bytes are easily lost on the way through an editor or git
    assert (HERE / "escapes" / "src_bom.py").read_bytes().startswith(b"\xef\xbb\xbf")
    assert b"\r\n" in (HERE / "escapes" / "src_crlf.py").read_bytes()


def test_corpus_with_all_walls(public_copy):
    report = run_corpus(public_copy, sys.executable, *LIMITS)
    assert report["isolation"] == "required"
    assert set(report["selftest"].values()) == {"blocked"}


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root can change user")
def test_corpus_as_an_ordinary_user_without_landlock(public_copy):
    version = "{}.{}".format(*sys.version_info)
    python = readable_python(version, NOBODY)
    report = run_corpus(public_copy, python, *LIMITS, "--without", "landlock", user=NOBODY)
    assert (report["uid"], report["landlock_abi"]) == (NOBODY, 0)
    assert set(report["selftest"].values()) == {"blocked"}


VERSIONS = [f"3.{minor}" for minor in range(10, 16)]
USERS = [None, NOBODY] if os.name == "posix" and os.geteuid() == 0 else [None]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("version", "user", "walls"),
    list(itertools.product(VERSIONS, USERS, [(), ("--without", "landlock")])),
)
def test_corpus_everywhere(public_copy, version, user, walls):
    if version not in pythons():
        pytest.skip(f"no Python {version} on PATH or in LMEVAL_TEST_PYTHONS")
    python = readable_python(version, user)
    report = run_corpus(public_copy, python, *walls, user=user)
    assert report["python"].startswith(version)
    assert report["seccomp"] is True
    if walls:
        assert report["landlock_abi"] == 0
    if user is not None:
        assert report["uid"] == user
