"""The calls of one model response on their way to a result, and the questions that they wait for.

    open ─────► started ─────► finished      its result joins the transcript
     ▲ └──┐        │
     │    ▼        ▼
     └── open, with a request                the answer lets the call begin again

Where each one is stands on its part of the transcript and nowhere else. So the transcript is enough to carry on, in
this process or in another: a call that is found open may begin, one with a request waits on, and of one that is found
started nobody knows what it did.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .._copies import copied
from ..errors import AnswerMismatchError, ConfigurationError
from ..events import PendingEvent, StreamEvent, ToolCallEvent, ToolResultEvent
from ..limits import Limits
from ..messages import Message, ToolCallPart, ToolResultPart
from ..results import ToolCallRecord
from ..suspension import Answer, CallJournal, GivenAnswer, Pending, Request, RequestCall
from ..tool import Tool, ToolResult
from .commands import TOOL, AdmitTools, Gate, RunTools, ToolCall, ToolOutcome, WaitFor
from .payload import well_formed
from .transcript import OpenTurn, closing_result, finished, result_part
from .turn import CUT_REASONS


@dataclass(slots=True, eq=False)
class _Call:
    slot: int
    part: ToolCallPart
    tool: Tool | None
    journal: CallJournal
    """What the part says, as long as the call has no result."""
    args: dict[str, Any]
    """What the tool is called with: the part's arguments, unless a hook changed them."""
    is_admitted: bool = False
    result: ToolResultPart | None = None
    record: ToolCallRecord | None = None
    duration: float = 0.0

    @property
    def was_interrupted(self) -> bool:
        """Whether an earlier process started it and did not live to see its end."""
        return self.part.state == "started" and self.part.request is None

    @property
    def may_run_again(self) -> bool:
        return self.was_interrupted and self.tool is not None and self.tool.idempotent

    def note(self, journal: CallJournal, **changes: Any) -> None:
        """Write down where the call is: on its part, which changes besides."""
        self.part = replace(self.part, journal=journal, **changes)
        self.journal = journal


