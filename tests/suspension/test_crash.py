"""A process dies at each boundary of an effect, and another one goes on: no tool ran without a record, none that may
not run twice did, and the model is told what is not known.
"""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import Any

from tests.suspension.crash import STATUS, act, left, open_requests
from tests.suspension.model import model

EVERY = "TOOLNEXUS_EVERY_CRASH" in os.environ
"""Each boundary with each store, client and way to go on; else the eight of them in turn."""
UNKNOWN = "The outcome of the call is unknown: the run ended while it was running."
NOT_RUN = "The call was not run: the run ended before."

THREE_TOOLS = model(
    [("c0", "charge", {"what": "a"}), ("c1", "note", {"what": "b"})],
    [("c2", "charge", {"what": "c"})],
    "Done.",
)
ANSWERED = model(
    [("c0", "ask", {"what": "a"}), ("c1", "guarded", {"what": "b"}), ("c2", "note", {"what": "c"})],
    "Done.",
)


def combinations(number: int) -> list[tuple[str, str, str]]:
    """Store, client, and how it goes on."""
    everything = list(itertools.product(("sqlite", "file"), ("sync", "async"), ("prompt", "resume")))
    return everything if EVERY else [everything[number * 3 % 8]]


def check_left(found: dict[str, Any]) -> None:
    """No tool ran without a record, and none twice that may not."""
    states = dict(found["states"])
    charged = [what for name, what, *_ in found["log"] if name == "charge"]
    assert len(charged) == len(set(charged))
    for name, what, *_ in found["log"]:
        assert states.get(what) in ("started", "finished"), f"{name} {what} ran and is not on record"


def check_end(found: dict[str, Any]) -> None:
    """Every call has one result, and the results say what happened."""
    check_left(found)
    calls = [part for role, *parts in found["transcript"] if role == "assistant" for part in parts if len(part) == 4]
    results = dict(found["results"])
    assert [id for id, _ in found["results"]] == [id for id, *_ in calls]
    ran = {what for _, what, *_ in found["log"]}
    keys: dict[str, set[str]] = {}
    for _, what, key, _ in found["log"]:
        keys.setdefault(what, set()).add(key)
    assert all(len(each) == 1 for each in keys.values())
    for id, name, args, _ in calls:
        told = results[id]
        if args["what"] in ran:
            assert told in (f"charged {args['what']}", f"noted {args['what']}", UNKNOWN)
            assert name != "note" or told == f"noted {args['what']}"
        else:
            assert told in (UNKNOWN, NOT_RUN) or "did not come" in told


def test_a_run_of_three_tools_dies_at_every_boundary(serve, elsewhere, tmp_path):
    url = serve(THREE_TOOLS).url
    whole = elsewhere.run(act, kind="sync", url=url, folder=str(tmp_path), store="sqlite", prompt="Go.")
    passed = whole["passed"]
    check_end(whole["left"])
    assert passed.count("before commit") == 5
    assert [sum(name.startswith(("before charge", "before note")) for name in passed), len(passed)] == [3, 32]
    for at in range(len(passed)):
        for number, (store, kind, how) in enumerate(combinations(at)):
            folder = tmp_path / f"{at} {number}"
            folder.mkdir()
            where = {"kind": kind, "url": url, "folder": str(folder), "store": store}
            status, _ = elsewhere.try_to(act, at=at, prompt="Go.", **where)
            assert status == STATUS
            found = left(store=store, folder=str(folder))
            check_left(found)
            if how == "prompt":
                out = elsewhere.run(act, prompt="Again.", **where)
                assert out["error"] is None
                assert ["user", "Again."] in out["left"]["transcript"]
            else:
                out = elsewhere.run(act, answers=[], **where)
                over = [message[0] for message in found["transcript"]][-1:] == ["assistant"] and "Done." in str(found)
                assert out["error"] == (
                    "AnswerMismatchError" if not found["transcript"] else "ConfigurationError" if over else None
                )
            kept = [("user", "Go.") in found["transcript"], ["user", "Go."] in out["left"]["transcript"]]
            assert kept in ([True, True], [False, False])
            check_end(out["left"])


def test_a_resume_dies_at_every_boundary_and_the_answers_are_used_once(serve, elsewhere, tmp_path):
    url = serve(ANSWERED).url

    def begin(folder: Path, store: str, kind: str) -> list[dict[str, Any]]:
        where = {"kind": kind, "url": url, "folder": str(folder), "store": store}
        out = act(prompt="Go.", **where)
        assert out["error"] is None
        (_, *calls) = out["left"]["transcript"][1]
        assert [state for *_, state in calls] == ["waiting", "waiting", "finished"]
        return [{"id": id, "data": n} for n, id in enumerate(open_requests(store=store, folder=str(folder)))]

    whole = tmp_path / "whole"
    whole.mkdir()
    answers = begin(whole, "sqlite", "sync")
    out = elsewhere.run(act, kind="sync", url=url, folder=str(whole), store="sqlite", answers=answers)
    check_end(out["left"])
    passed = out["passed"]
    assert passed.count("before charge") == 2
    for at in range(len(passed)):
        for number, (store, kind, how) in enumerate(combinations(at)):
            folder = tmp_path / f"{at} {number}"
            folder.mkdir()
            answers = begin(folder, store, kind)
            where = {"kind": kind, "url": url, "folder": str(folder), "store": store}
            status, _ = elsewhere.try_to(act, at=at, answers=answers, **where)
            assert status == STATUS
            check_left(left(store=store, folder=str(folder)))
            again = elsewhere.run(act, answers=answers, **where)
            if again["error"] is not None:
                assert again["error"] == "AnswerMismatchError"  # they were on record: used
                rest: dict[str, Any] = {"prompt": "Again."} if how == "prompt" else {"answers": []}
                again = elsewhere.run(act, **where, **rest)
                assert again["error"] in (None, "ConfigurationError")
            check_end(again["left"])
