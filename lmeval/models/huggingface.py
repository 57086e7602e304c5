# SPDX-License-Identifier: Apache-2.0
"""Causal language models in the format of Hugging Face transformers, no token computed twice.

The parts are in `lmeval.models.hf`; torch and transformers are imported when a model is built.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Sequence
from typing import Any

import attrs

from lmeval.api.errors import MissingExtraError, ModelError
from lmeval.api.model import (
    BatchModel,
    Completion,
    LogProbs,
    ModelData,
    chat_messages,
    occurrence_numbers,
)
from lmeval.models.hf.reasoning import OPENING, Thought, split_reasoning
from lmeval.models.hf.requests import NOT_A_NUMBER, ScoreRequest, WriteRequest, Written
from lmeval.models.hf.settings import Settings, read_settings
from lmeval.models.hf.tokens import Chat, Pair, Tokens, cut_left, fit, rolling_windows

_FINGERPRINT_VERSION = 1
_log = logging.getLogger(__name__)


class HuggingFaceModel(BatchModel):
    """A causal language model from a folder, a GGUF file or the hub.

    Attributes:
      settings: how it was asked to be.
      context_length: the most tokens that it sees at once.
    """

    extra = "hf"
    """What to install, as in `pip install 'lmeval[hf]'`."""

    def __init__(self, **settings: Any) -> None:
        """Load the model.

        Args:
          **settings: see `lmeval.models.hf.settings.Settings`; `path` is needed.

        Raises:
          ModelError: a setting is unknown or wrong, or the model cannot be loaded.
          MissingExtraError: torch or transformers is not installed.
        """
        self.settings: Settings = read_settings(settings)
        try:
            import torch  # noqa: F401
            import transformers  # noqa: F401
        except ImportError as error:
            raise MissingExtraError(f"The model {self.settings.path}", self.extra) from error
        from lmeval.models.hf import backend, loading, sampling, writing

        self._source = loading.find_source(self.settings)
        self._model, tokenizer = loading.load(self.settings, self._source)
        self._tokens = Tokens(tokenizer, self.settings.add_bos)
        self._chat = None
        if self.settings.chat_template:
            self._chat = Chat(tokenizer, self.settings.system_prompt)
        self.context_length = self._checked_context_length(
            loading.own_context_length(self._model, tokenizer)
        )
        self.deterministic = self.settings.temperature == 0
        ends = loading.end_tokens(self._model, tokenizer)
        if self._chat is not None:
            ends |= self._chat.end_of_turn()
        chosen = self.settings
        writer = writing.Writer(
            sampling.Sampler(chosen.temperature, chosen.top_p, chosen.seed),
            self._tokens.decode,
            ends,
            chosen.batch_size,
        )
        self._backend = backend.Backend(
            self._model, writer, self.context_length, self.settings.batch_tokens
        )
        if self._backend.abilities.reason:
            _log.warning("%s: %s", self.name, self._backend.abilities.summary)
        self._identity: str | None = None
        self._data = self._describe()

    def _checked_context_length(self, own: int) -> int:
        length = self.settings.context_length or own
        smallest = len(self._tokens.prefix) + 1
        if length < max(2, smallest):
            raise ModelError(
                f"The setting 'context_length' must be at least {max(2, smallest)} (got {length})."
            )
        return length

    def _describe(self) -> ModelData:
        from lmeval.models.hf import loading

        total, beside_embeddings = loading.parameter_counts(self._model)
        decoding = attrs.asdict(self.settings)
        for name in ("path", "device", "batch_tokens", "batch_size"):
            del decoding[name]
        decoding.update(
            dtype=str(self._model.dtype).removeprefix("torch."),
            context_length=self.context_length,
            shared_prefixes=self._backend.abilities.summary,
        )
        return ModelData(
            model_family=self._model.config.model_type,
            model_name=self.name,
            total_params=total,
            non_embedding_params=beside_embeddings,
            description=f"Hugging Face transformers, {type(self._model).__name__}.",
            decoding_params=decoding,
        )

    @property
    def name(self) -> str:
        """See `Model.name`."""
        return self._source.title

    def model_data(self) -> ModelData:
        """See `Model.model_data`."""
        return self._data

    @property
    def preferred_batch_size(self) -> int:
        """See `Model.preferred_batch_size`; large, so that requests with common beginnings meet."""
        return 128

    def fingerprint(self) -> str | None:
        """See `Model.fingerprint`: hash of the files (or the hub's commit), settings, versions.

        The way in which prefixes are shared is no part of it: all ways give the same numbers.
        """
        import torch
        import transformers

        from lmeval.models.hf import loading

        if self._identity is None:
            self._identity = loading.identity(self._source, self._model)
            if self._identity is None:
                return None
        decoding = dict(self._data.decoding_params)
        del decoding["shared_prefixes"]
        stated = {
            "version": _FINGERPRINT_VERSION,
            "weights": self._identity,
            "decoding": decoding,
            "device": self._model.device.type,
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        }
        return f"huggingface {json.dumps(stated, sort_keys=True)}"

    def usage(self) -> dict[str, float]:
        """See `Model.usage`; each count is described in `lmeval.models.hf.forward.Counts`."""
        return {name: float(n) for name, n in attrs.asdict(self._backend.counts).items()}

    @property
    def tokens_processed(self) -> int:
        """Tokens through the decoder so far."""
        return self._backend.counts.tokens_processed

    def close(self) -> None:
        """See `Model.close`."""
        del self._model, self._backend

    def complete(
        self, prompts: Sequence[str], max_length: int | None, stops: tuple[str, ...]
    ) -> list[Completion]:
        """See `BatchModel.complete`."""
        texts = [self._text(prompt) for prompt in prompts]
        begun = [self._chat is not None and text.rstrip().endswith(OPENING) for text in texts]

        def is_over(index: int, text: str) -> str | None:
            answer = self._thought(text, begun[index]).answer
            # As in `cut_after_stop`, a stop string at the very beginning does not count.
            if any(answer.find(stop) > 0 for stop in stops):
                return "stop"
            return "length" if max_length is not None and len(answer) >= max_length else None

        requests = self._write_requests(prompts, texts, max_length)
        written = self._backend.write(requests, is_over)
        return [
            self._completion(request, result, is_begun)
            for request, result, is_begun in zip(requests, written, begun, strict=True)
        ]

    def _text(self, prompt: str) -> str:
        return prompt if self._chat is None else self._chat.prompt(chat_messages(prompt))

    def _thought(self, text: str, begun: bool) -> Thought:
        # A base model that happens to write the markers is not a reasoning model.
        return Thought("", text) if self._chat is None else split_reasoning(text, begun)

    def _write_requests(
        self, prompts: Sequence[str], texts: Sequence[str], max_length: int | None
    ) -> list[WriteRequest]:
        wanted = self.settings.max_new_tokens
        if max_length is not None and self._chat is None:
            # A token may be a byte of a character. In a chat, reasoning may come first.
            wanted = min(wanted, 4 * max(1, max_length))
        requests = []
        samples = occurrence_numbers(prompts)
        for sample, ids in zip(samples, self._tokens.prompts(texts), strict=True):
            # The answer has what the prompt leaves, and an eighth of everything in any case.
            n_new = min(wanted, max(self.context_length - len(ids), self.context_length // 8, 1))
            read = cut_left(ids, self.context_length - n_new, self._tokens.prefix)
            self._count_truncation(len(ids) - len(read))
            requests.append(WriteRequest(read, n_new, sample))
        return requests

    def _count_truncation(self, n_tokens: int) -> None:
        counts = self._backend.counts
        counts.truncated_requests += n_tokens > 0
        counts.truncated_tokens += n_tokens

    def _completion(self, request: WriteRequest, written: Written, begun: bool) -> Completion:
        if written.error is not None:
            return Completion("", error=written.error, prompt_tokens=len(request.prompt))
        text = self._tokens.decode(written.tokens)
        thought = self._thought(text, begun)
        return Completion(
            thought.answer,
            finish_reason=written.finish_reason,
            prompt_tokens=len(request.prompt),
            completion_tokens=len(written.tokens),
            raw=text,
            reasoning=thought.reasoning,
        )

    def score(self, contexts: Sequence[str], targets: Sequence[Sequence[str]]) -> list[LogProbs]:
        """See `BatchModel.score`.

        White space at the end of a context is scored with the target, except behind a chat
        template. A context that is too long loses its beginning; a target that is too long fails.
        """
        texts = [self._text(context) for context in contexts]
        rows = self._tokens.pairs(texts, targets, move_blanks=self._chat is None)
        fitted = [self._fitted(row) for row in rows]
        requests = [request for row in fitted if row is not None for request in row]
        values = iter(self._backend.score(requests))
        return [
            self._too_long(pairs)
            if row is None
            else self._log_probs(pairs, row, [next(values) for _ in row])
            for pairs, row in zip(rows, fitted, strict=True)
        ]

    def _fitted(self, row: Sequence[Pair]) -> list[ScoreRequest] | None:
        self._backend.counts.tokens_across_the_join += sum(pair.spans_join for pair in row)
        fitted = [fit(pair, self.context_length, self._tokens.prefix) for pair in row]
        return None if None in fitted else [request for request in fitted if request is not None]

    def _too_long(self, row: Sequence[Pair]) -> LogProbs:
        longest = max(len(pair.target) for pair in row)
        return LogProbs.failed(
            len(row),
            f"error: a target of {longest} tokens does not fit into the {self.context_length} that "
            "the model can see",
        )

    def _log_probs(
        self, row: Sequence[Pair], requests: Sequence[ScoreRequest], values: Sequence[float]
    ) -> LogProbs:
        lost = max(
            (
                len(pair.context) - request.scored_from
                for pair, request in zip(row, requests, strict=True)
            ),
            default=0,
        )
        self._count_truncation(lost)
        if any(map(math.isnan, values)):
            return LogProbs.failed(len(row), NOT_A_NUMBER)
        return LogProbs(
            values, truncated_tokens=lost, token_counts=[len(pair.target) for pair in row]
        )

    def rolling_log_prob(self, texts: Sequence[str]) -> list[float]:
        """See `Model.rolling_log_prob`.

        A text that is longer than the model can see is scored in windows, each token once, with as
        much context as fits. What stands before the first token is BOS, or else EOS.
        """
        first = self._tokens.first()
        windows = [
            rolling_windows(self._tokens.without_prefix(ids), first, self.context_length)
            for ids in self._tokens.encode(texts)
        ]
        values = iter(self._backend.score([window for row in windows for window in row]))
        return [math.fsum(next(values) for _ in row) for row in windows]
