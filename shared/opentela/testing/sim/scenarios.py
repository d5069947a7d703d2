"""The random swarm; named scenarios stand in `named`."""

from random import Random
from typing import Final

from msgspec.structs import replace

from opentela.registry.config import LAN, LOCAL, RegistryConfig, RetentionConfig
from opentela.testing.sim import nemesis
from opentela.testing.sim.cluster import Cluster, ClusterForm
from opentela.testing.sim.engine import EngineForm
from opentela.testing.sim.run import Scenario
from opentela.testing.sim.supervisor_shell import SupervisorForm

_SHORT_MEMORY: Final = RetentionConfig(tombstone_s=15.0, clock_margin_s=4.0, sweep_s=2.0)
SITES: Final = ("hub", "north", "south")
MODELS: Final = ("alpha", "beta")


def mesh(
    *,
    registries: tuple[str, ...] = SITES,
    routers: tuple[str, ...] = ("hub", "north"),
    supervisors: tuple[str, ...] = ("north", "north", "south", "south"),
    registry: RegistryConfig = LAN,
    engine: EngineForm | None = None,
    restart_s: float = 5.0,
) -> ClusterForm:
    """Return a mesh with a process at each of the sites named; models take turns at each site."""
    turns: dict[str, int] = {}
    placed: dict[str, tuple[str, SupervisorForm]] = {}
    for number, site in enumerate(supervisors):
        turn = turns[site] = turns.get(site, -1) + 1
        form = SupervisorForm(
            provider=f"p-{site}",
            model=MODELS[turn % len(MODELS)],
            engine=engine or EngineForm(),
        )
        placed[f"gpu-{number}"] = (site, form)
    return ClusterForm(
        registries={f"registry-{n}": site for n, site in enumerate(registries)},
        routers={f"router-{n}": site for n, site in enumerate(routers)},
        supervisors=placed,
        registry=registry,
        restart_s=restart_s,
    )


def _random_mesh(rng: Random) -> ClusterForm:
    sites = SITES[: 2 + rng.randrange(2)]
    form = mesh(
        registries=tuple(rng.choices(sites, k=1 + rng.randrange(3))),
        routers=tuple(rng.choices(sites, k=1 + rng.randrange(2))),
        supervisors=tuple(rng.choices(sites, k=2 + rng.randrange(4))),
        registry=rng.choice([LOCAL, LOCAL, LAN]),
        engine=EngineForm(load_s=rng.uniform(0.5, 4.0), first_s=rng.uniform(0.02, 0.5)),
        restart_s=rng.uniform(0.5, 8.0),
    )
    form = replace(form, state_every_s=rng.choice([0.0, 0.0, 5.0]))
    if rng.random() < 0.2:  # noqa: PLR2004
        # Short memory needs clocks that agree; long memory does not.
        registry = replace(form.registry, retention=_SHORT_MEMORY)
        return replace(form, clock_offset_s=1.0, registry=registry)
    return replace(form, clock_offset_s=rng.choice([0.0, 600.0]))


def _random_faults(cluster: Cluster, rng: Random) -> float:
    length_s = rng.uniform(10.0, 30.0)
    is_forgetful = cluster.form.registry.retention is _SHORT_MEMORY
    for _ in range(1 + rng.randrange(3)):
        harm = rng.choice(nemesis.SWARM)
        if is_forgetful and harm is nemesis.jump_clocks:
            continue  # clocks that differ by more than the margin forget too early, as configured
        begin_s = rng.uniform(0.0, length_s / 2)
        for_s = rng.uniform(1.0, length_s - begin_s)
        cluster.world.trace.add(cluster.world.now, "world", "!", f"{harm.__name__} {begin_s:.1f}")
        cluster.world.after(begin_s, harm, cluster, rng, for_s)
    return length_s


SWARM: Final = Scenario(name="swarm", form=_random_mesh, faults=_random_faults)
