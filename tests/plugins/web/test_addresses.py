"""Only public addresses are fetched, in every form in which an address can be written."""

from ipaddress import IPv4Address, IPv6Address, ip_address

from hypothesis import given
from hypothesis import strategies as st

from hubd.plugins.web.addresses import refusal

REFUSED = {
    "loopback": ["127.0.0.1", "127.255.255.254", "::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1"],
    "private": [
        *("10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1", "198.18.0.1"),
        *("fc00::1", "fd12:3456::1", "fec0::1", "::ffff:10.1.2.3", "2002:c0a8:101::1"),
        # ISATAP: 10.0.0.1 behind a public prefix.
        *("2600::5efe:a00:1", "2600::200:5efe:a00:1"),
    ],
    "link-local": ["169.254.169.254", "fe80::1", "fe80::1%eth0", "::ffff:169.254.169.254"],
    "unspecified": ["0.0.0.0", "0.1.2.3", "::", "::ffff:0.0.0.0"],
    "multicast": ["224.0.0.1", "239.255.255.255", "ff02::1"],
    "reserved": [
        *("192.0.0.1", "192.0.2.1", "192.88.99.1", "198.51.100.1", "203.0.113.1", "240.0.0.1"),
        *("255.255.255.255", "::127.0.0.1", "64:ff9b:1::1", "100::1", "2001::1", "2001:db8::1"),
        *("3fff::1", "4000::1", "::2", "2001:0:4136:e378:8000:63bf:3fff:fdd2"),
    ],
    "invalid": ["", "localhost", "1.2.3", "0x7f.1", "1.2.3.4.5", "[::1]"],
}
PUBLIC = [
    *("1.1.1.1", "8.8.8.8", "93.184.216.34", "172.32.0.1", "100.128.0.1", "223.255.255.255"),
    *("2606:4700::1", "2a00:1450::1", "::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::1"),
]


def test_special_addresses_are_refused_with_a_word() -> None:
    wrong = {
        address: refusal(address)
        for word, each in REFUSED.items()
        for address in each
        if refusal(address) != word
    }
    assert wrong == {}


def test_public_addresses_are_allowed() -> None:
    assert [address for address in PUBLIC if refusal(address) is not None] == []


@given(st.ip_addresses())
def test_an_allowed_address_is_global_for_the_standard_library_too(
    address: IPv4Address | IPv6Address,
) -> None:
    if refusal(str(address)) is None and str(address) not in PUBLIC:
        parsed = ip_address(str(address))
        assert parsed.is_global
        assert not parsed.is_multicast
