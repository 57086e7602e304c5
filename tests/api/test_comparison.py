# SPDX-License-Identifier: Apache-2.0
"""Comparison of two leaderboards: what is paired, what is left out, what is said about it."""

import math
import random

import attrs
import hypothesis
import pytest
from hypothesis import strategies as st

from lmeval.api.comparison import ComparisonOptions, compare_leaderboards
from lmeval.api.corpus_metrics import bleu, macro_f1
from lmeval.api.errors import ResultsError
from lmeval.api.model import ModelData
from lmeval.api.results import Leaderboard, TaskFailure, task_results
from lmeval.api.task import AggregateScore, ExampleScore, ScoreData, ScoreWithError
from lmeval.statistics import PairedComparison, UnpairedComparison

# 70 both right, 12 only A, 3 only B, 15 neither: A 0.82, B 0.73.
HUNDRED_A = [1.0] * 70 + [1.0] * 12 + [0.0] * 3 + [0.0] * 15
HUNDRED_B = [1.0] * 70 + [0.0] * 12 + [1.0] * 3 + [0.0] * 15


def example(name, score, sample=0, **fields):
    return ExampleScore(
        id=name,
        score=score,
        prompt=f"ask {name}",
        prediction=f"says {score}",
        targets=("right",),
        sample=sample,
        **fields,
    )


def rows_of(scores):
    return [example(f"q{index}", score) for index, score in enumerate(scores)]


def score_data(rows, name="exact_match", kind=ScoreData, **fields):
    by_id = {}
    for row in rows:
        by_id.setdefault(row.id, []).append(row.score)
    fields = {"low_score": 0.0, "high_score": 1.0, "number_of_shots": 0, **fields}
    score = fields.pop("score", None)
    if score is None:
        means = [math.fsum(scores) / len(scores) for scores in by_id.values()]
        score = math.fsum(means) / len(means)
    return kind(
        {name: score},
        name,
        per_example=tuple(rows),
        **fields,
    )


def task(rows, name="t", sha256="same", keep_rows=True, name_of_score="exact_match", **fields):
    (result,) = task_results(name, score_data(rows, name_of_score, **fields), sha256)
    return result if keep_rows else attrs.evolve(result, per_example=())


def board(*tasks, **fields):
    return Leaderboard(
        adapter=fields.pop("adapter", "model"),
        model=ModelData(model_family="test", model_name="test"),
        fingerprint=None,
        tasks=tasks,
        **fields,
    )


def compare(a, b, **options):
    return compare_leaderboards(board(a), board(b), ComparisonOptions(**options))


def compare_one(a, b, **options):
    (result,) = compare(a, b, **options).tasks
    return result


def test_rows_are_paired_and_tested():
    result = compare_one(task(rows_of(HUNDRED_A)), task(rows_of(HUNDRED_B)))
    assert isinstance(result.result, PairedComparison)
    assert result.difference == pytest.approx(-0.09)
    assert result.result.stderr == pytest.approx(0.03786, abs=5e-6)
    assert result.adjusted_p_value == pytest.approx(0.03516, abs=5e-6)
    assert result.verdict == "worse"
    assert len(result.flips) == 15


def test_without_rows_the_reported_scores_are_compared_as_independent():
    result = compare_one(
        task(rows_of(HUNDRED_A), keep_rows=False), task(rows_of(HUNDRED_B), keep_rows=False)
    )
    assert isinstance(result.result, UnpairedComparison)
    # sqrt(0.82 * 0.18 / 99 + 0.73 * 0.27 / 99)
    assert result.result.stderr == pytest.approx(0.059007, abs=1e-6)
    assert result.verdict == "no clear change"
    assert result.notes == (
        "unpaired, taken as independent: A and B hold no rows (--include_per_example writes them)",
    )


def test_rows_of_one_side_alone_are_not_listed_as_missing_in_the_other():
    result = compare_one(task(rows_of([1, 0])), task(rows_of([1, 0]), keep_rows=False))
    assert (result.only_in_a, result.only_in_b, result.flips) == ((), (), ())
    assert "B holds no rows" in result.notes[0]


