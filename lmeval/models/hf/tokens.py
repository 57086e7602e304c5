# SPDX-License-Identifier: Apache-2.0
"""From texts to tokens: where a target begins, what comes first, what fits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from lmeval.api.errors import ModelError
from lmeval.api.model import Message
from lmeval.models.hf.requests import ScoreRequest
from lmeval.models.hf.tree import shared_length


@attrs.frozen
class Pair:
    """A context and its target as tokens."""

    context: tuple[int, ...]
    """At least one token."""
    target: tuple[int, ...]
    """The tokens of the joined text from the boundary on; one across it is the first of them."""
    spans_join: bool
    """Whether the first target token began in the context."""


class Tokens:
    """A tokenizer, and what texts begin with."""

    def __init__(self, tokenizer: Any, add_bos: bool | None) -> None:
        """Take a transformers tokenizer.

        Args:
          tokenizer: the tokenizer.
          add_bos: whether texts begin with BOS; None for what the tokenizer does by itself.

        Raises:
          ModelError: BOS is wanted and the tokenizer has none.
        """
        self.tokenizer = tokenizer
        self.prefix: tuple[int, ...] = () if add_bos is False else self._own_prefix()
        """What every text begins with, once: BOS as a rule, or nothing."""
        if add_bos and not self.prefix:
            if tokenizer.bos_token_id is None:
                raise ModelError("add_bos=true: the tokenizer has no BOS token.")
            self.prefix = (tokenizer.bos_token_id,)
        self._first = self.prefix or self._stand_in()

    def _own_prefix(self) -> tuple[int, ...]:
        plain = self.tokenizer.encode("a", add_special_tokens=False)
        full = self.tokenizer.encode("a", add_special_tokens=True)
        for start in range(len(full) - len(plain) + 1):
            if full[start : start + len(plain)] == plain:
                return tuple(full[:start])
        return ()

    def _stand_in(self) -> tuple[int, ...]:
        """What stands before a text that has nothing before it."""
        for token in (self.tokenizer.bos_token_id, self.tokenizer.eos_token_id):
            if token is not None:
                return (token,)
        return ()

    def encode(self, texts: Sequence[str]) -> list[tuple[int, ...]]:
        """The tokens of n texts, each with the prefix once, whether or not the text has it.

        Raises:
          ModelError: a text has a character that no tokenizer takes.
        """
        if not texts:
            return []
        for text in texts:
            _check_encodable(text)
        encoded = self.tokenizer(list(texts), add_special_tokens=False, verbose=False)
        return [self._with_prefix(tuple(ids)) for ids in encoded["input_ids"]]

    def _with_prefix(self, ids: tuple[int, ...]) -> tuple[int, ...]:
        return ids if ids[: len(self.prefix)] == self.prefix else self.prefix + ids

    def without_prefix(self, ids: tuple[int, ...]) -> tuple[int, ...]:
        """What `encode` gave, less the prefix."""
        return ids[len(self.prefix) :]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of tokens, without special ones."""
        text: str = self.tokenizer.decode(
            list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return text

    def prompts(self, texts: Sequence[str]) -> list[tuple[int, ...]]:
        """The tokens of n prompts, at least one each.

        Raises:
          ModelError: a prompt has no token and the tokenizer neither BOS nor EOS.
        """
        return [ids or self.first() for ids in self.encode(texts)]

    def first(self) -> tuple[int, ...]:
        """What an empty context is: the prefix, or else BOS, or else EOS.

        Raises:
          ModelError: the tokenizer has none of them.
        """
        if not self._first:
            raise ModelError(
                "The tokenizer has neither a BOS nor an EOS token, so a text with nothing before "
                "it cannot be scored or continued."
            )
        return self._first

    def pairs(
        self, contexts: Sequence[str], targets: Sequence[Sequence[str]], *, move_blanks: bool = True
    ) -> list[list[Pair]]:
        """Each context with each of its targets.

        Args:
          contexts: n contexts; "" is allowed.
          targets: n lists of targets.
          move_blanks: whether white space at the end of a context counts as the beginning of the
            target, because tokens as a rule begin with a blank and do not end in one.

        Raises:
          ModelError: a context has no token and the tokenizer neither BOS nor EOS.
        """
        bases = [context.rstrip() if move_blanks else context for context in contexts]
        joined = [
            context + target
            for context, wanted in zip(contexts, targets, strict=True)
            for target in wanted
        ]
        base_ids = self.encode(bases)
        joined_ids = iter(zip(joined, self.encode(joined), strict=True))
        return [
            [self._pair(base, ids, *next(joined_ids)) for _ in wanted]
            for base, ids, wanted in zip(bases, base_ids, targets, strict=True)
        ]

    def _pair(
        self, context: str, context_ids: tuple[int, ...], text: str, ids: tuple[int, ...]
    ) -> Pair:
        cut = len(context_ids)
        spans_join = ids[:cut] != context_ids
        if spans_join:
            cut = self._tokens_before(len(context), text, ids, context_ids)
        if cut == 0:
            return Pair(self.first(), ids, spans_join)
        return Pair(ids[:cut], ids[cut:], spans_join)

    def _tokens_before(
        self, boundary: int, text: str, ids: tuple[int, ...], context_ids: tuple[int, ...]
    ) -> int:
        """How many of `ids` end at or before the character number `boundary` of `text`."""
        if not self.tokenizer.is_fast:
            # Without character positions: the tokens that the join leaves as they are.
            return shared_length(ids, context_ids)
        encoded = self.tokenizer(
            text, add_special_tokens=False, return_offsets_mapping=True, verbose=False
        )
        ends = [end for _, end in encoded["offset_mapping"]]
        n_prefix = len(ids) - len(ends)
        return n_prefix + next((at for at, end in enumerate(ends) if end > boundary), len(ends))


def _check_encodable(text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ModelError(
            f"A text holds the lone surrogate {text[error.start]!r} at position {error.start}, "
            "which is no character; repair the task's file."
        ) from None


def fit(pair: Pair, limit: int, prefix: tuple[int, ...]) -> ScoreRequest | None:
    """A pair cut to what a model can see; None if it cannot fit.

    Tokens are taken from the beginning of the context, behind the prefix. The last target token is
    predicted but not read, so `limit + 1` tokens fit; the target and one token before it must.

    Args:
      pair: context and target.
      limit: the most tokens the model reads.
      prefix: what texts begin with.
    """
    room = limit + 1 - len(pair.target)
    if room < 1:
        return None
    context = cut_left(pair.context, room, prefix)
    return ScoreRequest(context + pair.target, len(context))


def cut_left(ids: tuple[int, ...], room: int, prefix: tuple[int, ...]) -> tuple[int, ...]:
    """The last `room` tokens (at least 1); a prefix that they began with stays in front."""
    if len(ids) <= room:
        return ids
    kept = prefix[:room] if ids[: len(prefix)] == prefix else ()
    return kept + ids[len(ids) - (room - len(kept)) :]


def rolling_windows(ids: Sequence[int], first: tuple[int, ...], limit: int) -> list[ScoreRequest]:
    """Windows that score each of `ids` exactly once, with as much context as fits.

    Args:
      ids: the tokens of a text.
      first: what stands before the text.
      limit: the most tokens the model reads; more than there are in `first`.
    """
    whole = (*first, *ids)
    windows = []
    done = len(first)
    while done < len(whole):
        # The last token of a window is predicted but not read.
        end = min(len(whole), limit + 1 if done == len(first) else done + limit)
        begin = max(0, end - limit - 1)
        windows.append(ScoreRequest(whole[begin:end], done - begin))
        done = end
    return windows


class Chat:
    """A tokenizer's chat template."""

    def __init__(self, tokenizer: Any, system_prompt: str | None) -> None:
        """Take a transformers tokenizer.

        Raises:
          ModelError: it has no chat template.
        """
        if not tokenizer.chat_template:
            raise ModelError(
                "chat_template=true: the tokenizer has no chat template; leave the setting out for "
                "a base model."
            )
        self._tokenizer = tokenizer
        self._system_prompt = system_prompt

    def prompt(self, messages: Sequence[Message]) -> str:
        """The text that asks for the next assistant message.

        Raises:
          ModelError: the template refuses the messages.
        """
        return self._render(self._with_system_prompt(messages), add_generation_prompt=True)

    def end_of_turn(self) -> frozenset[int]:
        """The special token that the template puts behind an assistant message, if it does."""
        marker = "(an answer)"
        text = self._render([("user", "?"), ("assistant", marker)], add_generation_prompt=False)
        _, _, after = text.rpartition(marker)
        ids = self._tokenizer.encode(after.lstrip(), add_special_tokens=False)
        special = {*self._tokenizer.all_special_ids, *self._tokenizer.added_tokens_decoder}
        return frozenset(ids[:1]) & special

    def _with_system_prompt(self, messages: Sequence[Message]) -> list[Message]:
        if self._system_prompt is None:
            return list(messages)
        if messages[0][0] == "system":
            return [("system", f"{self._system_prompt}\n\n{messages[0][1]}"), *messages[1:]]
        return [("system", self._system_prompt), *messages]

    def _render(self, messages: Sequence[Message], add_generation_prompt: bool) -> str:
        from jinja2 import TemplateError  # type: ignore[import-not-found,unused-ignore]

        turns = [{"role": role, "content": content} for role, content in messages]
        try:
            text: str = self._tokenizer.apply_chat_template(
                turns, tokenize=False, add_generation_prompt=add_generation_prompt
            )
        except TemplateError as error:
            raise ModelError(f"The chat template refuses the messages: {error}.") from error
        return text
