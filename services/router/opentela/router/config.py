"""Every knob of a router: unit, default, and what it trades."""

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

from opentela.telemetry.config import HealthConfig, LogConfig
from opentela.view.config import ViewConfig

Seconds: TypeAlias = Annotated[float, Meta(gt=0)]
Count: TypeAlias = Annotated[int, Meta(ge=1)]
Share: TypeAlias = Annotated[float, Meta(ge=0, le=1)]

MIB = 1024 * 1024
INHERITED = "inherited"


class ListenConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where clients connect, and how much of one client is borne.

    Attributes:
        address: `host:port`; port 0 takes a free one. `inherited` takes the socket that the process
            was started with, as systemd passes it: several routers may share it, and one may follow
            another without a connection being refused. There is no TLS here: anything but loopback
            belongs behind a proxy that has it.
        reuse_port: Let several routers of one host listen on this address; the kernel spreads
            connections over them.
        cors_origins: Origins whose pages may call the API; `*` is every one, empty is none.
        body_bytes_max: Larger request bodies get 413. Each is held whole until its answer begins.
        bodies_bytes_max: All bodies held at one time; more get 503. This bounds the memory.
        head_bytes_max: Request line and headers of one request; more gets 431.
        connections_max: Open client connections; further ones are closed at once.
        requests_max: Requests under way; more get 429.
        head_s: From the first byte of a request to the end of its headers.
        body_s: Silence within a request body.
        receive_s: From the first byte of a request to its last. Bodies at the limit need their time
            on slow lines; who sends a byte now and then holds a connection for as long.
        keep_alive_s: Silence between requests, also of a client that leaves the end of its answer
            unread. Longer than a load balancer's own, or it will use a connection at the moment at
            which it is closed here.
        linger_s: After an error answered before the body came: how long the rest of the body is
            read and dropped, so that the client gets to see the answer.
    """

    address: str = "127.0.0.1:8080"
    reuse_port: bool = False
    cors_origins: tuple[str, ...] = ("*",)
    body_bytes_max: Count = 64 * MIB
    bodies_bytes_max: Count = 1024 * MIB
    head_bytes_max: Count = 64 * 1024
    connections_max: Count = 20_000
    requests_max: Count = 10_000
    head_s: Seconds = 30.0
    body_s: Seconds = 60.0
    receive_s: Seconds = 900.0
    keep_alive_s: Seconds = 75.0
    linger_s: Seconds = 5.0


class AttemptConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long an answer may take, and how often it is tried for.

    Attributes:
        attempts_max: Sessions that one request may be tried on. Each further one costs an engine's
            work again when the attempt before it had begun; so those that are not there any more,
            and of which nobody has heard yet, do not count.
        backoff_s: Before the third attempt; doubled before each further one, ± half of it by
            chance. The second attempt follows at once when the first surely did not begin.
        backoff_max_s: Upper bound of that.
        retry_share: Retries by requests, of those that may repeat what an engine began; they cost
            its work again. Lower spares a mesh in which much fails, and gives up sooner.
        retry_reserve: Retries beyond that share which may come at once, as when engines die with
            all that they were doing.
        first_s: To the first event of a stream. Covers the engine's queue and its prefill; a hung
            engine holds its requests for as long.
        unary_s: To the end of an answer that is not streamed.
        idle_s: Silence within a stream that has begun.
        total_s: All attempts of a request together.
        held_bytes_max: An answer that is not streamed is held until it is whole, so that an
            engine lost in the middle of it costs nothing but time; larger ones are passed on as
            they come.
    """

    attempts_max: Count = 3
    backoff_s: Seconds = 0.05
    backoff_max_s: Seconds = 1.0
    retry_share: Share = 0.1
    retry_reserve: Count = 1000
    first_s: Seconds = 120.0
    unary_s: Seconds = 600.0
    idle_s: Seconds = 60.0
    total_s: Seconds = 3600.0
    held_bytes_max: Count = MIB


class WaitConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long requests wait here for a session that can take them.

    Attributes:
        loading_s: For a model that sessions are loading, and none serves; 0 for not at all. Longer
            than clients wait is of no use.
        full_s: While each session that could serve the request has as many as it may; 0 for not at
            all.
        depth_max: Requests that wait for one model; further ones get 503 at once. Each holds its
            body.
        session_requests_max: Of this router at one session; more wait here, where any session may
            take them. Engines queue what they cannot batch: less than they batch leaves them idle.
    """

    loading_s: Annotated[float, Meta(ge=0)] = 60.0
    full_s: Annotated[float, Meta(ge=0)] = 30.0
    depth_max: Count = 1000
    session_requests_max: Count = 512


class EjectionConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a session that fails is taken last.

    Attributes:
        eject_s: After a failure of the transport or a time-out; doubled for each in a row.
        eject_max_s: Upper bound of that.
        refused_s: After a session refused work: it is draining, and the registry will say so.
        errors_max: Answers 5xx in a row that count as a failure.
        share_max: Of a model's sessions, how many may be ejected at one time: when nearly all
            fail, the fault is more likely here.
    """

    eject_s: Seconds = 5.0
    eject_max_s: Seconds = 60.0
    refused_s: Seconds = 1.0
    errors_max: Count = 5
    share_max: Share = 0.5


class HomeConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where sessions dial this router, so that their requests pass no server of the mesh.

    Attributes:
        address: `host:port`; empty for nowhere: all requests take the mesh. Port 0 takes a free
            one. Each router process needs a port of its own.
        advertised: Names or `host:port` at which sites reach that address, tried in order; empty
            takes the address itself, or this host's name when it is a wildcard.
        tls: `on`, `off`, or `auto`: on unless the address is loopback. The certificate is made at
            start and told to sessions over the mesh.
    """

    address: str = ""
    advertised: tuple[str, ...] = ()
    tls: Literal["auto", "on", "off"] = "auto"


class DirectConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which sessions this router dials, of those that offer a door.

    A claim may name any address, so that a router dials none of whom its operator does not trust
    with that; whatever is there gets a greeting, and nothing else unless it proves that it is the
    session.

    Attributes:
        sites: Sites whose sessions are dialled under TLS; `*` is every one.
        same_host: Also those that show that they are on this router's own host and network,
            without TLS on loopback.
    """

    sites: tuple[str, ...] = ()
    same_host: bool = True


class RouterConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A router.

    Attributes:
        access: File that lets this router into the mesh, as `otela mesh` writes it.
        policy: `random`, `round_robin`, `least_load`, `hardware_weighted`, `prefix_affinity`, or
            another installed one; docs/routing.md compares them.
        providers: Those whose sessions are used at all; empty for all. Requests may narrow it
            further.
        walltime_margin_s: A session whose allocation ends within this and what the request will
            probably take is a last resort: the time that a supervisor itself is gone earlier, and
            some doubt about the forecast.
        path_prefixes: Paths of engines that begin so are forwarded, but for those that administer
            an engine or show what all its users share. Without any, only the known ones are.
        extra_paths: Further paths of engines to forward, whatever they are called. They are never
            tried again once they may have begun.
        server_timing: Tell in the header `x-otela-timing` of whole answers where their time went,
            in milliseconds. For measuring; it also tells clients how the mesh is built.
        drain_s: After SIGTERM, how long all that follows may take together.
        drain_notice_s: After SIGTERM, how long new connections are still taken: as long as a load
            balancer or Kubernetes needs to see in `/readyz` that they should go elsewhere.
        drain_idle_s: After that, how long connections without a request are kept open for a last
            one, whose answer closes them. Closed at once they would fail the requests that are on
            their way; longer than the pauses of busy clients is enough.
    """

    access: str
    policy: str = "hardware_weighted"
    providers: tuple[str, ...] = ()
    walltime_margin_s: Annotated[float, Meta(ge=0)] = 120.0
    path_prefixes: tuple[Annotated[str, Meta(pattern="^/[!-~]*/$")], ...] = ("/v1/", "/v2/")
    extra_paths: tuple[Annotated[str, Meta(pattern="^/[!-~]*$")], ...] = ()
    server_timing: bool = False
    drain_s: Seconds = 60.0
    drain_notice_s: Annotated[float, Meta(ge=0)] = 0.0
    drain_idle_s: Annotated[float, Meta(ge=0)] = 2.0
    listen: ListenConfig = ListenConfig()
    home: HomeConfig = HomeConfig()
    direct: DirectConfig = DirectConfig()
    attempts: AttemptConfig = AttemptConfig()
    wait: WaitConfig = WaitConfig()
    ejection: EjectionConfig = EjectionConfig()
    view: ViewConfig = ViewConfig()
    health: HealthConfig = HealthConfig()
    log: LogConfig = LogConfig()
