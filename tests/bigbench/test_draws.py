# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from lmeval.bigbench.draws import Draw, draw_questions


def drawn_from_lists(samples, shots, limit, seed):
    """The same draws over the samples themselves, as BIG-bench describes them."""
    rng = np.random.RandomState(seed)
    pool = np.empty(len(samples), dtype=object)
    pool[:] = samples
    if shots == 0:
        limited = limit is not None and limit < len(samples)
        return [(s, ()) for s in (rng.choice(pool, limit, replace=False) if limited else samples)]
    questions = []
    for sample in rng.choice(pool, min(limit or len(samples), len(samples)), replace=False):
        others = np.array([s for s in samples if s["id"] != sample["id"]], dtype=object)
        shown = rng.choice(others, shots, replace=False)
        questions.append((sample, tuple((s, rng.choice(s["targets"])) for s in shown)))
    return questions


SAMPLES = [{"id": i, "targets": [f"{i}.{k}" for k in range(1 + i % 3)]} for i in range(11)]


@pytest.mark.parametrize("shots", [0, 1, 3, 10])
@pytest.mark.parametrize("limit", [None, 1, 5, 11, 40])
@pytest.mark.parametrize("seed", [0, 42])
def test_draws_are_those_over_the_samples_themselves(shots, limit, seed):
    draws = draw_questions(11, shots, limit, seed, {}, lambda i: len(SAMPLES[i]["targets"]))
    assert [
        (SAMPLES[d.query], tuple((SAMPLES[s], SAMPLES[s]["targets"][t]) for s, t in d.shots))
        for d in draws
    ] == drawn_from_lists(SAMPLES, shots, limit, seed)


def test_without_shots_and_limit_the_order_is_the_files():
    assert list(draw_questions(3, 0, None, 42, {}, len)) == [Draw(0), Draw(1), Draw(2)]


def test_twins_of_a_question_are_never_shown_with_it():
    twins = {1: (1, 3), 3: (1, 3)}
    for seed in range(50):
        for draw in draw_questions(5, 3, None, seed, twins, lambda i: 1):
            shown = {shot for shot, _ in draw.shots}
            assert len(shown) == 3
            assert shown.isdisjoint(twins.get(draw.query, (draw.query,)))
