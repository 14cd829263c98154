"""The agent loop as a machine: facts in, events out, and `next_command()` says what to do next.

    ASK     a model response is wanted      SendRequest
    ACT     its calls are being settled     AdmitTools, RunTools, WaitFor
    END     nothing is left to do           Finish

ASK goes to ACT when a complete response holds calls that may run, else to END. ACT goes to ASK when every
call has its result, to END when the turns are used up, or when a call waits for an answer that nobody here can
give. A run that carries on what another one left begins in ACT. A Checkpoint comes between, wherever a transcript
that is kept has changed in a way that must not be lost: before tools run, after they ran, when an answer was used,
at the end. Nothing leads out of END.

A response is taken whole or not at all: until the protocol says that it is complete it is a `Turn` that can be
thrown away, and no call of it runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, TypeVar

from ..errors import AnswerMismatchError, ConfigurationError, ToolnexusError
from ..events import DoneEvent, PendingEvent, StreamEvent, UsageEvent
from ..messages import Message
from ..results import Limit, Status, StreamSummary, ToolCallRecord, Usage
from ..suspension import Answer
from .calls import Calls
from .chunk_log import ChunkLog, News
from .commands import (
    Checkpoint,
    Command,
    Finish,
    ModelRequest,
    SendRequest,
    ToolOutcome,
    WaitFor,
)
from .reply import Reply
from .response import Response
from .setup import RunSetup
from .transcript import parted
from .turn import CUT_REASONS, PAUSE_REASON, Turn

if TYPE_CHECKING:
    from ..run_result import RunResult

C = TypeVar("C", SendRequest, WaitFor, Checkpoint, Finish)


class _Stage(Enum):
    ASK = auto()
    ACT = auto()
    END = auto()


class AgentRun:
    """One run. Feed it what its commands ask for, and nothing else."""

    def __init__(self, setup: RunSetup) -> None:
        self._setup = setup
        self.observed = setup.observed
        """Whether there may be news to take."""
        self._tools = {tool.name: tool for tool in setup.tools}
        self._messages, left = parted(setup.messages)
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
        self._finish: Finish | None = None
        self._summaries: list[StreamSummary] = []
        self._log = ChunkLog(setup.batch) if setup.observed else None
        self.reading: Response | None = None
        """The response that is being read, from `response_opened` to its end."""
        # the calls that are being settled, and what is to be said when they are
        self._calls: Calls | None = None
        self._prompt = setup.prompt
        self._resumed = False
        if left is not None:
            key = f"{setup.nonce}/0"
            self._calls = Calls.restored(left, self._tools, setup.limits, key=key, is_hooked=setup.is_hooked)
            self._stage = _Stage.ACT
        if self._prompt is not None:
            self._take_prompt(self._prompt)

    # -- orders out

    def next_command(self) -> Command:
        """What to do now; the same until the facts that it asks for are in."""
        if self._must_save:
            return Checkpoint(self.messages)
        if self._stage is _Stage.ASK:
            return SendRequest(self._model_request(), self._turns + 1)
        if self._stage is _Stage.END:
            self._finish = self._finish or Finish(DoneEvent(self.result()))
            return self._finish
        return self._open_calls().command

    @property
    def _must_save(self) -> bool:
        return self._unsaved and self._setup.keeps

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
            options=setup.options
            if not self._turns or setup.options.tool_choice is None
            else replace(setup.options, tool_choice=None),
            params=setup.params,
            origin=setup.origin,
        )

    # -- facts in: what an earlier run left

    def resume(self, answers: Sequence[Answer], now: float) -> Sequence[StreamEvent]:
        """Carry on, without a prompt, what the transcript left open; `now` in Unix seconds.

        Answers are taken all or none. Calls that were interrupted run again if their tools allow it, and calls that
        had not begun run now.

        Raises:
            AnswerMismatchError: An answer names no open request.
            ConfigurationError: There is nothing to carry on, or a tool that would run is not there.
        """
        if self._resumed or self._setup.prompt is not None:
            raise RuntimeError("resume is the first fact of a run without a prompt, and comes once")
        calls = self._calls
        if calls is None:
            if answers:
                raise AnswerMismatchError(
                    f"request {answers[0].id!r} is not open: the conversation waits for no answer. Nothing was changed."
                )
            if not self._messages or self._messages[-1].role == "assistant":
                raise ConfigurationError("resume: the conversation has nothing to carry on; send it a prompt")
            self._resumed = True
            return ()
        calls.check(answers, can_wait=self._setup.can_wait)
        self._resumed = True
        events = calls.give_up_unknown()
        events += calls.refuse(None)
        for answer in answers:
            events += calls.answered(answer.id, answer, now)
        if self._setup.can_wait:
            events += map(PendingEvent, calls.requests)
        self._unsaved = True
        self._go_on()
        return events

    def _take_prompt(self, prompt: Message) -> None:
        """A prompt comes behind whatever an earlier run left: what nobody can settle any more is closed first."""
        if self._calls is not None:
            self._calls.give_up_all()
            if self._calls.begin():
                self._unsaved = self._calls.start()
                return
            self._join_results()
            self._stage = _Stage.ASK
        self._messages.append(prompt)
        self._tell(prompt)
        self._prompt = None

    # -- facts in: the model's response

    def response_opened(self, status: int, headers: Mapping[str, str], now: float) -> None:
        """A reply begins; what came of an earlier attempt at this response is forgotten.

        Args:
            headers: Names in lower case.
            now: Unix seconds, for a `Retry-After` that is a date.
        """
        if self._stage is not _Stage.ASK or self._must_save:
            self._expect(SendRequest, "response_opened")
        if self._log is not None:
            self._log.round = self._turns + 1
        turn = Turn(
            self._setup.limits,
            split_think_tags=self._setup.split_think_tags,
            log=self._log if self._setup.stream else None,
        )
        reply = Reply(status, headers, now, self._setup.wire.reader(turn), turn, self._setup.limits)
        self.reading = Response(turn, reply)

    def take_news(self) -> Sequence[News]:
        """What observers are to see: chunks, summaries and messages since the last call, in order."""
        return self._log.take() if self._log is not None else ()

    def receive(self, data: bytes, now: float = 0.0) -> Sequence[StreamEvent]:
        """Read body bytes, cut anywhere, at `now` in Unix seconds; see `Response.receive`."""
        response = self.reading or self._open_response()
        if self._log is not None:
            self._log.now = now
        return response.receive(data)

    def response_failed(self, error: ToolnexusError, now: float = 0.0) -> Sequence[StreamEvent]:
        """Reading broke off: an end like any other, or `error` is raised; see `Response.check_broken_off`."""
        self._open_response().check_broken_off(error)
        return self.response_ended(now)

    def response_ended(self, now: float = 0.0) -> Sequence[StreamEvent]:
        """The body is over, or of no more use, at `now` in Unix seconds.

        Returns:
            The rest of what it tells, and the calls that the model asks for.

        Raises:
            ToolnexusError: The response is an error, is no protocol, or is not complete. It may be asked for again
                unless something of it was `shown`.
        """
        response = self._open_response()
        events = response.ended()
        self.reading = None
        if response.request_id:
            self._request_ids.append(response.request_id)
        self._turn_completed(response.turn, events, now)
        return events

    def _open_response(self) -> Response:
        if self.reading is None:
            raise RuntimeError("no response is open; report response_opened first")
        return self.reading

    def _turn_completed(self, turn: Turn, events: list[StreamEvent], now: float) -> None:
        self._turns += 1
        self._text = turn.text
        self._finish_reason = turn.finish_reason
        self._close_round(turn, turn.finish_reason, now)
        if turn.usage is not None:
            self._usage += turn.usage
            events.append(UsageEvent(self._usage))
        message = Message("assistant", turn.parts(self._setup.origin, f"{self._setup.nonce}{self._turns}x"))
        self.last_response = (message, turn.usage)
        if message.parts:
            self._tell(message)
        if not message.tool_calls:
            self._messages += [message] if message.parts else []
            self._conclude()
            return
        self._calls = Calls(
            message,
            self._tools,
            self._setup.limits,
            key=f"{self._setup.nonce}/{self._turns}",
            turn=self._turns,
            is_hooked=self._setup.is_hooked,
        )
        events += self._calls.announce()
        events += self._calls.refuse(turn.finish_reason)
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

    # -- facts in: tools and answers

    def tool_admitted(self, slot: int, args: dict[str, Any]) -> None:
        """A call of the current `AdmitTools` may run, with `args`."""
        self._open_calls().admitted(slot, args)
        self._batch_moved()

    def tool_finished(self, outcome: ToolOutcome) -> Sequence[StreamEvent]:
        """A call of the current `AdmitTools` or `RunTools` is through: it has a result, or it waits for an answer."""
        events = self._open_calls().finished(outcome)
        if outcome.spent is not None:
            self._usage += outcome.spent
        return events + self._batch_moved()

    def answer_received(self, answer: Answer, now: float) -> Sequence[StreamEvent]:
        """The answer to the request of the current `WaitFor`; `now` in Unix seconds."""
        events = self._open_calls().answered(self._expect(WaitFor, "an answer").request.id, answer, now)
        self._unsaved = True
        self._go_on()
        return events

    def answer_failed(self, why: str) -> Sequence[StreamEvent]:
        """There is no answer to the request of the current `WaitFor`, and there will be none."""
        events = self._open_calls().unanswered(self._expect(WaitFor, "an answer").request.id, why)
        self._unsaved = True
        self._go_on()
        return events

    def _open_calls(self) -> Calls:
        if self._calls is None or self._must_save:
            raise RuntimeError(f"no call is being settled; the run waits for {type(self.next_command()).__name__}")
        return self._calls

    def _batch_moved(self) -> list[StreamEvent]:
        calls = self._calls
        assert calls is not None
        if not calls.are_under_way:
            self._unsaved = True
            return self._go_on()
        if calls.start():
            self._unsaved = True
        return []

    def saved(self) -> None:
        """The transcript of the current `Checkpoint` is safe."""
        self._expect(Checkpoint, "saved")
        self._unsaved = False

    def _expect(self, kind: type[C], fact: str) -> C:
        command = self.next_command()
        if not isinstance(command, kind):
            raise RuntimeError(f"{fact} answers {kind.__name__}, but the run waits for {type(command).__name__}")
        return command

    # -- what next

    def _go_on(self) -> list[StreamEvent]:
        """Choose what comes next in ACT."""
        calls = self._calls
        assert calls is not None
        events: list[StreamEvent] = []
        if calls.begin():
            self._unsaved = calls.start() or self._unsaved
            return events
        if self._prompt is not None and not self._setup.can_wait:
            events = calls.abandon(also_waiting=True)  # a prompt is here already: nobody will answer what was asked
        if calls.are_settled:
            self._conclude()
        elif not self._setup.can_wait:
            self._end("pending")
        return events

    def _conclude(self) -> None:
        """The turn is over, every call has its result: they join the transcript, and the model is asked again."""
        goes_on = self._calls is not None or self._finish_reason == PAUSE_REASON
        self._join_results()
        if self._prompt is not None:
            self._take_prompt(self._prompt)
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
        if self._calls is None:
            return
        asking, *results = self._calls.messages
        for message in results:
            self._tell(message)
        messages, records = [*self._messages, asking, *results], [*self._records, *self._calls.records]
        # In one step: an interrupt in the middle would have them join twice.
        self._messages, self._records, self._calls = messages, records, None

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
        return [*self._messages, *(self._calls.messages if self._calls is not None else ())]

    def result(self) -> RunResult:
        """The run's result; after `Finish`, the final one."""
        from ..run_result import RunResult  # at the run's end: its import takes longer than all that of a run

        return RunResult(
            text=self._text,
            messages=self.messages,
            tool_calls=[*self._records, *(self._calls.records if self._calls is not None else ())],
            turns=self._turns,
            usage=self._usage,
            model=self._setup.model,
            status=self._status,
            limit=self._limit,
            finish_reason=self._finish_reason,
            requests=self._calls.requests if self._calls is not None else [],
            summaries=list(self._summaries),
            id=self._setup.conversation_id,
            request_ids=list(self._request_ids),
        )

    def abandon(self, *, aborted: bool = False, now: float = 0.0) -> None:
        """End the run where it stands, after an error or a cancel, at `now` in Unix seconds.

        A half response is not part of the transcript. Calls without a result get an explicit one, so that the
        conversation can go on; but questions that were open before this run stay open. After this, `result` is the
        partial one, with status `"error"` and the text of the half response.
        """
        if self._calls is not None:
            self._calls.abandon(also_waiting=self._turns > 0 or self._setup.prompt is not None)
            if self._calls.are_settled:
                self._join_results()
        if self._prompt is not None:
            self._take_prompt(self._prompt)
        turn = self.reading.turn if self.reading is not None else None
        self.reading = None
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
