"""Configurations: the three shapes, what is taken over, what is refused, and what is never shown."""

from __future__ import annotations

import json
import logging
import pickle
from pathlib import Path
from typing import Any

import pytest

from toolnexus import ConfigurationError, Toolkit
from toolnexus.tools.mcp.config import ServerConfig, Timeouts, read_config
from toolnexus.tools.mcp.variables import MissingVariableError, Redaction, fill

ENTRY = {"command": "npx", "args": ["-y", "thing"], "env": {"N": 1}}


def one(**entry: Any) -> ServerConfig:
    (config,) = read_config({"s": {"command": "x", **entry}})
    return config


def web(**entry: Any) -> ServerConfig:
    (config,) = read_config({"s": {"url": "https://host/mcp", **entry}})
    return config


@pytest.mark.parametrize(
    "shape",
    [
        lambda servers: servers,
        lambda servers: {"mcpServers": servers},
        lambda servers: {"servers": servers, "inputs": []},
        lambda servers: {"mcp": servers, "model": "x"},
        lambda servers: {"mcp": {"servers": servers}},
    ],
)
def test_each_shape_names_the_same_servers(shape: Any, tmp_path: Path) -> None:
    data = shape({"a b": ENTRY, "web": {"type": "http", "url": "https://host/mcp", "headers": {"X": "y"}}})
    path = tmp_path / "mcp.json"
    path.write_text("\ufeff" + json.dumps(data), encoding="utf-8")
    for given in (data, path, str(path)):
        local, remote = read_config(given)
        assert (local.name, local.command, local.env, local.transport) == (
            "a b",
            ("npx", "-y", "thing"),
            {"N": "1"},
            "stdio",
        )
        assert (remote.name, remote.url, remote.headers, remote.transport) == (
            "web",
            "https://host/mcp",
            {"X": "y"},
            "http",
        )


def test_a_server_may_be_called_like_a_shape() -> None:
    assert [config.name for config in read_config({"mcp": ENTRY, "servers": ENTRY})] == ["mcp", "servers"]


def test_entries_of_other_programs_are_understood() -> None:
    opencode = one(type="local", command=["npx", "x"], environment={"A": "b"}, timeout=2500)
    assert (opencode.command, opencode.env, opencode.timeouts.list) == (("npx", "x"), {"A": "b"}, 2.5)
    assert web(type="remote", enabled=False).enabled is False
    assert one(disabled=True, alwaysAllow=["a"], description="d").enabled is False
    assert one(tools=["a", "b*"]).allow == ("a", "b*")
    (windsurf,) = read_config({"s": {"serverUrl": "http://127.0.0.1:1/mcp"}})
    assert windsurf.transport == "http"