def test_rows_are_paired_by_id_and_what_one_lacks_is_listed():
    a = task([example("q1", 1.0), example("q2", 0.0), example("q3", 1.0)])
    b = task([example("q9", 1.0), example("q2", 0.0), example("q1", 1.0)])
    result = compare_one(a, b)
    assert (result.result.n, result.difference, result.flips) == (2, 0.0, ())
    assert result.only_in_a == (("", "q3", 0),)
    assert result.only_in_b == (("", "q9", 0),)
    assert "compared on the 2 rows that both have" in result.notes[0]


def test_row_order_changes_nothing():
    rows = rows_of([index / 40 for index in range(40)])
    other = rows_of([(index * 7 % 40) / 40 for index in range(40)])
    shuffled = other.copy()
    random.Random(3).shuffle(shuffled)
    a = task(rows)
    assert compare_one(a, task(other)) == compare_one(a, task(shuffled))


def test_a_run_with_itself_is_no_change():
    result = compare_one(task(rows_of(HUNDRED_A)), task(rows_of(HUNDRED_A)))
    assert (result.difference, result.result.p_value, result.verdict) == (0, 1, "no clear change")
    assert result.result.ci95[0] < 0 < result.result.ci95[1]


def test_changed_content_is_left_out_with_both_hashes():
    comparison = compare(
        task(rows_of([1, 0]), sha256="a" * 64), task(rows_of([0, 0]), sha256="b" * 64)
    )
    assert comparison.tasks == ()
    assert "aaaaaaaaaaaa… and bbbbbbbbbbbb…" in comparison.left_out["t"]


def test_changed_content_is_compared_on_request_and_says_which_targets_differ():
    a = task([example("q1", 1.0), example("q2", 1.0)], sha256="old")
    edited = attrs.evolve(example("q2", 0.0), targets=("other",))
    b = task([example("q1", 1.0), edited], sha256="new")
    result = compare_one(a, b, allow_changed_tasks=True)
    assert result.result.n == 2
    assert result.notes == (
        "the task's content differs between A and B",
        "rows with other targets in B: 1, 'q2' for one",
    )


def test_another_metric_is_left_out_whatever_is_allowed():
    other = attrs.evolve(task(rows_of([1, 0])), metric="bleu")
    comparison = compare(task(rows_of([1, 0])), other, allow_changed_tasks=True)
    assert comparison.left_out == {"t": "A reports 'exact_match', B 'bleu'"}


def test_tasks_of_one_side_are_listed_with_the_reason_for_failing():
    a = board(task(rows_of([1, 0]), name="x"), task(rows_of([1, 0]), name="y"))
    b = board(
        task(rows_of([1, 0]), name="x"),
        task(rows_of([1, 0]), name="z"),
        failed_tasks=(TaskFailure(task="y", reason="out of memory"),),
    )
    comparison = compare_leaderboards(a, b)
    assert comparison.only_in_a == ("y (failed in the other: out of memory)",)
    assert comparison.only_in_b == ("z",)
    assert [result.task for result in comparison.tasks] == ["x"]


def test_one_task_at_two_numbers_of_shots_is_two_entries_and_has_no_overall_error():
    zero, two = rows_of([1, 0, 1]), rows_of([1, 1, 1])
    a = board(task(zero), task(two, number_of_shots=2))
    comparison = compare_leaderboards(a, a)
    assert [result.label for result in comparison.tasks] == ["t", "t (2 shots)"]
    assert comparison.overall.mean is None


def test_a_task_that_stands_there_twice_is_refused():
    twice = board(task(rows_of([1])), task(rows_of([1])))
    with pytest.raises(ResultsError, match="A: the task 't' stands there twice"):
        compare_leaderboards(twice, board())


def test_holm_runs_over_the_tested_tasks():
    a = board(*(task(rows_of(HUNDRED_A), name=name) for name in "wxyz"))
    b = board(*(task(rows_of(HUNDRED_B), name=name) for name in "wxyz"))
    comparison = compare_leaderboards(a, b)
    assert comparison.tasks[0].adjusted_p_value == pytest.approx(4 * 0.03515625)
    assert {result.verdict for result in comparison.tasks} == {"no clear change"}


