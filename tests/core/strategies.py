"""Transcripts as they come about: several providers, several rounds of tools, things lost and broken off."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from toolnexus.messages import (
    ImagePart,
    Message,
    OpaquePart,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from toolnexus.suspension import Request

OPENAI = "openai:api.openai.com"
MISTRAL = "openai:api.mistral.ai"
KIMI = "openai:api.moonshot.example"
ANTHROPIC = "anthropic:api.anthropic.com"
IMITATOR = "anthropic:127.0.0.1:8080"

IDS = {
    OPENAI: ["call_1", "call_2", "a", "a_2", "b" * 40],
    MISTRAL: ["abcdefgh1", "abcdefgh2", "123456789"],
    KIMI: ["functions.look:0", "functions.look:1", "ü", "k" * 60],
    ANTHROPIC: ["toolu_01", "toolu_02", "a", "a_2", "a_3", "c-1"],
    IMITATOR: ["call_1", "call_2", "a"],
}
"""Ids by the provider that gives them; they come again in later turns, and at other providers."""

words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=5)
said = words.filter(str.strip)
texts = said | st.sampled_from(["", " ", "\n\t", "\u2028"]) | words
scalars = st.none() | st.booleans() | st.integers() | words
objects = st.dictionaries(words, scalars | st.lists(scalars, max_size=2), max_size=2)
images = st.builds(ImagePart, url=st.sampled_from(["https://x.example/a.png", "http://x.example/ü"])) | st.builds(
    lambda data, kind: ImagePart(data=data, media_type=f"image/{kind}"),
    st.binary(min_size=1, max_size=4),
    st.sampled_from(["png", "jpeg", "gif", "webp"]),
)


def signed(origin: str) -> dict[str, Any]:
    """What a provider wants back, with its name in it, so that it can be found where it must not be."""
    return {"by": origin}


@st.composite
def reasoning(draw: st.DrawFn, origin: str) -> Part:
    if origin.startswith("anthropic"):
        if draw(st.booleans()):
            return OpaquePart({"type": "redacted_thinking", "data": f"by {origin}"}, origin)
        return ReasoningPart(draw(texts), origin, draw(st.sampled_from([{}, {"signature": f"by {origin}"}])))
    extra: dict[str, Any] = {"field": "reasoning_content" if origin == KIMI else "reasoning"}
    if draw(st.booleans()):
        extra["reasoning_details"] = [signed(origin)]
    return ReasoningPart(draw(texts), origin, draw(st.sampled_from([extra, {}])))


@st.composite
def text(draw: st.DrawFn, origin: str) -> Part:
    if origin.startswith("anthropic") and draw(st.booleans()):
        return TextPart(draw(texts), origin, {"citations": [signed(origin)]})
    return TextPart(draw(texts))


@st.composite
def call(draw: st.DrawFn, origin: str, id: str) -> ToolCallPart:
    extra = {"caller" if origin.startswith("anthropic") else "extra_content": signed(origin)}
    args, raw, error = draw(st.tuples(objects, st.none(), st.none()) | st.just(({}, "{", "not valid JSON")))
    return ToolCallPart(
        id,
        draw(st.sampled_from(["look", "ask-2", "A_b", "look.up", "", "ü" * 150])),
        args,
        raw,
        error,
        state=draw(st.sampled_from(["open", "started", "finished"])),
        request=draw(st.none() | st.just(Request("r1", "input", "Sure?"))),
        origin=origin,
        extra=draw(st.sampled_from([{}, extra])),
    )


def server_tool(origin: str) -> list[Part]:
    use = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": signed(origin)}
    result = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [signed(origin)]}
    return [OpaquePart(use, origin), OpaquePart(result, origin)]


@st.composite
def answers(draw: st.DrawFn) -> list[Message]:
    """One response, and results: all of them, or some, or too many, in any order."""
    origin = draw(st.sampled_from(sorted(IDS)))
    calls = [draw(call(origin, id)) for id in draw(st.lists(st.sampled_from(IDS[origin]), unique=True, max_size=3))]
    parts: list[Part] = draw(st.lists(reasoning(origin) | text(origin), max_size=3))
    if origin == ANTHROPIC and draw(st.booleans()):
        parts += server_tool(origin)
    content = st.lists(texts.map(TextPart) | images, max_size=2).map(tuple)
    ids = [part.id for part in calls]
    found = draw(st.permutations(ids) | st.lists(st.sampled_from([*ids, "orphan"]), max_size=4))
    names = {part.id: part.name for part in calls}
    results = [
        Message("tool", [ToolResultPart(id, names.get(id, ""), draw(content), draw(st.booleans()))]) for id in found
    ]
    return [Message("assistant", [*parts, *calls]), *results]


def document(origin: str) -> dict[str, Any]:
    return {"type": "document" if origin.startswith("anthropic") else "file", "source": signed(origin)}


prompts = st.lists(texts.map(TextPart) | images, min_size=1, max_size=3).map(lambda parts: Message("user", parts))
history_prompts = prompts | st.sampled_from(sorted(IDS)).map(
    lambda origin: Message("user", [OpaquePart(document(origin), origin)])
)
system_messages = texts.map(lambda t: Message("system", t))
transcripts = st.lists(
    answers() | history_prompts.map(lambda m: [m]) | system_messages.map(lambda m: [m]), max_size=5
).flatmap(
    # Broken off anywhere.
    lambda groups: st.integers(0, sum(map(len, groups))).map(lambda end: [m for group in groups for m in group][:end])
)