def test_our_own_options() -> None:
    config = one(
        allow=["read_*"], approval=["write"], timeout={"call": 3}, accept_changes=True, protocol="legacy", cwd="/"
    )
    assert config.timeouts == Timeouts(call=3)
    assert [config.allows(name) for name in ("read_it", "write")] == [True, False]
    assert [config.needs_approval(name) for name in ("read_it", "write")] == [False, True]
    assert (config.accept_changes, config.protocol, config.cwd) == (True, "legacy", "/")
    plain = one(timeout=7)
    assert (plain.timeouts.connect, plain.timeouts.list, plain.timeouts.call, plain.timeouts.answer) == (7, 7, 7, 600)
    assert plain.allows("anything")
    assert one(allow=[]).allows("anything") is False
    assert one(approval=True).needs_approval("anything")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (5, "mcp: expected the path of a JSON file or a dict, got 5"),
        ({"mcpServers": {"s": ENTRY}, "servers": {"t": ENTRY}}, "mcp: expected one of .*, got mcpServers and servers"),
        ({"model": "x"}, "mcp: expected mcpServers, servers, mcp or servers by name, got the keys model"),
        ({"mcpServers": {"s": 5}}, r"mcp.mcpServers.s: expected an object with 'command' or 'url'"),
        ({"mcpServers": {"": ENTRY}}, "expected an object with"),
        ({"mcpServers": {"s": {"args": []}}}, r"mcp.mcpServers.s.command: expected the program to start, got none"),
        ({"s": {"command": "x", "type": "carrier pigeon"}}, "mcp.s.type: expected 'stdio' or 'http', got"),
        ({"s": {"command": "x", "args": "y"}}, "mcp.s.args: expected a list of texts, got str"),
        ({"s": {"command": "x", "args": ["\0"]}}, "mcp.s.command: expected a program and its arguments, without NUL"),
        ({"s": {"command": ""}}, "mcp.s.command: expected a program"),
        ({"s": {"command": "x", "env": ["KEY=secret"]}}, "^mcp.s.env: expected an object of texts$"),
        ({"s": {"command": "x", "env": {"KEY": {"secret": 1}}}}, "^mcp.s.env: expected an object of texts$"),
        ({"s": {"command": "x", "cwd": 5}}, "mcp.s.cwd: expected a text, got 5"),
        ({"s": {"command": "x", "timeout": 0}}, "mcp.s.timeout: expected seconds above 0, got 0"),
        ({"s": {"command": "x", "timeout": True}}, "mcp.s.timeout: expected seconds above 0, got True"),
        ({"s": {"command": "x", "timeout": {"call": "5"}}}, "mcp.s.timeout.call: expected seconds above 0, got '5'"),
        ({"s": {"command": "x", "timeout": {"read": 5}}}, "expected some of connect, list, call, answer, got read"),
        ({"s": {"command": "x", "enabled": "no"}}, "mcp.s.enabled: expected true or false, got 'no'"),
        ({"s": {"command": "x", "accept_changes": 1}}, "mcp.s.accept_changes: expected true or false, got 1"),
        ({"s": {"command": "x", "protocol": "2024"}}, "mcp.s.protocol: expected 'auto' or 'legacy', got '2024'"),
        ({"s": {"command": "x", "allow": ["a"], "tools": ["b"]}}, "mcp.s: expected one list of the tools"),
        ({"s": {"command": "x", "allow": "a"}}, "mcp.s.allow: expected a list of texts, got str"),
        ({"s": {"command": "x", "approval": 1}}, "mcp.s.approval: expected a list of texts, got int"),
        ({"s": {"url": "ftp://host/?key=secret"}}, "^mcp.s.url: expected an address such as 'https://host/mcp'$"),
        ({"s": {"url": "http://ho\nst/"}}, "^mcp.s.url: expected an address"),
        ({"s": {"url": "https://host", "headers": {"A": "secret\r\nB: c"}}}, "without line breaks, see 'A'$"),
        ({"s": {"url": "https://host", "headers": {"A B": "c"}}}, "without line breaks, see 'A B'$"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_its_place(given: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        read_config(given)
    with pytest.raises(ConfigurationError, match=message):
        Toolkit(mcp=given)


@pytest.mark.parametrize("content", ["{", "[]", "", "\u0000", "[" * 100_000])
def test_a_file_that_is_none_is_refused(content: str, tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text(content)
    with pytest.raises(ConfigurationError, match=r"mcp\.json"):
        read_config(path)
    with pytest.raises(ConfigurationError, match=r"nothing\.json"):
        read_config(tmp_path / "nothing.json")


def test_what_is_not_known_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    one(alow=["x"], envFile=".env")
    assert [record.getMessage() for record in caplog.records] == [
        "mcp.s: ignored what is not known here: alow, envFile"
    ]
    caplog.clear()
    one(args=["${workspaceFolder}"])
    web(url="https://host/${KEY}")
    assert [record.getMessage().split(":")[0] for record in caplog.records] == ["mcp.s.args[0]", "mcp.s.url"]
    caplog.clear()
    one(description="d", icon="i", autoApprove=[])
    assert caplog.records == []


def test_the_replaced_transport_is_a_problem_of_its_server_alone() -> None:
    sse = web(type="sse")
    assert sse.problem is not None
    with Toolkit(mcp={"old": {"url": "http://127.0.0.1:1/sse", "type": "sse"}}) as kit:
        status = kit.status()["old"]
        assert (status.state, "streamable HTTP" in str(status.error), kit.tools()) == ("failed", True, ())


def test_no_value_that_may_be_secret_is_in_a_repr() -> None:
    for config in (
        one(args=["--key=s3cret"], env={"K": "s3cret"}),
        web(url="https://u:s3cret@h/", headers={"A": "s3cret"}),
    ):
        assert "s3cret" not in repr(config)
    kit = Toolkit(mcp={"s": {"command": "x", "env": {"K": "s3cret"}}})
    assert "s3cret" not in repr(kit) + repr(kit.status())
    with pytest.raises(Exception, match=r"pickle|lock"):
        pickle.dumps(kit)


def test_variables_are_filled_in() -> None:
    values = {"A": "Bearer ${KEY}", "B": "${env:KEY}${KEY}", "C": "${NOT:-x}", "D": "$KEY {KEY}", "E": "${EMPTY:-x}"}
    assert fill(values, {"KEY": "k", "EMPTY": ""}, "headers") == {
        "A": "Bearer k", "B": "kk", "C": "x", "D": "$KEY {KEY}", "E": ""
    }  # fmt: skip
    with pytest.raises(MissingVariableError, match=r"headers\.A: the environment variable 'KEY' is not set"):
        fill(values, {}, "headers")
    with pytest.raises(
        MissingVariableError, match=r"env\.A: expected \$\{NAME\} of an environment variable, got '\$\{input:key\}'"
    ):
        fill({"A": "${input:key}"}, {}, "env")
    assert fill({"A": "${KEY}"}, {"KEY": "${OTHER}"}, "env") == {"A": "${OTHER}"}  # once, not again and again


def test_redaction_takes_out_whole_values_and_their_words() -> None:
    redact = Redaction(["Bearer abcdef", "abcd", "1"])
    assert redact("Bearer abcdef, abcdef, abcd, 1") == "[redacted], [redacted], [redacted], 1"


def test_a_missing_variable_is_a_problem_of_its_server_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("NOT_SET", raising=False)
    caplog.set_level(logging.DEBUG)
    with Toolkit(mcp={"s": {"url": "http://127.0.0.1:1/", "headers": {"A": "${NOT_SET}"}}}) as kit:
        assert kit.status()["s"].error == "headers.A: the environment variable 'NOT_SET' is not set"
    assert [record.levelname for record in caplog.records if record.name == "toolnexus.mcp"] == ["WARNING"]
