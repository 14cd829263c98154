"""Whatever is done with one conversation, in any order, by two clients that share no more than a file.

What must hold: each request is one that the API takes (the model refuses others); each run of a tool is on record, and
none happens twice; no answer is used twice; what a user said is in the transcript, in order.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from tests.clients.harness import Client, new_client
from tests.server import Request, Response, Server
from tests.suspension.harness import RAN, TOOLS, yes
from tests.suspension.model import model
from toolnexus import (
    Answer,
    AnswerMismatchError,
    Cancel,
    ConfigurationError,
    ConversationConflictError,
    Message,
    RunCancelledError,
    RunResult,
    SQLiteStore,
    StoreError,
    ToolResultPart,
)

EXAMPLES = int(os.environ.get("TOOLNEXUS_STATE_MACHINES", "25"))
NAMES = ("ask", "ask", "insist", "delete", "look")
plans = st.lists(st.sampled_from(NAMES), max_size=3)
# What is drawn never depends on what is there: two that act at once decide among themselves who was first.
picks = st.lists(st.integers(0, 11), min_size=1, max_size=3)


def says(request: Request) -> Response:
    """Asks for the calls that the last prompt wants, and is done when it sees results; refuses what the API would."""
    messages = request.json["messages"]
    if messages[-1]["role"] == "tool":
        return model("Done.")(request)
    content = messages[-1]["content"]
    text = content if isinstance(content, str) else content[-1]["text"]
    calls = [tuple(call) for call in json.loads(text.rsplit("\n", 1)[-1])]
    return model(calls if calls else "Nothing to do.")(request)


class FailingStore(SQLiteStore):
    """Fails at a save that is still to come."""

    fails_in = 0

    def commit(self, id: str, base: Any, messages: Sequence[Message], /) -> Any:
        self.fails_in -= 1
        if self.fails_in == 0:
            raise OSError("disk full")
        return super().commit(id, base, messages)


class Talk(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        RAN.clear()
        self.closing = contextlib.ExitStack()
        folder = Path(self.closing.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
        self.server = self.closing.enter_context(Server(says))
        self.third = self.closing.enter_context(SQLiteStore(folder / "t.db"))
        self.stores = [FailingStore(folder / "t.db"), FailingStore(folder / "t.db")]
        self.clients: list[Client] = []
        for kind, store in zip(("sync", "async"), self.stores, strict=True):
            self.clients.append(new_client(kind, self.server, store=store))
            self.closing.enter_context(store)
            self.closing.push(self.clients[-1])
        self.count = 0
        self.said: list[str] = []
        """Prompts that must be there."""
        self.perhaps: set[str] = set()
        """Prompts of runs that could not be saved to their end."""
        self.asked: set[str] = set()
        """Requests that ever were open."""

    def teardown(self) -> None:
        self.closing.close()

    # -- what is on record

    @property
    def messages(self) -> list[Message]:
        return self.third.get("t") or []

    @property
    def open(self) -> list[Any]:
        return [call.request for m in self.messages for call in m.tool_calls if call.request is not None]

    def prompt(self, plan: list[str]) -> str:
        calls = []
        for name in plan:
            self.count += 1
            args: dict[str, Any] = {"path" if name == "delete" else "what": f"{name} {self.count}"}
            calls.append((f"c{self.count}", name, args | ({"times": 2} if name == "insist" else {})))
        self.count += 1
        return f"Prompt {self.count}\n{json.dumps(calls)}"

    def done(self, result: RunResult) -> None:
        """A run ended well, and this is what it says is open."""
        assert [request.id for request in result.requests] == [request.id for request in self.open]
        assert (result.status == "pending") == bool(result.requests)
        self.asked.update(request.id for request in result.requests)

    # -- what may be done

    @rule(who=st.integers(0, 1), plan=plans, streams=st.booleans())
    def say(self, who: int, plan: list[str], streams: bool) -> None:
        prompt = self.prompt(plan)
        method = self.clients[who].stream if streams else self.clients[who].ask
        result = method(prompt, TOOLS, id="t")
        self.said.append(prompt)
        self.done(result)

    @rule(who=st.integers(0, 1), plan=plans, events=st.integers(1, 6))
    def say_and_cancel(self, who: int, plan: list[str], events: int) -> None:
        prompt, cancel, seen = self.prompt(plan), Cancel(), []

        def on_event(event: Any) -> None:
            seen.append(event)
            if len(seen) == events:
                cancel.cancel()

        with contextlib.suppress(RunCancelledError):
            self.clients[who].stream(prompt, TOOLS, on_event, "t", cancel=cancel)
        self.said.append(prompt)
        self.asked.update(request.id for request in self.open)

    @rule(who=st.integers(0, 1), plan=plans, saves=st.integers(1, 4))
    def say_with_a_failing_save(self, who: int, plan: list[str], saves: int) -> None:
        prompt = self.prompt(plan)
        with self.failing(who, saves) as failed:
            self.clients[who].stream(prompt, TOOLS, id="t")
        (self.perhaps.add if failed else self.said.append)(prompt)
        self.asked.update(request.id for request in self.open)

    @contextlib.contextmanager
    def failing(self, who: int, saves: int) -> Any:
        failed: list[StoreError] = []
        self.stores[who].fails_in = saves
        try:
            yield failed
        except StoreError as error:
            failed.append(error)
        finally:
            self.stores[who].fails_in = 0

    @rule(plans=st.tuples(plans, plans))
    def two_say_at_once(self, plans: tuple[list[str], list[str]]) -> None:
        prompts = [self.prompt(plan) for plan in plans]
        errors: dict[str, Exception] = {}

        def work(client: Client, prompt: str) -> None:
            try:
                client.stream(prompt, TOOLS, id="t")
            except ConversationConflictError as error:
                errors[prompt] = error

        threads = [threading.Thread(target=work, args=pair) for pair in zip(self.clients, prompts, strict=True)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(errors) < 2  # somebody was first
        users = [message.text for message in self.messages if message.role == "user"]
        landed = sorted((p for p in prompts if p not in errors), key=lambda p: users.index(p) if p in users else -1)
        self.said += landed
        self.perhaps.update(errors)
        self.asked.update(request.id for request in self.open)

    @rule(who=st.integers(0, 1), picks=picks, agrees=st.booleans(), streams=st.booleans())
    def answer(self, who: int, picks: list[int], agrees: bool, streams: bool) -> None:
        chosen = self.choose(picks)
        if not chosen:
            return
        answers = [yes(request) if agrees else Answer(request.id, ok=False) for request in chosen]
        if streams:
            with self.clients[who].resume_stream(answers, TOOLS, id="t") as events:
                for _ in events:
                    pass
                result = events.result
        else:
            result = self.clients[who].resume(answers, TOOLS, id="t")
        assert not {request.id for request in chosen} & {request.id for request in self.open}
        self.done(result)

    @rule(who=st.integers(0, 1), picks=picks, saves=st.integers(1, 4))
    def answer_with_a_failing_save(self, who: int, picks: list[int], saves: int) -> None:
        chosen = self.choose(picks)
        if not chosen:
            return
        with self.failing(who, saves) as failed:
            self.clients[who].resume(list(map(yes, chosen)), TOOLS, id="t")
        still = {request.id for request in self.open}
        if failed and saves == 1:
            assert {request.id for request in chosen} <= still  # nothing was taken
        self.asked |= still

    @rule(picks=picks)
    def two_answer_at_once(self, picks: list[int]) -> None:
        chosen = list(map(yes, self.choose(picks)))
        if not chosen:
            return
        refused: list[Exception] = []

        def work(client: Client) -> None:
            try:
                client.resume(chosen, TOOLS, id="t")
            except (ConversationConflictError, AnswerMismatchError) as error:
                refused.append(error)

        threads = [threading.Thread(target=work, args=(client,)) for client in self.clients]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(refused) >= 1  # at most one of them is used
        self.asked.update(request.id for request in self.open)

    @rule(who=st.integers(0, 1), picks=picks)
    def answer_what_is_not_open(self, who: int, picks: list[int]) -> None:
        used = sorted(self.asked - {request.id for request in self.open})
        wrong = [*used, "never asked"][picks[0] % (len(used) + 1)]
        before, ran, requests = self.messages, len(RAN), len(self.server.requests)
        answers = [Answer(wrong), *(yes(request) for request in self.open)]
        self.refuses(lambda: self.clients[who].resume(answers, TOOLS, id="t"), AnswerMismatchError)
        assert (self.messages, len(RAN), len(self.server.requests)) == (before, ran, requests)

    @rule(who=st.integers(0, 1))
    def carry_on_without_an_answer(self, who: int) -> None:
        before = self.messages
        if not before or (before[-1].role == "assistant" and not before[-1].tool_calls):
            kind = ConfigurationError if before else AnswerMismatchError
            self.refuses(lambda: self.clients[who].resume([], TOOLS, id="t"), kind)
        else:
            self.done(self.clients[who].resume([], TOOLS, id="t"))

    def refuses(self, act: Callable[[], object], kind: type[Exception]) -> None:
        with pytest.raises(kind):
            act()

    def choose(self, picks: list[int]) -> list[Any]:
        """Some of what is open, if anything is."""
        open = self.open
        return [open[n] for n in sorted({pick % len(open) for pick in picks})] if open else []

    # -- what must hold

    @invariant()
    def every_tool_run_is_on_record_and_none_happened_twice(self) -> None:
        states = {call.args.get("what", call.args.get("path")): call for m in self.messages for call in m.tool_calls}
        for name, what, _ in RAN:
            assert what in states, f"{name} {what} ran and is not on record"
        assert [run for run, times in Counter(RAN).items() if times > 1] == []

    @invariant()
    def the_transcript_has_what_the_user_said(self) -> None:
        users = [message.text for message in self.messages if message.role == "user"]
        assert [text for text in users if text not in self.perhaps] == self.said
        assert len(users) == len(set(users))

    @invariant()
    def every_call_that_is_closed_has_one_result(self) -> None:
        calls = [call for m in self.messages for call in m.tool_calls]
        results = [p.id for m in self.messages for p in m.parts if isinstance(p, ToolResultPart)]
        assert len(results) == len(set(results))
        assert set(results) == {call.id for call in calls if call.state == "finished"}


def test_nothing_is_lost_and_nothing_happens_twice() -> None:
    run_state_machine_as_test(
        Talk,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=20,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            print_blob=True,
        ),
    )
