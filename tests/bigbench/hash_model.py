# SPDX-License-Identifier: Apache-2.0
# The code is that of the reference data, whose scores depend on it.
# ruff: noqa
"""HashModel: a deterministic fake language model, defined so that any library can reproduce it.

No import of any evaluation library; only the standard library, plus numpy inside
build_lookup() when a task appends choices to the input.

Definition, in full
-------------------
* h(tag, s1, s2, ...) = first 8 bytes (big-endian) of SHA-256 over the UTF-8 (errors =
  "surrogatepass") encodings of tag, s1, s2, ... joined by the byte 0x1f.

* cond_log_prob(input, target): lp = -(h("lp", input, target) / 2**64) * 10 - 0.1, i.e. in
  (-10.1, -0.1].  With ties=k (k > 0): lp = -0.5 * (1 + h("lp", input, target) % k).
  absolute_normalization=True returns these; False (the default) returns
  lp - (m + log(fsum(exp(lp_i - m)))) with m = max(lp_i).

* generate_text(input): t = raw text below; then postprocess(t, max_length, stop_string,
  output_regex).  Let targets = the entry of the lookup table for the longest key which is a
  suffix of input, g = h("gen", input), target = targets[h("pick", input) % len(targets)].
    targets found, b = g % 8:
      b in 0,1,2  target
      b == 3      target + "\\nQ: " + garbage(input)
      b == 4      target.upper()
      b == 5      if float(target) works and is finite: repr(float(target) * 1.05),
                  else the first max(1, len(w) // 2) of the words w = target.split(), joined by " "
      b == 6      echo(input)
      b == 7      garbage(input)
    no entry:     echo(input) if g % 2 == 0 else garbage(input)
  echo(input)    = the last three of input.split(), joined by " ".
  garbage(input) = n = 1 + h("len", input) % 6 words, word i = VOCAB[h("w" + str(i), input) % 16],
                   joined by " ", with "." after it if h("dot", input) is odd.

* Everything depends on (input, target) only: not on batching, order, or earlier calls.
  A str input gives a str / a list of floats, a list gives a list of these.
"""

import dataclasses
import hashlib
import math
import re

VOCAB = [
    "yes",
    "no",
    "True",
    "False",
    "the",
    "answer",
    "is",
    "0",
    "1",
    "2",
    "42",
    "a",
    "b",
    "valid",
    "cat",
    "not",
]


def h(tag, *parts):
    data = b"\x1f".join(str(p).encode("utf-8", "surrogatepass") for p in (tag,) + parts)
    return int.from_bytes(hashlib.sha256(data).digest()[:8], "big")


def postprocess(text, max_length=None, stop_string=None, output_regex=None):
    """BIG-bench's model_utils.postprocess_output for one string: cut to max_length characters;
    cut after the first stop_string unless that is at index 0; then the first findall() match
    of output_regex ("" if none; the group, if the regex has exactly one group)."""
    if max_length:
        text = text[:max_length]
    if stop_string:
        i = text.find(stop_string)
        if i > 0:
            text = text[: i + len(stop_string)]
    if output_regex:
        found = re.findall(output_regex, text)
        text = found[0] if found else ""
        if not isinstance(text, str):
            raise ValueError("output_regex has more than one group: %r" % (output_regex,))
    return text


def echo(inp):
    return " ".join(inp.split()[-3:])


def garbage(inp):
    n = 1 + h("len", inp) % 6
    words = [VOCAB[h("w%d" % i, inp) % len(VOCAB)] for i in range(n)]
    return " ".join(words) + ("." if h("dot", inp) % 2 else "")


