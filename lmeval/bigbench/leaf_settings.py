# SPDX-License-Identifier: Apache-2.0
"""What a task.json says beside its examples, checked against them."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from lmeval.api.errors import InvalidValueError, TaskFileError
from lmeval.api.model import compile_output_regex, stop_strings
from lmeval.bigbench.example_store import ExampleFacts, ExampleStore
from lmeval.bigbench.prompt_style import PromptStyle
from lmeval.bigbench.score_names import (
    CHOICE_METRICS,
    LIKELIHOOD_METRICS,
    NUMERIC_MATCH,
    SCORE_RANGES,
    TEXT_METRICS,
    choice_metrics_in,
    scores_from,
)

DEFAULT_OUTPUT_REGEX = r"[^\.\?\!\;\n]+"
"""What is taken of an answer where a task gives neither a regex nor a stop string."""

Header = Mapping[str, Any]

_KNOWN_METRICS = (*CHOICE_METRICS, *TEXT_METRICS, *LIKELIHOOD_METRICS)
_STYLE_TEXTS = {
    "example_input_prefix": "input_prefix",
    "example_output_prefix": "output_prefix",
    "choice_prefix": "choice_prefix",
    "few_shot_example_separator": "separator",
}


@attrs.frozen(kw_only=True)
class Identity:
    """What every task.json must say, containers included."""

    name: str
    """The task's name, with "?" for what is not ASCII; that of a sub-task is `parent:name`."""
    description: str
    keywords: tuple[str, ...]


@attrs.frozen(kw_only=True)
class LeafSettings:
    """How the examples of one task.json are asked and scored."""

    identity: Identity
    style: PromptStyle
    choice_metrics: tuple[str, ...]
    text_metrics: tuple[str, ...]
    likelihood_metrics: tuple[str, ...]
    preferred_score: str
    low_score: float
    high_score: float
    output_regex: str | None
    stop_string: str | None
    absolute_normalization: bool
    """Whether choices are graded by their log-probabilities as they are."""

    @property
    def n_requests_per_example(self) -> int:
        """How many requests each example makes: one a family of metrics."""
        families = (self.choice_metrics, self.text_metrics, self.likelihood_metrics)
        return sum(map(bool, families))


def read_identity(owner: str, header: Header, parent: str | None = None) -> Identity:
    """Check what every task.json must have.

    Args:
      owner: the file, for messages.
      header: the members of the file.
      parent: the name of the task of which this is a sub-task.

    Raises:
      TaskFileError: a member is missing or of the wrong type.
    """
    for key in ("name", "canary", "description", "keywords"):
        if key not in header:
            raise TaskFileError(owner, f"has no {key!r}; BIG-bench asks it of every task.")
    name, description, keywords = header["name"], header["description"], header["keywords"]
    if not isinstance(name, str) or not name.strip():
        raise TaskFileError(owner, f"'name' must be a text, found {name!r}.")
    if not isinstance(description, str):
        raise TaskFileError(owner, f"'description' must be a text, found {description!r}.")
    if not isinstance(keywords, list) or not all(isinstance(word, str) for word in keywords):
        raise TaskFileError(owner, f"'keywords' must be a list of texts, found {keywords!r}.")
    ascii_name = name.encode("ascii", errors="replace").decode()
    return Identity(
        name=ascii_name if parent is None else f"{parent}:{ascii_name}",
        description=description,
        keywords=tuple(keywords),
    )


def read_leaf_settings(
    owner: str, header: Header, identity: Identity, store: ExampleStore, facts: ExampleFacts
) -> LeafSettings:
    """Check what a task.json with examples says of itself, and that the examples fit.

    Raises:
      TaskFileError: a member is missing or wrong, or an example lacks what a metric needs.
    """
    metrics, preferred = _read_metrics(owner, header)
    _check_examples(store, facts, metrics)
    low, high = SCORE_RANGES[preferred]
    if preferred == "multiple_choice_grade":
        low = facts.mean_choice_score
    if facts.n_distinct and low >= high:
        raise TaskFileError(
            owner, f"guessing scores {low:g}, as much as the best answers can; no choice is wrong."
        )
    output_regex, stop_string = _read_cuts(owner, header)
    return LeafSettings(
        identity=identity,
        style=_read_style(owner, header),
        choice_metrics=choice_metrics_in(metrics),
        text_metrics=tuple(name for name in TEXT_METRICS if name in metrics),
        likelihood_metrics=tuple(name for name in LIKELIHOOD_METRICS if name in metrics),
        preferred_score=preferred,
        low_score=low,
        high_score=high,
        output_regex=output_regex,
        stop_string=stop_string,
        absolute_normalization=bool(header.get("absolute_normalization", False)),
    )


