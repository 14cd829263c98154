"""Hosts of URLs, and what they are: each spelling of each kind of address that a tool must not reach.

Reviewed against the IANA special-purpose registries (RFC 6890, RFC 8190) and the host parser of the URL standard.
"""

from __future__ import annotations

REFUSED = {
    # Loopback, in each spelling that browsers and inet_aton know.
    "127.0.0.1": "loopback",
    "127.1": "loopback",
    "127.0.1": "loopback",
    "127.255.255.254": "loopback",
    "2130706433": "loopback",  # decimal, one part
    "0x7f000001": "loopback",
    "0X7F000001": "loopback",
    "0x7f.1": "loopback",
    "0x7f.0x0.0x0.0x1": "loopback",
    "017700000001": "loopback",  # octal, one part
    "0177.0.0.1": "loopback",
    "0177.0.0.01": "loopback",
    "0000177.0.0.1": "loopback",
    "127.0.0.0x1": "loopback",
    "127.0.0.1.": "loopback",  # a dot at the end
    "127.000.000.001": "loopback",
    "0x7f.0.1": "loopback",
    "[::1]": "loopback",
    "[0:0:0:0:0:0:0:1]": "loopback",
    "[0000::0001]": "loopback",
    # This network: Linux connects to the machine itself.
    "0.0.0.0": "this network",
    "0": "this network",
    "0x": "this network",  # the URL standard reads nothing as zero
    "00": "this network",
    "0.1": "this network",
    "[::]": "IPv4 in IPv6",
    # Private.
    "10.0.0.1": "private",
    "10.1": "private",
    "0xa000001": "private",
    "012.0.0.1": "private",
    "167772161": "private",
    "172.16.0.1": "private",
    "172.31.255.255": "private",
    "192.168.0.1": "private",
    "192.168.257": "private",  # three parts: the last is 16 bits
    "0xc0.0xa8.0.1": "private",
    "3232235521": "private",
    "[fc00::1]": "private",
    "[fdff:ffff::1]": "private",
    "[fec0::1]": "private",  # site-local, deprecated
    "100.64.0.1": "shared by a provider's customers",
    "100.127.255.255": "shared by a provider's customers",
    # Link-local, and the clouds' metadata.
    "169.254.0.1": "link-local",
    "169.254.169.254": "link-local",
    "2852039166": "link-local",
    "0xa9fea9fe": "link-local",
    "0251.0376.0251.0376": "link-local",
    "169.254.43518": "link-local",
    "0xA9.0xFE.0xA9.0xFE": "link-local",
    "169.254.170.2": "link-local",  # ECS task credentials
    "[fe80::1]": "link-local",
    "[febf::1]": "link-local",
    "100.100.100.200": "shared by a provider's customers",  # Alibaba
    "192.0.0.192": "reserved for protocols",  # Oracle
    "168.63.129.16": "a cloud's metadata",  # Azure
    "[fd00:ec2::254]": "private",  # AWS
    "[fd20:ce::254]": "private",  # Google
    # IPv4 in IPv6.
    "[::ffff:127.0.0.1]": "IPv4 in IPv6",
    "[::ffff:7f00:1]": "IPv4 in IPv6",
    "[0:0:0:0:0:ffff:a9fe:a9fe]": "IPv4 in IPv6",
    "[::ffff:8.8.8.8]": "IPv4 in IPv6",
    "[::127.0.0.1]": "IPv4 in IPv6",  # compatible, deprecated
    "[::ffff:0:127.0.0.1]": "IPv4 in IPv6",  # translated
    "[64:ff9b::127.0.0.1]": "IPv4 in IPv6 (NAT64)",
    "[64:ff9b::a9fe:a9fe]": "IPv4 in IPv6 (NAT64)",
    "[64:ff9b:1::a00:1]": "IPv4 in IPv6 (NAT64)",
    "[2002:7f00:1::]": "IPv4 in IPv6 (6to4)",
    "[2002:a9fe:a9fe::1]": "IPv4 in IPv6 (6to4)",
    "[2001:0:4136:e378:8000:63bf:3fff:fdd2]": "IPv4 in IPv6 (Teredo)",
    "[2001::1]": "IPv4 in IPv6 (Teredo)",
    "[2606:4700::5efe:7f00:1]": "IPv4 in IPv6 (ISATAP)",
    "[2606:4700::200:5efe:10.0.0.1]": "IPv4 in IPv6 (ISATAP)",
    # Everything else that is not the public internet.
    "192.0.0.1": "reserved for protocols",
    "192.0.2.1": "documentation",
    "192.31.196.1": "reserved for protocols",
    "192.52.193.1": "reserved for protocols",
    "192.88.99.1": "a relay of 6to4",
    "192.175.48.1": "reserved for protocols",
    "198.18.0.1": "benchmarking",
    "198.19.255.255": "benchmarking",
    "198.51.100.1": "documentation",
    "203.0.113.1": "documentation",
    "224.0.0.1": "multicast",
    "239.255.255.250": "multicast",
    "240.0.0.1": "reserved",
    "255.255.255.255": "reserved",
    "4294967295": "reserved",
    "[100::1]": "reserved",  # discard only
    "[2001:2::1]": "reserved for protocols",  # benchmarking
    "[2001:10::1]": "reserved for protocols",  # ORCHID
    "[2001:20::1]": "reserved for protocols",  # ORCHIDv2
    "[2001:db8::1]": "documentation",
    "[2620:4f:8000::1]": "reserved for protocols",
    "[3fff::1]": "documentation",
    "[4000::1]": "reserved",
    "[5f00::1]": "reserved",  # segment routing
    "[ff02::1]": "multicast",
}

NO_HOST = [
    "",
    ".",
    "a..b",
    "256.0.0.1",
    "127.0.0.256",
    "1.2.3.4.5",
    "127.0.0.1.5",
    "4294967296",
    "0x100000000",
    "08",  # no octal number
    "127.0.0.09",
    "foo.0x1",
    "foo.1",
    "%31%32%37.0.0.1",  # the URL standard decodes it
    "１２７.0.0.1",  # full-width digits, which it maps
    "127。0。0。1",  # ideographic full stops
    "①②⑦.0.0.1",
    "loc\u00adalhost",  # a soft hyphen, which it drops
    "ⓛocalhost",
    "münchen.example",
    "127.0.0.1\n",
    "127.0.0.1\x00.example.com",
    "a b",
    "a@b",
    "a\\b",
    "a/b",
    "a#b",
    "a?b",
    "a:b",
    "-a.example",
    "a-.example",
    "x" * 64,
    ".".join(["x" * 60] * 5),
    "[::1",
    "::1]",
    "[::1%lo]",
    "[fe80::1%25eth0]",
    "[v1.fe80]",
    "[127.0.0.1]",
    "[::1]x",
    "[]",
    "[:::1]",
    "[12345::]",
]

PUBLIC = ["8.8.8.8", "1.1.1.1", "9.255.255.255", "11.0.0.0", "172.15.255.255", "172.32.0.0", "100.63.255.255",
    "100.128.0.0", "169.253.255.255", "192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0",
    "223.255.255.255", "168.63.129.17", "134744072", "[2606:4700:4700::1111]", "[2001:4860:4860::8888]",
    "[2001:200::1]", "[2003::1]", "[2a00:1450::1]"]  # fmt: skip
