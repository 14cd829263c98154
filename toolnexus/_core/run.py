"""The agent loop as a machine: facts in, events out, and `next_command()` says what to do next.

    ASK     a model response is wanted      SendRequest
    ACT     its calls are being settled     RunTools, WaitFor
    END     nothing is left to do           Finish

ASK goes to ACT when a complete response holds calls that may run, else to END. ACT goes to ASK when every
call has its result, to END when the turns are used up, or when a call waits for an answer that nobody here can
give. A Checkpoint comes between, wherever a transcript that is kept has changed in a way that must not be
lost: before tools run, after they ran, at the end. Nothing leads out of END.

A response is taken whole or not at all: until the protocol says that it is complete it is a `Turn` that can be
thrown away, and no call of it runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import Any, TypeVar

from ..errors import ToolnexusError
from ..events import DoneEvent, PendingEvent, StreamEvent, ToolCallEvent, ToolResultEvent, UsageEvent
from ..limits import Limits
from ..messages import Message, ToolCallPart
from ..results import Limit, RunResult, Status, StreamSummary, ToolCallRecord, Usage
from ..suspension import Answer, Pending, Request, RequestCall
from ..tool import Tool, ToolResult
from .chunk_log import ChunkLog, News
from .commands import (
    Checkpoint,
    Command,
    Finish,
    Gate,
    ModelOptions,
    ModelRequest,
    RunTools,
    SendRequest,
    ToolCall,
    ToolOutcome,
    WaitFor,
)
from .payload import well_formed
from .reply import Reply
from .transcript import closed, closing_result, result_part
from .turn import CUT_REASONS, PAUSE_REASON, Turn
from .wire import Wire


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSetup:
    """Everything a run starts from."""

    wire: Wire
    origin: str
    """Whom we ask, as a name for the parts that it writes."""
    model: str
    messages: Sequence[Message]
    """The transcript so far, closed, and the prompt."""
    nonce: str
    """Makes invented ids unlike those of other runs."""
    system: str | None = None
    tools: Sequence[Tool] = ()
    options: ModelOptions = field(default_factory=ModelOptions)
    params: Mapping[str, Any] = field(default_factory=dict)
    stream: bool = True
    split_think_tags: bool = False
    max_turns: int = 10
    limits: Limits = field(default_factory=Limits)
    conversation_id: str | None = None
    keeps: bool = False
    """Whether the transcript is kept somewhere, so that checkpoints make sense."""
    can_wait: bool = False
    """Whether somebody here can answer a suspended call."""
    observed: bool = False
    """Whether anybody takes the news: chunks, summaries, messages."""
    batch: int = 1
    """The number of this send in its conversation."""


C = TypeVar("C", SendRequest, RunTools, WaitFor, Checkpoint, Finish)


class _Stage(Enum):
    ASK = auto()
    ACT = auto()
    END = auto()


@dataclass(slots=True, eq=False)
class _Call:
    """A call of the current turn on its way to a result."""

    slot: int
    part: ToolCallPart
    tool: Tool | None
    key: str
    result: ToolResult | None = None
    request: Request | None = None
    """Its open question."""
    answer: Answer | None = None
    passed: frozenset[Gate] = frozenset()
    gate: Gate | None = None
    """Who asked the open question, if it was not the tool."""
    asked: set[str] = field(default_factory=set)
    """Ids of all its requests so far."""
    duration: float = 0.0


class AgentRun:
    """One run. Feed it what its commands ask for, and nothing else."""

    def __init__(self, setup: RunSetup) -> None:
        self._setup = setup
        self.observed = setup.observed
        """Whether there may be news to take."""
        self._tools = {tool.name: tool for tool in setup.tools}
        self._messages = list(setup.messages)
        self._records: list[ToolCallRecord] = []
        self._request_ids: list[str] = []
        self._usage = Usage()
        self.last_response: tuple[Message, Usage | None] | None = None
        """The latest complete response and its own usage, for those who watch responses."""
        self._turns = 0
        self._text = ""
        self._finish_reason: str | None = None
        self._status: Status = "done"
        self._limit: Limit | None = None
        self._stage = _Stage.ASK
        self._unsaved = False
        self._summaries: list[StreamSummary] = []
        self._log = ChunkLog(setup.batch) if setup.observed else None
        if self._log is not None and setup.messages:
            self._log.news.append(setup.messages[-1])  # the prompt
        # the response that is being read
        self._turn: Turn | None = None
        self._reply: Reply | None = None
        self._failure: ToolnexusError | None = None
        # the calls that are being settled
        self._calls: list[_Call] = []
        self._batch: list[_Call] = []
        self._running: set[int] = set()

    # -- orders out

    def next_command(self) -> Command:
        """What to do now; the same until the facts that it asks for are in."""
        if self._unsaved and self._setup.keeps:
            return Checkpoint(self.messages)
        if self._stage is _Stage.ASK:
            return SendRequest(self._model_request(), self._turns + 1)
        if self._stage is _Stage.END:
            return Finish(DoneEvent(self.result()))
        if self._batch:
            return RunTools(tuple(self._tool_call(call) for call in self._batch))
        return WaitFor(self._open_requests()[0])

    def body(self, request: ModelRequest) -> dict[str, Any]:
        """The request in the provider's words."""
        return self._setup.wire.body(request)

    def _model_request(self) -> ModelRequest:
        setup = self._setup
        return ModelRequest(
            model=setup.model,
            system=setup.system,
            messages=self._messages,
            tools=setup.tools,
            stream=setup.stream,
            # A forced choice is for the first response: kept up, the model could never answer.
            options=setup.options if not self._turns else replace(setup.options, tool_choice=None),
            params=setup.params,
            origin=setup.origin,
        )

    def _tool_call(self, call: _Call) -> ToolCall:
        assert call.tool is not None  # a call without a tool has its result already
        return ToolCall(
            slot=call.slot,
            id=call.part.id,
            tool=call.tool,
            args=call.part.args,
            turn=self._turns,
            call_key=call.key,
            answer=call.answer,
            passed=call.passed,
        )

    # -- facts in: the model's response

    def response_opened(self, status: int, headers: Mapping[str, str], now: float) -> None:
        """A reply begins; what came of an earlier attempt at this response is forgotten.

        Args:
            headers: Names in lower case.
            now: Unix seconds, for a `Retry-After` that is a date.
        """
        self._expect(SendRequest, "response_opened")
        if self._log is not None:
            self._log.round = self._turns + 1
        self._turn = Turn(
            self._setup.limits,
            split_think_tags=self._setup.split_think_tags,
            log=self._log if self._setup.stream else None,
        )
        self._failure = None
        reader = self._setup.wire.reader(self._turn)
        self._reply = Reply(status, headers, now, reader, self._turn, self._setup.limits)

    @property
    def is_reading(self) -> bool:
        """Whether a response is open: it wants bytes, or its end reported."""
        return self._turn is not None

    @property
    def wants_bytes(self) -> bool:
        """Whether more of the body is of use; else report `response_ended`."""
        return self._reply is not None and self._failure is None and self._reply.wants_bytes

    @property
    def patience(self) -> float | None:
        """Seconds that reading on is worth, in all, now that the answer is complete; `None` before."""
        return self._turn.patience if self._turn is not None else None

    @property
    def shown(self) -> bool:
        """Whether anything of this response was shown, so that asking for it again would show it twice."""
        return self._turn is not None and self._turn.shown

    def take_news(self) -> Sequence[News]:
        """What observers are to see: chunks, summaries and messages since the last call, in order."""
        return self._log.take() if self._log is not None else ()

    def receive(self, data: bytes, now: float = 0.0) -> Sequence[StreamEvent]:
        """Read body bytes, cut anywhere, at `now` in Unix seconds.

        Returns:
            What they tell. What goes wrong behind it is raised by the next call, so that nothing said is lost.
        """
        turn, reply = self._open_turn()
        if self._log is not None:
            self._log.now = now
        if self._failure is None:
            try:
                reply.receive(data)
            except ToolnexusError as error:
                self._failure = error
        events = turn.events
        if self._failure is not None and not events:
            raise self._failure
        turn.events = []
        turn.shown = turn.shown or bool(events)
        return events

    def response_failed(self, error: ToolnexusError, now: float = 0.0) -> Sequence[StreamEvent]:
        """Reading broke off: an end like any other if the answer was complete or there is none, else `error` is raised.

        An error status is an answer enough; a 401 is not tried again because its body was cut.
        """
        turn, reply = self._open_turn()
        if not (turn.complete or reply.is_error):
            raise self._failure or error
        return self.response_ended(now)

    def response_ended(self, now: float = 0.0) -> Sequence[StreamEvent]:
        """The body is over, or of no more use, at `now` in Unix seconds.

        Returns:
            The rest of what it tells, and the calls that the model asks for.

        Raises:
            ToolnexusError: The response is an error, is no protocol, or is not complete. Whether it may be
                asked for again depends on `shown`.
        """
        turn, reply = self._open_turn()
        if self._failure is None:
            try:
                reply.ended()
            except ToolnexusError as error:
                self._failure = error
        if self._failure is not None:
            raise self._failure
        self._turn = self._reply = None
        if reply.request_id:
            self._request_ids.append(reply.request_id)
        events = turn.events
        self._turn_completed(turn, events, now)
        return events

    def _open_turn(self) -> tuple[Turn, Reply]:
        if self._turn is None or self._reply is None:
            raise RuntimeError("no response is open; report response_opened first")
        return self._turn, self._reply

    def _turn_completed(self, turn: Turn, events: list[StreamEvent], now: float) -> None:
        self._turns += 1
        self._text = turn.text
        self._finish_reason = turn.finish_reason
        self._close_round(turn, turn.finish_reason, now)
        if turn.usage is not None:
            self._usage += turn.usage
            events.append(UsageEvent(self._usage))
        position = len(self._messages)
        message = Message("assistant", turn.parts(self._setup.origin, f"{self._setup.nonce}{self._turns}x"))
        self.last_response = (message, turn.usage)
        if message.parts:
            self._messages.append(message)
            self._tell(message)
        owner = self._setup.conversation_id or self._setup.nonce
        self._calls = [
            _Call(slot, part, self._tools.get(part.name), f"{owner}/{position}/{slot}")
            for slot, part in enumerate(message.tool_calls)
        ]
        if not self._calls:
            self._conclude()
            return
        events.extend(ToolCallEvent(c.part.id, c.part.name, deepcopy(c.part.args), c.part.error) for c in self._calls)
        for call in self._calls:
            refusal = self._refusal(call, turn.finish_reason)
            if refusal:
                self._settle(call, ToolResult(refusal, is_error=True), events)
        self._stage = _Stage.ACT
        self._go_on()

    def _close_round(self, turn: Turn | None, reason: str | None, now: float) -> None:
        """A response is over, one way or another: its usage, its finish, its summary, in this order."""
        log = turn.log if turn is not None else self._log if self._setup.stream else None
        if log is not None:
            log.now = now
            if turn is not None and turn.usage is not None:
                log.usage(turn.usage)
            log.finish(reason, artificial=turn is None or reason != turn.finish_reason or reason is None)
        summary = StreamSummary(
            content=turn.text if turn is not None else "",
            reasoning=turn.reasoning if turn is not None else "",
            tool_call_count=turn.call_count if turn is not None else 0,
            finish_reason=reason,
            usage=turn.usage if turn is not None else None,
            timestamp=now,
        )
        self._summaries.append(summary)
        self._tell(summary)

    def _tell(self, item: News) -> None:
        if self._log is not None:
            self._log.news.append(item)

    def _refusal(self, call: _Call, finish_reason: str | None) -> str | None:
        """Why a call must not run, said to the model; `None` if it may."""
        if finish_reason in CUT_REASONS:
            return f"The call was not run: the response ended with finish reason {finish_reason!r}."
        if call.part.error:
            return f"The call was not run: {call.part.error}. Send it again with one valid JSON object."
        if call.tool is None:
            known = ", ".join(self._tools) or "none"
            return f"There is no tool named {call.part.name!r}. Tools: {known}."
        return None

    # -- facts in: tools and answers

    def tool_finished(self, outcome: ToolOutcome) -> Sequence[StreamEvent]:
        """A call of the current `RunTools` is through: it has a result, or it waits for an answer."""
        self._expect(RunTools, "tool_finished")
        if outcome.slot not in self._running:
            raise RuntimeError(f"tool_finished: no tool is running in slot {outcome.slot}")
        self._running.remove(outcome.slot)
        call = self._calls[outcome.slot]
        call.duration += outcome.duration
        call.answer = None
        events: list[StreamEvent] = []
        if isinstance(outcome.value, Pending):
            self._suspend(call, outcome.value, outcome.gate, events)
        else:
            self._settle(call, outcome.value, events)
        if not self._running:
            self._batch = []
            self._unsaved = True
            self._go_on()
        return events

    def answer_received(self, answer: Answer, now: float) -> Sequence[StreamEvent]:
        """The answer to the request of the current `WaitFor`; `now` in Unix seconds."""
        call, request = self._waiting_call()
        if answer.id != request.id:
            return self.answer_failed(f"the answer names request {answer.id!r}, not {request.id!r}")
        if request.expires_at is not None and now >= request.expires_at:
            return self.answer_failed("the request has expired")
        if not answer.ok:
            return self.answer_failed(f"declined{f': {answer.reason}' if answer.reason else ''}")
        call.request = None
        if call.gate is not None:
            call.passed |= {call.gate}
        else:
            call.answer = answer
        self._go_on()
        return ()

    def answer_failed(self, why: str) -> Sequence[StreamEvent]:
        """There is no answer to the request of the current `WaitFor`, and there will be none."""
        call, _ = self._waiting_call()
        events: list[StreamEvent] = []
        self._settle(call, ToolResult(well_formed(f"The call did not go on: {why}."), is_error=True), events)
        self._go_on()
        return events

    def saved(self) -> None:
        """The transcript of the current `Checkpoint` is safe."""
        self._expect(Checkpoint, "saved")
        self._unsaved = False

    def _suspend(self, call: _Call, value: Pending, gate: Gate | None, events: list[StreamEvent]) -> None:
        id = value.id or f"{call.key}/{len(call.asked)}"
        if id in call.asked:
            self._settle(call, ToolResult(f"The tool asked again for request {id!r}.", is_error=True), events)
            return
        if len(call.asked) >= self._setup.limits.suspensions_per_call:
            text = f"The tool asked for more than {self._setup.limits.suspensions_per_call} answers."
            self._settle(call, ToolResult(text, is_error=True), events)
            return
        call.asked.add(id)
        call.gate = gate
        call.request = Request(
            id=id,
            kind=value.kind,
            prompt=value.prompt,
            url=value.url,
            data=value.data,
            expires_at=value.expires_at,
            call=RequestCall(call.part.id, call.part.name, deepcopy(call.part.args)),
        )
        events.append(PendingEvent(call.request))

    def _settle(self, call: _Call, result: ToolResult, events: list[StreamEvent]) -> None:
        call.result = _bounded(result, self._setup.limits.tool_output_bytes)
        call.request = None
        events.append(ToolResultEvent(call.part.id, call.part.name, call.result.text, result.is_error))

    def _waiting_call(self) -> tuple[_Call, Request]:
        request = self._expect(WaitFor, "an answer").request
        return next(call for call in self._calls if call.request is request), request

    def _expect(self, kind: type[C], fact: str) -> C:
        command = self.next_command()
        if not isinstance(command, kind):
            raise RuntimeError(f"{fact} answers {kind.__name__}, but the run waits for {type(command).__name__}")
        return command

    def _open_requests(self) -> list[Request]:
        return [call.request for call in self._calls if call.request is not None]

    # -- what next

    def _go_on(self) -> None:
        """Choose what comes next in ACT."""
        ready = [call for call in self._calls if call.result is None and call.request is None]
        if ready:
            self._batch = _first_batch(ready)
            self._running = {call.slot for call in self._batch}
            for call in self._batch:
                call.part = replace(call.part, state="started")
            self._unsaved = True
        elif not self._open_requests():
            self._conclude()
        elif not self._setup.can_wait:
            self._end("pending")

    def _conclude(self) -> None:
        """The turn is over, every call has its result: they join the transcript, and the model is asked again."""
        goes_on = bool(self._calls) or self._finish_reason == PAUSE_REASON
        self._join_results()
        if self._finish_reason == "length":
            self._end("incomplete", "max_tokens")
        elif not goes_on or self._finish_reason in CUT_REASONS:
            self._end("done")
        elif self._turns >= self._setup.max_turns:
            self._end("incomplete", "max_turns")
        else:
            self._stage = _Stage.ASK

    def _join_results(self) -> None:
        """The results of the turn become part of the transcript."""
        messages = self.messages
        for message in messages[len(self._messages) :]:
            self._tell(message)
        self._records += self._call_records()
        self._calls, self._messages = [], messages

    def _end(self, status: Status, limit: Limit | None = None) -> None:
        self._status, self._limit, self._stage = status, limit, _Stage.END
        self._unsaved = True

    # -- what there is to show

    def done(self) -> Sequence[StreamEvent]:
        """The last events of the run, once `Finish` was ordered."""
        return (self._expect(Finish, "done").event,)

    @property
    def messages(self) -> list[Message]:
        """The transcript as it stands, results in the model's order."""
        if not self._calls:
            return list(self._messages)
        calls = {
            call.part.id: replace(
                call.part, state="finished" if call.result is not None else call.part.state, request=call.request
            )
            for call in self._calls
        }
        *earlier, asking = self._messages
        parts = [calls[p.id] if isinstance(p, ToolCallPart) else p for p in asking.parts]
        results = [
            Message("tool", (result_part(call.part, call.result),)) for call in self._calls if call.result is not None
        ]
        return [*earlier, Message("assistant", parts), *results]

    def result(self) -> RunResult:
        """The run's result; after `Finish`, the final one."""
        return RunResult(
            text=self._text,
            messages=self.messages,
            tool_calls=[*self._records, *self._call_records()],
            turns=self._turns,
            usage=self._usage,
            model=self._setup.model,
            status=self._status,
            limit=self._limit,
            finish_reason=self._finish_reason,
            requests=self._open_requests(),
            summaries=list(self._summaries),
            id=self._setup.conversation_id,
            request_ids=list(self._request_ids),
        )

    def abandon(self, *, aborted: bool = False, now: float = 0.0) -> RunResult:
        """End the run where it stands, after an error or a cancel, at `now` in Unix seconds.

        A half response is not part of the transcript; calls without a result get an explicit one, so that the
        conversation can go on.

        Returns:
            The partial result, with status `"error"` and the text of the half response.
        """
        for call in self._calls:
            if call.result is None:
                result = closing_result(replace(call.part, request=call.request))
                call.result = ToolResult(result.output, is_error=True)
                call.request = None
        self._join_results()
        self._messages = closed(self._messages)  # an interrupt may strike in the middle of anything
        self._batch = []
        turn, self._turn, self._reply = self._turn, None, None
        if turn is not None:
            self._text, self._finish_reason = turn.text, turn.finish_reason
        if aborted:
            self._finish_reason = "aborted"
        if self._stage is _Stage.ASK and (aborted or (turn is not None and turn.drafts)):
            if self._log is not None:
                self._log.round = self._turns + 1  # nothing of the response may have come yet
            self._close_round(turn, "aborted" if aborted else self._finish_reason, now)
        elif self._stage is _Stage.ACT and aborted and self._log is not None and self._setup.stream:
            self._log.now = now
            self._log.finish("aborted", artificial=True)  # the response itself has its finish and its summary
        self._end("error")
        return self.result()

    def _call_records(self) -> list[ToolCallRecord]:
        return [
            ToolCallRecord(
                id=call.part.id,
                name=call.part.name,
                args=call.part.args,
                output=call.result.text,
                is_error=call.result.is_error,
                metadata=call.result.metadata,
                duration=call.duration,
            )
            for call in self._calls
            if call.result is not None
        ]


def _first_batch(ready: Sequence[_Call]) -> list[_Call]:
    """The calls that may start now: those in front that share, or one that wants to be alone."""
    batch: list[_Call] = []
    for call in ready:
        if call.tool is not None and not call.tool.parallel:
            return batch or [call]
        batch.append(call)
    return batch


def _bounded(result: ToolResult, limit: int) -> ToolResult:
    """A result whose text fits; a longer one is cut, and says so."""
    size = len(result.text.encode())
    if size <= limit:
        return result
    marker = f"\n[cut: {size} bytes of output, the limit is {limit}]"
    kept = result.text.encode()[:limit].decode("utf-8", "ignore")
    return replace(result, output=kept + marker)