def partial(target):
    try:
        value = float(target)
    except ValueError:
        value = math.nan
    if math.isfinite(value):
        return repr(value * 1.05)
    words = target.split()
    return " ".join(words[: max(1, len(words) // 2)])


@dataclasses.dataclass(frozen=True)
class HashModelData:
    model_family: str
    model_name: str
    total_params: int
    non_embedding_params: int
    flop_matched_non_embedding_params: int
    training_batch_size: int
    training_steps: int
    description: str
    decoding_params: dict
    additional_details: str = ""


class HashModel:
    """lookup: dict from the end of a prompt to its list of targets (see build_lookup)."""

    def __init__(self, lookup=None, ties=0, model_data_class=HashModelData, record=False):
        self.ties = ties
        self.model_data_class = model_data_class
        self.calls = [] if record else None
        self.set_lookup(lookup or {})

    def set_lookup(self, lookup):
        self.lookup = lookup
        self.key_lengths = sorted({len(k) for k in lookup}, reverse=True)

    def _targets(self, inp):
        n = len(inp)
        for length in self.key_lengths:
            if length <= n:
                found = self.lookup.get(inp[n - length :])
                if found is not None:
                    return found
        return None

    def raw_text(self, inp):
        inp = str(inp)
        g = h("gen", inp)
        targets = self._targets(inp)
        if not targets:
            return echo(inp) if g % 2 == 0 else garbage(inp)
        target = str(targets[h("pick", inp) % len(targets)])
        b = g % 8
        if b <= 2:
            return target
        if b == 3:
            return target + "\nQ: " + garbage(inp)
        if b == 4:
            return target.upper()
        if b == 5:
            return partial(target)
        return echo(inp) if b == 6 else garbage(inp)

    def generate_text(self, inputs, max_length=None, stop_string=None, output_regex=None):
        if self.calls is not None:
            self.calls.append(
                (
                    "generate_text",
                    inputs,
                    dict(max_length=max_length, stop_string=stop_string, output_regex=output_regex),
                )
            )
        if isinstance(inputs, str):
            return postprocess(self.raw_text(inputs), max_length, stop_string, output_regex)
        return [
            postprocess(self.raw_text(i), max_length, stop_string, output_regex) for i in inputs
        ]

    def _log_probs(self, inp, targets, absolute):
        out = []
        for t in targets:
            v = h("lp", str(inp), t)
            out.append(-0.5 * (1 + v % self.ties) if self.ties else -(v / 2**64) * 10 - 0.1)
        if not absolute and out:
            m = max(out)
            z = m + math.log(math.fsum(math.exp(x - m) for x in out))
            out = [x - z for x in out]
        return out

    def cond_log_prob(self, inputs, targets, absolute_normalization=False):
        if self.calls is not None:
            self.calls.append(
                (
                    "cond_log_prob",
                    inputs,
                    dict(targets=targets, absolute_normalization=absolute_normalization),
                )
            )
        if isinstance(inputs, str):
            return self._log_probs(inputs, targets, absolute_normalization)
        return [self._log_probs(i, t, absolute_normalization) for i, t in zip(inputs, targets)]

    def model_data(self):
        return self.model_data_class(
            model_family="HashModel",
            model_name="hash-ties%d" % self.ties,
            total_params=2,
            non_embedding_params=1,
            flop_matched_non_embedding_params=1,
            training_batch_size=1,
            training_steps=1,
            description="deterministic fake model",
            decoding_params={},
        )


def format_example(task, example, seed=42):
    """The zero-shot prompt (without task_prefix) that BIG-bench's JsonTask makes of an example."""
    text = example["input"]
    if "target_scores" in example and task.get("append_choices_to_input", True):
        import numpy as np

        choices = sorted(example["target_scores"])
        order = np.random.RandomState(seed=seed).permutation(len(choices))
        sep = task.get("choice_prefix", "\n  choice: ")
        text = text + sep + sep.join(choices[i] for i in order)
    return (
        task.get("example_input_prefix", "\nQ: ")
        + text
        + task.get("example_output_prefix", "\nA: ")
    )


def build_lookup(task, seed=42):
    """Lookup table of one task dict (task.json content; a container gives the union over the
    task dicts in task["subtasks"], later ones win).  Values: example["target"] as a list, or
    the first best-scored choice where there is no target."""
    table = {}
    for sub in task.get("subtasks", []):
        table.update(build_lookup(sub, seed))
    for ex in task.get("examples", []):
        if "target" in ex:
            targets = ex["target"] if isinstance(ex["target"], list) else [ex["target"]]
        else:
            scores = ex["target_scores"]
            best = max(scores.values())
            targets = [next(k for k, v in scores.items() if v == best)]
        table.setdefault(format_example(task, ex, seed), targets)
    return table
