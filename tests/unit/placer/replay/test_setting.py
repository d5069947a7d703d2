"""What a plan believes of a replica is what the replay's engines do, and the simulator's."""

import msgspec
import numpy as np
import pytest
from tests.unit.placer.live import parts

from opentela.placer import catalogue
from opentela.placer.files import ServedEntry
from opentela.placer.live.candidates import Candidates
from opentela.placer.live.config import DemandConfig, ModelConfig
from opentela.placer.live.demand import Demands
from opentela.placer.live.pools import PoolSeen
from opentela.placer.live.specs import specs
from opentela.placer.options import SAFE
from opentela.placer.problem import Group, Pool
from opentela.placer.replay.setting import setting
from opentela.placer.replay.trace import Trace
from opentela.placer.shapes import Replica, ReplicaShape, Requests
from opentela.placer.simulate import discrete

COUNT = 600
REPLICAS = (("llama-3.1-8b", "h100-80g-sxm", 1), ("qwen2.5-32b", "a100-80g-sxm", 2))
LENGTHS = ((2000, 200), (9000, 300))


def requests(prompt: int, answer: int, hit: float) -> Requests:
    """Return many that are alike, a second apart."""
    return Requests(
        arrival_s=np.arange(float(COUNT)),
        in_tokens=np.full(COUNT, prompt),
        out_tokens=np.full(COUNT, answer),
        prefix_hit_tokens=np.full(COUNT, int(prompt * hit)),
    )


def planned(model: str, gpu: str, tp: int, asked: Requests) -> float:
    """Return what a placer that has heard of these requests believes of one replica."""
    config = parts.config(models=(ModelConfig(name="m", known_as=model, template="vllm"),))
    demands = Demands(DemandConfig(), {"m": "m"}, 0.0)
    for prompt, cached, answer in zip(
        asked.in_tokens, asked.prefix_hit_tokens, asked.out_tokens, strict=True
    ):
        used = parts.used("m", tokens_in=int(prompt), tokens_out=int(answer))
        demands.add(1.0, [msgspec.structs.replace(used, tokens_cached=int(cached))])
    known, _ = specs(config.models, lambda _: {})
    pool = PoolSeen(name="p", site="p", hardware=gpu, agents=1, gpus=8, templates=("vllm",))
    found = Candidates(config, known).of([pool], {"m": demands.of(1.0, "m")}, [])
    return found[Group("m", "p", tp)].capacity_rps / SAFE


def replayed(model: str, gpu: str, tp: int, asked: Requests) -> float:
    """Return what a replica of a replay of these requests serves."""
    trace = Trace(("m",), np.zeros(COUNT, dtype=np.int64), asked)
    pools = (Pool(name="p", gpu=gpu, nodes=1, gpus_per_node=8),)
    made = setting(trace, pools, (ServedEntry(match="m", model=model),), 0.5)
    return made.models[0].manners[gpu, tp, 1].capacity_rps


def simulated(model: str, gpu: str, tp: int, asked: Requests) -> float:
    """Return at which rate the requests leave an engine if all of them come at once."""
    shape = ReplicaShape(model=catalogue.model(model), gpu=catalogue.gpu(gpu), tp=tp)
    flood = msgspec.structs.replace(asked, arrival_s=np.zeros(COUNT))
    done = discrete.simulate(flood, [Replica(shape=shape)])
    return COUNT / float(done.done_s.max())


@pytest.mark.parametrize("hit", [0.0, 0.4, 0.8])
@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("replica", REPLICAS)
def test_plan_replay_and_engine_have_one_notion_of_capacity(
    replica: tuple[str, str, int], lengths: tuple[int, int], hit: float
) -> None:
    """Also of prompts of which much is cached: a cache lies in the memory of the engine."""
    asked = requests(*lengths, hit)
    replays = replayed(*replica, asked)
    # Plans round lengths to a tenth, so as to be worked out seldom.
    assert planned(*replica, asked) == pytest.approx(replays, rel=0.1)
    assert simulated(*replica, asked) == pytest.approx(replays, rel=0.1)
