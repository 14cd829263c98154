"""What a client's arguments become: the endpoint, the key, the timeouts."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import httpx
import pytest

from toolnexus.config import ClientConfig, Secret, Timeouts
from toolnexus.errors import APIStatusError, ConfigurationError, ToolnexusError

KEY = "sk-CANARY"


def config(**options: Any) -> ClientConfig:
    defaults: dict[str, Any] = {
        "base_url": "http://127.0.0.1:8080/v1",
        "style": "openai",
        "model": "m",
        "api_key": None,
        "auth_token": None,
        "anthropic_version": "2023-06-01",
        "headers": None,
        "query": None,
        "system_prompt": None,
        "max_turns": 10,
        "retries": 2,
        "retry_base": 0.5,
        "max_retry_after": 60,
        "timeout": None,
        "progress_timeout": None,
        "deadline": None,
        "request_params": None,
        "body_transform": None,
        "split_think_tags": False,
        "limits": None,
    }
    return ClientConfig.create(**{**defaults, **options})


ENDPOINTS = {
    ("openai", "http://h"): "http://h/chat/completions",
    ("openai", "http://h/v1"): "http://h/v1/chat/completions",
    ("openai", "http://h/v1///"): "http://h/v1/chat/completions",
    ("openai", "http://h/v1/chat/completions"): "http://h/v1/chat/completions",
    ("openai", "http://[::1]:80/v1"): "http://[::1]:80/v1/chat/completions",
    ("openai", "HTTPS://H:8443/v1#part"): "https://H:8443/v1/chat/completions",
    ("openai", None): "https://api.openai.com/v1/chat/completions",
    ("anthropic", "http://h"): "http://h/v1/messages",
    ("anthropic", "http://h/"): "http://h/v1/messages",
    ("anthropic", "http://h/v1"): "http://h/v1/messages",
    ("anthropic", "http://h/v1/"): "http://h/v1/messages",
    ("anthropic", "http://h/v1/messages"): "http://h/v1/messages",
    ("anthropic", "http://h/proxy/anthropic"): "http://h/proxy/anthropic/v1/messages",
    ("anthropic", None): "https://api.anthropic.com/v1/messages",
}


@pytest.mark.parametrize(("given", "url"), ENDPOINTS.items(), ids=str)
def test_a_base_url_becomes_the_address_of_the_endpoint(given, url):
    style, base_url = given
    assert config(style=style, base_url=base_url).url == url


@pytest.mark.parametrize("style", ["openai", "anthropic"])
def test_the_query_of_base_url_comes_before_the_other(style):
    made = config(style=style, base_url="http://h/v1?a=1&b=&a=2", query={"c": "3"})
    assert made.query == (("a", "1"), ("b", ""), ("a", "2"), ("c", "3"))


HINTS = {
    "a path that is not there": (404, {}, "are base_url and model right? POST http://127.0.0.1:8080/v1/chat/comp"),
    "no path at all": (404, {"base_url": "http://h"}, "are base_url (it has no path; most servers want /v1) and model"),
    "no path, in the style without one": (404, {"base_url": "http://h", "style": "anthropic"}, "are base_url and"),
    "no key": (401, {}, "no api_key was given, and OPENAI_API_KEY is not set"),
    "no key of OpenRouter": (
        401,
        {"base_url": "https://openrouter.ai/api/v1"},
        "no api_key was given, and OPENROUTER_",
    ),
    "no key of Anthropic": (403, {"style": "anthropic"}, "no api_key was given, and ANTHROPIC_API_KEY is not set"),
}


@pytest.mark.parametrize(("status", "options", "begins"), HINTS.values(), ids=HINTS)
def test_after_an_error_of_the_caller_a_hint_says_where_to_look(status, options, begins):
    hint = config(**options).hint(status)
    assert hint.startswith(begins)


@pytest.mark.parametrize(
    ("status", "options"),
    [
        (401, {"api_key": KEY}),
        (401, {"style": "anthropic", "auth_token": KEY}),
        (401, {"headers": {"api-key": KEY}}),
        (401, {"base_url": "http://h/v1?key=1"}),
        (500, {}),
        (None, {}),
    ],
)
def test_where_nothing_is_known_there_is_no_hint(status, options):
    assert config(**options).hint(status) == ""


def test_the_query_of_the_argument_takes_the_place_of_that_of_base_url():
    made = config(base_url="http://h/v1?version=1&a=1&version=2", query={"version": "3"})
    assert made.query == (("a", "1"), ("version", "3"))
    assert "?" not in made.url


@pytest.mark.parametrize(("style", "variable"), [("openai", "OPENAI_BASE_URL"), ("anthropic", "ANTHROPIC_BASE_URL")])
def test_an_environment_variable_is_named_when_it_cannot_work(monkeypatch, style, variable):
    monkeypatch.setenv(variable, "nonsense")
    with pytest.raises(ConfigurationError, match=f"^{variable}: expected a URL"):
        config(style=style, base_url=None)
    monkeypatch.setenv(variable, " ")
    assert "api." in config(style=style, base_url=None).url


KEYS = {
    "openai": ("openai", "http://h/v1", "OPENAI_API_KEY"),
    "anthropic": ("anthropic", "http://h/v1", "ANTHROPIC_API_KEY"),
    "openrouter": ("openai", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    "a part of openrouter": ("openai", "https://eu.openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    "a host that only looks like openrouter": ("openai", "https://notopenrouter.ai/api/v1", "OPENAI_API_KEY"),
}


@pytest.mark.parametrize(("style", "base_url", "variable"), KEYS.values(), ids=KEYS)
def test_each_endpoint_has_a_variable_for_its_key(monkeypatch, style, base_url, variable):
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OPENROUTER_API_KEY"):
        monkeypatch.setenv(name, f"{name}-value\n")
    made = config(style=style, base_url=base_url)
    assert made.api_key is not None
    assert made.api_key.reveal() == f"{variable}-value"
    assert config(style=style, base_url=base_url, api_key="given").auth_headers() in (
        {"authorization": "Bearer given"},
        {"x-api-key": "given"},
    )


def test_a_token_is_sent_as_a_bearer_token():
    made = config(style="anthropic", auth_token=KEY)
    assert made.auth_headers() == {"authorization": f"Bearer {KEY}"}
    error = ToolnexusError(f"at {KEY}")
    made.redact(error)
    assert str(error) == "at [redacted]"


def test_without_a_key_there_is_no_header():
    assert config().auth_headers() == {}


def test_a_key_shows_in_no_repr_and_no_copy():
    made = config(api_key=KEY, headers={"x": "header-secret"}, query={"q": "query-secret"})
    assert KEY not in repr(made)
    assert "secret" not in repr(made)
    assert repr(made.api_key) == "Secret('…')"
    for copies in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="a secret cannot be pickled or copied"):
            copies(Secret(KEY))


def test_a_key_that_an_error_quotes_is_taken_out():
    made = config(api_key=KEY)
    error = APIStatusError(f"no {KEY}", body=f"<{KEY}>")
    made.redact(error)
    assert (error.message, error.body, error.args) == ("no [redacted]", "<[redacted]>", ("no [redacted]",))
    plain = ToolnexusError(f"at {KEY}", 5)
    made.redact(plain)
    assert plain.args == ("at [redacted]", 5)
    config().redact(plain)


@pytest.mark.case("api-timeout-forms")
def test_timeouts():
    assert config().timeouts == Timeouts(connect=10, read=300, write=60, pool=None)
    assert not config().timeout_given
    assert config(timeout=5).timeouts == Timeouts(connect=10, read=5, write=60, pool=None)
    assert config(timeout=5).timeout_given
    given = config(timeout=httpx.Timeout(1, read=2, write=3, pool=4)).timeouts
    assert given == Timeouts(connect=1, read=2, write=3, pool=4)
    assert config(timeout=httpx.Timeout(None)).timeouts == Timeouts(None, None, None, None)


@pytest.mark.parametrize("never", [1e12, float("inf")], ids=str)
def test_ages_are_as_long_as_the_operating_system_can_wait(never):
    made = config(timeout=never, deadline=never, progress_timeout=never)
    assert made.timeouts.read == made.deadline == made.progress_timeout == 4_000_000


def test_the_origin_names_whom_we_talk_to():
    assert config(base_url="http://h:1/v1?a=b").origin == "openai:h:1"


def test_what_was_given_is_copied():
    params, headers = {"a": 1}, {"x-a": "b"}
    made = config(request_params=params, headers=headers)
    params["a"] = 2
    headers["x-a"] = "c"
    assert made.request_params == {"a": 1}
    assert made.headers == {"x-a": "b"}
