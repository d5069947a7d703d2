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
        name: Name under which the engine loads it and clients ask for it, such as `Qwen/Qwen3-8B`.
        aliases: Other names under which clients ask for it.
        template: Template of the agents that starts it.
        known_as: Its name in the catalogue or in `config`; empty if that is `name`.
        config: Path of its Hugging Face `config.json`, if the catalogue does not have the model.
        engine: Engine from the catalogue, for the simulator.
        w_dtype: Type of its weights, for the simulator; empty for that of `config`, or bf16.
        kv_dtype: Type of its KV cache, for the simulator.
        quantisation: Quantisation passed to the engine; empty for the template's own.
        engine_kv_dtype: Type of the KV cache passed to the engine; empty for the template's own.
        context_max: Tokens of context passed to the engine; 0 for the template's own.
        tp: Degrees of tensor parallelism that may be used; empty for all that work, or 1 for a
            model that the simulator does not know.
        in_tokens: Mean length of prompts, until some have been observed.
        out_tokens: Mean length of answers, until some have been observed.
        ttft_s: Seconds, the promised mean time to first token, for which capacity is planned.
        tpot_s: Seconds, the promised mean time per token after it.
        e2e_s: Seconds, the promised mean time of a whole answer.
        capacity_rps: Requests a second that one replica was measured to serve; 0 lets the simulator
            estimate it.
        load_s: Seconds from start to first request, if measured; 0 lets the simulator estimate it.
        weight: Worth of a request relative to those of other models.
        replicas_min: Replicas to keep even without requests.
        sites: Sites where it may run; empty for all.
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
        window_s: Seconds; a model is in demand while one of its requests ended within this time.
            Rates and lengths are means over it.
        fast_s: Seconds within which a rise is noticed: the greater of the two rates counts.
        base_s: Seconds, the memory of the long mean. If not all demand can be served, a model is
            worth the mean of this and of the window, so that steady demand is not given up for a
            single request. 0 uses the window alone.
        learn_s: Seconds after the start in which the placer stops nothing, because it does not know
            the demand yet.
        cv_max: Upper bound of burstiness; higher measurements are capped.
    """

    window_s: Seconds = 600.0
    fast_s: Seconds = 60.0
    base_s: Amount = 21600.0
    learn_s: Amount = 120.0
    cv_max: Seconds = 8.0


class PlanConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When and how it is decided.

    Attributes:
        every_s: Seconds between decisions. A model in demand that has no replica does not wait for
            the next one.
        scarce: What to do when not all demand can be served: `most` serves the greatest share of
            the expected demand, `fair` the worst served model first.
        horizon_s: Seconds for which a plan is made: a replica that must be loaded first counts
            less, the more of this time has passed by then.
        gain_min: Share; a plan is carried out if it serves this much more of all requests that are
            expected until the horizon, less what is lost while replicas load. A quarter of it each
            replica must be worth that is started for a model which runs already.
        cool_down_s: Seconds for which a started replica is not stopped and a stopped one is not
            started again, unless nothing serves its model. Short values follow noise.
        wait_max_s: Seconds for which a model in demand may have no replica. Then the model that is
            expected to use its GPUs least makes room for it, for at least `turn_s`, and waits in
            turn. 0 for no limit; then no model in demand loses its last replica.
        turn_s: Seconds for which a replica that was started in this way is not stopped. Short
            values serve what has waited, and soon return the GPUs to models that are worth more.
        swap: Whether, with no GPU free, a last replica may be stopped before another one serves:
            `pays` if that gains `gain_min` more than is lost during loading, or `never`.
        idle_s: Seconds after which a replica without requests is stopped although nothing needs its
            GPUs; 0 for never. Until then it answers at once.
        absorb_s: Seconds within which a burst should be worked off; longer needs less headroom.
        solver_s: Seconds that the solver may take; after that, the best plan found so far is used.
        gap: Relative gap to the bound at which the solver stops.
        unknown_rps: Requests a second assumed for a replica about which nothing is known.
        unknown_load_s: Seconds assumed for the start of such a replica.
    """

    every_s: Seconds = 60.0
    scarce: Literal["most", "fair"] = "most"
    horizon_s: Seconds = 3600.0
    gain_min: Share = 0.01
    cool_down_s: Amount = 600.0
    wait_max_s: Amount = 7200.0
    turn_s: Amount = 120.0
    swap: Literal["pays", "never"] = "never"
    idle_s: Amount = 0.0
    absorb_s: Seconds = 30.0
    solver_s: Seconds = 2.0
    gap: Share = 0.00001
    unknown_rps: Seconds = 1.0
    unknown_load_s: Amount = 120.0


class MoveConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How plans are carried out.

    Attributes:
        look_s: Seconds between asking an agent what it holds; five times as often while something
            moves there.
        silent_s: Seconds without an answer after which nothing is started at an agent.
        retry_s: Seconds until an unanswered command is repeated under the same id.
        command_s: Seconds after which an unanswered start is given up.
        start_s: Seconds that a replica may take until it serves; then it is stopped and started
            elsewhere. Must exceed the slowest load.
        backoff_s: Seconds for which a model is not started again at an agent where it failed;
            doubled for each failure in a row.
        backoff_max_s: Seconds, upper bound of that.
        moves_max: Replicas that may be starting or stopping at the same time.
        ends_s: Seconds before the end of an agent's walltime from which nothing is started there,
            and its replicas get successors elsewhere. Must exceed the slowest load.
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
        kind: `jetstream` elects a leader by a key at the hub; `none` leads without election: then
            run only one placer.
        lease_s: Seconds after which another placer takes over from a leader that is gone.
        renew_s: Seconds between renewals; a third of the lease, so that one renewal may be lost.
    """

    kind: Literal["jetstream", "none"] = "jetstream"
    lease_s: Seconds = 3.0
    renew_s: Seconds = 1.0


class PlacerConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A placer.

    Attributes:
        access: Access file of this placer, from `otela mesh role`.
        dry_run: Whether to decide and report, but move nothing; needs no lease.
        models: Models that it may start.
        hardware: GPU types of the catalogue, by the name that an agent's driver reports, where that
            is not recognised.
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
