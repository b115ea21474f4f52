"""Which addresses a fetch may connect to: public unicast addresses only.

The tables follow IANA's registries of special-purpose addresses. They are written out here, because
`ipaddress` answers differently in different versions of Python. An IPv6 address that contains an
IPv4 address is as public as that address.
"""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final

_IPV4: Final = tuple(
    (IPv4Network(network), word)
    for network, word in (
        ("0.0.0.0/8", "unspecified"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "private"),
        ("127.0.0.0/8", "loopback"),
        ("169.254.0.0/16", "link-local"),
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "reserved"),
        ("192.0.2.0/24", "reserved"),
        ("192.88.99.0/24", "reserved"),
        ("192.168.0.0/16", "private"),
        ("198.18.0.0/15", "private"),
        ("198.51.100.0/24", "reserved"),
        ("203.0.113.0/24", "reserved"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
    )
)
_IPV6: Final = tuple(
    (IPv6Network(network), word)
    for network, word in (
        ("::/128", "unspecified"),
        ("::1/128", "loopback"),
        ("fc00::/7", "private"),
        ("fe80::/10", "link-local"),
        ("fec0::/10", "private"),
        ("ff00::/8", "multicast"),
        # Teredo is in here too: the far end of its tunnel is not in the address.
        ("2001::/23", "reserved"),
        ("2001:db8::/32", "reserved"),
        ("3fff::/20", "reserved"),
    )
)
# All public unicast addresses are in here, except those of NAT64.
_GLOBAL_UNICAST: Final = IPv6Network("2000::/3")
_NAT64: Final = IPv6Network("64:ff9b::/96")
_MAPPED: Final = IPv6Network("::ffff:0:0/96")
_SIX_TO_FOUR: Final = IPv6Network("2002::/16")
# The last 64 bits of an ISATAP address begin with one of these 32 bits.
_ISATAP: Final = (0x0000_5EFE, 0x0200_5EFE)


def refusal(address: str) -> str | None:
    """Return the word for an address that is not public, such as "loopback"; None if it is public.

    A text that is not an address is not public either.
    """
    try:
        # A link-local address may name its interface.
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return "invalid"
    return _refusal_ipv4(parsed) if isinstance(parsed, IPv4Address) else _refusal_ipv6(parsed)


def _refusal_ipv4(address: IPv4Address) -> str | None:
    return next((word for network, word in _IPV4 if address in network), None)


def _refusal_ipv6(address: IPv6Address) -> str | None:
    word = next((word for network, word in _IPV6 if address in network), None)
    if word is not None:
        return word
    if (inner := _embedded(address)) is not None:
        return _refusal_ipv4(inner)
    return None if address in _GLOBAL_UNICAST else "reserved"


def _embedded(address: IPv6Address) -> IPv4Address | None:
    """Return the IPv4 address to which packets for this address go, or None."""
    value = int(address)
    last = value & 0xFFFF_FFFF
    if address in _MAPPED or address in _NAT64 or (value >> 32 & 0xFFFF_FFFF) in _ISATAP:
        return IPv4Address(last)
    if address in _SIX_TO_FOUR:
        return IPv4Address(value >> 80 & 0xFFFF_FFFF)
    return None
