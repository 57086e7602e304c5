# SPDX-License-Identifier: Apache-2.0
"""`--model` and `--model_args`: what they name and how values are read."""

import re
import sys

import pytest

from lmeval import AdapterModel, BatchModel, ModelData
from lmeval.api.errors import LmevalError, ModelError, TaskError, UsageError
from lmeval.api.model_registry import build_model, parse_model_args


class Own(BatchModel):
    """A model with settings."""

    def __init__(self, *, size, flavour="plain"):
        self.size = size
        self.flavour = flavour

    def model_data(self):
        return ModelData("own", f"own-{self.size}-{self.flavour}")

    def complete(self, prompts, max_length, stops):
        return ["x"] * len(prompts)


class Adapter:
    name = "adapter"

    def generate(self, prompts):
        return ["x"] * len(prompts)


class Broken(Adapter):
    def __init__(self):
        raise RuntimeError("no such service")


class Leaving(Adapter):
    def __init__(self):
        sys.exit(3)


def own_with(**methods):
    """A subclass of Own with other methods, made without settings."""
    return type("Odd", (Own,), {"__init__": lambda self: Own.__init__(self, size=1), **methods})


def fail(*args):
    raise RuntimeError("odd")


NoData = own_with(model_data=fail)
NoneData = own_with(model_data=lambda self: None)
NoName = own_with(name=property(fail))
NoFingerprint = own_with(fingerprint=fail)
NumberFingerprint = own_with(fingerprint=lambda self: 5)
LeavingData = own_with(model_data=lambda self: sys.exit(3))


class NoAdapterName(Adapter):
    name = property(fail)


HERE = __name__


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("", {}),
        ("a=1,b=2.5,c=true,d=null,e=text", {"a": 1, "b": 2.5, "c": True, "d": None, "e": "text"}),
        ("a=True,b=None", {"a": True, "b": None}),
        ("path=/x/y z.jsonl", {"path": "/x/y z.jsonl"}),
        ("url=http://h:1/v1?a=b", {"url": "http://h:1/v1?a=b"}),
        ('body={"a": [1, 2], "b": "x,y"},n=1', {"body": {"a": [1, 2], "b": "x,y"}, "n": 1}),
        ('stop="a,b",n=1', {"stop": "a,b", "n": 1}),
        ("a=", {"a": ""}),
        (" a = 1 , ", {"a": 1}),
        ('system="5\\" x, (y",n=1', {"system": '5" x, (y', "n": 1}),
        ('path="C:\\\\",n=1', {"path": "C:\\", "n": 1}),
        ("path=C:\\dir\\,n=1", {"path": "C:\\dir\\", "n": 1}),
        ("face=:),n=1", {"face": ":)", "n": 1}),
        ('say=he said "a, b",n=1', {"say": 'he said "a, b"', "n": 1}),
    ],
)
def test_values_are_json_or_text(text, settings):
    assert parse_model_args(text) == settings


@pytest.mark.parametrize("text", ["a", "a=1,b", "=1", "a=1,a=2"])
def test_what_is_no_setting_is_said(text):
    with pytest.raises(UsageError, match="--model_args"):
        parse_model_args(text)


@pytest.mark.parametrize(
    ("text", "opened"),
    [
        ('system=5" x,temperature=0.7', '"'),
        ('a="x,b=1', '"'),
        ('a="x\\",b=1', '"'),
        ("a=(x,b=1", "("),
        ("a=[1,2,b=1", "["),
        ('a={"b": [1},c=1', "{"),
        ('a=(x "y,b=1', "("),
    ],
)
def test_what_is_not_closed_does_not_swallow_the_rest(text, opened):
    with pytest.raises(UsageError, match=f"{re.escape(opened)} is not closed"):
        parse_model_args(text)


@pytest.mark.parametrize(
    "program",
    ["raise ImportError('no')", "import sys; sys.exit(3)", "1 / 0", "def", "open('none')"],
)
@pytest.mark.parametrize("spelling", ["odd_model:M", "odd_model.py:M"])
def test_a_module_that_fails_is_one_sentence(tmp_path, monkeypatch, program, spelling):
    (tmp_path / "odd_model.py").write_text(f"{program}\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(LmevalError, match="odd_model"):
        build_model(spelling)


def test_a_class_is_named_with_its_module():
    model = build_model(f"{HERE}:Own", {"size": 3})
    assert model.name == "own-3-plain"


def test_an_adapter_is_wrapped():
    model = build_model(f"{HERE}:Adapter")
    assert isinstance(model, AdapterModel)
    assert model.name == "adapter"


@pytest.mark.parametrize(
    ("name", "settings", "error", "reason"),
    [
        ("toi", {}, UsageError, "There is no model 'toi'; did you mean toy"),
        ("zzzz", {}, UsageError, "known are toy, replay"),
        (f"{HERE}:Ovn", {}, UsageError, "did you mean Own"),
        ("no_such_module:X", {}, UsageError, "there is no module no_such_module"),
        (f"{HERE}:Own", {}, UsageError, "needs the setting 'size'"),
        (f"{HERE}:Own", {"size": 1, "flavor": "x"}, UsageError, "did you mean 'flavour'"),
        (f"{HERE}:Broken", {}, ModelError, "cannot be built: .*no such service"),
        (f"{HERE}:HERE", {}, UsageError, "is no class"),
        (f"{HERE}:NoData", {}, ModelError, "cannot be built: .*RuntimeError: odd"),
        (f"{HERE}:NoneData", {}, ModelError, r"gives model_data\(\) as None"),
        (f"{HERE}:NoName", {}, ModelError, "cannot be built: .*RuntimeError: odd"),
        (f"{HERE}:NoAdapterName", {}, ModelError, "cannot be built: .*RuntimeError: odd"),
        (f"{HERE}:NoFingerprint", {}, ModelError, "cannot be built: .*RuntimeError: odd"),
        (f"{HERE}:NumberFingerprint", {}, ModelError, r"gives fingerprint\(\) as 5"),
        (f"{HERE}:LeavingData", {}, ModelError, "SystemExit: 3"),
        (f"{HERE}:Leaving", {}, ModelError, "cannot be built: .*SystemExit: 3"),
        ("builtins:dict", {}, UsageError, "does not say which settings it takes"),
        (":C", {}, UsageError, "write package.module:Class"),
        ("m:", {}, UsageError, "write package.module:Class"),
        (".m:C", {}, UsageError, "write package.module:Class"),
        ("none.py:X", {}, TaskError, "There is no file none.py"),
    ],
)
def test_faults_are_one_sentence(name, settings, error, reason):
    with pytest.raises(error, match=reason) as caught:
        build_model(name, settings)
    assert caught.value.exit_code == 2
