"""The configuration of a hub: the server, or one of three, that every site dials out to."""

from typing import Final

import msgspec

from opentela.mesh import server_conf
from opentela.mesh.server_conf import Section, TlsFiles, Trust

_HEADING: Final = """\
Hub of an opentela mesh, written by `otela mesh init`. Paths are seen from this folder: start it
with `otela mesh serve hub.conf`, or `cd` here first. Providers are admitted and revoked without
touching this file."""


class Hub(msgspec.Struct, frozen=True, kw_only=True):
    """What a hub's configuration says.

    Attributes:
        name: The server's name, unique in the mesh.
        listen: Address for all listeners; not loopback only with TLS.
        port: For clients; `server_conf.RANDOM_PORT` lets the system choose, here and below.
        leaf_port: For leaf servers; None for no listener, here and below.
        websocket_port: For clients and leaf servers behind proxies.
        monitor_port: For the monitoring page, on loopback.
        tls: None speaks plainly.
        jetstream_dir: Where `jetstream/` is, which holds what streams keep; empty for none.
    """

    name: str
    trust: Trust
    listen: str
    port: int
    leaf_port: int | None = None
    websocket_port: int | None = None
    monitor_port: int | None = None
    tls: TlsFiles | None = None
    jetstream_dir: str = ""


def render(hub: Hub) -> str:
    """Return the configuration file of *hub*."""
    section: Section = server_conf.common(name=hub.name, trust=hub.trust)
    section |= server_conf.client_listener(hub.listen, hub.port, hub.tls)
    section |= server_conf.monitor(hub.monitor_port)
    leaf = server_conf.leaf_listener(hub.listen, hub.leaf_port, hub.tls)
    section |= {"leafnodes": leaf} if leaf else {}
    section |= server_conf.websocket_listener(hub.listen, hub.websocket_port, hub.tls)
    section |= server_conf.jetstream(hub.jetstream_dir)
    return server_conf.render(section, heading=_HEADING)
