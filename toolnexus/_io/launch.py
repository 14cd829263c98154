"""From a call's arguments to the machine that runs it; the same for both clients."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .. import results
from .._copies import copied
from .._core.commands import ModelOptions, ModelRequest, SendRequest
from .._core.run import AgentRun
from .._core.setup import RunSetup
from .._core.wire import Wire
from .._core.wire.anthropic import AnthropicWire
from .._core.wire.anthropic_messages import from_anthropic, is_anthropic_shaped
from .._core.wire.openai import OpenAIWire
from .._core.wire.openai_messages import from_openai
from ..cancel import Cancel
from ..chunk_stream import Watch
from ..config import (
    CallOptions,
    ClientConfig,
    History,
    Prompt,
    Style,
    check_count,
    check_deadline,
    check_flag,
    check_model,
    check_optional_text,
    check_params,
    check_stop,
    check_temperature,
)
from ..errors import (
    AnswerMismatchError,
    APIStatusError,
    ConfigurationError,
    DeadlineExceededError,
    RunCancelledError,
    ToolnexusError,
)
from ..events import StreamEvent
from ..hooks import Hooks
from ..messages import ImagePart, Message, TextPart
from ..retry import RetrySeen
from ..stores import Keep
from ..suspension import Answer
from ..tools.toolkit import Toolkit
from .body import BodyWriter, RequestBody
from .bounds import Bounds
from .hooking import Audience
from .lines import Place

_WIRES: dict[Style, Callable[[], Wire]] = {"openai": OpenAIWire, "anthropic": AnthropicWire}


_MEANT = {
    "id": "run() keeps no conversation: ask() and stream() take id=",
    "messages": "earlier messages are history=",
    "on_event": "SyncClient.stream() and resume() call back; elsewhere the events are iterated over",
    "tools": "tools go into a Toolkit, which is the second argument",
}
"""What to do in place of arguments that other libraries have."""


@dataclass(frozen=True, slots=True)
class Resumption:
    """What a call goes on with in place of a prompt."""

    answers: tuple[Answer, ...]
    id: str | None
    messages: tuple[Message, ...]
    """The transcript of the result that is resumed; a store's own, where it has one, comes before it."""

    @classmethod
    def create(cls, answers: Answer | Sequence[Answer], id: str | None, result: results.RunResult | None) -> Resumption:
        """Check the arguments of `resume`.

        Raises:
            ConfigurationError: One of them cannot work.
        """
        if (id is None) == (result is None):
            raise ConfigurationError(
                "resume: expected either id=, of a conversation in the store, or result=, of a run that is pending"
            )
        if result is None:
            return cls.of(answers, id)
        if not isinstance(result, results.RunResult):
            raise ConfigurationError(
                f"result: expected a RunResult, got {type(result).__name__}; RunResult.model_validate_json reads one"
            )
        return cls.of(answers, result.id, result.messages)

    @classmethod
    def of(cls, answers: Answer | Sequence[Answer], id: str | None, messages: Sequence[Message] = ()) -> Resumption:
        """Check the answers."""
        given = (answers,) if isinstance(answers, Answer) else answers
        if not isinstance(given, Sequence) or not all(isinstance(answer, Answer) for answer in given):
            raise ConfigurationError(f"answers: expected an Answer, or a list of them, got {answers!r}")
        return cls(tuple(given), id, tuple(messages))


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """The checked arguments of one call."""

    config: ClientConfig
    prompt: Message | Resumption
    toolkit: Toolkit
    id: str | None
    history: tuple[Message, ...]
    cancel: Cancel | None
    deadline: float | None
    max_turns: int
    options: ModelOptions
    params: Mapping[str, Any]
    model: str
    system_prompt: str | None
    stream: bool
    can_wait: bool
    hooks: tuple[Hooks, ...]
    watch: Callable[[Bounds], Watch] | None
    """Called when the run's turn has come; gives what its conversation watches of it."""
    keep: Keep | None
    """Where the transcript is loaded from and saved to."""
    place: Place | None
    """In the line of those who keep their transcript there."""
    writer: BodyWriter = field(default_factory=BodyWriter, repr=False, compare=False)

    @classmethod
    def create(
        cls,
        config: ClientConfig,
        prompt: Prompt | Resumption,
        toolkit: Toolkit | None,
        id: str | None,
        options: CallOptions,
        *,
        stream: bool,
        can_wait: bool,
        hooks: tuple[Hooks, ...] = (),
        watch: Callable[[Bounds], Watch] | None = None,
        keep: Keep | None = None,
    ) -> Call:
        """Check the arguments of a call; what is left out is the client's.

        Raises:
            ConfigurationError: One of them cannot work.
        """
        unknown = sorted(options.keys() - CallOptions.__annotations__.keys())
        if unknown:
            meant = "".join(f"; {_MEANT[name]}" for name in unknown if name in _MEANT)
            raise TypeError(
                f"unexpected keyword arguments {unknown}; a call takes {sorted(CallOptions.__annotations__)}{meant}"
            )
        check_toolkit(toolkit)
        history, cancel, deadline = options.get("history"), options.get("cancel"), options.get("deadline")
        max_turns, model, system_prompt = options.get("max_turns"), options.get("model"), options.get("system_prompt")
        if cancel is not None and not isinstance(cancel, Cancel):
            raise ConfigurationError(f"cancel: expected a Cancel, got {type(cancel).__name__}")
        if id is not None and history is not None:
            raise ConfigurationError("history: cannot be given together with id=, whose conversation is the history")
        if isinstance(prompt, Resumption):
            if history is not None:
                raise ConfigurationError("history: cannot be given to resume, which goes on with a transcript")
            history = prompt.messages
        return cls(
            config=config,
            prompt=prompt if isinstance(prompt, Resumption) else _prompt(prompt),
            toolkit=toolkit if toolkit is not None else Toolkit(),
            id=check_conversation_id(id),
            history=_history(history),
            cancel=cancel,
            deadline=config.deadline if deadline is None else check_deadline(deadline),
            max_turns=config.max_turns if max_turns is None else check_count("max_turns", max_turns, minimum=1),
            options=_model_options(options, toolkit),
            params={**config.request_params, **check_params(options.get("request_params"))},
            model=config.model if model is None else check_model(model),
            system_prompt=check_optional_text("system_prompt", system_prompt) or config.system_prompt,
            stream=stream,
            can_wait=can_wait,
            hooks=hooks,
            watch=watch,
            keep=keep,
            place=None if keep is None else Place(keep),
        )

    def begin(self, stored: Sequence[Message] | None, watch: Watch | None) -> tuple[AgentRun, Sequence[StreamEvent]]:
        """The machine for this call, on top of what the store has under its `id`, and what it has to tell at once.

        Raises:
            AnswerMismatchError: An answer does not fit what is open; nothing was changed.
        """
        messages, prompt = stored or self.history, self.prompt
        config = self.config
        system = "\n\n".join(part for part in (self.system_prompt, self.toolkit.skills_prompt()) if part)
        if isinstance(prompt, Resumption) and not messages:
            where = "the conversation is empty" if self.id is None else f"there is no conversation {self.id!r}"
            raise AnswerMismatchError(f"{where}, and so nothing to resume")
        run = AgentRun(
            RunSetup(
                wire=_WIRES[config.style](),
                origin=config.origin,
                model=self.model,
                messages=messages,
                prompt=None if isinstance(prompt, Resumption) else prompt,
                nonce=os.urandom(8).hex(),
                system=system or None,
                tools=self.toolkit.tools(),
                options=self.options,
                params=self.params,
                stream=self.stream,
                split_think_tags=config.split_think_tags,
                max_turns=self.max_turns,
                limits=config.limits,
                conversation_id=self.id,
                keeps=self.keep is not None,
                can_wait=self.can_wait,
                is_hooked=any(h.before_tool for h in self.hooks),
                observed=watch is not None or any(h.on_chunk or h.on_message for h in self.hooks),
                batch=watch.batch if watch is not None else 1,
            )
        )
        return run, run.resume(prompt.answers, time.time()) if isinstance(prompt, Resumption) else ()

    def body(self, run: AgentRun, request: ModelRequest) -> RequestBody:
        """The request body, as the user wants it."""
        body = run.body(request)
        if self.config.body_transform is None:
            return self.writer.write(body)
        transformed = self.config.body_transform(copied(body))  # its parts belong to the transcript
        if not isinstance(transformed, dict):
            raise ConfigurationError(f"body_transform: expected a dict back, got {type(transformed).__name__}")
        return self.writer.write(transformed, is_shared=False)

    def retry_seen(self, audience: Audience, command: SendRequest) -> RetrySeen:
        """What is to be done before each retry of a request."""

        def seen(attempt: int, wait: float, error: BaseException | None) -> None:
            assert isinstance(error, ToolnexusError)  # nothing else is tried again
            self.config.redact(error)
            audience.tell_retry(attempt, wait, error, command.turn)

        return seen

    def failed(self, run: AgentRun | None, error: BaseException) -> None:
        """End the run after `error`, which gets the partial result, if it is ours, and loses what is secret."""
        aborted = not isinstance(error, Exception) or isinstance(error, (RunCancelledError, DeadlineExceededError))
        if run is not None:
            run.abandon(aborted=aborted, now=time.time())
        if isinstance(error, ToolnexusError):
            if run is not None:
                error.result = run.result()
            else:  # it never began
                reason = "aborted" if aborted else None
                error.result = results.RunResult(status="error", model=self.model, id=self.id, finish_reason=reason)
            if isinstance(error, APIStatusError):
                error.url, error.hint = self.config.url, self.config.hint(error.status_code)
            self.config.redact(error)