def test_overall_difference_is_the_mean_over_tasks_with_its_error():
    a = board(task(rows_of(HUNDRED_A), name="x"), task(rows_of([0, 0, 1, 1]), name="y"))
    b = board(task(rows_of(HUNDRED_B), name="x"), task(rows_of([1, 0, 1, 1]), name="y"))
    comparison = compare_leaderboards(a, b)
    assert comparison.overall.mean == pytest.approx((-0.09 + 0.25) / 2)
    assert comparison.overall.stderr == pytest.approx(math.hypot(0.0378594, 0.25) / 2, abs=1e-6)
    micro = comparison.overall_micro
    assert (micro.n, micro.mean) == (104, pytest.approx((-9 + 1) / 104))
    assert micro.stderr == pytest.approx(math.hypot(3.78594, 4 * 0.25) / 104, abs=1e-6)


def test_without_rows_there_is_no_difference_weighted_by_rows():
    a = board(task(rows_of([0, 1]), name="x"), task(rows_of([0, 1]), name="y", keep_rows=False))
    comparison = compare_leaderboards(a, a)
    assert comparison.overall.mean == 0.0
    assert comparison.overall_micro.mean is None


def test_lower_is_better_where_the_high_score_is_below_the_low_one():
    scale = {"low_score": 1.0, "high_score": 0.0}
    result = compare_one(task(rows_of(HUNDRED_A), **scale), task(rows_of(HUNDRED_B), **scale))
    assert result.verdict == "better"
    # What B lost comes first: rows whose score rose.
    assert result.flips[0].change == 1.0


def test_losses_come_first_then_larger_changes():
    a = task(rows_of([0.0, 1.0, 0.5, 1.0]))
    b = task(rows_of([1.0, 0.75, 0.0, 0.0]))
    result = compare_one(a, b)
    assert [flip.a.id for flip in result.flips] == ["q3", "q2", "q1", "q0"]


def two_subtasks(first, second, aggregate=None):
    parts = [
        score_data(rows_of(first), subtask_description="one"),
        score_data(rows_of(second), subtask_description="two"),
    ]
    if aggregate is not None:
        parts.append(AggregateScore({"exact_match": aggregate}, "exact_match", 0, 0.0, 1.0, "all"))
    (result,) = task_results("t", parts, "same")
    return result


def test_sub_tasks_with_equal_ids_are_compared_as_a_mean_of_means():
    result = compare_one(two_subtasks([0] * 4, [0] * 2), two_subtasks([1, 0, 0, 0], [1, 0]))
    assert result.difference == pytest.approx(0.375)
    assert result.result.stderr == pytest.approx(math.hypot(0.25, 0.5) / 2)
    assert {flip.key for flip in result.flips} == {("one", "q0", 0), ("two", "q0", 0)}


def test_a_pooled_aggregate_is_compared_over_all_rows():
    a = two_subtasks([0] * 4, [0] * 2, aggregate=0.0)
    b = two_subtasks([1, 0, 0, 0], [1, 0], aggregate=2 / 6)
    result = compare_one(a, b)
    assert result.difference == pytest.approx(2 / 6)
    assert result.result.test == "mcnemar exact"


def normalized_subtasks(first, second):
    """Right/wrong rows and rows on a scale from 0 to 50, summed up by normalized scores."""
    parts = [
        score_data(rows_of(first), subtask_description="one"),
        score_data(rows_of(second), subtask_description="two", high_score=50.0),
    ]
    score = 100 * (parts[0].score + parts[1].score / 50) / 2
    whole = AggregateScore({"normalized": score}, "normalized", 0, 0.0, 100.0, "all")
    (result,) = task_results("t", [*parts, whole], "same")
    return result


def test_an_aggregate_of_normalized_scores_is_compared_by_its_rows():
    a = normalized_subtasks([1, 1, 1, 1], [50, 40, 30, 50])
    b = normalized_subtasks([1, 0, 0, 1], [10, 20, 30, 0])
    result = compare_one(a, b)
    # In percent: 0, -100, -100, 0 with the error 28.87; -80, -40, 0, -100 with the error 22.17.
    assert result.difference == pytest.approx(-52.5)
    assert result.result.stderr == pytest.approx(math.hypot(100 / 12**0.5, 22.1736) / 2, rel=1e-5)
    # Five changes, all for the worse.
    assert (result.result.test, result.result.p_value) == ("permutation exact", 2 / 2**5)
    assert result.result.mean_a == pytest.approx(a.score)


