# SPDX-License-Identifier: Apache-2.0
"""The metric registry, and the three metrics that compare short strings.

A metric is an ordinary function `(prediction, targets, extras) -> score in [0, 1]`, pure and
stateless, registered under the name that task files use:

    @metric("starts_like")
    def starts_like(prediction, targets, extras):
        return float(any(prediction.startswith(target[:3]) for target in targets))

The other built-in metrics live in modules of their own, imported when first asked for.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

import attrs

from lmeval.api.errors import MetricError

if TYPE_CHECKING:
    from lmeval.statistics.values import IntArray

MetricFunction = Callable[[str, Sequence[str], Mapping[str, Any]], float]
RowCheck = Callable[[Sequence[str], Mapping[str, Any]], "str | None"]
RowsScore: TypeAlias = "float | Mapping[str, float]"
CountedRows: TypeAlias = "Callable[[IntArray], RowsScore]"
"""A metric's score of rows, from how often each of them counts: n integers, 0 or more."""
RowsPreparation: TypeAlias = """Callable[
    [Sequence[str], Sequence[Sequence[str]], Sequence[Mapping[str, Any]]], CountedRows
]"""
MetricKind = Literal["example", "rows", "choices", "sandbox"]
_AnyFunction = TypeVar("_AnyFunction", bound=Callable[..., Any])


@attrs.frozen
class RowScore:
    """The score of one row, with what a reader of the results may want to know about it.

    Attributes:
      score: in the metric's range.
      details: further facts by name, such as the reason for a failure; must be fit for JSON.
    """

    score: float
    details: Mapping[str, Any] = attrs.field(factory=dict)


@attrs.frozen
class Metric:
    """A registered metric.

    Attributes:
      name: what task files call it.
      function: the function itself; its signature depends on `kind`.
      kind: "example": `(prediction, targets, extras) -> float`. "rows": the same three for all rows
        at once, each a sequence with one entry a row, `-> float | dict[str, float]`. "choices":
        `(log_probs, choices, targets) -> dict[str, float]`, for one row. "sandbox": runs code that
        a model wrote.
      origin: the file (or interactive session) that defines it.
      check_row: `(targets, extras) -> str | None`, called when a task is loaded: why a row cannot
        be scored by this metric, or None when it can.
      low_score: what the worst answers score.
      high_score: what perfect answers score.
      prepare: for the kind "rows": see `rows_metric`.
      resamples: for the kind "rows": see `rows_metric`.
    """

    name: str
    function: Callable[..., Any]
    kind: MetricKind = "example"
    origin: str = attrs.field(kw_only=True)
    check_row: RowCheck | None = attrs.field(default=None, kw_only=True)
    low_score: float = attrs.field(default=0.0, kw_only=True)
    high_score: float = attrs.field(default=1.0, kw_only=True)
    prepare: RowsPreparation | None = attrs.field(default=None, kw_only=True)
    resamples: int = attrs.field(default=0, kw_only=True)

    @property
    def description(self) -> str:
        """The first line of the function's docstring, "" when it has none."""
        return (self.function.__doc__ or "").strip().partition("\n")[0].strip()


_BUILT_IN_MODULES = {
    "exact_match": "lmeval.api.metrics",
    "substring_contains": "lmeval.api.metrics",
    "multiple_choice": "lmeval.api.metrics",
    "rouge_l": "lmeval.api.rouge",
    "code_exec": "lmeval.api.code_exec",
    "choice_likelihood": "lmeval.api.choices",
    "token_f1": "lmeval.api.corpus_metrics",
    "numeric_match": "lmeval.api.corpus_metrics",
    "bleu": "lmeval.api.corpus_metrics",
    "macro_f1": "lmeval.api.corpus_metrics",
}
_registered: dict[str, Metric] = {}


