"""What a trial saw, as it is kept: one line of JSON."""

import msgspec

NEVER: float = -1.0
"""Stands for a time that did not come while the trial lasted."""


class Death(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a true death was found.

    Attributes:
        first_s: Until the first view left the member out.
        last_s: ... until the last did.
        removed_s: ... until all had removed it; not every trial waits for that.
    """

    how: str
    first_s: float = NEVER
    last_s: float = NEVER
    removed_s: float = NEVER


class Row(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one trial saw.

    Attributes:
        victims: Members that were harmed.
        removed: Members removed for good by somebody while they lived.
        out_victims: Harmed members that some view left out for a while.
        out_others: ... and members that nothing had befallen.
        out_s: Member-seconds for which the mean view left out members that nothing befell.
        lost: Living members that some view still left out at the end.
        broken: What else went wrong, in words.
    """

    seed: int
    cell: str
    detail: str = ""
    victims: int = 0
    removed: int = 0
    out_victims: int = 0
    out_others: int = 0
    out_s: float = 0.0
    lost: int = 0
    deaths: tuple[Death, ...] = ()
    virtual_s: float = 0.0
    events: int = 0
    cpu_s: float = 0.0
    broken: str = ""
