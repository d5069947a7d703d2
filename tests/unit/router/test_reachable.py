"""A claim may name any address; a router dials few of them."""

import pytest

from opentela.core.record import Door
from opentela.router.reachable import ADDRESSES_MAX, addresses

LOOPBACK = Door(addresses=("127.0.0.1:9",), host="h")
NETWORK = Door(addresses=("node7:9", "10.0.0.7:9"), certificate="c", host="h")


def test_nobody_is_dialled_whom_nobody_named() -> None:
    """And who offers no door is not dialled at all."""
    assert addresses(NETWORK, site="a", sites=(), is_same_host=False) == ()
    assert addresses(NETWORK, site="a", sites=("b",), is_same_host=False) == ()
    assert addresses(None, site="a", sites=("*",), is_same_host=True) == ()


@pytest.mark.parametrize("sites", [("a",), ("b", "a"), ("*",)])
def test_sessions_of_named_sites_are_dialled_in_order(sites: tuple[str, ...]) -> None:
    """Under TLS."""
    found = addresses(NETWORK, site="a", sites=sites, is_same_host=False)
    assert found == ("node7:9", "10.0.0.7:9")


def test_nothing_is_dialled_in_the_clear_but_loopback() -> None:
    """Not even on the same host: the address may be another's tomorrow."""
    clear = Door(addresses=("10.0.0.7:9", "127.0.0.1:9"), host="h")
    assert addresses(clear, site="a", sites=("*",), is_same_host=False) == ()
    assert addresses(clear, site="a", sites=(), is_same_host=True) == ("127.0.0.1:9",)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1:22",
        "127.8.8.8:22",
        "localhost:22",
        "LOCALHOST:22",
        "x.localhost:22",
        "[::1]:22",
        "[::ffff:127.0.0.1]:22",
        "0.0.0.0:22",
        "[::]:22",
        "0:22",
        "",
    ],
)
def test_a_stranger_cannot_make_us_dial_our_own_host(address: str) -> None:
    """However it spells it."""
    door = Door(addresses=(address,), certificate="c")
    assert addresses(door, site="a", sites=("*",), is_same_host=False) == ()


def test_few_addresses_of_an_offer_are_tried() -> None:
    """A claim with a thousand makes no scanner of a router."""
    door = Door(addresses=tuple(f"n{n}:9" for n in range(1000)), certificate="c")
    assert len(addresses(door, site="a", sites=("*",), is_same_host=False)) == ADDRESSES_MAX
