# SPDX-License-Identifier: Apache-2.0
"""Finding out what a model can do: the short ways must agree with the plain one.

Nothing is assumed from an architecture's name. A few dozen tokens run through the packed rows and
the filled-up batch when a model is built, and again each sequence by itself; where the outputs
differ, or the model refuses, the next simpler way is tried.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs
import torch

from lmeval.models.hf.fallback import score_alone, score_expanded
from lmeval.models.hf.forward import Forward
from lmeval.models.hf.packed import PackedRunner, score_packed
from lmeval.models.hf.requests import ScoreRequest
from lmeval.models.hf.writing import Batch, PackedBatch, SerialBatch

PACKED, EXPANDED, ALONE = "packed", "expanded", "alone"
_REFUSALS = (
    *(TypeError, ValueError, RuntimeError, AttributeError),
    *(IndexError, KeyError, AssertionError),
)
_TREE = (
    (0, 1, 2, 3, 4, 5, 6, 7),
    (0, 1, 2, 3, 4, 5, 8),
    (0, 1, 2, 3, 9, 10, 11),
    (0, 1, 12, 13, 14, 15),
)
_PROMPTS = ((0, 1, 2, 3, 4), (0, 5), (6, 7, 8))
_ROW = 7  # short enough that branches are cut by the ends of rows


@attrs.frozen
class Abilities:
    """The fastest ways that give a model's own numbers."""

    scoring: str
    """`PACKED`, `EXPANDED` or `ALONE`; see `packed` and `fallback`."""
    writing: str
    """`PACKED` (many texts in one batch), `EXPANDED` (one by one, cached) or `ALONE` (uncached)."""
    exact_up_to: int | None
    """Longer sequences are computed one by one, because what a position means depends on the
    length of the whole; None: no such length."""
    reason: str
    """Why a faster way was not taken; "" where all was."""

    @property
    def summary(self) -> str:
        """One line for the record."""
        parts = [f"scoring {self.scoring}, writing {self.writing}"]
        if self.exact_up_to is not None:
            parts.append(f"sequences over {self.exact_up_to} tokens alone")
        return "; ".join(parts) + (f" ({self.reason})" if self.reason else "")


def find_abilities(model: Any, context_length: int) -> Abilities:
    """Try out what `model` can do."""
    config = model.config.get_text_config()
    trial = _Trial(model, context_length)
    reasons: list[str] = []
    scoring = ALONE
    for way in (PACKED, EXPANDED):
        problem = _columns_matter(config) if way == PACKED else None
        problem = problem or trial.scoring_problem(way)
        if problem is None:
            scoring = way
            break
        reasons.append(f"scoring {way}: {problem}")
    writing = ALONE
    # Writing in one batch runs the prompts as packed rows.
    for way in (PACKED, EXPANDED) if scoring == PACKED else (EXPANDED,):
        problem = trial.writing_problem(way)
        if problem is None:
            writing = way
            break
        reasons.append(f"writing {way}: {problem}")
    return Abilities(scoring, writing, _exact_up_to(config), "; ".join(reasons))


def _columns_matter(config: Any) -> str | None:
    """Local attention that counts columns, not positions; too wide for the trial to show."""
    if "local" in (getattr(config, "attention_layers", None) or ()):
        return "local attention by column"
    return None


def _exact_up_to(config: Any) -> int | None:
    lengths = []
    rope = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    for parameters in (rope, *(value for value in rope.values() if isinstance(value, dict))):
        if parameters.get("rope_type", parameters.get("type")) in ("dynamic", "longrope"):
            lengths.append(
                parameters.get("original_max_position_embeddings")
                or getattr(config, "original_max_position_embeddings", None)
                or config.max_position_embeddings
            )
    if "chunked_attention" in (getattr(config, "layer_types", None) or ()):
        lengths.append(config.attention_chunk_size)
    return min(lengths, default=None)


class _Trial:
    def __init__(self, model: Any, context_length: int) -> None:
        self._forward = Forward(model)
        n_ids = model.get_input_embeddings().num_embeddings
        # Spread over the vocabulary, so that neighbours in it are not alike.
        ids = [(997 * at + 11) % n_ids for at in range(16)]
        self._requests = [
            ScoreRequest(tokens[: context_length + 1], 1 if len(tokens) < 8 else 4)
            for tokens in (tuple(ids[at] for at in branch) for branch in _TREE)
        ]
        self._prompts = [
            tuple(ids[at] for at in prompt)[: max(1, context_length - 1)] for prompt in _PROMPTS
        ]
        self._step = ids[9]
        self._can_step = context_length > 1
        # Half precision rounds at every step, in another order along every way.
        self._tolerance = 2e-4 if model.dtype == torch.float32 else 0.1

    def scoring_problem(self, way: str) -> str | None:
        """What is wrong with a way of scoring, None if nothing is."""
        requests = [r for r in self._requests if len(r.tokens) > r.scored_from]

        def scores() -> Any:
            if way == PACKED:
                return score_packed(PackedRunner(self._forward, _ROW), requests)
            return score_expanded(self._forward, requests, _ROW)

        return self._problem(
            lambda: _per_token(scores(), requests),
            lambda: _per_token(score_alone(self._forward, requests), requests),
        )

    def writing_problem(self, way: str) -> str | None:
        """What is wrong with a way of writing, None if nothing is."""

        def last_logits(batch: Batch) -> Any:
            logits = batch.join(self._prompts)
            if self._can_step:
                batch.keep([0, 2])
                logits = torch.cat([logits, batch.step([self._step, self._step])])
            return torch.log_softmax(logits.float(), dim=-1)

        def batch() -> Batch:
            if way == PACKED:
                return PackedBatch(self._forward, PackedRunner(self._forward, _ROW))
            return SerialBatch(self._forward, cached=True)

        return self._problem(
            lambda: last_logits(batch()),
            lambda: last_logits(SerialBatch(self._forward, cached=False)),
        )

    def _problem(self, tried: Callable[[], Any], plain: Callable[[], Any]) -> str | None:
        expected = plain()
        try:
            found = tried()
        except torch.OutOfMemoryError:
            raise
        except _REFUSALS as error:
            return f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"
        difference = (found - expected).abs().mean().item()
        # Not a number, which compares as false, is no agreement either.
        if difference <= self._tolerance:
            return None
        return f"differs by {difference:.2g} in log-probability"


def _per_token(sums: Sequence[float], requests: Sequence[ScoreRequest]) -> Any:
    values = [value / request.n_scored for value, request in zip(sums, requests, strict=True)]
    return torch.tensor(values)
