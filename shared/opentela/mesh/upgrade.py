"""A mesh that an earlier version made, brought up to this one; nobody needs a new key.

Earlier versions had no warrants (nobody believes a provider or registry without), no streams
(nobody keeps lifecycle events), and fewer conversations (a placer may not hear usage, a provider's
agents no commands). All can be added: the keys that they are about are known here. What a leaf
server carries depends on who works behind it, and is said when it is made.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from opentela.core.errors import CredentialError
from opentela.mesh import access as accesses
from opentela.mesh import files, permissions, server_conf, warrants
from opentela.mesh.access import Access
from opentela.mesh.admission import issue, renew_accounts
from opentela.mesh.layout import JETSTREAM_DIR, Admission, MeshLayout
from opentela.mesh.permissions import EVERY, Member, Role

_HEADING: Final = "Added by `otela mesh upgrade`: the hub keeps lifecycle events."
_WARRANTED: Final = ("provider", "registry")


def upgraded(layout: MeshLayout, *, now: float, folders: Iterable[Path] = ()) -> list[str]:
    """Do what is to be done and return it in words; none when the mesh is of this version.

    Args:
        layout: The mesh.
        now: Unix seconds.
        folders: Where access files lie besides the mesh's own folder.
    """
    with layout.locked():
        done = _keep_events(layout, now=now)
        for folder in (layout.root / "access", *folders):
            for path in sorted(folder.glob("*.toml")):
                if line := _renew(layout, path, now=now):
                    done.append(line)
    return done


def _keep_events(layout: MeshLayout, *, now: float) -> list[str]:
    facts = layout.facts
    if facts.has_jetstream:
        return []
    conf = layout.conf.read_text()
    if "jetstream {" not in conf:
        section = server_conf.render(server_conf.jetstream("."), heading=_HEADING)
        files.write(layout.conf, f"{conf.rstrip()}\n\n{section}")
    files.make_private_dir(layout.root / JETSTREAM_DIR)
    layout.write_facts(msgspec.structs.replace(facts, has_jetstream=True))
    renew_accounts(layout, now=now)
    return ["the hub keeps lifecycle events, once it is started again"]


def _renew(layout: MeshLayout, path: Path, *, now: float) -> str:
    """Give the access in *path* what it lacks; return what was done, if anything."""
    try:
        access = accesses.read(path)
    except CredentialError as error:
        return f"{path.name} stays as it is: {error}"
    if access.role not in set(Role):
        return ""
    lacks_warrant = access.role in _WARRANTED and not access.warrant
    found = (one for one in layout.admissions if one.key == access.identity.key)
    admission = next((one for one in found if not one.revoked_at), None)
    if admission is None or 0 < admission.expires_at < now:
        return f"{path.name} opens this mesh no more, and stays as it is" if lacks_warrant else ""
    gains: list[str] = []
    issued = issue(layout, admission, permissions.of(_member(admission)))
    if issued != access.jwt:
        credentials = accesses.credentials(issued, access.identity)
        access = msgspec.structs.replace(access, credentials=credentials)
        gains.append("the permissions of this version")
    if lacks_warrant:
        access = _warranted(layout, access, admission)
        gains.append("a warrant")
    if not gains:
        return ""
    accesses.write(path, access)
    said = " and ".join(gains)
    return f"{path.name} has {said} now: replace the copies that you have handed out"


def _member(admission: Admission) -> Member:
    role, site = Role(admission.role), admission.site or EVERY
    if role is not Role.PROVIDER:
        return Member(role=role, name=admission.name)
    return Member(role=role, name=admission.name, provider=admission.provider, site=site)


def _warranted(layout: MeshLayout, access: Access, admission: Admission) -> Access:
    signer, key = layout.identity("signing"), admission.key
    if access.role == "registry":
        warrant = warrants.issue_to_registry(
            signer, key, registry=admission.name, site=admission.site
        )
    else:
        warrant = warrants.issue(
            signer,
            key,
            provider=admission.provider,
            site=admission.site,
            expires_at=admission.expires_at,
        )
    return msgspec.structs.replace(access, warrant=warrants.written(warrant))