def _read_metrics(owner: str, header: Header) -> tuple[list[str], str]:
    for key in ("metrics", "preferred_score"):
        if key not in header:
            raise TaskFileError(owner, f"has no {key!r}.")
    metrics, preferred = header["metrics"], header["preferred_score"]
    if not isinstance(metrics, list) or not all(isinstance(name, str) for name in metrics):
        raise TaskFileError(owner, f"'metrics' must be a list of names, found {metrics!r}.")
    for name in metrics:
        if name not in _KNOWN_METRICS:
            raise TaskFileError(owner, f"there is no metric {name!r}; {_hint(name)}")
    if preferred == "rouge":
        raise TaskFileError(owner, "'preferred_score' must be rouge1, rouge2 or rougeLsum.")
    given = scores_from(metrics)
    if preferred not in given:
        raise TaskFileError(
            owner,
            f"'preferred_score' is {preferred!r}, but the metrics give only {', '.join(given)}.",
        )
    return metrics, preferred


def _hint(name: str) -> str:
    close = difflib.get_close_matches(name, _KNOWN_METRICS, n=1)
    return f"did you mean {close[0]!r}?" if close else f"known are {', '.join(_KNOWN_METRICS)}."


def _check_examples(store: ExampleStore, facts: ExampleFacts, metrics: Sequence[str]) -> None:
    choice_metrics = choice_metrics_in(metrics)
    text_metrics = [name for name in metrics if name not in choice_metrics]
    checks = [
        (choice_metrics, facts.without_target_scores, "has no 'target_scores'"),
        (text_metrics, facts.without_target, "has no 'target'"),
        (
            [name for name in metrics if name == "macro_f1"],
            facts.without_single_right_choice,
            "must have one choice with the score 1 and 0 for all others",
        ),
        (
            [name for name in metrics if name == NUMERIC_MATCH],
            facts.with_several_targets,
            "must have exactly one target",
        ),
        (
            [name for name in metrics if name == "log_likelihood"],
            facts.with_blank_target,
            "has a target without a word, so that there is no log-likelihood per word",
        ),
    ]
    for asking, number, fault in checks:
        if asking and number is not None:
            raise store.fault(number, f"{fault} (metric {asking[0]}).")


def _read_style(owner: str, header: Header) -> PromptStyle:
    for key in _STYLE_TEXTS:
        if not isinstance(header.get(key, ""), str):
            raise TaskFileError(owner, f"{key!r} must be a text, found {header[key]!r}.")
    texts = {field: header[key] for key, field in _STYLE_TEXTS.items() if key in header}
    return PromptStyle(
        task_prefix=str(header.get("task_prefix", "")),
        # Seven of BIG-bench's files say "false" in quotation marks, which counts as true.
        append_choices=bool(header.get("append_choices_to_input", True)),
        **texts,
    )


def _read_cuts(owner: str, header: Header) -> tuple[str | None, str | None]:
    output_regex, stop_string = header.get("output_regex"), header.get("stop_string")
    for key, value in (("output_regex", output_regex), ("stop_string", stop_string)):
        if value is not None and not isinstance(value, str):
            raise TaskFileError(owner, f"{key!r} must be a text, found {value!r}.")
    if output_regex is None and stop_string is None:
        output_regex = DEFAULT_OUTPUT_REGEX
    try:
        compile_output_regex(output_regex)
        stop_strings(stop_string or None)
    except InvalidValueError as error:
        raise TaskFileError(owner, str(error)) from None
    # An empty text cuts nothing.
    return output_regex or None, stop_string or None
