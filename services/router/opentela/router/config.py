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
        address: `host:port`; port 0 picks a free one. `inherited` uses the socket with which the
            process was started, as systemd passes it: several routers can share it, and one can
            replace another without a refused connection. There is no TLS: put anything but loopback
            behind a proxy that has it.
        reuse_port: Whether several routers of one host may listen on this address; the kernel
            spreads connections over them.
        cors_origins: Origins whose web pages may call the API; `*` allows all, empty none.
        body_bytes_max: Bytes of a request body; larger ones get 413. Each body is held in memory
            until its answer begins.
        bodies_bytes_max: Bytes of all bodies held at the same time; further ones get 429. This
            bounds the memory.
        head_bytes_max: Bytes of a request's first line and headers; larger ones get 431.
        connections_max: Open client connections; further ones are closed at once.
        requests_max: Requests in progress; further ones get 429.
        head_s: Seconds from the first byte of a request to the end of its headers.
        body_s: Seconds of silence within a request body.
        receive_s: Seconds from the first byte of a request to its last. Large bodies on slow lines
            need this time; a client that trickles bytes holds a connection for as long.
        keep_alive_s: Seconds of silence between requests, and for a client that does not read the
            end of its answer. Must be longer than a load balancer's own, which would otherwise
            reuse a connection just as it is closed here.
        linger_s: Seconds for which the rest of a body is read and dropped after an early error, so
            that the client gets to see the answer.
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
        attempts_max: Sessions that one request may be tried at. An attempt after one that had begun
            repeats an engine's work. Sessions that turn out to be gone do not count.
        backoff_s: Seconds before the third attempt; doubled before each further one, ± half at
            random. The second attempt follows at once if the first surely did not begin.
        backoff_max_s: Seconds, upper bound of that.
        retry_share: Share of requests that may be retried although an engine may have begun, which
            repeats its work. Lower protects a mesh in which much fails, but gives up sooner.
        retry_reserve: Retries beyond that share that may come in a burst, as when engines die with
            everything they were doing.
        first_s: Seconds to the first event of a stream. Must cover the engine's queue and prefill;
            a hung engine holds its requests for this long.
        unary_s: Seconds to the end of an answer that is not streamed.
        idle_s: Seconds of silence within a stream that has begun.
        total_s: Seconds for all attempts of a request together.
        held_bytes_max: Bytes of an answer that is not streamed. Up to this size it is held until it
            is complete, so that losing an engine midway costs only time; larger ones are passed on
            as they arrive.
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
        loading_s: Seconds to wait for a model that is being loaded and that nobody serves yet; 0 to
            not wait. More than clients themselves wait is useless.
        full_s: Seconds to wait while every suitable session has as many requests as it may; 0 to
            not wait.
        depth_max: Requests that may wait for one model; further ones get 503 at once. Each holds
            its body in memory.
        session_requests_max: Requests of this router at one session; further ones wait here, where
            any session may take them. Engines queue what they cannot batch, so a value below their
            batch size leaves them idle.
    """

    loading_s: Annotated[float, Meta(ge=0)] = 60.0
    full_s: Annotated[float, Meta(ge=0)] = 30.0
    depth_max: Count = 1000
    session_requests_max: Count = 512


class EjectionConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a session that fails is taken last.

    Attributes:
        eject_s: Seconds for which a session is used last after a transport failure or time-out;
            doubled for each failure in a row.
        eject_max_s: Seconds, upper bound of that.
        refused_s: Seconds for which a session is used last after it refused work: it is draining,
            and its next claim will say so.
        errors_max: Answers with 5xx in a row that count as a failure.
        share_max: Share of a model's sessions that may be ejected at the same time: if nearly all
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
        address: `host:port` that sessions dial; empty for none, so that all requests take the mesh.
            Port 0 picks a free one. Each router process needs its own port.
        advertised: Names or `host:port` under which sites reach that address, tried in order; empty
            uses the address itself, or this host's name if it is a wildcard.
        tls: `on`, `off`, or `auto`: on unless the address is loopback. The certificate is created
            at start and sent to sessions over the mesh.
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
        sites: Sites whose sessions this router dials, under TLS; `*` for all.
        same_host: Whether it also dials sessions that prove to be on its own host and network;
            without TLS on loopback.
        engine: Whether requests go directly to the engine of a session on this host that allows it
            (`gateway.lends_engine`), once there is a connection to the session.
    """

    sites: tuple[str, ...] = ()
    same_host: bool = True
    engine: bool = True


class RouterConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A router.

    Attributes:
        access: Access file of this router, from `otela mesh`.
        policy: `random`, `round_robin`, `least_load`, `hardware_weighted`, `prefix_affinity`, or
            another installed one; docs/routing.md compares them.
        providers: Providers whose sessions may be used; empty for all. Requests may narrow this
            further.
        walltime_margin_s: Seconds; a session whose allocation ends within this plus the expected
            duration of the request is used last. Covers the time by which supervisors leave early,
            and errors of the forecast.
        path_prefixes: Prefixes of engine paths that are forwarded, except paths that administer an
            engine or show what all its users share. If empty, only the known paths are forwarded.
        extra_paths: Further engine paths to forward, whatever they are called. They are never
            retried once they may have begun.
        server_timing: Whether whole answers carry the header `x-otela-timing`, which says in
            milliseconds where their time went. For measurements; it also reveals to clients how the
            mesh is built.
        drain_s: Seconds after SIGTERM for everything that follows together.
        drain_notice_s: Seconds after SIGTERM for which new connections are still accepted: as long
            as a load balancer or Kubernetes needs to notice `/readyz`.
        drain_idle_s: Seconds after that for which idle connections stay open for one last request,
            whose answer closes them. Closing them at once would fail requests that are on their
            way; slightly longer than the pauses of busy clients is enough.
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
