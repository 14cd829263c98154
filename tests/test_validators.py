"""The validators themselves: requests that are fine, and for each rule a request that breaks it and no other."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from tests.validators import anthropic, openai, tool_schemas

Json = dict[str, Any]
Change = Callable[[Json], object]


def anthropic_request() -> Json:
    """Two rounds of tools, with an image, thinking, and a result that is an error."""
    schema = {"type": "object", "properties": {}}
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
    link = {"type": "image", "source": {"type": "url", "url": "https://x.example/a.png"}}
    return {
        "model": "m",
        "max_tokens": 4096,
        "system": "Be brief.",
        "stream": True,
        "temperature": 1,
        "stop_sequences": ["END"],
        "tools": [{"name": name, "description": "", "input_schema": schema} for name in ("look", "ask")],
        "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
        "thinking": {"type": "enabled", "budget_tokens": 1024},
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Look: "}, image, link]},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "", "signature": "s"},
                    {"type": "redacted_thinking", "data": "x"},
                    {"type": "text", "text": "I look.", "citations": []},
                    {"type": "tool_use", "id": "c1", "name": "look", "input": {}},
                    {"type": "tool_use", "id": "c2", "name": "ask", "input": {"a": 1}, "caller": {"type": "direct"}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "c2", "content": [{"type": "text", "text": "x"}, image]},
                    {"type": "tool_result", "tool_use_id": "c1", "content": "No.", "is_error": True},
                    {"type": "text", "text": "Go on."},
                ],
            },
            {"role": "assistant", "content": [{"type": "tool_use", "id": "c3", "name": "look", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c3"}]},
            {"role": "assistant", "content": "Done."},
            {"role": "user", "content": "Thanks."},
        ],
    }


def block(message: int, place: int, **members: Any) -> Change:
    """Change members of one block."""
    return lambda body: body["messages"][message]["content"][place].update(members)


def add(message: int, *blocks: Json, at: int = 99) -> Change:
    def change(body: Json) -> None:
        body["messages"][message]["content"][at:at] = blocks

    return change


def drop(message: int, place: int) -> Change:
    return lambda body: body["messages"][message]["content"].pop(place)


def top(**members: Any) -> Change:
    return lambda body: body.update(members)


def tool(**members: Any) -> Change:
    return lambda body: body["tools"][1].update(members)


def without(*names: str) -> Change:
    return lambda body: [body.pop(name) for name in names]


TEXT = {"type": "text", "text": "x"}
IMAGE = {"type": "image", "source": {"type": "url", "url": "https://x.example/a.png"}}

BREAKS_ANTHROPIC: list[tuple[str, Change]] = [
    ("known members", top(seed=1)),
    ("known members", block(1, 2, extra_content=1)),
    ("known members", block(1, 3, thought_signature="s")),
    ("model", without("model")),
    ("model", top(model="")),
    ("max_tokens", without("max_tokens")),
    ("max_tokens", top(max_tokens=0)),
    ("max_tokens", top(max_tokens=4096.0)),
    ("stream", top(stream=1)),
    ("temperature", top(temperature=1.5)),
    ("temperature", top(temperature=True)),
    ("stop_sequences", top(stop_sequences="END")),
    ("stop_sequences", top(stop_sequences=["\n"])),
    ("system", top(system=" ")),
    ("system", top(system=[])),
    ("system", top(system=[{"type": "text", "text": ""}])),
    ("system", top(system=[IMAGE])),
    ("messages", top(messages=[])),
    ("messages", without("messages")),
    ("roles", lambda body: body["messages"].insert(0, {"role": "system", "content": "x"})),
    ("first role", lambda body: body["messages"].pop(0)),
    ("alternating roles", lambda body: body["messages"].append({"role": "user", "content": "x"})),
    ("last role", lambda body: body["messages"].pop()),
    ("content", top(messages=[{"role": "user", "content": []}])),
    ("content", top(messages=[{"role": "user"}])),
    ("text", top(messages=[{"role": "user", "content": ""}])),
    ("text", top(messages=[{"role": "user", "content": " \n"}])),
    ("text", block(1, 2, text="\t")),
    ("text", block(1, 2, text=None)),
    ("text", block(2, 0, content=[TEXT, {"type": "text", "text": " "}])),
    ("block", add(0, {"text": "x"})),
    ("block", add(0, {})),
    ("block's role", add(1, IMAGE)),
    ("block's role", add(0, {"type": "thinking", "thinking": "x", "signature": "s"})),
    ("block's role", add(0, {"type": "tool_use", "id": "c9", "name": "look", "input": {}})),
    ("tool_use id", lambda body: [block(3, 0, id="c:3")(body), block(4, 0, tool_use_id="c:3")(body)]),
    ("tool_use id", lambda body: [block(3, 0, id="")(body), block(4, 0, tool_use_id="")(body)]),
    ("unique ids", lambda body: [block(3, 0, id="c1")(body), block(4, 0, tool_use_id="c1")(body)]),
    ("unique ids", lambda body: [block(1, 4, id="c1")(body), drop(2, 0)(body)]),
    ("tool_use name", block(3, 0, name="look.up")),
    ("tool_use name", block(3, 0, name="")),
    ("tool_use name", block(3, 0, name="a" * 129)),
    ("tool_use input", block(3, 0, input=None)),
    ("tool_use input", block(3, 0, input="{}")),
    ("answered", drop(2, 0)),
    ("answered", lambda body: body["messages"][4].update(content="x")),
    ("results first", add(2, TEXT, at=0)),
    ("results first", add(2, TEXT, at=1)),
    ("orphan result", add(4, {"type": "tool_result", "tool_use_id": "c1", "content": "x"})),
    ("one result", add(4, {"type": "tool_result", "tool_use_id": "c3", "content": "x"})),
    ("result content", block(4, 0, content={"type": "text", "text": "x"})),
    ("result content", block(4, 0, content=[{"type": "thinking", "thinking": "x", "signature": "s"}])),
    ("error content", block(2, 1, content="")),
    ("error content", block(2, 1, content=[])),
    ("thinking", lambda body: body["messages"][1]["content"][0].pop("signature")),
    ("thinking", block(1, 0, thinking=None)),
    ("redacted thinking", block(1, 1, data="")),
    ("thinking budget", top(max_tokens=1024)),
    ("thinking budget", top(thinking={"type": "enabled", "budget_tokens": 1023})),
    ("thinking budget", top(thinking={"type": "enabled"})),
    ("thinking and tool choice", top(tool_choice={"type": "any"})),
    ("image source", block(0, 1, source={"type": "base64", "media_type": "image/png", "data": ""})),
    ("image source", block(0, 1, source={"type": "base64", "media_type": "image/png", "data": "é"})),
    ("image source", block(0, 2, source={"type": "url", "url": "data:image/png;base64,AAAA"})),
    ("image source", block(0, 2, source=None)),
    ("media type", block(0, 1, source={"type": "base64", "media_type": "image/bmp", "data": "AAAA"})),
    ("tools", lambda body: [body.pop("tool_choice"), body.update(tools={"look": {}})]),
    ("tool name", tool(name="look.up")),
    ("tool name", tool(name="a" * 65)),
    ("unique tools", tool(name="look")),
    ("tool schema", tool(input_schema={})),
    ("tool schema", tool(input_schema=None)),
    ("choice without tools", without("tools")),
    ("tool_choice", top(tool_choice="auto")),
    ("tool_choice", lambda body: [body.pop("thinking"), body.update(tool_choice={"type": "required"})]),
    ("chosen tool", lambda body: [body.pop("thinking"), body.update(tool_choice={"type": "tool", "name": "x"})]),
    ("parallel flag", top(tool_choice={"type": "none", "disable_parallel_tool_use": False})),
    ("parallel flag", top(tool_choice={"type": "auto", "disable_parallel_tool_use": None})),
]  # fmt: skip


def openai_request() -> Json:
    """Two rounds of tools, with an image and a refusal."""
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    link = {"type": "image_url", "image_url": {"url": "https://x.example/a.png"}}
    functions = [{"name": name, "description": "", "parameters": {"type": "object"}} for name in ("look", "ask")]
    return {
        "model": "m",
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0,
        "max_tokens": 9,
        "stop": ["END"],
        "tools": [{"type": "function", "function": function} for function in functions],
        "tool_choice": {"type": "function", "function": {"name": "look"}},
        "parallel_tool_calls": False,
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "Look: "}, image, link]},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "abcdefgh1", "type": "function", "function": {"name": "look", "arguments": "{}"}},
                    {"id": "abcdefgh2", "type": "function", "function": {"name": "ask", "arguments": '{"a": 1}'}},
                ],
            },
            {"role": "tool", "tool_call_id": "abcdefgh1", "content": ""},
            {"role": "tool", "tool_call_id": "abcdefgh2", "content": [{"type": "text", "text": "x"}]},
            {
                "role": "assistant",
                "content": "I look.",
                "tool_calls": [
                    {"id": "abcdefgh1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
                ],
            },
            {"role": "tool", "tool_call_id": "abcdefgh1", "content": "x"},
            {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]},
            {"role": "user", "content": "Thanks."},
        ],
    }


def message(place: int, **members: Any) -> Change:
    return lambda body: body["messages"][place].update(members)


def call(**members: Any) -> Change:
    return lambda body: body["messages"][2]["tool_calls"][1].update(members)


def function(**members: Any) -> Change:
    return lambda body: body["messages"][2]["tool_calls"][1]["function"].update(members)


def named(**members: Any) -> Change:
    return lambda body: body["tools"][1]["function"].update(members)


def with_id(id: Any) -> Change:
    return lambda body: [call(id=id)(body), message(4, tool_call_id=id)(body)]


def part(**members: Any) -> Change:
    return lambda body: body["messages"][1]["content"][1].update(members)


BREAKS_OPENAI: list[tuple[str, Change]] = [
    ("known members", top(stop_sequences=["END"])),
    ("known members", message(8, reasoning_content="x")),
    ("known members", message(5, reasoning_details=[])),
    ("known members", call(extra_content={})),
    ("known members", message(3, is_error=True)),
    ("model", without("model")),
    ("stream", top(stream=1)),
    ("stream_options", top(stream=False)),
    ("stream_options", without("stream")),
    ("temperature", top(temperature=-1)),
    ("temperature", top(temperature="0")),
    ("max tokens", top(max_completion_tokens=9)),
    ("max tokens", top(max_tokens=0)),
    ("stop", top(stop="")),
    ("stop", top(stop=list("abcde"))),
    ("stop", top(stop={"a"})),
    ("messages", top(messages=[])),
    ("messages", without("messages")),
    ("roles", message(0, role="model")),
    ("text content", message(0, content=None)),
    ("text content", message(3, content=None)),
    ("text content", message(3, content=[{"type": "image_url", "image_url": {"url": "https://x.example"}}])),
    ("user content", message(8, content=None)),
    ("user content", message(8, content=[])),
    ("user part", part(type="image")),
    ("user part", part(image_url="https://x.example/a.png")),
    ("image", part(image_url={"url": "/a.png"})),
    ("image", part(image_url={"url": "data:image/png;base64,"})),
    ("assistant content", message(7, content=None)),
    ("assistant content", message(5, content=7)),
    ("assistant content", message(5, content=[{"type": "image_url"}])),
    ("empty assistant", message(7, content="")),
    ("empty assistant", message(7, content=[])),
    ("tool_calls", message(7, tool_calls=[])),
    ("tool_calls", message(7, tool_calls=None)),
    ("call", call(type="tool")),
    ("call", call(function="look")),
    ("call id", with_id("")),
    ("call id", with_id("a" * 41)),
    ("call id", with_id(None)),
    ("Mistral's call id", with_id("call_1234")),
    ("Mistral's call id", with_id("abcdefgh12")),
    ("unique ids", lambda body: [with_id("abcdefgh1")(body), body["messages"].pop(4), body["messages"].insert(
        4, {"role": "tool", "tool_call_id": "abcdefgh1", "content": "x"})]),
    ("call name", function(name="")),
    ("call name", function(name="look.up")),
    ("call name", function(name=None)),
    ("arguments", function(arguments="")),
    ("arguments", function(arguments="{")),
    ("arguments", function(arguments="[]")),
    ("arguments", function(arguments={})),
    ("answered", lambda body: body["messages"].pop(4)),
    ("answered", lambda body: [body["messages"].pop() for _ in range(3)]),
    ("orphan result", lambda body: body["messages"].insert(5, {"role": "tool", "tool_call_id": "zz", "content": "x"})),
    ("orphan result", lambda body: body["messages"].append({"role": "tool", "tool_call_id": "zz", "content": ""})),
    ("results in order", lambda body: body["messages"].insert(3, body["messages"].pop(4))),
    ("tools", top(tools=[])),
    ("tools", top(tools=[{"name": "look"}])),
    ("tool name", named(name="a" * 65)),
    ("tool name", named(name="look up")),
    ("unique tools", named(name="look")),
    ("tool schema", named(parameters=None)),
    ("choice without tools", without("tools", "parallel_tool_calls")),
    ("tool_choice", top(tool_choice="any")),
    ("tool_choice", top(tool_choice={"type": "tool", "name": "look"})),
    ("chosen tool", top(tool_choice={"type": "function", "function": {"name": "x"}})),
    ("parallel without tools", without("tools", "tool_choice")),
]  # fmt: skip


def test_the_requests_that_are_changed_below_are_fine() -> None:
    anthropic.check(anthropic_request())
    openai.check(openai_request(), mistral=True)


@pytest.mark.parametrize(("rule", "change"), BREAKS_ANTHROPIC)
def test_a_request_that_breaks_one_rule_of_anthropics_is_refused_for_that_rule(rule: str, change: Change) -> None:
    body = anthropic_request()
    change(body)
    assert {name for name, _ in anthropic.broken_rules(body)} == {rule}
    with pytest.raises(AssertionError):
        anthropic.check(body)


@pytest.mark.parametrize(("rule", "change"), BREAKS_OPENAI)
def test_a_request_that_breaks_one_rule_of_openais_is_refused_for_that_rule(rule: str, change: Change) -> None:
    body = openai_request()
    change(body)
    assert {name for name, _ in openai.broken_rules(body, mistral=rule.startswith("Mistral"))} == {rule}
    with pytest.raises(AssertionError):
        openai.check(body, mistral=True)


def test_each_rule_has_a_source_and_a_request_that_breaks_it() -> None:
    assert {rule for rule, _ in BREAKS_ANTHROPIC} == anthropic.RULES.keys()
    assert {rule for rule, _ in BREAKS_OPENAI} == openai.RULES.keys()
    assert all(anthropic.RULES.values())
    assert all(openai.RULES.values())


@pytest.mark.parametrize(
    "change",
    [
        top(system=[{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]),
        top(tool_choice={"type": "none"}),
        without("tools", "tool_choice", "thinking", "system", "stream", "temperature", "stop_sequences"),
        block(4, 0, content=""),
        block(4, 0, content=[IMAGE]),
        block(0, 2, source={"type": "file", "file_id": "f"}),
        add(1, {"type": "handover", "to": "x"}),
        lambda body: [body["messages"].pop(), message(5, content=[{"type": "server_tool_use", "id": "s"}])(body)],
    ],
)
def test_anthropic_takes_this_too(change: Change) -> None:
    body = anthropic_request()
    change(body)
    anthropic.check(body)


@pytest.mark.parametrize(
    "change",
    [
        top(tool_choice="required", stop="END"),
        without("tools", "tool_choice", "parallel_tool_calls", "stream", "stream_options", "max_tokens", "stop"),
        message(5, content=""),
        message(0, role="developer"),
        lambda body: body["messages"].append({"role": "user", "content": ""}),
    ],
)
def test_openai_takes_this_too(change: Change) -> None:
    body = openai_request()
    change(body)
    openai.check(body)


def test_members_of_another_provider_pass_where_they_are_its_own() -> None:
    body = openai_request()
    message(7, content="", reasoning_details=[1])(body)
    call(extra_content={})(body)
    openai.check(body, also={"reasoning_details", "extra_content"})


@pytest.mark.parametrize("make", [anthropic_request, openai_request])
def test_a_validator_leaves_the_request_as_it_is(make: Callable[[], Json]) -> None:
    body = make()
    before = copy.deepcopy(body)
    assert not (anthropic if make is anthropic_request else openai).broken_rules(body)
    assert body == before


def tool_schema() -> Json:
    """Everything that a schema may hold."""
    return {
        "type": "object",
        "properties": {
            "a.b-C_1": {"type": "string", "description": "Text.", "enum": ["x", "y"]},
            "when": {"type": "string", "format": "date-time"},
            "count": {"type": "integer", "minimum": 1, "maximum": 2.5},
            "list": {"type": "array", "items": {"anyOf": [{"type": "boolean"}, {"type": "null"}], "description": "d"}},
            "map": {"type": "object", "additionalProperties": {"type": "number"}},
            "inner": {"type": "object", "properties": {"any name": {}}, "required": ["any name"]},
        },
        "required": ["when", "count"],
        "additionalProperties": False,
    }


def member(name: str, value: Any) -> Change:
    return lambda schema: schema["properties"].update({name: value})


def nested(depth: int) -> Json:
    return {"type": "array", "items": nested(depth - 1)} if depth else {}


def test_a_schema_that_every_api_takes_breaks_no_rule():
    tool_schemas.check(tool_schema())


@pytest.mark.parametrize(
    ("rule", "change"),
    [
        ("object", lambda schema: schema.pop("type")),
        ("object", lambda schema: schema.update(type="array")),
        ("object", lambda schema: schema.pop("properties")),
        ("root", lambda schema: schema.update(anyOf=[{"type": "object"}])),
        ("property name", member("filter[x]", {})),
        ("property name", member("x" * 65, {})),
        ("keyword", member("x", {"type": "string", "pattern": "a"})),
        ("keyword", member("x", {"type": "string", "nullable": True})),
        ("keyword", member("x", {"$ref": "#/$defs/x"})),
        ("keyword", member("x", True)),
        ("type", member("x", {"type": ["string", "null"]})),
        ("type", member("x", {"type": "file"})),
        ("type", member("x", {"properties": {}})),
        ("type", member("x", {"type": "integer", "enum": ["1"]})),
        ("required", lambda schema: schema["required"].append("gone")),
        ("required", lambda schema: schema["required"].append("when")),
        ("items", member("x", {"type": "array"})),
        ("enum", member("x", {"type": "string", "enum": []})),
        ("enum", member("x", {"type": "string", "enum": [1]})),
        ("enum", member("x", {"type": "string", "enum": [""]})),
        ("format", member("x", {"type": "string", "format": "uuid"})),
        ("anyOf", member("x", {"anyOf": []})),
        ("anyOf", member("x", {"anyOf": [{}], "type": "string"})),
        ("bound", member("x", {"type": "integer", "minimum": True})),
        ("bound", member("x", {"type": "string", "minimum": 1})),
        ("description", member("x", {"description": 5})),
        ("description", member("x", {"description": "x" * 2049})),
        ("depth", member("x", nested(41))),
        ("size", lambda schema: schema["properties"].update({f"x{n}": {"description": "x" * 2000} for n in range(80)})),
    ],
)  # fmt: skip
def test_each_rule_of_tool_schemas_is_broken_by_a_schema_that_breaks_no_other(rule, change):
    schema = tool_schema()
    change(schema)
    assert {broken for broken, _ in tool_schemas.broken_rules(schema)} == {rule}
    assert rule in tool_schemas.RULES
    with pytest.raises(AssertionError, match="schema"):
        tool_schemas.check(schema)
