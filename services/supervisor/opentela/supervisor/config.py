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
        kind: Kind of engine; `auto` recognises it by its command, then by its answers.
        host: Address at which the engine listens. Anything but loopback sends prompts over that
            network.
        port: Port at which the engine listens, if its command says so neither by `{port}` nor by
            `--port`; 0 picks one and passes it as `$OTELA_PORT` and `$PORT`.
        port_min: Lowest port to pick from.
        port_max: Highest port to pick from. Must be below the kernel's own range (32768 up), so
            that no outgoing connection takes a port between its choice and the engine's bind.
        api_key: Whether the engine gets a random API key, if its kind accepts one: all users of a
            host share loopback.
        stop_s: Seconds from SIGTERM to SIGKILL. Slurm itself kills 30 s after its SIGTERM.
        hung_stop_s: Seconds from SIGTERM to SIGKILL for an engine that hangs, and will hardly
            react.
        tail_lines: Lines of output, the last ones, that are kept to explain failures, and shown in
            `/status` if that requires a token: output may contain prompts.
        log_file: File for the engine's output; empty for the supervisor's own stdout. On a
            terminal, without a file, only the last lines are shown, unless `log.form` is `text`.
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
        probe_s: Seconds between health probes of a ready engine.
        loading_probe_s: Seconds between health probes while the engine loads; a refused connection
            on loopback costs nothing.
        probe_timeout_s: Seconds after which an unanswered probe has failed.
        failures_max: Bad answers in a row (an error, a refused connection) after which the engine
            counts as ill.
        timeouts_max: Unanswered probes in a row after which the engine may count as hung …
        hang_s: … if for this many seconds there was no other sign of life, such as a token.
        stall_s: Seconds without a token while requests run, after which the engine counts as hung,
            whatever `/health` says. Must exceed the longest prefill.
        blind_stall_s: Seconds, the same for an engine that does not count tokens: an answer in one
            piece shows nothing until it is complete.
        load_stall_s: Seconds for which a loading engine may be silent. Loading itself has no limit.
        offer_s: Seconds between reads of `/v1/models`: how stale an offer may be.
        offer_retry_s: Seconds until a failed read is repeated.
        load_s: Seconds between reads of the engine's metrics, for heartbeats and progress.
        pause_s: Seconds; if the supervisor itself was paused for longer (stopped, or on a starved
            host), silence in that time is not held against the engine.
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
        failures_max: Failures within `window_s` after which the supervisor gives up; 0 never
            restarts an engine.
        unserved_max: Failures in a row of an engine that has never served, after which the
            supervisor gives up: its command is probably wrong. 2 forgives one, such as a GPU that
            was not free yet.
        window_s: Seconds; see `failures_max`.
        delay_s: Seconds before the first restart; doubles with each failure in a row. A random
            share of up to half is subtracted, so that engines that fell together do not restart
            together.
        delay_max_s: Seconds, upper bound of that.
        steady_s: Seconds of serving after which an engine counts as recovered, and the next wait is
            `delay_s` again.
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
        streams_max: Requests in progress; further ones are refused, and routers try elsewhere. Each
            may hold `window_bytes` in both directions.
        ack_delay_s: Seconds after which a request is acknowledged separately, unless its answer has
            begun. Must be well below the routers' limit; lower costs an extra frame for more
            requests.
        keepalive_s: Seconds; a router hears about each running request at least this often.
        router_timeout_s: Seconds of silence after which a router counts as gone, and the engine
            stops working for it. At least four of the routers' keep-alives.
        body_timeout_s: Seconds within which the next part of a request body must follow the last.
        body_bytes_max: Bytes of a request body; larger ones are refused. Only what the engine has
            not taken yet is held in memory.
        window_bytes: Bytes of a body in progress that the engine has not taken yet: what a slow
            engine makes the supervisor hold per request.
        calls_home: Whether to dial routers that invite the session, so that their requests pass no
            server of the mesh.
        lends_engine: Whether routers on the supervisor's own host may send requests directly to the
            engine, once they have a connection to the session. They receive the engine's API key,
            keep these limits in the supervisor's place, and report what they do.
    """

    streams_max: Count = 1024
    ack_delay_s: Seconds = 0.1
    keepalive_s: Seconds = 1.0
    router_timeout_s: Seconds = 20.0
    body_timeout_s: Seconds = 10.0
    body_bytes_max: Count = 64 * 1024 * 1024
    window_bytes: Annotated[int, Meta(ge=4096)] = 256 * 1024
    calls_home: bool = True
    lends_engine: bool = False


class DoorConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where routers of the same host or network dial our sessions.

    Attributes:
        address: `host:port` that routers dial; empty for none. Port 0 picks a free one. On
            loopback, only routers on this host dial it; otherwise, those whose `direct.sites`
            include this site.
        advertised: Names or `host:port` under which routers reach that address, tried in order;
            empty uses the address itself, or this host's name if it is a wildcard.
        tls: `on`, `off`, or `auto`: on unless the address is loopback. The certificate is created
            at start and named in the session's claims. Away from loopback, routers refuse to dial
            without TLS.
    """

    address: str = ""
    advertised: tuple[str, ...] = ()
    tls: Literal["auto", "on", "off"] = "auto"


class DrainConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a session ends.

    Attributes:
        limit_s: Seconds for which running requests may finish after a signal. Together with
            `engine.stop_s` this fits into the 30 s that Slurm and Kubernetes give.
        linger_s: Seconds, at least, for which requests that were already on their way are refused
            explicitly instead of left unanswered.
    """

    limit_s: Seconds = 18.0
    linger_s: Annotated[float, Meta(ge=0)] = 0.3


class WalltimeConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When to go before the scheduler makes us.

    Attributes:
        margin_s: Seconds before leaving from which new requests are refused: as long as a long
            answer takes.
        margin_share_max: Share of the time to serve that this margin may take at most.
        reserve_s: Seconds before the end by which the session has left and the engine is told to
            stop; must exceed `engine.stop_s`.
        look_s: Seconds between checks whether the end has moved, since a job can be prolonged or
            cut short while it runs. Each supervisor asks Slurm this often; 0 asks only at the
            start.
    """

    margin_s: Seconds = 120.0
    margin_share_max: Annotated[float, Meta(gt=0, le=0.5)] = 0.2
    reserve_s: Seconds = 15.0
    look_s: Annotated[float, Meta(ge=0)] = 60.0


class CacheConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where engines compile to: home directories are small, slow and shared.

    Attributes:
        enabled: Whether the engine's compile caches are put on node-local storage; false leaves
            them where the engine puts them.
        directory: Folder for the caches, node-local and writable; empty tries `$SLURM_TMPDIR`,
            `$TMPDIR`, `/tmp`, `/var/tmp` and `/dev/shm`, in this order.
        free_mb_min: MB that must be free in a folder, or it is skipped.
    """

    enabled: bool = True
    directory: str = ""
    free_mb_min: Annotated[int, Meta(ge=0)] = 512


class SupervisorConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A supervisor.

    Attributes:
        access: Access file of a provider.
        site: Name of the site; empty for the access file's, then `$SLURM_CLUSTER_NAME`, then
            `local`.
        node: Name of the host or allocation; empty for the host name.
        labels: Labels that clients can select by, such as `tier = "a"`.
        aliases: Other names of models: `aliases."chat" = "Qwen/Qwen3-8B"`; an empty model means the
            engine's only one.
        ready_file: File that exists while requests are accepted, and contains since when, in Unix
            seconds; empty for none.
        beat_s: Seconds between heartbeats, ±10 %. A registry probes when one is a fifth late, so
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
