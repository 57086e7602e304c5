# SPDX-License-Identifier: Apache-2.0
"""Turns a child's output into a verdict, in lmeval's own process.

The output is whatever bytes foreign code chose to write. Judging it takes time linear in its
length, raises nothing, and can give no more than the right answers that the bytes spell out.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from lmeval.sandbox import _wire
from lmeval.sandbox._process import Reply
from lmeval.sandbox._types import OUTCOMES, Limits, Mode, Outcome, PairStatus, Verdict

_DETAIL_LENGTH = 300
_SHOWN_VALUE_LENGTH = 60

# Python's parser would use one NaN object for all, and lists that hold it would be equal.
_decode = json.JSONDecoder(parse_constant=float).decode

# Answers that are more than the pairs need: load, end, and slack.
_FURTHER_LINES = 4

# What a child may say of itself; other outcomes take the kernel's word, or the worker's.
_REPORTED_KINDS: dict[str, Outcome] = {
    "forbidden": "forbidden",
    "memory": "memory",
    "output_limit": "output_limit",
}


class HarnessFailure(Exception):
    """The child never got as far as running the code: the sandbox's own fault."""


def judge(reply: Reply, mode: Mode, accepted: Sequence[Sequence[Any]], limits: Limits) -> Verdict:
    r"""Judges one finished child.

    Args:
      reply: how it ended and what it wrote.
      mode: what is compared: texts in modes `stdout` and `program`, else JSON values.
      accepted: for each input, the answers that count as right.
      limits: for the texts.

    Returns:
      The verdict. Matching is Python's `==` on what JSON can carry; texts are compared without
      trailing blanks and with `\n` line ends.

    Raises:
      HarnessFailure: the code was never started.
    """
    if reply.ending == _wire.NEVER_STARTED:
        raise HarnessFailure(reply.output.decode(errors="replace"))
    if not reply.output.startswith(_wire.READY):
        raise HarnessFailure(f"the child ended before it was ready ({_fate(reply.status)})")
    reading = _Reading(mode, accepted)
    for line in _lines(reply.output, len(_wire.READY), len(accepted) + _FURTHER_LINES):
        reading.take(line)
    outcome, detail = _outcome(reply.ending, reply.status, reading, limits)
    text = detail or reading.first_fault
    return Verdict(outcome, tuple(reading.pairs), _presentable(text))


def _lines(output: bytes, start: int, most: int) -> Iterator[bytes]:
    # Hundreds of thousands of tiny lines must not cost lmeval more than they cost the child.
    for _ in range(most):
        end = output.find(b"\n", start)
        if end < 0:
            return
        yield output[start:end]
        start = end + 1


class _Reading:
    """What the lines of one child say; the first answer for a pair counts."""

    def __init__(self, mode: Mode, accepted: Sequence[Sequence[Any]]) -> None:
        self._texts = mode in ("stdout", "program")
        self._accepted = accepted
        self.pairs: list[PairStatus] = ["no_answer"] * len(accepted)
        self.reported: set[Outcome] = set()
        self.first_fault = ""
        self.ended = False

    def take(self, line: bytes) -> None:
        try:
            answer = _decode(line.decode())
        except (ValueError, RecursionError):
            return
        if not isinstance(answer, dict):
            return
        if "end" in answer:
            self.ended = True
        elif "load" in answer:
            self._note_fault(answer["load"], "")
        else:
            self._take_pair(answer)

    def _take_pair(self, answer: dict[str, Any]) -> None:
        pair = answer.get("i")
        if type(pair) is not int or not 0 <= pair < len(self.pairs):
            return
        if self.pairs[pair] != "no_answer":
            return
        prefix = f"pair {pair + 1}: " if len(self.pairs) > 1 else ""
        if "e" in answer:
            self.pairs[pair] = "error"
            self._note_fault(answer["e"], prefix)
        elif "f" in answer:
            self.pairs[pair] = "mismatch"
            self._note(prefix, lambda: _fault_text(answer["f"]))
        elif "u" in answer:
            self.pairs[pair] = "unencodable"
            self._note(prefix, lambda: f"no JSON can hold the answer: {_shown(answer['u'])}")
        elif "v" in answer:
            self._compare(pair, answer["v"], prefix)

    def _compare(self, pair: int, got: Any, prefix: str) -> None:
        accepted = self._accepted[pair]
        same = _same_text if self._texts else _same_value
        if any(same(got, right) for right in accepted):
            self.pairs[pair] = "matched"
        else:
            self.pairs[pair] = "mismatch"
            self._note(prefix, lambda: _mismatch_text(got, accepted))

    def _note_fault(self, fault: Any, prefix: str) -> None:
        kind = fault[0] if isinstance(fault, list) and fault else None
        self.reported.add(_REPORTED_KINDS.get(kind, "error") if isinstance(kind, str) else "error")
        self._note(prefix, lambda: _fault_text(fault))

    def _note(self, prefix: str, text: Callable[[], str]) -> None:
        # Only the first is shown, and values may be large.
        if not self.first_fault:
            self.first_fault = prefix + text()


