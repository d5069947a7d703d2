"""Every knob of a supervisor: its unit, why its value, and what raising it costs."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from opentela.telemetry.config import HealthConfig, LogConfig
from opentela.wire.control import BEAT_EVERY_S

Seconds = Annotated[float, Meta(gt=0)]
Count = Annotated[int, Meta(ge=1)]
Port = Annotated[int, Meta(ge=0, le=65535)]


class EngineConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The engine's command, and what surrounds its process.

    Attributes:
        kind: Which adapter reads it; `auto` recognises it by its command, then by its answers.
        host: Where the engine is reached. Anything but loopback sends prompts over that network.
        port: Where the engine listens, when its command says so neither by `{port}` nor by
            `--port`; 0 picks one and offers it as `$OTELA_PORT` and `$PORT`.
        port_min: Least port to pick from.
        port_max: Greatest port to pick from. The range ends below the kernel's own (32768 up),
            so that no outgoing connection takes a port between our choice and the engine's bind.
        api_key: Whether the engine gets a random API key, where its kind takes one: loopback is
            shared by all users of a host.
        stop_s: From SIGTERM to SIGKILL. Slurm itself kills 30 s after its SIGTERM.
        hung_stop_s: The same for an engine that hangs: it will hardly listen.
        tail_lines: Last lines of output that are kept for failures, and for `/status` if that
            asks for a token: what an engine prints may be a prompt.
        log_file: Where the engine's output goes; empty is our own stdout.
    """

    kind: Literal["auto", "vllm", "sglang", "llamacpp", "openai"] = "auto"
    host: str = "127.0.0.1"
    port: Port = 0
    port_min: Port = 20000
    port_max: Port = 32767
    api_key: bool = True
    stop_s: Seconds = 8.0
    hung_stop_s: Seconds = 2.0
    tail_lines: Count = 200
    log_file: str = ""


class WatchConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When an engine counts as ready, ill or hung.

    A frozen engine is found after `hang_s` and at least `timeouts_max` unanswered probes, thus
    about max(hang_s, timeouts_max · (probe_s + probe_timeout_s)): 6 s as set here.

    Attributes:
        probe_s: Between two health probes of a ready engine.
        loading_probe_s: The same while it loads; a refused connection on loopback costs nothing.
        probe_timeout_s: A probe without an answer for so long has failed.
        failures_max: So many bad answers in a row (an error, a refused connection) make it ill.
        timeouts_max: So many unanswered probes in a row may make it hung.
        hang_s: ... if nothing else, such as a token, was a sign of life for so long.
        stall_s: Requests run and no token has come out for so long: hung, whatever `/health`
            says. Must exceed the longest prefill.
        blind_stall_s: The same for an engine that counts no tokens: an answer in one piece shows
            nothing until it is complete.
        load_stall_s: A loading engine may take for ever, but not be silent for so long.
        offer_s: Between two reads of `/v1/models`: how stale an offer may be.
        offer_retry_s: After a failed read.
        load_s: Between two reads of the engine's metrics, for heartbeats and progress.
        pause_s: A gap in our own run longer than this (a stopped process, a starved host) is no
            evidence against the engine.
    """

    probe_s: Seconds = 1.0
    loading_probe_s: Seconds = 0.25
    probe_timeout_s: Seconds = 2.0
    failures_max: Count = 3
    timeouts_max: Count = 2
    hang_s: Seconds = 5.0
    stall_s: Seconds = 180.0
    blind_stall_s: Seconds = 900.0
    load_stall_s: Seconds = 900.0
    offer_s: Seconds = 10.0
    offer_retry_s: Seconds = 1.0
    load_s: Seconds = 2.0
    pause_s: Seconds = 3.0


class RestartConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whether and when a failed engine is started again.

    Attributes:
        failures_max: So many failures within `window_s` and the supervisor gives up; 0 never
            starts an engine again.
        unserved_max: So many failures in a row of an engine that has never served: its command is
            probably wrong. 2 forgives one, such as a GPU that was not free yet.
        window_s: See `failures_max`.
        delay_s: Wait before the first new start; doubles with each failure in a row, and a random
            share of up to half is taken off, so that engines that fell together do not rise so.
        delay_max_s: The wait grows no further.
        steady_s: An engine that served for so long has recovered: the next wait is `delay_s`.
    """

    failures_max: Annotated[int, Meta(ge=0)] = 5
    unserved_max: Count = 2
    window_s: Seconds = 900.0
    delay_s: Seconds = 1.0
    delay_max_s: Seconds = 60.0
    steady_s: Seconds = 300.0


class GatewayConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one session takes on.

    Attributes:
        streams_max: Requests at once; above it they are refused, and routers try elsewhere. Each
            may hold a window of `window_bytes` both ways.
        ack_delay_s: A request is acknowledged by itself unless its answer has begun by then. Must
            be well below what routers wait for it; less costs a frame for more of the requests.
        keepalive_s: A router hears of each running request at least this often.
        router_timeout_s: A router that was silent for so long is gone, and so is whoever waited:
            the engine stops working for it. At least four of the routers' own keep-alives.
        body_timeout_s: The next part of a request's body must come within this of the last.
        body_bytes_max: A larger body is refused; it is held in memory only as far as the engine
            has not taken it.
        window_bytes: Of a body under way that the engine has not taken: what one slow engine may
            make us hold for each request.
        calls_home: Dial routers that invite us, so that their requests pass no server of the mesh.
    """

    streams_max: Count = 1024
    ack_delay_s: Seconds = 0.02
    keepalive_s: Seconds = 1.0
    router_timeout_s: Seconds = 20.0
    body_timeout_s: Seconds = 10.0
    body_bytes_max: Count = 64 * 1024 * 1024
    window_bytes: Annotated[int, Meta(ge=4096)] = 256 * 1024
    calls_home: bool = True


class DoorConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where routers of the same host or network dial our sessions.

    Attributes:
        address: `host:port`; empty for nowhere. Port 0 takes a free one. On loopback only routers
            of this host dial it; elsewhere those whose `direct.sites` name our site.
        advertised: Names or `host:port` at which routers reach that address, tried in order; empty
            takes the address itself, or this host's name when it is a wildcard.
        tls: `on`, `off`, or `auto`: on unless the address is loopback. The certificate is made at
            start, and our claims say which it is; routers dial nothing else in the clear.
    """

    address: str = ""
    advertised: tuple[str, ...] = ()
    tls: Literal["auto", "on", "off"] = "auto"


class DrainConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a session ends.

    Attributes:
        limit_s: Running requests may finish for so long after a signal; with `engine.stop_s` it
            fits into the 30 s that Slurm and Kubernetes give.
        linger_s: For so long at least, requests that were already under way are refused by name
            rather than left without an answer.
    """

    limit_s: Seconds = 18.0
    linger_s: Annotated[float, Meta(ge=0)] = 0.3


class WalltimeConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When to go before the scheduler makes us.

    Attributes:
        margin_s: New work is refused so long before leaving: as long as a long answer takes.
        margin_share_max: ... but at most this share of the time that there is to serve.
        reserve_s: The session has left, and the engine is told to stop, so long before the end;
            must exceed `engine.stop_s`.
        look_s: Between two questions whether the end has moved: a job can be prolonged and cut
            short while it runs. Each supervisor asks Slurm so often; 0 asks at the start alone.
    """

    margin_s: Seconds = 120.0
    margin_share_max: Annotated[float, Meta(gt=0, le=0.5)] = 0.2
    reserve_s: Seconds = 15.0
    look_s: Annotated[float, Meta(ge=0)] = 60.0


class CacheConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where engines compile to: home directories are small, slow and shared.

    Attributes:
        enabled: False leaves every cache where the engine puts it.
        directory: Node-local and writable; empty tries `$SLURM_TMPDIR`, `$TMPDIR`, `/tmp`,
            `/var/tmp` and `/dev/shm`, in this order.
        free_mb_min: Less free space than this and a directory is passed over.
    """

    enabled: bool = True
    directory: str = ""
    free_mb_min: Annotated[int, Meta(ge=0)] = 512


class SupervisorConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A supervisor.

    Attributes:
        access: File that lets it join the mesh.
        site: Where it runs; empty takes the access file's, then `$SLURM_CLUSTER_NAME`, then
            `local`.
        node: The host or allocation; empty takes the host name.
        labels: Free words for those who choose, such as `tier = "a"`.
        aliases: Further names of models: `aliases."chat" = "Qwen/Qwen3-8B"`; an empty model means
            the only one of the engine.
        ready_file: File that is there while requests are taken, and holds since when, in Unix
            seconds; empty for none.
        beat_s: Between heartbeats, ±10 %. A registry probes when one is a fifth late, so
            that a death is known everywhere within two seconds.
    """

    access: str = ""
    site: str = ""
    node: str = ""
    labels: dict[str, str] = {}
    aliases: dict[str, str] = {}
    ready_file: str = ""
    beat_s: Seconds = BEAT_EVERY_S
    engine: EngineConfig = EngineConfig()
    watch: WatchConfig = WatchConfig()
    restart: RestartConfig = RestartConfig()
    gateway: GatewayConfig = GatewayConfig()
    door: DoorConfig = DoorConfig()
    drain: DrainConfig = DrainConfig()
    walltime: WalltimeConfig = WalltimeConfig()
    cache: CacheConfig = CacheConfig()
    health: HealthConfig = HealthConfig()
    log: LogConfig = LogConfig()