def test_right_and_wrong_on_a_scale_up_to_100_are_compared_as_right_and_wrong():
    a, b = (
        task(rows_of([100 * score for score in scores]), high_score=100.0)
        for scores in (HUNDRED_A, HUNDRED_B)
    )
    result = compare_one(a, b).result
    assert (result.test, result.p_value) == ("mcnemar exact", pytest.approx(0.03516, abs=5e-6))
    assert result.stderr == pytest.approx(3.786, abs=5e-4)
    same = compare_one(a, a).result
    assert same.ci95 == pytest.approx((-100 * 0.0272, 100 * 0.0272), abs=0.01)


def test_a_score_that_is_not_the_mean_of_its_rows_is_not_tested_through_them():
    a = task(rows_of([1, 0, 1]), score=0.9)
    b = task(rows_of([1, 0, 0]), score=0.4)
    result = compare_one(a, b)
    assert result.difference == pytest.approx(-0.5)
    assert (result.verdict, result.result.p_value) == ("not tested", None)
    assert "not the mean of its rows" in result.notes[0]
    # The flipped answers are worth seeing all the same.
    assert [flip.a.id for flip in result.flips] == ["q2"]


def sampled(*groups):
    return [
        example(f"q{index}", score, sample=sample)
        for index, scores in enumerate(groups)
        for sample, score in enumerate(scores)
    ]


def test_pass_at_k_is_compared_by_its_estimates():
    a = task(sampled((1, 0), (0, 0), (0, 0), (1, 1)), name_of_score="pass@2", score=0.5)
    b = task(sampled((0, 1), (1, 0), (0, 1), (0, 1)), name_of_score="pass@2", score=1.0)
    result = compare_one(a, b)
    # By example 1, 0, 0, 1 against 1, 1, 1, 1: two went up, none down.
    assert (result.result.n, result.difference) == (4, 0.5)
    assert (result.result.test, result.result.p_value) == ("mcnemar exact", pytest.approx(0.5))
    assert (result.result.higher_in_b, result.result.lower_in_b) == (2, 0)


def test_examples_with_too_few_samples_in_common_are_told():
    a = task(sampled((1, 0), (0, 0)), name_of_score="pass@2", score=0.5)
    others = (("", example("q1", 0, sample=sample)) for sample in (1, 7))
    b = attrs.evolve(a, per_example=(*a.per_example[:2], *others))
    result = compare_one(a, b)
    assert result.result.n == 1
    assert "both runs have too few samples in common: 1" in result.notes[-1]


def labelled(answers, labels, **fields):
    return [
        ExampleScore(
            id=f"q{index:03}",
            score=None,
            prompt="p",
            prediction=answer,
            targets=(label,),
            **fields,
        )
        for index, (answer, label) in enumerate(zip(answers, labels, strict=True))
    ]


def macro_f1_task(answers, labels):
    score = macro_f1(answers, [[label] for label in labels], [{}] * len(labels))["macro_f1"]
    return task(labelled(answers, labels), name_of_score="macro_f1", score=score)


def test_a_score_over_all_rows_is_compared_by_scoring_them_anew():
    labels = list("aabbc" * 20)
    worse = [label if index % 3 else "a" for index, label in enumerate(labels)]
    result = compare_one(macro_f1_task(labels, labels), macro_f1_task(worse, labels))
    paired = result.result
    assert (paired.n, paired.test, result.verdict) == (100, "randomization", "worse")
    assert (paired.mean_a, paired.mean_b) == (1.0, result.score_b)
    assert paired.ci95[0] < result.difference < paired.ci95[1] < 0
    assert paired.p_value < 0.001


