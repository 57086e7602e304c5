# SPDX-License-Identifier: Apache-2.0
"""`lmeval VERB …`: picks the verb, reads its flags, makes errors a sentence and exit code 2."""

from __future__ import annotations

import difflib
import gc
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any, Protocol, TextIO, cast

from lmeval.api.errors import LmevalError, UsageError
from lmeval.cli.streams import OutputError, StandardOutput, restart_in_utf8_mode, speak_utf8, tell

VERBS = {
    "evaluate": "run tasks on a model and write a leaderboard",
    "tasks": "list the tasks, or those with a keyword",
    "check": "look at a task folder as a reviewer would",
    "new": "make a task folder that runs at once",
    "compare": "show which tasks moved between two leaderboards, and which answers flipped",
    "power": "say how many rows it takes to see a difference",
    "rescore": "compute a leaderboard again from saved samples, without a model",
    "cache": "show, prune or export the stored answers",
    "export_bigbench": "write a leaderboard in BIG-bench's own result files",
}

EXIT_GOOD, EXIT_FAILURES, EXIT_USAGE, EXIT_INTERRUPTED = 0, 1, 2, 130


class Verb(Protocol):
    """What each module of this package offers."""

    USAGE: str
    """What follows `lmeval`, on one line."""
    HELP: str
    """What the verb does, in a sentence."""

    def define_flags(self, flag_values: Any) -> None:
        """Define the verb's flags on an absl FlagValues."""

    def run(self, args: list[str], flag_values: Any, out: TextIO) -> int:
        """Do the verb's work with the positional arguments and the flags; gives the exit code."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
      arguments: everything behind the program's name; sys.argv's unless given.

    Returns:
      0 good; 1 the run had failures; 2 wrong usage; 130 stopped by Ctrl-C.
    """
    speak_utf8()
    out = StandardOutput(sys.stdout)
    try:
        try:
            return _run(list(sys.argv[1:] if arguments is None else arguments), cast(TextIO, out))
        finally:
            out.flush()
    except OutputError as error:
        if not error.is_closed:  # otherwise nobody is left to tell
            tell(str(error))
        return error.exit_code
    except LmevalError as error:
        tell(str(error))
        return error.exit_code
    except OSError as error:
        tell(_system_fault(error))
        return EXIT_USAGE
    except SystemExit as leaving:
        tell(
            f"a task's or a model's program left with sys.exit({leaving.code!r}); let it raise an "
            "error that says why."
        )
        return EXIT_FAILURES
    except KeyboardInterrupt:
        tell("stopped.")
        return EXIT_INTERRUPTED


def console() -> None:
    """The entry point of the installed `lmeval` command: a process of our own."""
    restart_in_utf8_mode()
    # A run makes many small objects that live to its end; with the usual threshold the collector
    # of cycles walks them all again and again, a quarter of the work per example.
    gc.set_threshold(100_000, 20, 100)
    sys.exit(main())


def _system_fault(error: OSError) -> str:
    reason = str(error.strerror or error).rstrip(".")
    return f"{error.filename or type(error).__name__}: {reason}."


def _refuse_a_folder_that_is_gone() -> None:
    """Raise UsageError at once: later, every import could fail in a way of its own."""
    try:
        os.getcwd()
    except OSError:
        raise UsageError("The current folder is gone; change to one that exists.") from None


def _run(words: list[str], out: TextIO) -> int:
    _refuse_a_folder_that_is_gone()
    if not words or words[0] in ("-h", "--help", "-help", "help"):
        _print_overview(out)
        return EXIT_GOOD
    if words[0] == "--version":
        import lmeval

        print(f"lmeval {lmeval.__version__}", file=out)
        return EXIT_GOOD
    if words[0].startswith("-"):
        raise UsageError(
            f"{words[0]} needs a verb before it, as in `lmeval evaluate {words[0]} …`; "
            "`lmeval --help` lists the verbs."
        )
    return _run_verb(words[0].replace("-", "_"), words[1:], out)


def _run_verb(name: str, words: list[str], out: TextIO) -> int:
    if name not in VERBS:
        close = difflib.get_close_matches(name, VERBS, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(VERBS)}."
        raise UsageError(f"There is no verb {name!r}; {hint}")
    from absl import flags

    from lmeval.cli.flag_kinds import refuse_repetition

    verb = cast(Verb, importlib.import_module(f"lmeval.cli.{name}"))
    values = flags.FlagValues()
    verb.define_flags(values)
    refuse_repetition(values)
    if any(word in ("-h", "--help", "-help") for word in words):
        _print_help(verb, values, out)
        return EXIT_GOOD
    try:
        positional = values([f"lmeval {name}", *words])[1:]
    except flags.Error as error:
        text = " ".join(str(error).split()).rstrip(".")
        raise UsageError(f"{text}; `lmeval {name} --help` lists the flags.") from None
    return verb.run(positional, values, out)


def _print_overview(out: TextIO) -> None:
    print("usage: lmeval VERB [flags]\n\nEvaluate language models on tasks.\n", file=out)
    for name, what in VERBS.items():
        print(f"  {name.replace('_', '-'):<16} {what}", file=out)
    print("\n`lmeval VERB --help` lists a verb's flags.", file=out)


def _print_help(verb: Verb, values: Any, out: TextIO) -> None:
    from lmeval.cli.flag_kinds import may_repeat

    print(f"usage: lmeval {verb.USAGE}\n\n{verb.HELP}\n", file=out)
    spelt = {name: f"--{name}" + ("" if values[name].boolean else "=…") for name in values}
    room = max(map(len, spelt.values()), default=0)
    for name, flag_text in spelt.items():
        flag = values[name]
        what = flag.help.partition(";\n    repeat this option")[0]
        more = " May be repeated." if may_repeat(flag) else ""
        if flag.default not in (None, [], False, ""):
            default = ",".join(flag.default) if isinstance(flag.default, list) else flag.default
            more += f" (default: {default})"
        print(f"  {flag_text:<{room}}  {what}{more}", file=out)
