# SPDX-License-Identifier: Apache-2.0
"""From `--model` and `--model_args` to a model."""

from __future__ import annotations

import difflib
import importlib
import inspect
import json
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from lmeval.api.errors import LmevalError, ModelError, UsageError
from lmeval.api.failures import describe_failure
from lmeval.api.loading import load_module
from lmeval.api.model import Model, ModelData

BUILT_IN_MODELS = {
    "toy": "lmeval.models.toy:ToyModel",
    "replay": "lmeval.models.replay:ReplayModel",
    "human": "lmeval.models.human:HumanModel",
    "huggingface": "lmeval.models.huggingface:HuggingFaceModel",
    "smollm2": "lmeval.models.smollm2:SmolLM2Model",
    "openai": "lmeval.models.openai:OpenAIModel",
    "litellm": "lmeval.models.litellm:LiteLLMModel",
}
_CLOSING = {"{": "}", "[": "]", "(": ")", '"': '"'}
_QUOTED_OR_LETTER = re.compile(r'"(?:[^"\\]|\\.)*"|\\"|.', re.DOTALL)


def build_model(name: str, settings: Mapping[str, Any] | None = None) -> Model:
    """Make the model that `--model` names.

    Args:
      name: a built-in name, the name of an installed plug-in (entry points of the group
        `lmeval.models`), `package.module:Class`, or `path/to/file.py:Class`. The class is a
        subclass of Model, or any class whose objects have `name` and `generate(prompts)`.
      settings: the keyword arguments of its constructor.

    Raises:
      UsageError: there is no such model, or it takes other settings.
      ModelError: the model cannot be built, with these settings or at all; like the wrong use of a
        flag it ends the command line with 2.
    """
    try:
        return _build(name, settings)
    except ModelError as error:
        error.exit_code = UsageError.exit_code
        raise


def _build(name: str, settings: Mapping[str, Any] | None) -> Model:
    factory = _find_factory(name)
    if not callable(factory):
        raise UsageError(f"--model {name} is no class, so no model can be made of it.")
    settings = dict(settings or {})
    _check_settings(name, factory, settings)
    try:
        model = _as_model(name, factory(**settings))
        _check_identity(name, model)
    except LmevalError:
        raise
    except (Exception, SystemExit) as error:  # a model's program may raise anything
        raise ModelError(f"The model {name} cannot be built: {describe_failure(error)}") from error
    return model


def _as_model(name: str, made: Any) -> Model:
    if isinstance(made, Model):
        return made
    if callable(getattr(made, "generate", None)):
        from lmeval.models.adapter import AdapterModel

        return AdapterModel(made)
    raise UsageError(
        f"--model {name} names a {type(made).__name__}, which is neither a Model nor an object "
        "with generate(prompts)."
    )


def _check_identity(name: str, model: Model) -> None:
    """Ask what every run asks, here where what a model's program raises can be told of."""
    questions: list[tuple[str, Callable[[], object], tuple[type, ...]]] = [
        ("model_data()", model.model_data, (ModelData,)),
        ("name", lambda: model.name, (str,)),
        ("fingerprint()", model.fingerprint, (str, type(None))),
    ]
    for question, ask, expected in questions:
        if not isinstance(answer := ask(), expected):
            raise ModelError(
                f"The model {name} gives {question} as {answer!r}, which is of the wrong type; see "
                "docs/models.md."
            )


def _find_factory(name: str) -> Any:
    if ":" in name:
        return _attribute(name)
    if name in BUILT_IN_MODELS:
        return _attribute(BUILT_IN_MODELS[name])
    import importlib.metadata

    plugins = {e.name: e for e in importlib.metadata.entry_points(group="lmeval.models")}
    if name in plugins:
        try:
            return plugins[name].load()
        except (Exception, SystemExit) as error:  # a plug-in may raise anything
            raise ModelError(f"--model {name}: {describe_failure(error)}") from error
    close = difflib.get_close_matches(name, [*BUILT_IN_MODELS, *plugins], n=2)
    hint = (
        f"did you mean {' or '.join(close)}?"
        if close
        else (f"known are {', '.join([*BUILT_IN_MODELS, *plugins])}, and package.module:Class.")
    )
    raise UsageError(f"There is no model {name!r}; {hint}")