def register_metric(
    name: str,
    *,
    kind: MetricKind = "example",
    check_row: RowCheck | None = None,
    low_score: float = 0.0,
    high_score: float = 1.0,
    prepare: RowsPreparation | None = None,
    resamples: int = 0,
) -> Callable[[_AnyFunction], _AnyFunction]:
    """Gives a decorator that registers a function as a metric of any kind and returns it unchanged.

    Loading the same file again replaces the metric.

    Raises:
      MetricError: the name is no name, or another file has already taken it.
    """
    if not isinstance(name, str) or not name.strip():
        raise MetricError(f'a metric needs a name, as in @metric("my_metric") (got {name!r}).')

    def register(function: _AnyFunction) -> _AnyFunction:
        new = Metric(
            name,
            function,
            kind,
            origin=_origin_of(function),
            check_row=check_row,
            low_score=low_score,
            high_score=high_score,
            prepare=prepare,
            resamples=resamples,
        )
        taken_by = _origin_that_owns(name, function.__module__)
        if taken_by is not None and taken_by != new.origin:
            raise MetricError(
                f"the metric {name!r} of {new.origin} is already defined in {taken_by}; "
                "rename one of the two."
            )
        _registered[name] = new
        return function

    return register


def metric(
    name: str, *, check_row: RowCheck | None = None
) -> Callable[[_AnyFunction], _AnyFunction]:
    """Registers `(prediction, targets, extras) -> score in [0, 1]` as the metric `name`.

    Args:
      name: what task files call it.
      check_row: see `Metric.check_row`.

    Raises:
      MetricError: as `register_metric`.
    """
    return register_metric(name, check_row=check_row)


def rows_metric(
    name: str,
    *,
    check_row: RowCheck | None = None,
    low_score: float = 0.0,
    high_score: float = 1.0,
    prepare: RowsPreparation | None = None,
    resamples: int = 1000,
) -> Callable[[_AnyFunction], _AnyFunction]:
    """Registers `(predictions, targets, extras) -> score` as a metric that needs all rows at once.

    Each of the three is a sequence with one entry a row. The function gives one score, or a dict of
    scores that has one under `name`.

    Args:
      name: what task files call it.
      check_row: see `Metric.check_row`; it is asked about each row.
      low_score: what the worst answers score.
      high_score: what perfect answers score.
      prepare: takes what the metric takes and gives a quick way to its score when each row counts
        as often as is said; without it the metric is called with rows repeated or left out.
      resamples: on how many redrawn sets of rows the metric is computed for its standard error and
        interval; 0 for a metric that takes long, which then has neither.

    Raises:
      MetricError: as `register_metric`, or `resamples` is 1 or below 0.
    """
    if resamples < 0 or resamples == 1:
        raise MetricError(f"resamples must be 0, or 2 and more (got {resamples!r}).")
    return register_metric(
        name,
        kind="rows",
        check_row=check_row,
        low_score=low_score,
        high_score=high_score,
        prepare=prepare,
        resamples=resamples,
    )


def metric_names() -> list[str]:
    """The names of all metrics, built-in and registered, sorted."""
    return sorted({*_BUILT_IN_MODULES, *_registered})


def find_metric(name: str) -> Metric:
    """The metric of that name, with all that is known of it.

    Raises:
      MetricError: no metric has that name; the text offers close ones.
    """
    if name not in _registered and name in _BUILT_IN_MODULES:
        importlib.import_module(_BUILT_IN_MODULES[name])
    if name not in _registered:
        raise MetricError(f"there is no metric {name!r}; {_known_names_like(name)}")
    return _registered[name]


def get_metric(name: str) -> Callable[..., Any]:
    """The function of the metric of that name; a `MetricFunction` for the kind "example".

    Raises:
      MetricError: no metric has that name; the text offers close ones.
    """
    return find_metric(name).function


def _origin_of(function: Callable[..., Any]) -> str:
    # Each cell of a notebook is a "file" of its own; running one again must replace its metric.
    code = getattr(function, "__code__", None)
    if code is None or function.__module__ == "__main__":
        return f"the module {function.__module__}"
    # One file can be reached by several paths.
    return str(os.path.realpath(code.co_filename))


