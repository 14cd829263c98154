"""The client for asyncio."""

from __future__ import annotations

import inspect
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self, Unpack

from . import results
from ._io.async_closing import aclosing
from ._io.async_stream import AsyncEventStream
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

    from ._io.async_driver import AsyncWorld
    from ._io.bounds import Bounds
    from ._io.launch import Call, Resumption
    from .async_conversation import AsyncConversation
    from .chunk_stream import Watch
    from .hooks import Hooks


class AsyncClient:
    """Runs agent turns against one endpoint, under asyncio.

    Tasks may share a client, and several event loops may use it one after the other. Close it, or use it as an
    async context manager.

    Example:
        async with AsyncClient(base_url="http://127.0.0.1:8080/v1", model="qwen3") as client:
            async with client.stream("Weather in Chennai?", Toolkit(get_weather)) as events:
                async for event in events:
                    print(event)
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
        wait_for: Callable[[Request], Answer | Awaitable[Answer]] | None = None,
        store: ConversationStore | None = None,
        request_params: Mapping[str, Any] | None = None,
        body_transform: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
        split_think_tags: bool = False,
        hooks: Hooks | Sequence[Hooks] | None = None,
        http_client: httpx.AsyncClient | None = None,
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
            wait_for: Answers the requests of suspended tools, sync or async; without it such a run ends as `"pending"`.
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
        if wait_for is not None and not callable(wait_for):
            raise ConfigurationError(f"wait_for: expected a function, got {wait_for!r}")
        self._wait_for = wait_for
        self._store = MemoryStore() if store is None else check_store(store)
        if http_client is not None:
            import httpx

            if not isinstance(http_client, httpx.AsyncClient):
                raise ConfigurationError(
                    f"http_client: expected an httpx.AsyncClient, got {type(http_client).__name__}"
                )
        self._http_client = http_client
        self._hooks: tuple[Hooks, ...] = ()
        if hooks is not None:
            from .hooks import check_hooks

            self._hooks = check_hooks(hooks, may_await=True)
        self._process = os.getpid()
        self._world: AsyncWorld | None = None
        self._closed = False

    def __repr__(self) -> str:
        return f"<AsyncClient style={self._config.style!r} model={self._config.model!r} url={self._config.url!r}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("an AsyncClient holds a key and connections; make a new one instead of copying or pickling it")

    def stream(
        self, prompt: Prompt, toolkit: Toolkit | None = None, id: str | None = None, **options: Unpack[CallOptions]
    ) -> AsyncEventStream:
        """A run as an async iterator, which goes on as its events are asked for.

        Use it in an `async with` block when you may leave it before its end.

        Args:
            prompt: Text, or a list of `TextPart` and `ImagePart`.
            id: The conversation to go on with, and to save to.
            options: `cancel`, `deadline`, `history` and more, for this call: see `toolnexus.config.CallOptions`.

        Raises:
            ToolnexusError: While iterating: the run failed; `.result` has what was said and done.
        """
        return self._events(prompt, toolkit, id, options, stream=True)

    async def run(
        self, prompt: Prompt, toolkit: Toolkit | None = None, **options: Unpack[CallOptions]
    ) -> results.RunResult:
        """The same run without streaming, for when nobody watches."""
        return await _shown(self._events(prompt, toolkit, None, options, stream=False))

    async def ask(
        self,
        prompt: Prompt,
        toolkit: Toolkit | None = None,
        id: str | None = None,
        on_text: Callable[[str], object] | None = None,
        **options: Unpack[CallOptions],
    ) -> results.RunResult:
        """`run` with memory; with `on_text`, sync or async, it is streamed, and the text comes there piece by piece."""
        if on_text is None:
            return await _shown(self._events(prompt, toolkit, id, options, stream=False))
        if not callable(on_text):
            raise ConfigurationError(f"on_text: expected a function, got {on_text!r}")
        return await _shown(
            self._events(prompt, toolkit, id, options, stream=True),
            lambda event: on_text(event.delta) if type(event) is TextEvent else None,
        )

    async def resume(
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
            on_event: Called with each event, sync or async; without it the model is asked for whole responses.

        Raises:
            AnswerMismatchError: An answer names no open request. Nothing was changed.
            ToolnexusError: The run failed; `.result` has what was said and done.
        """
        if on_event is not None and not callable(on_event):
            raise ConfigurationError(f"on_event: expected a function, got {on_event!r}")
        return await _shown(self._resume(answers, toolkit, id, result, options, stream=on_event is not None), on_event)

    def resume_stream(
        self,
        answers: Answer | Sequence[Answer],
        toolkit: Toolkit | None = None,
        *,
        id: str | None = None,
        result: results.RunResult | None = None,
        **options: Unpack[CallOptions],
    ) -> AsyncEventStream:
        """`resume` as an async iterator, which goes on as its events are asked for."""
        return self._resume(answers, toolkit, id, result, options, stream=True)

    def conversation(
        self, toolkit: Toolkit | None = None, id: str | None = None, *, keep_chunks: int | None = None
    ) -> AsyncConversation:
        """A conversation: a transcript that goes on from send to send, with a view on the raw stream.

        Args:
            id: Keeps the transcript in the client's store; without one it lives and dies with the object.
            keep_chunks: How many chunks of the current send are kept for `chunks.all()`; `None` keeps all.

        Raises:
            ConfigurationError: An argument cannot work.
        """
        from ._io.launch import check_conversation_id, check_toolkit
        from .async_conversation import AsyncConversation

        check_toolkit(toolkit)
        check_conversation_id(id)
        keep = Keep(MemoryStore(), "") if id is None else Keep(self._store, id)

        def prepare(prompt: Prompt | Resumption, options: CallOptions, watch: Callable[[Bounds], Watch]) -> Call:
            return self._call(prompt, toolkit, id, options, keep=keep, watch=watch)

        return AsyncConversation(prepare, self._drive, self._forget, keep, keep_chunks)

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

        async def run(prompt: str, ctx: ToolContext) -> ToolResult | Pending:
            with one_deeper(max_depth), counted(ctx):
                call = self._call(begun(prompt, ctx), toolkit, None, options_for(options, ctx), stream=False)
                result = await _shown(AsyncEventStream(self._drive(replace(call, can_wait=False))))
            return reported(result, ctx)

        if options.get("cancel") is not None:
            raise ConfigurationError("cancel: an agent ends with the run that calls it")
        self._call(name, toolkit, None, options)  # what cannot work is refused now
        return agent_tool(run, name, description, max_depth, timeout, approval)

    def conversation_store(self) -> ConversationStore:
        """The store in use."""
        return self._store

    async def aclose(self) -> None:
        """Close connections and let threads end; may be called again. A caller's `http_client` stays open."""
        self._leave_parents_world()
        self._closed = True
        world, self._world = self._world, None
        if world is not None:
            world.runs.close()
            await world.transport.aclose()
            world.tools.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    def _events(
        self, prompt: Prompt, toolkit: Toolkit | None, id: str | None, options: CallOptions, *, stream: bool
    ) -> AsyncEventStream:
        return AsyncEventStream(self._drive(self._call(prompt, toolkit, id, options, stream=stream)))

    def _resume(
        self,
        answers: Answer | Sequence[Answer],
        toolkit: Toolkit | None,
        id: str | None,
        result: results.RunResult | None,
        options: CallOptions,
        *,
        stream: bool,
    ) -> AsyncEventStream:
        from ._io.launch import Resumption

        what = Resumption.create(answers, id, result)
        return AsyncEventStream(self._drive(self._call(what, toolkit, what.id, options, stream=stream)))

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

    async def _drive(self, call: Call) -> AsyncGenerator[Sequence[StreamEvent], None]:
        from ._io.async_driver import drive

        async with aclosing(drive(call, self._get_world())) as batches:
            async for events in batches:
                yield events

    async def _forget(self, keep: Keep) -> None:
        from ._io.async_driver import forget

        await forget(keep, self._get_world())

    def _get_world(self) -> AsyncWorld:
        # httpx takes longer to import than all the rest: not before the first request.
        from ._io.async_driver import AsyncWorld
        from ._io.async_tools import AsyncTools
        from ._io.async_transport import AsyncTransport
        from ._io.bounds import Runs

        self._leave_parents_world()
        if self._closed:
            raise RuntimeError("the client is closed")
        if self._world is None:
            results.RunResult()  # made by pydantic when first asked for: not when one of many streams ends
            self._world = AsyncWorld(
                AsyncTransport(self._config, self._http_client),
                AsyncTools(self._config.limits),
                Runs(),
                self._wait_for,
            )
        return self._world

    def _leave_parents_world(self) -> None:
        """In a forked child: the parent's connections and threads are not ours."""
        if self._process != os.getpid():
            self._process, self._world = os.getpid(), None


async def _shown(
    events: AsyncEventStream, on_event: Callable[[StreamEvent], object] | None = None
) -> results.RunResult:
    """Run to the end and show each event to `on_event`, sync or async."""
    async with events:
        async for event in events:
            if on_event is not None and inspect.isawaitable(returned := on_event(event)):
                await returned
        return events.result
