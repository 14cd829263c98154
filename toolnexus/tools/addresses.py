"""Which addresses a tool may connect to, and what a URL's host is.

A name says nothing about where it leads, so nothing here judges names: `parse_host` reads a host as browsers do, so
that no spelling of an address is taken for a name, and an `AddressPolicy` judges the addresses that were resolved.
Whoever connects must connect to those, and not resolve again.

Source: the IANA special-purpose address registries, laid down in RFC 6890 and updated by RFC 8190, as of 2025. We
narrow them: a block counts as refused as a whole even where the registry has globally reachable exceptions in it
(192.0.0.9, 2001:1::1), and so does every form of IPv6 that carries an IPv4 address.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from typing import Literal

from ..errors import ConfigurationError
from .misfits import clip

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
Addresses = Literal["public", "any"] | Sequence[str]
"""What an `addresses=` argument takes: `"public"`, `"any"`, or networks that are allowed besides the public ones."""

_SPECIAL_V4 = {
    IPv4Network(block): what
    for block, what in {
        "0.0.0.0/8": "this network",  # RFC 791; Linux takes 0.0.0.0 for the machine itself
        "10.0.0.0/8": "private",  # RFC 1918
        "100.64.0.0/10": "shared by a provider's customers",  # RFC 6598; Alibaba's metadata is 100.100.100.200
        "127.0.0.0/8": "loopback",  # RFC 1122
        "169.254.0.0/16": "link-local",  # RFC 3927; most clouds' metadata is 169.254.169.254
        "172.16.0.0/12": "private",  # RFC 1918
        "192.0.0.0/24": "reserved for protocols",  # RFC 6890; Oracle's metadata is 192.0.0.192
        "192.0.2.0/24": "documentation",  # RFC 5737
        "192.31.196.0/24": "reserved for protocols",  # RFC 7535
        "192.52.193.0/24": "reserved for protocols",  # RFC 7450
        "192.88.99.0/24": "a relay of 6to4",  # RFC 7526
        "192.168.0.0/16": "private",  # RFC 1918
        "192.175.48.0/24": "reserved for protocols",  # RFC 7534
        "198.18.0.0/15": "benchmarking",  # RFC 2544
        "198.51.100.0/24": "documentation",  # RFC 5737
        "203.0.113.0/24": "documentation",  # RFC 5737
        "224.0.0.0/4": "multicast",  # RFC 5771
        "240.0.0.0/4": "reserved",  # RFC 1112; 255.255.255.255 is the limited broadcast, RFC 8190
        # No special-purpose block: Azure's own services for a virtual machine, its metadata among them.
        "168.63.129.16/32": "a cloud's metadata",
    }.items()
}
# RFC 4291, section 2.4, and the registry: global unicast is 2000::/3. Loopback, mapped and compatible IPv4 (::/96),
# NAT64 (64:ff9b::/96, 64:ff9b:1::/48), discard (100::/64), segment routing (5f00::/16), unique local (fc00::/7, two
# clouds' metadata among them), link-local (fe80::/10), site-local (fec0::/10) and multicast (ff00::/8) are outside.
_GLOBAL_V6 = IPv6Network("2000::/3")
_SPECIAL_V6 = {
    IPv6Network(block): what
    for block, what in {
        "2001::/32": "IPv4 in IPv6 (Teredo)",  # RFC 4380
        "2001::/23": "reserved for protocols",  # RFC 2928
        "2001:db8::/32": "documentation",  # RFC 3849
        "2002::/16": "IPv4 in IPv6 (6to4)",  # RFC 3056
        "2620:4f:8000::/48": "reserved for protocols",  # RFC 7534
        "3fff::/20": "documentation",  # RFC 9637
        # Outside of 2000::/3, named for the message.
        "::1/128": "loopback",
        "::/96": "IPv4 in IPv6",
        "::ffff:0:0/96": "IPv4 in IPv6",
        "::ffff:0:0:0/96": "IPv4 in IPv6",  # RFC 2765, translated
        "64:ff9b::/96": "IPv4 in IPv6 (NAT64)",
        "64:ff9b:1::/48": "IPv4 in IPv6 (NAT64)",
        "fc00::/7": "private",
        "fe80::/10": "link-local",
        "fec0::/10": "private",
        "ff00::/8": "multicast",
    }.items()
}
_ISATAP = (0x00005EFE, 0x02005EFE)
"""The upper half of an interface identifier that carries an IPv4 address. RFC 5214, section 6.1."""


@dataclass(frozen=True, slots=True)
class AddressPolicy:
    """Which addresses may be connected to; made by `address_policy`."""

    is_open: bool
    """Whether any address is allowed."""
    networks: tuple[Network, ...] = ()
    """Allowed besides the public ones."""

    def refusal(self, address: Address) -> str | None:
        """What kind of address it is, if it must not be connected to."""
        if self.is_open or any(address in network for network in self.networks):
            return None
        return special_purpose(address)


def address_policy(addresses: object) -> AddressPolicy:
    """Read an `addresses=` argument.

    Raises:
        ConfigurationError: It is none of `Addresses`.
    """
    expected = "addresses: expected 'public', 'any' or a list of networks such as ['10.1.0.0/16']"
    if addresses in ("public", "any"):
        return AddressPolicy(is_open=addresses == "any")
    if isinstance(addresses, str | bytes) or not isinstance(addresses, Sequence):
        raise ConfigurationError(f"{expected}, got {clip(repr(addresses))}")
    try:
        return AddressPolicy(False, tuple(ip_network(network) for network in addresses))
    except ValueError as error:
        raise ConfigurationError(f"{expected}: {clip(str(error))}") from None


def special_purpose(address: Address) -> str | None:
    """What an address is for, if not for the public internet."""
    if isinstance(address, IPv4Address):
        return next((what for block, what in _SPECIAL_V4.items() if address in block), None)
    address = IPv6Address(int(address))  # without a zone, which compares unequal to everything
    what = next((what for block, what in _SPECIAL_V6.items() if address in block), None)
    if what is None and (int(address) >> 32) & 0xFFFF_FFFF in _ISATAP:
        what = "IPv4 in IPv6 (ISATAP)"
    return what or (None if address in _GLOBAL_V6 else "reserved")


_NAME = re.compile(r"(?=.{1,253}$)[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*")


def parse_host(host: str) -> str | Address:
    """Read the host of a URL.

    Every spelling of an IPv4 address that browsers and the C library know is an address here: decimal, octal and
    hexadecimal parts, and fewer than four of them.

    Args:
        host: As it stands in the URL; an IPv6 address in brackets.

    Returns:
        The address, or the name in lower case, without a dot at its end.

    Raises:
        ValueError: It is neither; so is a name that is not ASCII (write it in its `xn--` form) or percent-encoded.

    Source: WHATWG URL, "Host parsing" and "IPv4 parser". We depart from it for other than ASCII, which it maps:
    full-width digits and dots would become an address there.
    """
    shown = clip(repr(host), 100)
    if host.startswith("["):
        try:
            if not host.endswith("]") or "%" in host:  # a zone means something on this machine only
                raise ValueError
            return IPv6Address(host[1:-1])
        except ValueError:
            raise ValueError(f"{shown} is no IPv6 address") from None
    name = host.lower().removesuffix(".")
    if not _NAME.fullmatch(name):
        raise ValueError(f"{shown} is no host name or address; expected ASCII letters, digits, '-' and '.'")
    parts = name.split(".")
    if not re.fullmatch(r"[0-9]+|0x[0-9a-f]*", parts[-1]):
        return name
    try:
        return _ipv4(parts)
    except ValueError:
        raise ValueError(f"{shown} ends in a number, but is no IPv4 address") from None


def _ipv4(parts: Sequence[str]) -> IPv4Address:
    numbers = [_number(part) for part in parts]
    *firsts, last = numbers
    if len(numbers) > 4 or any(number > 255 for number in firsts) or last >= 256 ** (5 - len(numbers)):
        raise ValueError
    return IPv4Address(sum(number << (8 * (3 - place)) for place, number in enumerate(firsts)) + last)


def _number(part: str) -> int:
    if part.startswith("0x"):
        return int(part[2:] or "0", 16)
    return int(part, 8 if part.startswith("0") else 10)
