# SPDX-License-Identifier: Apache-2.0
"""What docs/models.md shows works as shown."""

import pathlib
import re

from lmeval.models.toy_rules import answer_by_rule

TEXT = (pathlib.Path(__file__).parents[2] / "docs" / "models.md").read_text(encoding="utf-8")


def test_the_programs_run_one_after_the_other(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "docs_models"}
    programs = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    assert len(programs) == 4
    for program in programs:
        exec(program, names)
    (result,) = names["leaderboard"].tasks
    assert (result.task, result.score) == ("arithmetic", 0.0)
    case = names["TestCoinModel"]()
    for name in dir(case):
        if name.startswith("test_"):
            getattr(case, name)()


def test_the_toy_answers_as_its_table_says():
    rows = re.findall(
        r"^\| `((?:compute|summarize|python|write|edit): .*?)` \| (.*) \|$", TEXT, re.M
    )
    expected = {
        "the value; whole numbers, `+ - * /` and brackets": "20",
        "the first sentence": "First sentence.",
    }
    assert len(rows) == 5
    for prompt, answer in rows:
        assert answer_by_rule(prompt) == expected.get(answer, answer.strip("`"))
