"""Who is named as working behind a leaf, and was never admitted: a slip, or yet to come."""

from collections.abc import Sequence

from opentela.mesh.layout import Admission
from opentela.mesh.setup import LeafOptions


def unknown(admissions: Sequence[Admission], options: LeafOptions) -> list[str]:
    """Return a line for each name that *options* have and *admissions* lack."""
    known = {(one.role, one.name) for one in admissions if not one.revoked_at}
    lines = [
        f"no {member.role} {member.name} was let in yet; "
        f"otela mesh role --role {member.role} --name {member.name}"
        for member in options.members
        if (member.role, member.name) not in known
    ]
    providers = {one.provider for one in admissions if one.provider and not one.revoked_at}
    lines += [
        f"no provider {name} was let in yet; otela mesh invite --provider {name}"
        for name in options.providers
        if name not in providers
    ]
    return lines + [
        f"no site {site} is known yet; otela mesh leaf --site {site} --hub,"
        " with this leaf's address"
        for site in options.behind
        if ("leaf", f"leaf-{site}") not in known
    ]
