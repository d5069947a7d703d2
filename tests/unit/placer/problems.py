"""Small problems that tests of the placer share."""

from opentela.placer.problem import Demand, Option, Pool, Problem

A100 = Pool(name="a", gpu="a100", site="north", nodes=2, gpus_per_node=4, usd_h=2.0)
H100 = Pool(name="h", gpu="h100", site="south", nodes=1, gpus_per_node=8, usd_h=3.0)


def problem(**changes: object) -> Problem:
    """Return two models on two pools; *changes* replace fields."""
    fields: dict[str, object] = {
        "pools": (A100, H100),
        "demands": (Demand(model="big", rate_rps=6.0), Demand(model="small", rate_rps=20.0)),
        "options": (
            Option(model="big", gpu="a100", tp=4, capacity_rps=2.0, load_s=100.0),
            Option(model="big", gpu="h100", tp=4, capacity_rps=4.0, load_s=100.0),
            Option(model="small", gpu="a100", capacity_rps=4.0, load_s=50.0),
            Option(model="small", gpu="h100", capacity_rps=6.0, load_s=50.0),
        ),
    }
    return Problem(**{**fields, **changes})  # type: ignore[arg-type]