def _same_value(got: Any, right: Any) -> bool:
    try:
        return bool(got == right)
    except RecursionError:
        return False


def _same_text(got: Any, right: Any) -> bool:
    return isinstance(got, str) and isinstance(right, str) and _trimmed(got) == _trimmed(right)


def _trimmed(text: str) -> str:
    lines = text.replace("\r\n", "\n").split("\n")
    return "\n".join(line.rstrip(" \t") for line in lines).rstrip("\n")


def _outcome(ending: int, status: int, reading: _Reading, limits: Limits) -> tuple[Outcome, str]:
    """The worst that happened, and a text where the kernel or the limits are the source."""
    causes: dict[Outcome, str] = dict.fromkeys(reading.reported, "")
    signalled = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
    if signalled == signal.SIGSYS:
        causes["forbidden"] = "killed for a forbidden system call"
    elif ending == _wire.ENDED_BY_CPU_TIME or signalled == signal.SIGXCPU:
        causes["timeout"] = f"stopped after {limits.cpu_s:g} s of CPU time"
    elif ending == _wire.ENDED_BY_WALL_CLOCK:
        causes["timeout"] = f"stopped after {limits.wall_s:g} s"
    elif ending == _wire.ENDED_BY_OUTPUT:
        causes["output_limit"] = f"answered with more than {limits.result_bytes} bytes"
    elif not reading.ended and not causes:
        causes["error"] = f"ended before its last answer ({_fate(status)})"
    if not causes:
        return "ok", ""
    worst = max(causes, key=OUTCOMES.index)
    return worst, causes[worst]


def _fate(status: int) -> str:
    if os.WIFEXITED(status):
        return f"exit status {os.WEXITSTATUS(status)}"
    number = os.WTERMSIG(status)
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _fault_text(fault: Any) -> str:
    if not isinstance(fault, list) or not all(isinstance(part, str) for part in fault[1:4]):
        return _shown(fault)
    name, message, place = (*fault[1:4], "", "", "")[:3]
    text = ": ".join(part[:_DETAIL_LENGTH] for part in (name, message) if part)
    return f"{text} ({place[:_SHOWN_VALUE_LENGTH]})" if place else text


def _mismatch_text(got: Any, accepted: Sequence[Any]) -> str:
    return f"got {_shown(got)}, expected {' or '.join(map(_shown, accepted[:3]))}"


def _shown(value: Any) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (RecursionError, TypeError, ValueError):
        return "something that can't be shown"
    return text if len(text) <= _SHOWN_VALUE_LENGTH else text[: _SHOWN_VALUE_LENGTH - 1] + "…"


def _presentable(text: str) -> str:
    """One short line that can be written as UTF-8 and moves no cursor."""
    line = " ".join(text.split())[:_DETAIL_LENGTH]
    return "".join(character if character.isprintable() else "?" for character in line)
