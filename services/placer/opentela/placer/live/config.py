"""Every knob of a placer: unit, default, and what it trades."""

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

from opentela.telemetry.config import HealthConfig, LogConfig
from opentela.view.config import ViewConfig

Seconds: TypeAlias = Annotated[float, Meta(gt=0)]
Amount: TypeAlias = Annotated[float, Meta(ge=0)]
Count: TypeAlias = Annotated[int, Meta(ge=1)]
Share: TypeAlias = Annotated[float, Meta(ge=0, le=1)]
Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=256)]


class ModelConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A model that the placer may start. It starts no other, whatever clients ask for.

    Attributes:
        name: As the engine is to load it and clients ask for it, such as `Qwen/Qwen3-8B`.
        aliases: Further names by which clients ask for it.
        template: Of the agents, by which it is started.
        known_as: Its name in the catalogue, or of `config`; empty when that is `name`.
        config: Its `config.json` of Hugging Face, for one that the catalogue does not have.
        engine: Of the catalogue, for the simulator.
        w_dtype: As weights are stored, for the simulator; empty for what `config` says, or bf16.
        kv_dtype: As the KV cache is stored, for the simulator.
        quantisation: What the engine is told of the weights; empty for the template's own.
        engine_kv_dtype: What the engine is told of the KV cache; empty for the template's own.
        context_max: Tokens; 0 for the template's own.
        tp: Sizes of tensor parallelism that may be used; empty for all that work, or 1 where
            nothing can be worked out.
        in_tokens: Mean length of prompts, until some have been seen.
        out_tokens: Mean length of answers, until some have been seen.
        ttft_s: Promised mean time to the first token, for which capacity is planned.
        tpot_s: Promised mean time of each token after it.
        e2e_s: Promised mean time of a whole answer.
        capacity_rps: Requests a second of one replica, where that was measured; 0 works it out.
        load_s: From its start to its first request, where that was measured; 0 works it out.
        weight: What a request is worth beside those of other models.
        replicas_min: Replicas to keep even if nobody asks.
        sites: Where it may run; empty for everywhere.
    """

    name: Name
    aliases: tuple[Name, ...] = ()
    template: Name = "vllm"
    known_as: str = ""
    config: str = ""
    engine: str = "vllm"
    w_dtype: str = ""
    kv_dtype: str = "bf16"
    quantisation: str = ""
    engine_kv_dtype: str = ""
    context_max: Annotated[int, Meta(ge=0)] = 0
    tp: tuple[Count, ...] = ()
    in_tokens: Seconds = 512.0
    out_tokens: Seconds = 256.0
    ttft_s: Seconds = float("inf")
    tpot_s: Seconds = float("inf")
    e2e_s: Seconds = float("inf")
    capacity_rps: Amount = 0.0
    load_s: Amount = 0.0
    weight: Amount = 1.0
    replicas_min: Annotated[int, Meta(ge=0)] = 0
    sites: tuple[str, ...] = ()


class DemandConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is remembered of requests.

    Attributes:
        window_s: Seconds. A model is demanded while one of its requests ended within this; rates
            and lengths are means over it.
        fast_s: Seconds. A rise is seen within this: what counts is the greater of both rates.
        base_s: Seconds. Memory of the long mean. Where not all can be served, a model is worth the
            mean of this and of the window: who always comes back is not given up for who came
            once. 0 for none: lately is all that counts.
        learn_s: Seconds after its start before the placer stops anything: it has not heard yet who
            asks for what.
        cv_max: Burstiness is taken for no greater than this.
    """

    window_s: Seconds = 600.0
    fast_s: Seconds = 60.0
    base_s: Amount = 21600.0
    learn_s: Amount = 120.0
    cv_max: Seconds = 8.0


class PlanConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When and how it is decided.

    Attributes:
        every_s: Seconds between two decisions. A model that is asked for and has no replica does
            not wait for the next.
        scarce: When not all can be served: `most` serves the greatest share of what is to be
            expected, `fair` the worst served model first.
        horizon_s: Seconds for which a plan is made: a replica that must be loaded first counts the
            less, the more of this has passed by then.
        gain_min: Share. A plan is carried out if it raises the worst served model's share, or that
            of all requests, by so much.
        cool_down_s: Seconds for which a replica that was started is not stopped, and one that was
            stopped not started again, unless nobody serves its model. Short ones chase noise.
        wait_max_s: Seconds for which a model that is asked for may run nowhere. Then whoever is
            expected to use its GPUs least makes room for it, for `turn_s` at least, and waits in
            turn. 0: for ever, and nobody who is asked for loses the last replica.
        turn_s: Seconds for which a replica that was started so is not stopped. Short ones serve
            what has waited, and soon give the GPUs back to whoever is worth more.
        swap: Whether a last replica may be stopped before another serves where no GPU is free: if
            it `pays`, by `gain_min` more than is lost while it loads elsewhere, or `never`.
        idle_s: Seconds after which a replica that nobody asks for is ended although nothing needs
            its GPUs; 0 for never. Until then it answers at once if somebody does.
        absorb_s: Seconds within which a burst is to be worked off; longer needs less headroom.
        solver_s: Seconds that the solver may take; the best found so far is used then.
        gap: The solver stops when the bound is this near.
        unknown_rps: Capacity of one replica about which nothing is known, requests a second.
        unknown_load_s: Seconds that such a one takes to start.
    """

    every_s: Seconds = 60.0
    scarce: Literal["most", "fair"] = "most"
    horizon_s: Seconds = 3600.0
    gain_min: Share = 0.05
    cool_down_s: Amount = 600.0
    wait_max_s: Amount = 0.0
    turn_s: Amount = 120.0
    swap: Literal["pays", "never"] = "never"
    idle_s: Amount = 0.0
    absorb_s: Seconds = 30.0
    solver_s: Seconds = 2.0
    gap: Share = 0.01
    unknown_rps: Seconds = 1.0
    unknown_load_s: Amount = 120.0


class MoveConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How plans are carried out.

    Attributes:
        look_s: Seconds between two questions to an agent what it holds; five times as often while
            something moves there.
        silent_s: Seconds without an answer, after which nothing is started at an agent.
        retry_s: Seconds until a command that was not answered is repeated, under the same id.
        command_s: Seconds after which a start that nobody answered is given up.
        start_s: Seconds that a replica may take until it serves; then it is stopped and started
            elsewhere. Larger than the slowest load.
        backoff_s: Seconds for which a model is not started again at an agent where that failed;
            doubled with each failure in a row.
        backoff_max_s: Seconds, upper bound of that.
        moves_max: Replicas that may be on their way at once.
        ends_s: Seconds before the end of an agent's walltime from which on nothing is started
            there, and what runs there gets a successor elsewhere. Longer than the slowest load.
    """

    look_s: Seconds = 5.0
    silent_s: Seconds = 20.0
    retry_s: Seconds = 1.0
    command_s: Seconds = 15.0
    start_s: Seconds = 1800.0
    backoff_s: Seconds = 30.0
    backoff_max_s: Seconds = 1800.0
    moves_max: Count = 8
    ends_s: Amount = 900.0


class LeaseConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How one of several placers comes to lead.

    Attributes:
        kind: `jetstream` elects one by a key at the hub; `none` leads without asking: run one
            placer then, and only one.
        lease_s: Seconds after which another takes over from a leader that is gone.
        renew_s: Seconds between two renewals; a third of the lease, so that one may be lost.
    """

    kind: Literal["jetstream", "none"] = "jetstream"
    lease_s: Seconds = 3.0
    renew_s: Seconds = 1.0


class PlacerConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A placer.

    Attributes:
        access: File that lets this placer into the mesh, as `otela mesh` writes it.
        dry_run: Decide and say so, and move nothing; needs no lease.
        models: The models that it may start.
        hardware: GPU type of the catalogue by the name that an agent's driver has for it, where
            that is not recognised.
    """

    access: str
    dry_run: bool = False
    models: tuple[ModelConfig, ...] = ()
    hardware: dict[str, str] = {}
    demand: DemandConfig = DemandConfig()
    plan: PlanConfig = PlanConfig()
    moves: MoveConfig = MoveConfig()
    lease: LeaseConfig = LeaseConfig()
    view: ViewConfig = ViewConfig()
    health: HealthConfig = HealthConfig()
    log: LogConfig = LogConfig()
