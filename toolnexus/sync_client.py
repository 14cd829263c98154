"""The client for synchronous code."""

from __future__ import annotations

import inspect
import os
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeVar, Unpack

from . import results
from ._io.sync_stream import EventStream
from .config import CallOptions, ClientConfig, Prompt, Style, TimeoutLike
from .errors import ConfigurationError
from .events import StreamEvent, TextEvent
from .limits import Limits
from .stores import ConversationStore, Keep, MemoryStore, check_store
from .suspension import Answer, Pending, Request
from .tool import Tool, ToolContext, ToolResult
from .tools.function import Approval
from .tools.toolkit import Toolkit

if TYPE_CHECKING:
    import httpx

    from ._io.bounds import Bounds
    from ._io.launch import Call, Resumption
    from ._io.sync_driver import SyncWorld
    from .chunk_stream import Watch
    from .hooks import Hooks
    from .sync_conversation import Conversation


class SyncClient:
    """Runs agent turns against one endpoint, in the caller's thread; no event loop is involved.

    Threads may share a client. Close it, or use it as a context manager.

    Example:
        with SyncClient(base_url="http://127.0.0.1:8080/v1", model="qwen3") as client:
            result = client.stream("Weather in Chennai?", Toolkit(get_weather), on_event=print)
    """

    def __init__(
        self,
        *,
        model: str,
        style: Style = "openai",
        base_url: str | None = None,
        api_key: str | None = None,
        auth_token: str | None = None,
        anthropic_version: str = "2023-06-01",
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
        system_prompt: str | None = None,
        max_turns: int = 10,
        retries: int = 2,
        retry_base: float = 0.5,
        max_retry_after: float = 60,
        timeout: float | TimeoutLike | None = None,
        progress_timeout: float | None = None,
        deadline: float | None = None,
        wait_for: Callable[[Request], Answer] | None = None,
        store: ConversationStore | None = None,
        request_params: Mapping[str, Any] | None = None,
        body_transform: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
        split_think_tags: bool = False,
        hooks: Hooks | Sequence[Hooks] | None = None,
        http_client: httpx.Client | None = None,
        limits: Limits | None = None,
    ) -> None:
        """Configure a client; nothing is sent.

        Args:
            model: Sent verbatim.
            style: The API that the endpoint speaks: `"openai"` posts to `{base_url}/chat/completions`, `"anthropic"`
                to `{base_url}/v1/messages`.
            base_url: Root of the endpoint; `None` takes `OPENAI_BASE_URL` or `ANTHROPIC_BASE_URL`, else the provider's
                own.
            api_key: `None` takes `OPENAI_API_KEY` (`OPENROUTER_API_KEY` for OpenRouter) or `ANTHROPIC_API_KEY`; local
                servers need none.
            auth_token: For the Anthropic style, in place of a key: sent as a bearer token.
            anthropic_version: Sent to endpoints of that style.
            headers: Added to every request.
            query: Added to every request's URL, in place of what `base_url` says under the same name.
            system_prompt: Sent with every run, never part of a transcript.
            max_turns: Model responses per run; then the run ends as `"incomplete"`.
            retries: Further tries for each response of which nothing was shown yet. All runs of a client share a budget
                of 500, which successes fill up again, so that a dead service is not hammered.
            retry_base: Seconds before the first retry; each further one waits twice as long, with jitter.
            max_retry_after: Seconds that a service may ask us to wait.
            timeout: Seconds of silence before a run fails; an `httpx.Timeout` sets connect, read and write alone;
                `None` is connect 10, read 300, write 60. Any byte counts as life.
            progress_timeout: Seconds that the model may take for the next text, thinking or piece of a tool call in a
                streamed response; comments and pings do not count. Time that the consumer takes does not either.
            deadline: Seconds for one whole run.
            wait_for: Answers the requests of suspended tools; without it such a run ends as `"pending"`.
            store: Keeps conversations by id; `None` keeps them in memory.
            request_params: Members of every request body; they win, and `None` removes one.
            body_transform: Sees and may replace every request body.
            hooks: Functions that watch or change every run; several compose in order.
            split_think_tags: Take a `<think>` block at the start of a response's text for reasoning.
            http_client: Used in place of our own connections, for proxies, certificates or recording; not closed.
            limits: Bounds on what a server or a tool may send.

        Raises:
            ConfigurationError: An argument cannot work.
        """
        self._config = ClientConfig.create(
            base_url=base_url,
            style=style,
            model=model,
            api_key=api_key,
            auth_token=auth_token,
            anthropic_version=anthropic_version,
            headers=headers,
            query=query,
            system_prompt=system_prompt,
            max_turns=max_turns,
            retries=retries,
            retry_base=retry_base,
            max_retry_after=max_retry_after,
            timeout=timeout,
            progress_timeout=progress_timeout,
            deadline=deadline,
            request_params=request_params,
            body_transform=body_transform,
            split_think_tags=split_think_tags,
            limits=limits,
        )
        self._wait_for = _sync_only("wait_for", wait_for)
        self._store = MemoryStore() if store is None else check_store(store)
        _sync_only("store", self._store.get)
        _sync_only("store", self._store.save)
        if http_client is not None:
            import httpx

            if not isinstance(http_client, httpx.Client):
                raise ConfigurationError(f"http_client: expected an httpx.Client, got {type(http_client).__name__}")
        self._http_client = http_client
        self._hooks: tuple[Hooks, ...] = ()
        if hooks is not None:
            from .hooks import check_hooks

            self._hooks = check_hooks(hooks, may_await=False)
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._world: SyncWorld | None = None
        self._closed = False

    def __repr__(self) -> str:
        return f"<SyncClient style={self._config.style!r} model={self._config.model!r} url={self._config.url!r}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a SyncClient holds a key and connections; make a new one instead of copying or pickling it")

    def stream(
        self,
        prompt: Prompt,
        toolkit: Toolkit | None = None,
        on_event: Callable[[StreamEvent], object] | None = None,
        id: str | None = None,
        **options: Unpack[CallOptions],
    ) -> results.RunResult:
        """Run to the end and show each event as it happens.

        Args:
            prompt: Text, or a list of `TextPart` and `ImagePart`.
            on_event: Called with each event. What it raises ends the run and comes through unchanged.
            id: The conversation to go on with, and to save to.
            options: `cancel`, `deadline`, `history` and more, for this call: see `toolnexus.config.CallOptions`.

        Raises:
            ToolnexusError: The run failed; `.result` has what was said and done.
        """
        return _shown(self._events(prompt, toolkit, id, options, stream=True), on_event)

    def iter_events(
        self, prompt: Prompt, toolkit: Toolkit | None = None, id: str | None = None, **options: Unpack[CallOptions]
    ) -> EventStream:
        """The same run as an iterator, which goes on as its events are asked for.

        Close it, or use it in a `with` block, when you may leave it before its end.
        """
        return self._events(prompt, toolkit, id, options, stream=True)

    def run(self, prompt: Prompt, toolkit: Toolkit | None = None, **options: Unpack[CallOptions]) -> results.RunResult:
        """The same run without streaming, for when nobody watches."""
        return _finished(self._events(prompt, toolkit, None, options, stream=False))

    def ask(
        self,
        prompt: Prompt,
        toolkit: Toolkit | None = None,
        id: str | None = None,
        on_text: Callable[[str], object] | None = None,
        **options: Unpack[CallOptions],
    ) -> results.RunResult:
        """`run` with memory; with `on_text` it is streamed, and the text comes there piece by piece."""
        if on_text is None:
            return _finished(self._events(prompt, toolkit, id, options, stream=False))
        show = _sync_only("on_text", on_text)
        return self.stream(prompt, toolkit, lambda e: show(e.delta) if type(e) is TextEvent else None, id, **options)

    def resume(
        self,
        answers: Answer | Sequence[Answer],
        toolkit: Toolkit | None = None,
        *,
        id: str | None = None,
        result: results.RunResult | None = None,
        on_event: Callable[[StreamEvent], object] | None = None,
        **options: Unpack[CallOptions],
    ) -> results.RunResult:
        """Carry on a run that waits for answers, here or in another process, with this provider or another.

        Questions that stay without an answer leave the run pending again. With no answers at all, a conversation
        goes on that was cut off before the model had its say.

        Args:
            answers: One or several; each is used once.
            toolkit: With the tools that the calls want.
            id: The conversation in the store.
            result: The pending run itself, in place of `id`; give the one that comes back to the next `resume`.
                Where no store has it, nothing notices that the same one is given twice, and its tools run twice.
            on_event: Called with each event; without it the model is asked for whole responses.

        Raises:
            AnswerMismatchError: An answer names no open request. Nothing was changed.
            ToolnexusError: The run failed; `.result` has what was said and done.
        """
        if on_event is None:
            return _finished(self._resume(answers, toolkit, id, result, options, stream=False))
        return _shown(self._resume(answers, toolkit, id, result, options, stream=True), on_event)

    def resume_stream(
        self,
        answers: Answer | Sequence[Answer],
        toolkit: Toolkit | None = None,
        *,
        id: str | None = None,
        result: results.RunResult | None = None,
        **options: Unpack[CallOptions],
    ) -> EventStream:
        """`resume` as an iterator, which goes on as its events are asked for."""
        return self._resume(answers, toolkit, id, result, options, stream=True)

    def conversation(
        self, toolkit: Toolkit | None = None, id: str | None = None, *, keep_chunks: int | None = None
    ) -> Conversation:
        """A conversation: a transcript that goes on from send to send, with a view on the raw stream.

        Args:
            id: Keeps the transcript in the client's store; without one it lives and dies with the object.
            keep_chunks: How many chunks of the current send are kept for `chunks.all()`; `None` keeps all.

        Raises:
            ConfigurationError: An argument cannot work.
        """
        from ._io.launch import check_conversation_id, check_toolkit
        from .sync_conversation import Conversation

        check_toolkit(toolkit)
        check_conversation_id(id)
        keep = Keep(MemoryStore(), "") if id is None else Keep(self._store, id)

        def prepare(prompt: Prompt | Resumption, options: CallOptions, watch: Callable[[Bounds], Watch]) -> Call:
            return self._call(prompt, toolkit, id, options, keep=keep, watch=watch)

        return Conversation(prepare, self._drive, self._forget, keep, keep_chunks)

    def as_tool(
        self,
        name: str,
        description: str,
        toolkit: Toolkit | None = None,
        *,
        max_depth: int = 3,
        timeout: float | None = None,
        approval: Approval = False,
        **options: Unpack[CallOptions],
    ) -> Tool:
        """Make a tool of an agent: this client, these tools and options, a prompt written by another model.

        Each call is a run of its own, inside the cancel and the deadline of the run that it belongs to; its tokens
        count for that run. Where a tool of the agent suspends, the whole chain does: the question is asked of whoever
        answers those of the outermost run, and the answer finds its way back, in another process too.

        Args:
            max_depth: How many agents may run inside of each other.
            timeout: Seconds that one call may take.
            approval: Whether a human must agree before it runs, or a predicate on the arguments that says so.
        """
        from ._io.agents import agent_tool, begun, counted, one_deeper, options_for, reported

        def run(prompt: str, ctx: ToolContext) -> ToolResult | Pending:
            with one_deeper(max_depth), counted(ctx):
                call = self._call(begun(prompt, ctx), toolkit, None, options_for(options, ctx), stream=False)
                result = _finished(EventStream(self._drive(replace(call, can_wait=False))))
            return reported(result, ctx)

        if options.get("cancel") is not None:
            raise ConfigurationError("cancel: an agent ends with the run that calls it")
        self._call(name, toolkit, None, options)  # what cannot work is refused now
        return agent_tool(run, name, description, max_depth, timeout, approval)

    def conversation_store(self) -> ConversationStore:
        """The store in use."""
        return self._store

    def close(self) -> None:
        """Close connections and let threads end; may be called again. A caller's `http_client` stays open."""
        self._leave_parents_world()
        with self._lock:
            self._closed = True
            world, self._world = self._world, None
        if world is not None:
            world.runs.close()
            world.transport.close()
            world.tools.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _events(
        self, prompt: Prompt, toolkit: Toolkit | None, id: str | None, options: CallOptions, *, stream: bool
    ) -> EventStream:
        return EventStream(self._drive(self._call(prompt, toolkit, id, options, stream=stream)))

    def _resume(
        self,
        answers: Answer | Sequence[Answer],
        toolkit: Toolkit | None,
        id: str | None,
        result: results.RunResult | None,
        options: CallOptions,
        *,
        stream: bool,
    ) -> EventStream:
        from ._io.launch import Resumption

        what = Resumption.create(answers, id, result)
        return EventStream(self._drive(self._call(what, toolkit, what.id, options, stream=stream)))

    def _call(
        self,
        prompt: Prompt | Resumption,
        toolkit: Toolkit | None,
        id: str | None,
        options: CallOptions,
        *,
        stream: bool = True,
        keep: Keep | None = None,
        watch: Callable[[Bounds], Watch] | None = None,
    ) -> Call:
        from ._io.launch import Call

        return Call.create(
            self._config,
            prompt,
            toolkit,
            id,
            options,
            stream=stream,
            can_wait=self._wait_for is not None,
            hooks=self._hooks,
            watch=watch,
            keep=Keep(self._store, id) if keep is None and id is not None else keep,
        )

    def _drive(self, call: Call) -> Generator[Sequence[StreamEvent], None, None]:
        from ._io.sync_driver import drive

        yield from drive(call, self._get_world())

    def _forget(self, keep: Keep) -> None:
        from ._io.sync_driver import forget

        forget(keep)

    def _get_world(self) -> SyncWorld:
        # httpx takes longer to import than all the rest: not before the first request.
        from ._io.bounds import Runs
        from ._io.sync_driver import SyncWorld
        from ._io.sync_tools import SyncTools
        from ._io.sync_transport import SyncTransport

        self._leave_parents_world()
        with self._lock:
            if self._closed:
                raise RuntimeError("the client is closed")
            if self._world is None:
                self._world = SyncWorld(
                    SyncTransport(self._config, self._http_client),
                    SyncTools(self._config.limits),
                    Runs(),
                    self._wait_for,
                )
            return self._world

    def _leave_parents_world(self) -> None:
        """In a forked child: the parent's sockets and threads are not ours, and not to be shut down."""
        if self._process != os.getpid():
            self._process, self._lock, self._world = os.getpid(), threading.Lock(), None


def _shown(events: EventStream, on_event: Callable[[StreamEvent], object] | None) -> results.RunResult:
    """Run to the end and show each event to `on_event`."""
    on_event = _sync_only("on_event", on_event)
    with events:
        for event in events:
            if on_event is not None and inspect.iscoroutine(returned := on_event(event)):
                returned.close()
                raise ConfigurationError(f"on_event: SyncClient cannot await what {on_event!r} returns")
        return events.result


def _finished(events: EventStream) -> results.RunResult:
    """Run to the end, with nobody to watch."""
    with events:
        for _ in events:
            pass
        return events.result


F = TypeVar("F", bound="Callable[..., object] | None")


def _sync_only(name: str, function: F) -> F:
    """Refuse what could only be awaited: its body would silently never run."""
    if function is None:
        return function
    if not callable(function):
        raise ConfigurationError(f"{name}: expected a function, got {function!r}")
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__):
        raise ConfigurationError(f"{name}: SyncClient cannot await {function!r}; use AsyncClient, or a plain function")
    return function
