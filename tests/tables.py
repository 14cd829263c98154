"""The tables of `tests/data` with their bytes decoded."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data"


def sse_cases() -> list[dict[str, Any]]:
    """Event streams: `bytes`, and the `expected` events."""
    return [{**case, "bytes": _bytes(case, "bytes_b64")} for case in _cases("sse_cases.json")]


def json_cases() -> list[dict[str, Any]]:
    """JSON texts: `bytes`, and whether they pass as a payload (`stream`) and as arguments (`args`)."""
    return [{**case, "bytes": _bytes(case, "raw_b64")} for case in _cases("json_cases.json")]


def retry_after_cases() -> list[dict[str, Any]]:
    """Headers of an error reply, the time `now`, and the `delay` that follows."""
    cases = _cases("retry_after_cases.json")
    for case in cases:
        if "build_header" in case:
            name, unit, count = case["build_header"]
            case["headers"][name] = unit * count
    return cases


def wire_cases(style: str = "openai") -> list[dict[str, Any]]:
    """Whole runs: what a server of this style sends, and what must come of it."""
    cases = [json.loads(path.read_text("utf-8")) for path in sorted((DATA / "wire_cases").glob("*.json"))]
    return [case for case in cases if case.get("style", "openai") == style]


def _cases(name: str) -> list[dict[str, Any]]:
    cases: list[dict[str, Any]] = json.loads((DATA / name).read_text("utf-8"))["cases"]
    return cases


def _bytes(case: dict[str, Any], key: str) -> bytes:
    if key in case:
        return base64.b64decode(case[key])
    return b"".join(base64.b64decode(unit) * count for unit, count in case["build"])