def _prompt(prompt: Prompt) -> Message:
    expected = "prompt: expected a str, or a list of TextPart and ImagePart"
    if isinstance(prompt, str):
        return Message("user", prompt)
    if isinstance(prompt, (bytes, Mapping)) or not isinstance(prompt, Sequence):
        raise ConfigurationError(f"{expected}, got {type(prompt).__name__}")
    wrong = next((part for part in prompt if not isinstance(part, (TextPart, ImagePart))), None)
    if wrong is not None or not prompt:
        hint = "; earlier messages go into history=" if isinstance(wrong, (Mapping, Message)) else ""
        raise ConfigurationError(f"{expected}, got {'an empty one' if not prompt else f'{wrong!r} in it'}{hint}")
    return Message("user", prompt)


def check_toolkit(toolkit: Toolkit | None) -> None:
    """Refuse what is no toolkit."""
    if toolkit is not None and not isinstance(toolkit, Toolkit):
        raise ConfigurationError(
            f"toolkit: expected a Toolkit, got {type(toolkit).__name__}; wrap tools as Toolkit(tool, ...)"
        )


def check_conversation_id(id: str | None) -> str | None:
    """Refuse what cannot be a conversation's id."""
    if id is not None and (not isinstance(id, str) or not id):
        raise ConfigurationError(f"id: expected a conversation id, a str that is not empty, got {id!r}")
    return id


