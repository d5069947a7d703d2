"""Who is there says so for itself."""

import pytest
from msgspec.structs import replace

from opentela.core.record import Warrant
from opentela.testing.sim.keys import seal, vouch
from opentela.view.presence import fault_of, presence_of
from opentela.wire import control


@pytest.mark.parametrize("leaving", [False, True])
def test_a_registrys_own_word_is_believed(*, leaving: bool) -> None:
    """As it arrives, and with where the mesh says that it is."""
    said = presence_of(seal("r1", site="a"), "x", leaving=leaving)
    heard = control.read_presence(control.encode(said))
    assert fault_of(heard, vouch()) == ""
    assert heard.warrant.site == "a"


@pytest.mark.parametrize(
    "changes",
    [
        {"registry": "r2"},
        {"instance": "y"},
        {"leaving": True},
        {"warrant": Warrant(site="b")},
        {"signature": b""},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_no_part_of_it_can_be_altered(changes: dict[str, object]) -> None:
    """Nor can another say it."""
    said = presence_of(seal("r1", site="a"), "x")
    assert fault_of(replace(said, **changes), vouch())