def test_bleu_is_compared_as_sacrebleu_does(monkeypatch):
    significance = pytest.importorskip("sacrebleu.significance")
    from sacrebleu.metrics import BLEU

    words, generator = (
        ["the", "cat", "sat", "on", "a", "mat", "while", "dogs", "ran", "over", "hills"],
        random.Random(4),
    )

    def garbled(text, chance):
        return " ".join(
            generator.choice(words) if generator.random() < chance else word
            for word in text.split()
        )

    targets = [" ".join(generator.choices(words, k=12)) for _ in range(300)]
    answers = [[garbled(text, chance) for text in targets] for chance in (0.3, 0.33)]
    monkeypatch.setenv("SACREBLEU_SEED", "1")
    names = [("a", answers[0]), ("b", answers[1])]
    metrics = {"bleu": BLEU(references=[targets])}
    _, peer = significance.PairedTest(names, metrics, None, test_type="ar", n_samples=4000)()
    scores = [bleu(texts, [[text] for text in targets], [{}] * 300) for texts in answers]
    result = compare_one(
        *(
            task(labelled(texts, targets), name_of_score="bleu", score=score)
            for texts, score in zip(answers, scores, strict=True)
        ),
        resamples=4000,
    )
    assert scores == [score.score for score in peer["BLEU"]]
    # Both draw 4,000 exchanges: the standard deviation of each p-value is below 0.008.
    assert result.result.p_value == pytest.approx(peer["BLEU"][1].p_value, abs=0.04)
    assert 0.01 < result.result.p_value < 0.9


def test_a_comparison_by_scoring_anew_does_not_depend_on_the_order_of_rows():
    labels = list("aabb" * 10)
    a, b = macro_f1_task(list("abab" * 10), labels), macro_f1_task(list("aaab" * 10), labels)
    shuffled = attrs.evolve(a, per_example=a.per_example[::-1])
    first, second = compare_one(a, b), compare_one(shuffled, b)
    assert first.result == second.result


def test_rows_are_scored_anew_only_by_the_metric_that_gives_the_score():
    pytest.importorskip("sacrebleu")
    rows = labelled(["the cat sat on the mat"] * 4, ["the cat sat on the mat"] * 4)
    data = ScoreData({"own": 100.0, "bleu": 100.0}, "own", 0, 0.0, 100.0, "", tuple(rows))
    (result,) = task_results("t", data, "same")
    assert isinstance(compare_one(result, result).result, UnpairedComparison)


def test_a_score_that_cannot_be_made_anew_is_compared_by_its_error():
    rows = labelled("ab" * 10, "ab" * 10)
    a, b = (
        task(
            rows,
            name_of_score="users_metric",
            kind=ScoreWithError,
            score=score,
            stderr=0.01,
            ci95=(score - 0.02, score + 0.02),
        )
        for score in (0.9, 0.5)
    )
    result = compare_one(a, b)
    assert isinstance(result.result, UnpairedComparison)
    assert (result.result.test, result.verdict) == ("welch t", "worse")
    assert result.result.stderr == pytest.approx(math.hypot(0.01, 0.01))


def test_tasks_on_different_scales_have_no_mean():
    def tasks(score):
        rows = rows_of([score, 1.0])
        return task(rows, name="a"), task(rows, name="b", high_score=100.0)

    comparison = compare_leaderboards(board(*tasks(1.0)), board(*tasks(0.0)))
    assert (comparison.overall.mean, comparison.overall_micro.mean) == (None, None)
    assert any("different scales" in warning for warning in comparison.warnings)


def test_rows_without_scores_of_their_own_are_not_tested():
    a, b = task(rows_of([1, 0])), task(rows_of([0, 0]))
    unscored = tuple((part, attrs.evolve(row, score=None)) for part, row in b.per_example)
    result = compare_one(a, attrs.evolve(b, per_example=unscored))
    assert isinstance(result.result, UnpairedComparison)
    assert result.flips == ()


def test_repeated_samples_are_averaged_before_testing():
    a = task([example("q1", 1.0), example("q1", 1.0, sample=1), example("q2", 0.0)])
    b = task([example("q1", 1.0), example("q1", 0.0, sample=1), example("q2", 0.0)])
    result = compare_one(a, b)
    assert (result.result.n, result.difference) == (2, -0.25)
    assert [flip.key for flip in result.flips] == [("", "q1", 1)]


def test_clusters_are_tested_as_a_whole():
    def clustered(scores):
        return task([example(f"q{i}", s, cluster=f"c{i // 3}") for i, s in enumerate(scores)])

    result = compare_one(clustered([0] * 6), clustered([1] * 6))
    assert (result.result.test, result.result.p_value) == ("permutation exact", 0.5)