class Calls:
    """The calls of one response; `command` says what they want next.

    Args:
        asking: The message that asks for them.
        tools: What can be run, by name.
        key: Makes their idempotency keys unlike those of other responses.
        turn: The response's number in this run; 0 for one of an earlier run.
        is_hooked: Whether hooks look at each call before it runs.
    """

    def __init__(
        self, asking: Message, tools: Mapping[str, Tool], limits: Limits, *, key: str, turn: int, is_hooked: bool
    ) -> None:
        self._asking = asking
        self._limits = limits
        self._turn = turn
        self._tools = tools
        self._is_hooked = is_hooked
        self._calls: list[_Call] = []
        for slot, part in enumerate(asking.tool_calls):
            journal = part.journal or CallJournal(f"{key}/{slot}")
            self._calls.append(_Call(slot, part, tools.get(part.name), journal, part.args))
        self._batch: list[_Call] = []
        """Those that are being admitted or run now, and of which nothing was heard yet."""

    @classmethod
    def restored(cls, turn: OpenTurn, tools: Mapping[str, Tool], limits: Limits, *, key: str, is_hooked: bool) -> Calls:
        """The calls of an earlier run, as its transcript left them."""
        calls = cls(turn.asking, tools, limits, key=key, turn=0, is_hooked=is_hooked)
        for slot, result in turn.results.items():
            call = calls._calls[slot]
            call.result, call.part = result, finished(call.part)
        return calls

    # -- what there is to do

    @property
    def are_settled(self) -> bool:
        """Whether each has its result."""
        return not self._unsettled()

    @property
    def are_under_way(self) -> bool:
        """Whether some are being admitted or run."""
        return bool(self._batch)

    @property
    def requests(self) -> list[Request]:
        """The open questions, in the order of the calls; copies, since they go out to whoever answers."""
        return [copied(call.part.request) for call in self._calls if call.part.request is not None]

    @property
    def command(self) -> AdmitTools | RunTools | WaitFor:
        """What to do now, if they are not settled."""
        unadmitted = [call for call in self._batch if not call.is_admitted]
        if unadmitted:
            return AdmitTools(tuple(self._order(call) for call in unadmitted))
        if self._batch:
            return RunTools(tuple(self._order(call) for call in self._batch))
        return WaitFor(self.requests[0])

    def begin(self) -> bool:
        """Take up the calls that nothing keeps from running.

        Returns:
            Whether there are any.
        """
        ready = [call for call in self._unsettled() if call.part.request is None]
        self._batch = _first_batch(ready)
        for call in self._batch:
            call.args = call.part.args
            call.is_admitted = not (self._is_hooked or (call.tool is not None and call.tool.approval))
        return bool(self._batch)

    def start(self) -> bool:
        """Let the batch run, if every call of it is admitted.

        Returns:
            Whether this changed what is on record.
        """
        if not all(call.is_admitted for call in self._batch):
            return False
        fresh = [call for call in self._batch if call.part.state != "started"]
        for call in fresh:
            call.note(call.journal, state="started")
        return bool(fresh)

    def _order(self, call: _Call) -> ToolCall:
        assert call.tool is not None  # a call without a tool is settled, or refused before it is taken up
        journal = call.journal
        return ToolCall(
            call.slot, call.part.id, call.tool, call.args, self._turn, journal.key, journal.given, journal.memo
        )

    # -- what happens to them

    def announce(self) -> list[StreamEvent]:
        """What there is to tell of them when their response is complete."""
        return [ToolCallEvent(c.part.id, c.part.name, copied(c.part.args), c.part.error) for c in self._calls]

    def refuse(self, finish_reason: str | None) -> list[StreamEvent]:
        """Settle those that must not run, in a response that ended so."""
        unasked = [call for call in self._unsettled() if call.part.request is None]
        return [event for call in unasked for event in self._refused(call, finish_reason)]

    def _refused(self, call: _Call, finish_reason: str | None) -> list[StreamEvent]:
        if finish_reason in CUT_REASONS:
            why = f"The call was not run: the response ended with finish reason {finish_reason!r}."
        elif call.part.error:
            why = f"The call was not run: {call.part.error}. Send it again with one valid JSON object."
        elif call.tool is None:
            known = ", ".join(self._tools) or "none"
            why = f"There is no tool named {call.part.name!r}. Tools: {known}."
        else:
            return []
        return self._settle(call, ToolResult(why, is_error=True))

    def admitted(self, slot: int, args: dict[str, Any]) -> None:
        """Nothing stands in the way of a call any more; it is to run with `args`."""
        call = self._expected(slot, admitted=False)
        call.args, call.is_admitted = args, True

    def finished(self, outcome: ToolOutcome) -> list[StreamEvent]:
        """A call of the current command has a result, or waits for an answer."""
        call = self._expected(outcome.slot, admitted=all(call.is_admitted for call in self._batch))
        self._batch.remove(call)
        call.duration += outcome.duration
        if isinstance(outcome.value, ToolResult):
            return self._settle(call, outcome.value)
        args = call.args if outcome.args is None else outcome.args
        return self._suspend(call, outcome.value, outcome.gate, args)

    def _expected(self, slot: int, *, admitted: bool) -> _Call:
        """The call of this slot, which the current command names: those that are not admitted, or else all."""
        for call in self._batch:
            if call.slot == slot and call.is_admitted is admitted:
                return call
        raise RuntimeError(f"no call of slot {slot} is being {'admitted or run' if admitted else 'admitted'}")

    def check(self, answers: Sequence[Answer], *, can_wait: bool) -> None:
        """Refuse answers that cannot be taken, before any is.

        Args:
            can_wait: Whether requests that these leave open will be answered, too.

        Raises:
            AnswerMismatchError: One names no open request, or two name the same.
            ConfigurationError: A call would run whose tool is not there.
        """
        asked = [request.id for request in self.requests]
        ids = [answer.id for answer in answers]
        wrong = next((id for id in ids if id not in asked or ids.count(id) > 1), None)
        if wrong is not None:
            why = "is answered twice" if wrong in asked else "is not open; it may have been answered before"
            raise AnswerMismatchError(f"request {wrong!r} {why}. Open requests: {asked}. Nothing was changed.")
        agrees = {answer.id: answer.ok for answer in answers}
        for call in self._unsettled():
            request = call.part.request
            goes_on = call.part.state == "open" if request is None else agrees.get(request.id, can_wait)
            if goes_on and call.tool is None and not call.part.error:
                raise ConfigurationError(
                    f"toolkit: the call {call.part.id!r} of the conversation is to go on, but its tool "
                    f"{call.part.name!r} is not among {sorted(self._tools)}. Nothing was changed."
                )

    def answered(self, id: str, answer: Answer, now: float) -> list[StreamEvent]:
        """What came for the request of this id is `answer`, at `now` in Unix seconds."""
        call, request = self._waiting(id)
        if answer.id != id:
            return self.unanswered(id, f"the answer names request {answer.id!r}, not {id!r}")
        if request.expires_at is not None and now >= request.expires_at:
            return self.unanswered(id, "the request has expired")
        gate = call.journal.gate or TOOL
        if not answer.ok and not (gate == TOOL and call.tool is not None and call.tool.hears_declines):
            return self.unanswered(id, f"declined{f': {answer.reason}' if answer.reason else ''}")
        shown = request.call.args if request.call is not None else call.part.args
        given = {**call.journal.given, gate: GivenAnswer(answer, shown)}
        call.note(replace(call.journal, given=given, gate=None), request=None)
        return []

    def unanswered(self, id: str, why: str) -> list[StreamEvent]:
        """There is no answer to the request of this id, and there will be none."""
        text = well_formed(f"The call did not go on: {why}.")
        return self._settle(self._waiting(id)[0], ToolResult(text, is_error=True))

    def give_up_unknown(self) -> list[StreamEvent]:
        """Settle those of which nobody knows what they did; one whose tool may run again does."""
        lost = [call for call in self._unsettled() if call.was_interrupted and not call.may_run_again]
        return [event for call in lost for event in self._close(call)]

    def give_up_all(self) -> None:
        """The conversation goes on without them, except those that were interrupted and may run again."""
        for call in self._unsettled():
            if not call.may_run_again:
                self._close(call)
                call.record = None  # no doing of this run

    def abandon(self, *, also_waiting: bool) -> list[StreamEvent]:
        """The run does not get to them: whatever has no result gets an explicit one."""
        self._batch = []
        ending = [call for call in self._unsettled() if also_waiting or call.part.request is None]
        return [event for call in ending for event in self._close(call)]

    def _waiting(self, id: str) -> tuple[_Call, Request]:
        return next((c, c.part.request) for c in self._calls if c.part.request is not None and c.part.request.id == id)

    def _suspend(self, call: _Call, value: Pending, gate: Gate, args: dict[str, Any]) -> list[StreamEvent]:
        asked = call.journal.asked
        id = value.id or f"{call.journal.key}/{len(asked)}"
        if id in asked or any(id == request.id for request in self.requests):
            which = "asked again for" if id in asked else "asked for an answer under the id of another call's"
            return self._settle(call, ToolResult(f"The tool {which} request {id!r}.", is_error=True))
        if len(asked) >= self._limits.suspensions_per_call:
            text = f"The tool asked for more than {self._limits.suspensions_per_call} answers."
            return self._settle(call, ToolResult(text, is_error=True))
        request = Request(
            id=id,
            kind=value.kind,
            prompt=value.prompt,
            url=value.url,
            data=value.data,
            expires_at=value.expires_at,
            call=RequestCall(call.part.id, call.part.name, copied(args)),
        )
        # An answer that the tool has seen is used up; those that opened the way to it hold.
        given = {by: answer for by, answer in call.journal.given.items() if not by == gate == TOOL}
        memo = value.memo if gate == TOOL else call.journal.memo
        journal = replace(call.journal, asked=(*asked, id), gate=gate, given=given, memo=memo)
        call.note(journal, state="open", request=request)
        return [PendingEvent(copied(request))]

    def _settle(self, call: _Call, result: ToolResult) -> list[StreamEvent]:
        result = _bounded(result, self._limits.tool_output_bytes)
        text = result.text
        record = ToolCallRecord(
            id=call.part.id,
            name=call.part.name,
            args=call.part.args,
            output=text,
            is_error=result.is_error,
            metadata=result.metadata,
            duration=call.duration,
        )
        # In one step: an interrupt in the middle would leave a result that no record tells of.
        call.record, call.part, call.result = record, finished(call.part), result_part(call.part, result)
        return [ToolResultEvent(call.part.id, call.part.name, text, result.is_error)]

    def _close(self, call: _Call) -> list[StreamEvent]:
        return self._settle(call, ToolResult(closing_result(call.part).output, is_error=True))

    # -- what there is to show

    def _unsettled(self) -> list[_Call]:
        return [call for call in self._calls if call.result is None]

    @property
    def messages(self) -> list[Message]:
        """The message that asks for them as it stands, and the results, in the model's order."""
        parts = iter(self._calls)
        asking = [next(parts).part if isinstance(part, ToolCallPart) else part for part in self._asking.parts]
        results = [Message("tool", (call.result,)) for call in self._calls if call.result is not None]
        return [Message("assistant", asking), *results]

    @property
    def records(self) -> list[ToolCallRecord]:
        """Those that were settled in this run."""
        return [call.record for call in self._calls if call.record is not None]


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
