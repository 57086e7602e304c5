# SPDX-License-Identifier: Apache-2.0
"""The metric `code_exec`: runs Python that a model wrote, in a sandbox, and scores what it does.

A row's `extras` say how it is judged:

- `io_pairs` `[[x, answer], ...]`: the score is the share of pairs for which `f(x)` returns the
  answer;
- the same with `"mode": "stdout"`: what `f(x)` prints is compared, without trailing blanks;
  with `"program": true` each `x` is a text on standard input and the whole code is run;
- `"mode": "stdout"` alone: what the code prints, given the text `stdin`, must be one of the
  targets;
- `tests`: statements run after the code; 1 if they run to their end, else 0.

Further: `"prepend_prompt": true` puts the row's prompt in front of the code, for models that
complete a function; `"extract"` (`first`, `last`, `none`) says which fenced block of an answer is
the code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lmeval.api.errors import FailedMetricError, MetricError, UsageError
from lmeval.api.metrics import RowScore, register_metric
from lmeval.sandbox import (
    Job,
    Sandbox,
    SandboxError,
    SandboxUnavailable,
    Verdict,
    extract_source,
)

_EXTRACTIONS = ("first", "last", "none")


def check_extras(extras: Mapping[str, Any], targets: Sequence[str]) -> str | None:
    """Why a row can't be judged by `code_exec`, or None when it can.

    Args:
      extras: the row's `extras`.
      targets: the row's targets; they matter only in mode `stdout` without `io_pairs`.
    """
    for name in ("prepend_prompt", "program"):
        if not isinstance(extras.get(name, False), bool):
            return f"extras.{name} must be true or false (got {extras[name]!r})"
    if extras.get("extract", "first") not in _EXTRACTIONS:
        return f"extras.extract must be first, last or none (got {extras['extract']!r})"
    if "tests" in extras:
        return _fault_of_tests(extras)
    mode = extras.get("mode", "value")
    if mode not in ("value", "stdout"):
        return f"extras.mode must be value or stdout (got {mode!r})"
    if "io_pairs" in extras:
        return _fault_of_pairs(extras, mode)
    if mode == "value":
        return "code_exec needs extras.io_pairs (as in [[1, 2], [3, 6]]) or extras.tests"
    if not isinstance(extras.get("stdin", ""), str):
        return "extras.stdin must be a text"
    if isinstance(targets, str) or not targets or not any(target.strip() for target in targets):
        return "code_exec in mode stdout needs extras.io_pairs or a target that is not blank"
    return None


def _fault_of_tests(extras: Mapping[str, Any]) -> str | None:
    for name in ("io_pairs", "mode", "program", "stdin"):
        if name in extras:
            return f"extras.tests and extras.{name} exclude each other"
    tests = extras["tests"]
    if not isinstance(tests, str) or not tests.strip():
        return "extras.tests must be Python statements"
    try:
        compile(tests, "tests", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return f"extras.tests is no Python: {error}"
    return None


def _fault_of_pairs(extras: Mapping[str, Any], mode: str) -> str | None:
    pairs = extras["io_pairs"]
    if not isinstance(pairs, (list, tuple)) or not pairs:
        return "extras.io_pairs must be a list of [input, answer] pairs with at least one pair"
    if "stdin" in extras:
        return "extras.io_pairs and extras.stdin exclude each other; give inputs with program: true"
    program = extras.get("program", False)
    if program and mode != "stdout":
        return 'extras.program needs "mode": "stdout"'
    for number, pair in enumerate(pairs, 1):
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            return f"pair {number} of extras.io_pairs is not [input, answer] (got {pair!r:.60})"
        if mode == "stdout" and not isinstance(pair[1], str):
            return f"pair {number} of extras.io_pairs needs a text as its answer in mode stdout"
        if program and not isinstance(pair[0], str):
            return f"pair {number} of extras.io_pairs needs a text for standard input as its input"
    return None


def _check_row(targets: Sequence[str], extras: Mapping[str, Any]) -> str | None:
    return check_extras(extras, targets)


@register_metric("code_exec", kind="sandbox", check_row=_check_row)
def judge_rows(
    predictions: Sequence[str],
    targets: Sequence[Sequence[str]],
    extras: Sequence[Mapping[str, Any]],
    prompts: Sequence[str],
    sandbox: Sandbox,
) -> list[RowScore]:
    """Runs what a model wrote against input and output pairs, or tests, in a sandbox.

    Args:
      predictions: n answers of a model.
      targets: for each the row's targets.
      extras: for each the row's `extras`, found sound by `check_extras`.
      prompts: for each the row's prompt.
      sandbox: where the code runs. It is started even if there are no rows, so that a task can
        learn before it asks a model anything whether its answers can be judged.

    Returns:
      n scores in [0, 1], with the details `outcome` (one of `lmeval.sandbox.OUTCOMES`), `pairs`
      (one status each) and `detail` (a short text).

    Raises:
      UsageError: the sandbox can't hold here.
      FailedMetricError: the sandbox failed; nothing is scored then.
    """
    jobs = [
        _job(prediction, row_targets, row_extras, prompt)
        for prediction, row_targets, row_extras, prompt in zip(
            predictions, targets, extras, prompts, strict=True
        )
    ]
    try:
        sandbox.start()
        verdicts = sandbox.evaluate(jobs)
    except SandboxUnavailable as error:
        raise UsageError(str(error)) from error
    except (SandboxError, ValueError) as error:
        raise FailedMetricError(str(error)) from error
    return [_row_score(verdict) for verdict in verdicts]


def code_exec(
    prediction: str,
    targets: Sequence[str],
    extras: Mapping[str, Any],
    *,
    sandbox: Sandbox | None = None,
    prompt: str = "",
) -> float:
    """The score of one prediction, in [0, 1]; see `judge_rows` for many.

    Args:
      prediction: a model's answer.
      targets: used in mode `stdout` without `io_pairs`.
      extras: how to judge; see the module's text.
      sandbox: where the code runs.
      prompt: put in front of the code if `extras` ask for it.

    Raises:
      UsageError: there is no sandbox, or it can't hold here.
      MetricError: `extras` do not say how to judge, or the sandbox failed.
    """
    if sandbox is None:
        raise UsageError(
            "code_exec runs code that a model wrote: pass a lmeval.sandbox.Sandbox, or allow it on "
            "the command line with --allow_code_exec."
        )
    fault = check_extras(extras, targets)
    if fault is not None:
        raise MetricError(f"code_exec can't judge this row: {fault}.")
    return judge_rows([prediction], [targets], [extras], [prompt], sandbox)[0].score


def _job(prediction: str, targets: Sequence[str], extras: Mapping[str, Any], prompt: str) -> Job:
    prepend = extras.get("prepend_prompt", False)
    mode = extras.get("mode", "value")
    tests = extras.get("tests", "")
    pairs = extras.get("io_pairs")
    program = not tests and (pairs is None or extras.get("program", False))
    code = extract_source(
        prediction,
        choice=extras.get("extract", "first"),
        # Only calls of f(x) need a name; other code may define anything.
        defines="" if tests or program or prepend else "f",
        keep_indent=prepend,
    )
    if prepend:
        # A completion continues the prompt to the letter; a fenced block begins on a line of its
        # own.
        own_line = code != prediction and not prompt.endswith("\n")
        code = prompt + ("\n" if own_line else "") + code
    if tests:
        return Job(code, mode="tests", tests=tests)
    if pairs is None:
        return Job(code, [extras.get("stdin", "")], [list(targets)], mode="program")
    return Job(
        code,
        [pair[0] for pair in pairs],
        [[pair[1]] for pair in pairs],
        mode="program" if program else mode,
    )


def _row_score(verdict: Verdict) -> RowScore:
    return RowScore(
        verdict.score,
        {"outcome": verdict.outcome, "pairs": list(verdict.pairs), "detail": verdict.detail},
    )
