# SPDX-License-Identifier: Apache-2.0
"""What README.md shows works as shown; every Markdown file has its licence and links that lead."""

import http.server
import json
import pathlib
import re
import shlex
import threading

import pytest

from lmeval.api.model_registry import BUILT_IN_MODELS
from lmeval.cli.check import read_keywords
from lmeval.cli.main import main

ROOT = pathlib.Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
MARKDOWN = [ROOT / "README.md", ROOT / "keywords.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(language):
    return [content for found, content in BLOCKS if found == language]


@pytest.fixture
def run(capsys, tmp_path, monkeypatch):
    """Runs a line of README's shell in an empty folder and gives what it printed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / ".cache"))

    def run_line(line):
        capsys.readouterr()
        program, *arguments = shlex.split(line)
        assert program == "lmeval"
        assert main(arguments) == 0, capsys.readouterr()
        return capsys.readouterr().out

    return run_line


def assert_shows(shown, printed):
    """Each shown line was printed, in order; "…" stands for what is left out."""
    lines = iter(printed.splitlines())
    for line in shown.splitlines():
        begin = line.removesuffix("…").rstrip()
        cut = line.endswith("…")
        assert any(at.startswith(begin) if cut else at.rstrip() == begin for at in lines), line


def without_times(text):
    return re.sub(r" *-+$| *time$| +[\d.]+ m?s$", "", text, flags=re.MULTILINE)


def test_the_first_command_prints_the_table(run):
    first, tests = (block for block in blocks("bash") if ".venv" in block)  # these two install
    assert tests.rstrip().endswith("pytest")
    line = first[first.index("lmeval evaluate") :]
    assert_shows(without_times(blocks("")[0]), without_times(run(line)))


def test_two_runs_are_compared(run):
    (block,) = (block for block in blocks("bash") if ".venv" not in block)
    printed = [run(line) for line in block.splitlines()]
    assert len(printed) == 3
    assert_shows(blocks("")[1], printed[-1])


def task_command():
    (line,) = re.findall(r"`(lmeval evaluate --tasks_dir [^`]*) --model …`", TEXT)
    return f"{line} --model toy"


@pytest.mark.parametrize(
    ("file", "content"), [("task.jsonl", blocks("json")[0]), ("task.py", blocks("python")[0])]
)
def test_the_task_runs(run, tmp_path, file, content):
    (tmp_path / "capitals").mkdir()
    (tmp_path / "capitals" / file).write_text(content, encoding="utf-8")
    assert "capitals" in run(task_command())
    if file == "task.py":
        assert "no faults" in run("lmeval check capitals")


class Service(http.server.BaseHTTPRequestHandler):
    """Answers each prompt with the prompt."""

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"text": body["prompt"]}).encode())

    def log_message(self, format, *arguments):
        pass


def test_the_adapter_asks_its_service(run, tmp_path):
    (tmp_path / "my_file.py").write_text(blocks("python")[1], encoding="utf-8")
    (line,) = re.findall(r"`(lmeval evaluate --task \S+ --model my_file.py[^`]*)`", TEXT)
    with http.server.HTTPServer(("127.0.0.1", 0), Service) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        line = line.replace("localhost:8001", f"127.0.0.1:{server.server_port}")
        assert "my-service.v1" in run(f"{line} --max_examples 2")
        server.shutdown()


def test_the_python_program_runs(capsys):
    exec(blocks("python")[2], {"__name__": "readme"})
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert len(blocks("python")) == 3


def test_keywords_and_models_are_those_that_there_are():
    listed = re.search(r'TaskMetadata\(.*?\["(.*?)"\]', TEXT).group(1)
    assert listed in read_keywords()
    assert set(re.findall(r"^\| `(\w+)` \|", TEXT, re.MULTILINE)) == set(BUILT_IN_MODELS)


@pytest.mark.parametrize("path", MARKDOWN, ids=lambda path: path.name)
def test_a_page_has_its_licence_and_links_that_lead(path):
    text = path.read_text(encoding="utf-8")
    assert text.startswith("<!-- SPDX-License-Identifier: Apache-2.0 -->\n# ")
    for link in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", text):
        assert (path.parent / link).exists(), link
