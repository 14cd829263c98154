"""Which hosts are addresses, and which addresses are public; the tables are in `address_cases`."""

from __future__ import annotations

import contextlib
import socket
from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tools.address_cases import NO_HOST, PUBLIC, REFUSED
from toolnexus.errors import ConfigurationError
from toolnexus.tools.addresses import address_policy, parse_host, special_purpose


@pytest.mark.parametrize(("host", "what"), REFUSED.items(), ids=REFUSED)
def test_an_address_that_is_not_public_is_refused_in_every_spelling(host, what):
    address = parse_host(host)
    assert not isinstance(address, str)
    assert special_purpose(address) == what
    assert address_policy("public").refusal(address) == what
    assert address_policy(["203.0.113.77/32"]).refusal(address) == what
    assert address_policy("any").refusal(address) is None


def test_the_table_is_as_long_as_it_should_be():
    assert len(REFUSED) >= 60


@pytest.mark.parametrize("host", NO_HOST, ids=ascii)
def test_what_is_no_host_is_refused_before_anything_is_resolved(host):
    with pytest.raises(ValueError, match=r"is no|ends in a number"):
        parse_host(host)


@pytest.mark.parametrize("host", PUBLIC)
def test_the_neighbours_of_special_blocks_are_public(host):
    address = parse_host(host)
    assert not isinstance(address, str)
    assert special_purpose(address) is None


@pytest.mark.parametrize(
    ("host", "name"),
    {
        "Example.COM": "example.com",
        "example.com.": "example.com",
        "localhost": "localhost",
        "a_b.example": "a_b.example",
        "1.example": "1.example",
        "0x7f.example": "0x7f.example",
        "1.2.3.0xzz": "1.2.3.0xzz",  # ends in no number
        "xn--mnchen-3ya.example": "xn--mnchen-3ya.example",
        "127.0.0.1.nip.io": "127.0.0.1.nip.io",  # a name: what it resolves to is judged
    }.items(),
)
def test_a_name_stays_a_name_in_lower_case(host, name):
    assert parse_host(host) == name


def test_a_zone_hides_no_link_local_address():
    assert special_purpose(IPv6Address("fe80::1%eth0")) == "link-local"


@pytest.mark.parametrize("address", ["0.0.0.0", "255.255.255.255", "127.0.0.1", "10.0.0.0", "1.2.3.4"])
def test_spellings_of_one_address_are_one(address):
    number = int(IPv4Address(address))
    parts = address.split(".")
    spellings = [str(number), hex(number), f"0{number:o}", ".".join(f"0{int(p):o}" for p in parts)]
    spellings += [".".join(hex(int(p)) for p in parts), f"{parts[0]}.{number & 0xFFFFFF}"]
    assert {parse_host(spelling) for spelling in spellings} == {IPv4Address(address)}


_PARTS = st.integers(0, 2**32).flatmap(
    lambda n: st.sampled_from([str(n), str(n % 300), hex(n), hex(n % 300), f"0{n:o}", f"00{n % 300:o}", f"0X{n:X}"])
)


@given(st.lists(_PARTS, min_size=1, max_size=4).map(".".join))
def test_what_the_c_library_takes_for_an_address_is_that_address_or_no_host(host):
    try:
        found = IPv4Address(socket.inet_aton(host))
    except OSError:
        return
    with contextlib.suppress(ValueError):
        assert parse_host(host) == found


def test_whatever_python_calls_private_is_refused_too():
    # A second opinion on whole blocks, where the tables of the standard library have them.
    for block in ("0", "10", "100.64", "127", "169.254", "172.16", "192.0.2", "192.168", "198.18", "240"):
        address = ip_address(".".join([*block.split("."), "7", "7", "7"][:4]))
        assert not address.is_global
        assert special_purpose(address) is not None


def test_networks_are_allowed_besides_the_public_ones():
    policy = address_policy(["127.0.0.0/8", "fd00::/8"])
    assert policy.refusal(ip_address("127.0.0.1")) is None
    assert policy.refusal(ip_address("fd00::1")) is None
    assert policy.refusal(ip_address("8.8.8.8")) is None
    assert policy.refusal(ip_address("10.0.0.1")) == "private"
    # Mapped, it is the same machine, but not what was written down.
    assert policy.refusal(ip_address("::ffff:127.0.0.1")) == "IPv4 in IPv6"


@pytest.mark.parametrize("wrong", ["private", "127.0.0.0/8", None, 5, b"any", ["10.0.0.1/8"], ["example.com"]])
def test_a_policy_that_is_none_is_refused(wrong):
    with pytest.raises(ConfigurationError, match="addresses: expected 'public', 'any' or a list of networks"):
        address_policy(wrong)
