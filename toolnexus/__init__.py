"""Stream a language model with tools, and see it live: one loop, sync and async.

    from toolnexus import SyncClient, Toolkit, tool

Start at `SyncClient` and `AsyncClient`; `StreamEvent` lists what a run tells, `RunResult` what it leaves.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from ._io.async_stream import AsyncEventStream
from ._io.sync_stream import EventStream
from .async_client import AsyncClient
from .cancel import Cancel
from .errors import (
    AnswerMismatchError,
    APIConnectionError,
    APIStatusError,
    APITimeoutError,
    AuthenticationError,
    BadRequestError,
    ConfigurationError,
    ConflictError,
    ConversationConflictError,
    DeadlineExceededError,
    InternalServerError,
    NotFoundError,
    OverloadedError,
    PermissionDeniedError,
    ProtocolError,
    RateLimitError,
    RunCancelledError,
    StoreError,
    StreamInterruptedError,
    ToolnexusError,
)
from .events import (
    DoneEvent,
    PendingEvent,
    ReasoningEvent,
    StreamEvent,
    TextEvent,
    ToolCallEvent,
    ToolResultEvent,
    UsageEvent,
    event_from_dict,
    event_from_json,
    event_to_dict,
    event_to_json,
)
from .limits import Limits
from .messages import (
    ImagePart,
    Message,
    OpaquePart,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from .results import StreamSummary, ToolCallRecord, Usage
from .stores import ConversationStore, ManagedStore, MemoryStore, RevisionedStore, Snapshot
from .suspension import Answer, Pending, Request, RequestCall, pending
from .sync_client import SyncClient
from .tool import Tool, ToolContext, ToolResult
from .tools.function import define_tool, tool
from .tools.toolkit import Toolkit

if TYPE_CHECKING:
    from ._core.wire.anthropic_messages import from_anthropic, to_anthropic
    from ._core.wire.openai_messages import from_openai, to_openai
    from .async_conversation import AsyncConversation
    from .chunk_stream import ChunkStream, Hook, HookPoint
    from .chunks import (
        Chunk,
        ChunkTag,
        ChunkType,
        ContentChunk,
        FinishChunk,
        ReasoningChunk,
        ToolCallDeltaChunk,
        UsageChunk,
    )
    from .hooks import AfterLLM, AfterTool, BeforeLLM, BeforeTool, Hooks, RetryInfo
    from .run_result import RunResult
    from .stores.codec import messages_from_json, messages_to_json
    from .stores.sqlite import SQLiteStore
    from .sync_conversation import Conversation
    from .tools.builtin import Builtins
    from .tools.http import http_tool
    from .tools.http_messages import HTTPReply
    from .tools.mcp.status import MCPChange, MCPStatus
    from .tools.openapi import http_tools_from_openapi
    from .tools.skills import Skill, SkillEntry, Skills

__all__ = [
    "APIConnectionError",
    "APIStatusError",
    "APITimeoutError",
    "AfterLLM",
    "AfterTool",
    "Answer",
    "AnswerMismatchError",
    "AsyncClient",
    "AsyncConversation",
    "AsyncEventStream",
    "AuthenticationError",
    "BadRequestError",
    "BeforeLLM",
    "BeforeTool",
    "Builtins",
    "Cancel",
    "Chunk",
    "ChunkStream",
    "ChunkTag",
    "ChunkType",
    "ConfigurationError",
    "ConflictError",
    "ContentChunk",
    "Conversation",
    "ConversationConflictError",
    "ConversationStore",
    "DeadlineExceededError",
    "DoneEvent",
    "EventStream",
    "FinishChunk",
    "HTTPReply",
    "Hook",
    "HookPoint",
    "Hooks",
    "ImagePart",
    "InternalServerError",
    "Limits",
    "MCPChange",
    "MCPStatus",
    "ManagedStore",
    "MemoryStore",
    "Message",
    "NotFoundError",
    "OpaquePart",
    "OverloadedError",
    "Part",
    "Pending",
    "PendingEvent",
    "PermissionDeniedError",
    "ProtocolError",
    "RateLimitError",
    "ReasoningChunk",
    "ReasoningEvent",
    "ReasoningPart",
    "Request",
    "RequestCall",
    "RetryInfo",
    "RevisionedStore",
    "RunCancelledError",
    "RunResult",
    "SQLiteStore",
    "Skill",
    "SkillEntry",
    "Skills",
    "Snapshot",
    "StoreError",
    "StreamEvent",
    "StreamInterruptedError",
    "StreamSummary",
    "SyncClient",
    "TextEvent",
    "TextPart",
    "Tool",
    "ToolCallDeltaChunk",
    "ToolCallEvent",
    "ToolCallPart",
    "ToolCallRecord",
    "ToolContext",
    "ToolResult",
    "ToolResultEvent",
    "ToolResultPart",
    "Toolkit",
    "ToolnexusError",
    "Usage",
    "UsageChunk",
    "UsageEvent",
    "define_tool",
    "event_from_dict",
    "event_from_json",
    "event_to_dict",
    "event_to_json",
    "from_anthropic",
    "from_openai",
    "http_tool",
    "http_tools_from_openapi",
    "messages_from_json",
    "messages_to_json",
    "pending",
    "to_anthropic",
    "to_openai",
    "tool",
]

# Imported when first asked for: many programs use none of these, and they take a tenth of the time that the rest takes.
_LATER = {
    "AfterLLM": ".hooks",
    "AfterTool": ".hooks",
    "AsyncConversation": ".async_conversation",
    "BeforeLLM": ".hooks",
    "BeforeTool": ".hooks",
    "Builtins": ".tools.builtin",
    "Chunk": ".chunks",
    "ChunkStream": ".chunk_stream",
    "ChunkTag": ".chunks",
    "ChunkType": ".chunks",
    "ContentChunk": ".chunks",
    "Conversation": ".sync_conversation",
    "FinishChunk": ".chunks",
    "HTTPReply": ".tools.http_messages",
    "Hook": ".chunk_stream",
    "HookPoint": ".chunk_stream",
    "Hooks": ".hooks",
    "MCPChange": ".tools.mcp.status",
    "MCPStatus": ".tools.mcp.status",
    "ReasoningChunk": ".chunks",
    "RetryInfo": ".hooks",
    "RunResult": ".run_result",
    "SQLiteStore": ".stores.sqlite",
    "Skill": ".tools.skills",
    "SkillEntry": ".tools.skills",
    "Skills": ".tools.skills",
    "ToolCallDeltaChunk": ".chunks",
    "UsageChunk": ".chunks",
    "from_anthropic": "._core.wire.anthropic_messages",
    "from_openai": "._core.wire.openai_messages",
    "http_tool": ".tools.http",
    "http_tools_from_openapi": ".tools.openapi",
    "messages_from_json": ".stores.codec",
    "messages_to_json": ".stores.codec",
    "to_anthropic": "._core.wire.anthropic_messages",
    "to_openai": "._core.wire.openai_messages",
}


def __getattr__(name: str) -> object:
    module = _LATER.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(module, __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})
