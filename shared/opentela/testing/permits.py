"""What a server would say to a member's wish, without one."""

from opentela.mesh.permissions import Permissions
from opentela.wire import subjects


def may_subscribe(permissions: Permissions, subject: str) -> bool:
    """Return whether a server takes interest in *subject*, which may hold wildcards."""
    return any(subjects.matches(allowed, subject) for allowed in permissions.subscribe)