def _attribute(reference: str) -> Any:
    module_name, _, attribute = reference.rpartition(":")
    if not module_name or not attribute or module_name.startswith("."):
        raise UsageError(f"--model {reference}: write package.module:Class or file.py:Class.")
    if module_name.endswith(".py"):
        module = load_module(Path(module_name), f"lmeval_models.{Path(module_name).stem}")
    else:
        if "" not in sys.path and str(Path.cwd()) not in sys.path:
            sys.path.insert(0, str(Path.cwd()))  # as `python -m` does; a console script does not
        try:
            module = importlib.import_module(module_name)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
                raise ModelError(f"--model {reference}: {describe_failure(error)}") from error
            raise UsageError(f"--model {reference}: there is no module {error.name}.") from None
        except LmevalError:
            raise
        except (Exception, SystemExit) as error:  # a user's module may raise anything
            raise ModelError(f"--model {reference}: {describe_failure(error)}") from error
    if not hasattr(module, attribute):
        classes = [key for key, value in vars(module).items() if isinstance(value, type)]
        close = difflib.get_close_matches(attribute, classes, n=1)
        hint = f"; did you mean {close[0]}?" if close else "."
        raise UsageError(f"--model {reference}: {module_name} has no {attribute!r}{hint}")
    return getattr(module, attribute)


def _check_settings(name: str, factory: Any, settings: Mapping[str, Any]) -> None:
    try:
        parameters = inspect.signature(factory).parameters.values()
    except (TypeError, ValueError):
        raise UsageError(f"--model {name}: it does not say which settings it takes.") from None
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return
    known = [parameter.name for parameter in parameters]
    for key in settings:
        if key not in known:
            close = difflib.get_close_matches(key, known, n=1)
            hint = (
                f"did you mean {close[0]!r}?"
                if close
                else f"it takes {', '.join(known) or 'none'}."
            )
            raise UsageError(f"The model {name} takes no setting {key!r}; {hint}")
    for parameter in parameters:
        if parameter.default is parameter.empty and parameter.name not in settings:
            raise UsageError(
                f"The model {name} needs the setting {parameter.name!r}; "
                f"pass --model_args {parameter.name}=…"
            )


def parse_model_args(text: str) -> dict[str, Any]:
    """The settings in `k=v,…`; a value is JSON (true, 0.5, null, {"a": 1}) or else a string.

    Commas inside brackets, braces and double quotes belong to the value.

    Raises:
      UsageError: a part has no `=`, a name stands twice, or a bracket or quote is not closed.
    """
    settings: dict[str, Any] = {}
    for part in _split_at_commas(text):
        key, equals, value = part.partition("=")
        key = key.strip()
        if not equals or not key:
            raise UsageError(f"--model_args {text!r}: {part!r} is not of the form name=value.")
        if key in settings:
            raise UsageError(f"--model_args {text!r}: {key!r} stands twice.")
        settings[key] = _literal(value.strip())
    return settings


def _split_at_commas(text: str) -> list[str]:
    parts: list[str] = []
    opened: list[str] = []
    start = 0
    for token in _QUOTED_OR_LETTER.finditer(text):
        found = token.group()
        if found in _CLOSING:
            opened.append(found)
        elif opened and found == _CLOSING[opened[-1]]:
            opened.pop()
        elif found == "," and not opened:
            parts.append(text[start : token.start()])
            start = token.end()
    if opened:
        # What follows would silently be part of one value.
        raise UsageError(
            f"--model_args {text!r}: {opened[0]} is not closed; write a value that holds it "
            'as a JSON string, such as "5\\" long".'
        )
    parts.append(text[start:])
    return [part for part in parts if part.strip()]


def _literal(value: str) -> Any:
    if value in ("True", "False", "None"):
        return {"True": True, "False": False, "None": None}[value]
    try:
        return json.loads(value)
    except ValueError:
        return value
