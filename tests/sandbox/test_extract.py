# SPDX-License-Identifier: Apache-2.0
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmeval.sandbox import extract_source

F = "def f(x):\n    return x\n"
G = "def g(x):\n    return x\n"


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (F, F),
        ("\ufeff" + F, F),
        (F.replace("\n", "\r\n"), F),
        (f"```python\n{F}```", F),
        (f"```\n{F}```\n", F),
        (f"~~~py\n{F}~~~", F),
        (f"````python\n{F}````", F),
        (f"Sure!\n\n```Python\n{F}```\n\nIt works like this.", F),
        # the usage block after it
        (f"```python\n{F}```\nUse it so:\n```python\nf(1)\n```", F),
        # the first block is no Python, or does not define f
        (f"```bash\npip install f\n```\n```python\n{F}```", F),
        (f"```python\n{G}```\nBetter:\n```python\n{F}```", F),
        # blocks without f: the first that is Python
        (f"```text\nhello\n```\n```python\n{G}```", G),
        # an unclosed fence runs to the end
        (f"```python\n{F}", F),
        # a fence that only closes: its opening was in the prompt
        (f"{F}```\nThat is all.", F),
        (f"{F}```", F),
        (f"{F}```\nUse it so:\n```python\nf(1)\n```", F),
        # in a list
        ("1. Answer:\n\n   ```python\n   def f(x):\n       return x\n   ```\n", F),
        ("    def f(x):\n        return x\n", F),
        ("", ""),
        ("no code here", "no code here"),
    ],
)
def test_the_code_is_found(answer, code):
    assert extract_source(answer).rstrip("\n") == code.rstrip("\n")


@pytest.mark.parametrize(
    "code",
    [
        'def f(x):\n    """\n    ```\n    f(1)\n    ```\n    """\n    return x\n',
        "def f(x):\n    s = '```'\n    return s\n",
        "def f(x):\n    return '''\n  ```python\n  '''\n",
    ],
)
@pytest.mark.parametrize("fenced", [False, True])
def test_marks_inside_code_are_no_fences(code, fenced):
    answer = f"```python\n{code}```" if fenced else code
    assert extract_source(answer) == code


def test_text_with_an_unmarked_unclosed_block_that_defines_f():
    assert extract_source(f"Here:\n```\n{F}") == F


def test_last_and_none():
    second = F.replace("return x", "return 2")
    answer = f"```python\n{F}```\nor\n```python\n{second}```"
    assert extract_source(answer) == F
    assert extract_source(answer, choice="last") == second
    assert extract_source(answer, choice="none") == answer


@pytest.mark.parametrize("body", ["    return x + 1", "     return x + 1", "\treturn x\n"])
def test_a_completion_keeps_its_indentation(body):
    assert extract_source(body, defines="", keep_indent=True) == body


@pytest.mark.parametrize("after", ["```", "```\nDone.", "```\nSo:\n```python\nf(1)\n```\n"])
def test_a_completion_ends_at_the_fence_that_the_prompt_opened(after):
    body = "    return x + 1\n"
    code = extract_source(body + after, defines="", keep_indent=True)
    assert code.rstrip("\n") == body.rstrip("\n")


def test_a_completion_may_hold_fences_in_its_docstring():
    body = '    """\n    ```\n    f(1)\n    ```\n    """\n    return x\n'
    assert extract_source(body, defines="", keep_indent=True) == body


def test_a_fenced_completion_keeps_its_indentation():
    answer = "```python\n    return x + 1\n```"
    assert extract_source(answer, defines="", keep_indent=True) == "    return x + 1\n"


def test_dedent_changes_nothing_else():
    code = "def f(x):\n    return '''\n   \n'''\n"
    assert extract_source(code) == code
    assert extract_source("    if x:\n  y\n") == "    if x:\n  y\n"


@pytest.mark.parametrize(
    "text",
    [
        "```" + " " * 200_000 + "`",
        "`" * 200_000 + "x`",
        "```\n" * 50_000,
        "~~~\n" * 50_001,
        " " * 200_000 + "\n```",
        "def " + " " * 200_000,
        "async " + " " * 200_000 + "\n" + "```\n",
        "\n" * 200_000 + "```python\n",
    ],
    ids=range(8),
)
def test_hostile_text_takes_linear_time(text):
    start = time.process_time()
    extract_source(text)
    # quadratic work on texts of this length takes minutes
    assert time.process_time() - start < 5


@given(st.text(alphabet="`~ \t\npyfdef(x):=1", max_size=200), st.sampled_from(["first", "last"]))
def test_extraction_never_fails_and_invents_no_text(text, choice):
    code = extract_source(text, choice=choice)
    assert set(code.split()) <= set(text.split())
