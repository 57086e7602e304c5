# SPDX-License-Identifier: Apache-2.0
"""BIG-bench's metrics over generated text."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lmeval.api.corpus_metrics import counted_bleu
from lmeval.api.errors import MetricError, MissingExtraError
from lmeval.bigbench.choice_scores import Score
from lmeval.bigbench.score_names import NUMERIC_MATCH, NUMERIC_MATCH_CORRECTED, ROUGE_TYPES

if TYPE_CHECKING:
    from lmeval.statistics import RowsStatistic

Targets = Sequence[Sequence[str]]
"""For each row the texts that count as right."""
Responses = Sequence[str]
"""For each row what the model wrote, cut as the task wants."""


def exact_str_match(targets: Targets, responses: Responses) -> dict[str, Score]:
    """1 where the response is one of the targets."""
    pairs = zip(targets, responses, strict=True)
    rows = [float(response in texts) for texts, response in pairs]
    return {"exact_str_match": Score.mean_of(rows)}


def case_insensitive_str_match(targets: Targets, responses: Responses) -> dict[str, Score]:
    """1 where the response is one of the targets, without case and outer white space."""
    rows = [
        float(response.strip().lower() in [text.strip().lower() for text in texts])
        for texts, response in zip(targets, responses, strict=True)
    ]
    return {"case_insensitive_str_match": Score.mean_of(rows)}


def numeric_match(targets: Targets, responses: Responses) -> dict[str, Score]:
    """1 where the response is a number within a tenth of the target.

    BIG-bench divides the difference by the signed target, so that any number matches a negative
    one. The corrected variant divides by the target's size. A target of 0 allows 0.1 either way.
    """
    original, corrected, warnings = [], [], {}
    for number, (texts, response) in enumerate(zip(targets, responses, strict=True)):
        original.append(float(_relative_error(texts[0], response, signed=True) <= 0.1))
        corrected.append(float(_relative_error(texts[0], response, signed=False) <= 0.1))
        if original[-1] != corrected[-1]:
            warnings[number] = (
                f"{NUMERIC_MATCH} takes any number for a match of the negative {texts[0]}"
            )
    return {
        NUMERIC_MATCH: Score.mean_of(original, warnings),
        NUMERIC_MATCH_CORRECTED: Score.mean_of(corrected),
    }


def _relative_error(target: str, response: str, signed: bool) -> float:
    """The relative error; NaN, which is within no bound, where one of the two is no number."""
    try:
        wanted, given = float(target), float(response)
    except ValueError:
        return float("nan")
    size = wanted if signed else abs(wanted)
    return abs(given - wanted) / (size or 1)


def sequence_f1(targets: Targets, responses: Responses) -> dict[str, Score]:
    """The share of places, from 0 to 100, at which the response has the first target's label.

    Labels are parted by single blanks; a response too short is filled with "O", one too long is
    cut.
    """
    rows = []
    for texts, response in zip(targets, responses, strict=True):
        wanted, given = texts[0].split(" "), response.split(" ")
        given += ["O"] * (len(wanted) - len(given))
        hits = sum(w == g for w, g in zip(wanted, given, strict=False))
        rows.append(100.0 * (hits / len(wanted)))
    return {"sequence_f1": Score.mean_of(rows)}


def bleu(targets: Targets, responses: Responses) -> dict[str, Score]:
    """Corpus BLEU from 0 to 100 by sacrebleu: tokenizer "intl", exponential smoothing.

    Rows with fewer targets than others are filled up with their first one.

    Raises:
      MissingExtraError: sacrebleu is not installed.
    """
    check_requirements(["bleu"])
    import sacrebleu

    most = max(map(len, targets))
    references = [
        [texts[number] if number < len(texts) else texts[0] for texts in targets]
        for number in range(most)
    ]
    score = sacrebleu.corpus_bleu(
        list(map(str, responses)), references, smooth_method="exp", tokenize="intl"
    )
    counted = counted_bleu(list(map(str, responses)), targets, "intl")
    return {"bleu": Score(float(score.score), counted=counted)}


def rouge(targets: Targets, responses: Responses) -> dict[str, Score]:
    """Mean F-measure from 0 to 100 by rouge-score, for each type against the best target.

    BIG-bench reports the median of 1000 unseeded bootstrap means instead of the mean; see
    `rouge_bootstrap`.

    Raises:
      MissingExtraError: rouge-score is not installed.
    """
    rows = _rouge_rows(targets, responses)
    return {name: Score.mean_of(values) for name, values in rows.items()}


def _rouge_rows(targets: Targets, responses: Responses) -> dict[str, list[float]]:
    check_requirements(["rouge"])
    from rouge_score import rouge_scorer

    scorer = rouge_scorer.RougeScorer(list(ROUGE_TYPES))
    rows: dict[str, list[float]] = {name: [] for name in ROUGE_TYPES}
    for texts, response in zip(targets, responses, strict=True):
        scored = [scorer.score(_sentences(text), _sentences(response)) for text in texts]
        for name, values in rows.items():
            values.append(100.0 * max(score[name].fmeasure for score in scored))
    return rows


def _sentences(text: str) -> str:
    # rougeLsum takes each line for a sentence.
    return str(text).replace(" . ", " .\n")


def rouge_bootstrap(
    rows: Mapping[str, Sequence[float]], seed: int, n_samples: int = 1000
) -> dict[str, float]:
    """What BIG-bench reports for rouge: for each type the median of bootstrap means.

    Args:
      rows: for each type of rouge the rows' scores, as `rouge` gives them.
      seed: of numpy's RandomState. BIG-bench draws from numpy's global generator, anew and unseeded
        for each type; seeded before each, it gives the same.
      n_samples: how often n of the n rows are drawn with replacement.
    """
    import numpy as np

    n_rows = len(rows[ROUGE_TYPES[0]])
    rng = np.random.RandomState(seed)
    medians = {}
    for name in ROUGE_TYPES:
        values = np.asarray(rows[name]) / 100
        means = [values[rng.choice(n_rows, n_rows)].mean() for _ in range(n_samples)]
        medians[name] = float(np.percentile(means, 50.0)) * 100
    return medians


def bleurt(targets: Targets, responses: Responses) -> dict[str, Score]:
    """The mean over the rows of the best target's BLEURT, from a metric that the user registers.

    Raises:
      MetricError: none is registered.
    """
    scorer = find_bleurt()
    rows = [
        max(float(scorer(response, [text], {})) for text in texts)
        for texts, response in zip(targets, responses, strict=True)
    ]
    return {"bleurt": Score.mean_of(rows)}


def load_metrics(folder: Path, task: str) -> None:
    """Run the `metrics.py` in a task's folder, if there is one, for it to register `bleurt`.

    Raises:
      TaskError: it cannot be run.
    """
    from lmeval.api.loading import load_module

    file = folder / "metrics.py"
    if file.is_file():
        load_module(file, f"lmeval_task_metrics.{task}")


def find_bleurt() -> Callable[..., float]:
    """The metric of the name "bleurt".

    Raises:
      MetricError: none is registered.
    """
    from lmeval.api.metrics import find_metric

    try:
        return find_metric("bleurt").function
    except MetricError:
        raise MetricError(
            "the metric bleurt needs a learned scorer (BLEURT-20) that lmeval does not ship; "
            'register one with @lmeval.metric("bleurt"), a function of prediction, [target] and '
            "extras, in a metrics.py beside the task."
        ) from None


TEXT_SCORES: Mapping[str, Callable[[Targets, Responses], dict[str, Score]]] = {
    "exact_str_match": exact_str_match,
    "case_insensitive_str_match": case_insensitive_str_match,
    "numeric_match_with_0_1_relative_error": numeric_match,
    "sequence_f1": sequence_f1,
    "bleu": bleu,
    "rouge": rouge,
    "bleurt": bleurt,
}


def check_requirements(metrics: Sequence[str]) -> None:
    """Raise what `score_texts` would raise for want of a package or of bleurt."""
    for name, package in (("bleu", "sacrebleu"), ("rouge", "rouge_score")):
        if name in metrics and importlib.util.find_spec(package) is None:
            raise MissingExtraError(f"The BIG-bench metric {name}", "text")
    if "bleurt" in metrics:
        find_bleurt()


def score_texts(
    metrics: Sequence[str],
    targets: Targets,
    responses: Responses,
    failed: Sequence[bool],
    rouge_seed: int | None = None,
) -> dict[str, Score]:
    """Score the rows by every metric; a failed row scores 0 in all that score rows.

    Args:
      metrics: names in `TEXT_SCORES`.
      targets: as the metrics take them.
      responses: likewise; "" in failed rows.
      failed: for each row whether the model gave no answer.
      rouge_seed: report rouge as BIG-bench does, by `rouge_bootstrap` with this seed.

    Raises:
      MissingExtraError: a metric needs a package that is not installed.
      MetricError: bleurt is asked for and none is registered.
    """
    scores: dict[str, Score] = {}
    for name in metrics:
        scores |= TEXT_SCORES[name](targets, responses)
    scores = {name: _without_failed(score, failed) for name, score in scores.items()}
    if rouge_seed is not None and "rouge" in metrics:
        rows = {name: scores[name].rows or () for name in ROUGE_TYPES}
        for name, median in rouge_bootstrap(rows, rouge_seed).items():
            scores[name] = Score(median, scores[name].rows, counted=_mean_of(rows[name]))
    return scores


def _mean_of(rows: Sequence[float]) -> RowsStatistic:
    """What the median of bootstrap means estimates, from how often each row counts."""
    import numpy as np

    values = np.asarray(rows)
    return lambda counts: float(counts @ values / counts.sum())


def _without_failed(score: Score, failed: Sequence[bool]) -> Score:
    if score.rows is None or not any(failed):
        return score
    rows = [0.0 if bad else row for row, bad in zip(score.rows, failed, strict=True)]
    return Score.mean_of(rows, score.warnings)