def _origin_that_owns(name: str, asking_module: str) -> str | None:
    if name in _registered:
        return _registered[name].origin
    module = _BUILT_IN_MODULES.get(name)
    return f"the module {module}" if module is not None and module != asking_module else None


def _known_names_like(name: str) -> str:
    import difflib

    close = difflib.get_close_matches(str(name), metric_names(), n=3)
    if close:
        return "did you mean " + " or ".join(close) + "?"
    return "the known ones are " + ", ".join(metric_names()) + "."


def normalize_answer(text: str) -> str:
    """The text in lower case, with white space trimmed and each run of it made one blank.

    Punctuation, articles and accents stay, so that a text with anything to see never becomes empty.
    Lower case is that of `str.lower`: "STRASSE" is not "Straße".
    """
    return " ".join(text.lower().split())


def targets_of(targets: Sequence[str]) -> Sequence[str]:
    """The targets as a sequence, so that a single string is never walked letter by letter."""
    return (targets,) if isinstance(targets, str) else targets


def refuse_blank_target(targets: Sequence[str], extras: Mapping[str, Any]) -> str | None:
    """A row check: a target of nothing but white space would make silence, or anything, right."""
    for target in targets_of(targets):
        if target and not target.isspace():
            continue
        return "a target is empty (or white space only), so that a silent model would be right"
    return None


@metric("exact_match", check_row=refuse_blank_target)
def exact_match(prediction: str, targets: Sequence[str], extras: Mapping[str, Any]) -> float:
    """1 if the prediction equals any target after `normalize_answer`, else 0; "" equals ""."""
    answer = normalize_answer(prediction)
    for target in targets_of(targets):
        if answer == normalize_answer(target):
            return 1.0
    return 0.0


def _refuse_odd_substrings(targets: Sequence[str], extras: Mapping[str, Any]) -> str | None:
    if not isinstance(extras.get("whole_words", False), bool):
        return "extras.whole_words must be true or false"
    return refuse_blank_target(targets, extras)


@metric("substring_contains", check_row=_refuse_odd_substrings)
def substring_contains(prediction: str, targets: Sequence[str], extras: Mapping[str, Any]) -> float:
    """1 if the prediction contains any target after `normalize_answer`, else 0.

    Words have no borders here: "25" contains "5". With `extras.whole_words` the target must not
    touch a letter or digit on either side. A blank target is contained in nothing.
    """
    answer = normalize_answer(prediction)
    contains = _contains_words if extras.get("whole_words") else str.__contains__
    for target in targets_of(targets):
        wanted = normalize_answer(target)
        if wanted and contains(answer, wanted):
            return 1.0
    return 0.0


def _contains_words(text: str, words: str) -> bool:
    start = text.find(words)
    while start >= 0:
        end = start + len(words)
        if not text[start - 1 : start].isalnum() and not text[end : end + 1].isalnum():
            return True
        start = text.find(words, start + 1)
    return False


def _refuse_target_without_letter(targets: Sequence[str], extras: Mapping[str, Any]) -> str | None:
    for target in targets_of(targets):
        if not _first_letter(target).isalnum():
            return (
                f"multiple_choice compares first characters, but the target {target!r} "
                "does not begin with a letter or digit"
            )
    return None


def _first_letter(text: str) -> str:
    return text.lstrip()[:1].upper()


@metric("multiple_choice", check_row=_refuse_target_without_letter)
def multiple_choice(prediction: str, targets: Sequence[str], extras: Mapping[str, Any]) -> float:
    """1 if the first character, upper-cased, is that of any target, else 0.

    White space before it does not count; an empty prediction scores 0.
    """
    letter = _first_letter(prediction)
    for target in targets_of(targets):
        if letter and letter == _first_letter(target):
            return 1.0
    return 0.0
