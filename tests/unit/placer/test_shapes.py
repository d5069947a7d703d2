"""What shapes say of themselves."""

import numpy as np

from opentela.placer.shapes import Estimates, Gpu, Model, Reason, ReplicaShape, Requests

GPU = Gpu(id="g", name="G", vendor="v", arch="a", memory_gib=2, bandwidth=1e12, flops_bf16=1e14)
MODEL = Model(id="m", layers=2, hidden=8, heads=2, kv_heads=1, head_dim=4, ffn=16, vocab=32)


def test_a_replica_holds_the_gpus_of_all_its_stages() -> None:
    """Tensor and pipeline parallelism multiply."""
    assert ReplicaShape(model=MODEL, gpu=GPU, tp=4, pp=2).gpus == 8


def test_memory_is_in_bytes() -> None:
    """A data sheet's GB are the GiB of drivers."""
    assert GPU.memory == 2 * 2**30


def test_a_trace_is_as_long_as_its_arrivals() -> None:
    """One entry a request."""
    ints = np.zeros(3, dtype=np.int64)
    trace = Requests(arrival_s=np.zeros(3), in_tokens=ints, out_tokens=ints, prefix_hit_tokens=ints)
    assert len(trace) == 3


def test_what_has_a_reason_does_not_fit() -> None:
    """`fits` is the negation of a reason."""
    none = np.zeros(2)
    said = Estimates(
        capacity_rps=none,
        slo_rps=none,
        batch_max=none,
        utilisation=none,
        ttft_s=none,
        tpot_s=none,
        e2e_s=none,
        ttft_p99_s=none,
        e2e_p99_s=none,
        kv_tokens=none,
        usd_h=none,
        reasons=[None, Reason.MEMORY],
    )
    assert said.fits.tolist() == [True, False]