def test_failed_answers_are_told():
    b = task([example("q0", 1.0), example("q1", 0.0, error="timeout")])
    result = compare_one(task(rows_of([1, 1])), b)
    assert result.notes == ("failed answers in B, which scored 0: 1",)


def test_other_settings_are_warned_of_but_another_model_is_not():
    a = board(seed=1, flags={"max_examples": None, "shots": "0", "model_args": "path=x"})
    b = board(seed=2, flags={"max_examples": 10, "shots": "0", "model_args": "path=y"})
    assert compare_leaderboards(a, b).warnings == (
        "--seed is 1 in A and 2 in B",
        "--max_examples is not set in A and 10 in B",
    )


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([example("q1", 1.0), example("q1", 1.0)], "'q1', sample 0, stands there twice"),
        ([example(7, 1.0)], "must be text"),
        ([example("q1", 1.0, cluster=["c"])], "must be text"),
        ([example("q1", "high")], "'q1': 'score' must be a number or null"),
        ([example("q1", True)], "'q1': 'score' must be a number or null"),
    ],
)
def test_rows_that_make_no_sense_are_refused(rows, message):
    good = task(rows_of([1.0]))
    broken = attrs.evolve(good, per_example=tuple(("", row) for row in rows))
    with pytest.raises(ResultsError, match=message):
        compare(good, broken)


def test_scores_beyond_all_bounds_are_refused():
    good = task(rows_of([1.0, 0.0]))
    huge = attrs.evolve(good, per_example=(("", example("q0", 1e200)), ("", example("q1", 0.0))))
    with pytest.raises(ResultsError, match="rows of task t cannot be compared"):
        compare(good, huge)


def test_too_few_resamples_to_show_anything_are_warned_of():
    a, b = task(rows_of([i / 50 for i in range(50)])), task(rows_of([0.0] * 50))
    (warning,) = compare(a, b, resamples=18).warnings
    assert "1/19" in warning and "use --resamples 20 or more" in warning
    assert compare(a, b, resamples=20).warnings == ()
    assert compare_one(a, b, resamples=20).verdict == "worse"
    # Exact tests draw nothing.
    assert compare(task(rows_of([1.0])), task(rows_of([1.0])), resamples=1).warnings == ()


def test_samples_of_one_example_in_two_clusters_are_refused():
    good = task([example("q1", 1.0, cluster="x"), example("q1", 1.0, sample=1, cluster="x")])
    (_, first), (_, second) = good.per_example
    moved = attrs.evolve(second, cluster="y")
    broken = attrs.evolve(good, per_example=(("", first), ("", moved)))
    with pytest.raises(ResultsError, match="rows of task t cannot be compared"):
        compare(broken, broken)


def test_a_standard_error_without_a_number_of_rows_is_not_used():
    bare = attrs.evolve(task(rows_of([1, 0]), keep_rows=False), total=None)
    assert compare_one(bare, bare).result.stderr is None


MIRRORED = {"worse": "better", "better": "worse"}

row_lists = st.lists(
    st.tuples(
        st.sampled_from([f"q{index}" for index in range(12)]),
        st.integers(0, 1),
        st.sampled_from([0.0, 0.25, 1.0]),
    ),
    min_size=1,
    max_size=24,
    unique_by=lambda row: row[:2],
)


@hypothesis.given(row_lists, row_lists)
@hypothesis.settings(max_examples=60, deadline=None)
def test_swapping_the_runs_mirrors_whatever_is_found(rows_a, rows_b):
    a = task([example(name, score, sample) for name, sample, score in rows_a])
    b = task([example(name, score, sample) for name, sample, score in rows_b])
    one, other = compare_one(a, b), compare_one(b, a)
    assert other.difference == pytest.approx(-one.difference, abs=1e-15)
    assert other.result.stderr == one.result.stderr
    assert other.adjusted_p_value == one.adjusted_p_value
    assert other.verdict == MIRRORED.get(one.verdict, one.verdict)
    assert (other.only_in_a, other.only_in_b) == (one.only_in_b, one.only_in_a)
    assert {flip.key for flip in other.flips} == {flip.key for flip in one.flips}
