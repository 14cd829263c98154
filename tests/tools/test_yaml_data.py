"""YAML as JSON: what is read, and what is refused."""

from __future__ import annotations

import sys

import pytest

from toolnexus.errors import ConfigurationError
from toolnexus.tools.yaml_data import YAMLError, read_yaml


def read(text: str) -> object:
    return read_yaml(text, max_values=300)


@pytest.mark.parametrize(
    ("text", "value"),
    {
        "": None,
        "x": "x",
        "~": None,
        "a: no": {"a": "no"},  # a boolean in YAML 1.1, Norway in a list of countries
        "a: [yes, on, Off, true, False, NULL, null, '']": {
            "a": ["yes", "on", "Off", True, False, None, None, ""],
        },
        "a:\nb: ~": {"a": None, "b": None},
        "a: 2024-01-01": {"a": "2024-01-01"},
        "a: 12:30:45": {"a": "12:30:45"},
        "a: 1_000": {"a": "1_000"},
        "a: [1, -2, +3, 010, 0x10, 1.5, 1., .5, 1e3, 1.e-3, .inf, .nan, =, 'n']": {
            "a": [1, -2, 3, 10, "0x10", 1.5, 1.0, 0.5, 1000.0, 0.001, ".inf", ".nan", "=", "n"],
        },
        f"a: {'9' * 101}": {"a": float("9" * 101)},
        "a: ['1', \"true\", !!str 5]": {"a": ["1", "true", "5"]},
        "200: ok\ntrue: x\n~: y": {"200": "ok", "true": "x", "~": "y"},
        "'<<': 1": {"<<": 1},
        "a: |\n  x\n  y\nb: >\n  x\n  y": {"a": "x\ny\n", "b": "x y"},
        "a: &x [1]\nb: *x": {"a": [1], "b": [1]},
        "{a: {b: [{c: d}]}}": {"a": {"b": [{"c": "d"}]}},
    }.items(),
)  # fmt: skip
def test_values_are_those_of_json(text, value):
    assert read(text) == value
    assert repr(read(text)) == repr(value)  # 1 is not True, and not 1.0


BOMB = "a: &a [1,1,1,1]\nb: &b [*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b]\nd: [*c,*c,*c,*c]"


@pytest.mark.parametrize(
    ("text", "why"),
    {
        "a: !!python/object/apply:os.system ['true']": "line 1: the tag 'tag:yaml.org,2002:python/object/",
        "a: !!python/name:os.system": "the tag",
        "a: !!python/object:object {}": "the tag",
        "x: 1\na: !secret y": "line 2: the tag '!secret' is not read",
        "a: !!binary aGk=": "the tag",
        "a: !!set {x}": "the tag",
        "a: !!int x": "the tag",
        "a: &a [*a]": "nested too deep, or an alias of what it is in",
        "a: &a {b: *a}": "nested too deep, or an alias of what it is in",
        BOMB: "more than 300 values, those repeated by aliases counted each time",
        "[" * 5000: "nested too deep",
        "[" * 150 + "]" * 150: "nested too deep",
        "- " * 8000: "nested too deep",
        "[" * 101 + "'": "nested too deep",  # noticed before anything behind it is looked at
        "a: 1\nb: 2\na: 3": "line 3: the key 'a' stands there twice",
        "<<: {a: 1}": "merge keys are not read",
        "? [1]\n: 2": "expected a key that is text",
        "? {a: 1}\n: 2": "expected a key that is text",
        "a: 'x": "found unexpected end of stream",
        "a: b: c": "mapping values are not allowed here",
        "a: *x": "found undefined alias",
        "--- 1\n--- 2": "expected a single document",
        "a: \x00": "special characters are not allowed",
        "\t": "found character '\\t'",
    }.items(),
    ids=lambda v: v[:30],
)
def test_what_could_run_surprise_or_grow_is_refused(text, why):
    with pytest.raises(YAMLError) as caught:
        read(text)
    assert why in str(caught.value)
    assert "\n" not in str(caught.value)


def test_as_many_values_as_allowed_are_read():
    assert read_yaml("[1, 2, 3]", max_values=4) == [1, 2, 3]
    with pytest.raises(YAMLError):
        read_yaml("[1, 2, 3]", max_values=3)


def test_without_the_extra_the_error_names_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(ConfigurationError, match=r"PyYAML, which is not installed: pip install 'toolnexus\[skills\]'"):
        read("a: 1")