def _history(history: History | None) -> tuple[Message, ...]:
    if history is None:
        return ()
    if isinstance(history, (str, bytes, Mapping)) or not isinstance(history, Sequence):
        raise ConfigurationError(f"history: expected a list of messages, got {type(history).__name__}")
    messages: list[Message] = []
    for message in history:
        messages += [message] if isinstance(message, Message) else []
    if len(messages) == len(history):
        return tuple(messages)
    if messages or not all(isinstance(message, Mapping) for message in history):
        raise ConfigurationError("history: expected either Message objects or dicts, one kind only")
    dicts = [message for message in history if isinstance(message, Mapping)]
    return tuple(from_anthropic(dicts) if is_anthropic_shaped(dicts) else from_openai(dicts))


def _model_options(options: CallOptions, toolkit: Toolkit | None) -> ModelOptions:
    max_tokens, choice = options.get("max_tokens"), options.get("tool_choice")
    if choice not in (None, "auto", "none", "required"):  # or it names a tool: they may have to be fetched first
        names = [] if toolkit is None else [tool.name for tool in toolkit.tools()]
        if choice not in names:
            raise ConfigurationError(
                f"tool_choice: expected 'auto', 'none', 'required' or one of {names}, got {choice!r}"
            )
    return ModelOptions(
        max_tokens=None if max_tokens is None else check_count("max_tokens", max_tokens, minimum=1),
        temperature=check_temperature(options.get("temperature")),
        stop=check_stop(options.get("stop")),
        tool_choice=choice,
        parallel_tool_calls=check_flag("parallel_tool_calls", options.get("parallel_tool_calls")),
    )
