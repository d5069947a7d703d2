"""Measurements of a made-up engine, for tests of the calibration."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from tests.unit.placer.parts import shape

from opentela.placer.calibrate.points import Point, measured, predict
from opentela.placer.fit import Fit, shipped

HEADER = (
    "point_id,source,gpu,n_gpus,tp,pp,dp,model,engine,engine_ver,w_dtype,kv_dtype,mode,conc,"
    "rate_rps,in_len,out_len,ttft_ms,tpot_ms,e2e_s,out_tok_s,total_tok_s,req_s,quality,note\n"
)
_OFFLINE = "tensorrt-llm,0.15.0,fp8,fp8,offline_inf_rate"
_MIXTURE = "qwen3-235b-a22b,trtllm,1.2,fp8,,closed_loop"
_RUNNING = "saturated_max_num_seqs"
_BATCH = "llama-3-8b,vllm,0.5.x,fp16,fp16,static_batch,8,,128,128,,,1.5,,,"
ROWS = (
    f"a-1,lab,h100-80g-sxm,1,1,1,1,{_BATCH},ok,",
    f"a-2,lab,h100-80g-sxm,8,8,1,1,{_MIXTURE},4,,9,9,80,9,,,,,,ep=8",
    f"a-3,lab,b200-180g-sxm,1,1,1,1,qwen3-8b,vllm,2025,bf16,,{_RUNNING},64,,,500,,12,,5000,,,,gpqa",
    f"a-4,lab,h100-80g-sxm,1,1,1,1,{_BATCH},power_capped,",
    f"a-5,lab,h100-80g-sxm,8,,,,{_BATCH},ok,",
    f"a-6,lab,x,1,1,1,1,{_BATCH},ok,",
    f"a-7,lab,l40s-48g,2,2,1,1,llama-3-8b,{_OFFLINE},,,9,9,,,,,,20,,",
)


def write(folder: Path, rows: Sequence[str] = ROWS) -> Path:
    """Write *rows* as a file of measurements, and beside it one that holds none."""
    folder.mkdir(exist_ok=True)
    (folder / "lab.csv").write_text(HEADER + "\n".join(rows) + "\n")
    (folder / "other.csv").write_text("arrival_s,in_tokens\n0,1\n")
    return folder


def points(fit: Fit, *, scatter: float = 0.0, seed: int = 0) -> list[Point]:
    """Return what batches of two models on two GPUs take where *fit* is the truth."""
    random = np.random.default_rng(seed)
    blank = [
        Point(
            id=f"{gpu}-{model}-{batch}-{length}",
            source="lab",
            mode="static_batch",
            shape=shape(model, gpu, engine="vllm-0.5"),
            clients=float(batch),
            rate_rps=float("nan"),
            prompt=float(length),
            answer=float(length),
            ttft_s=1.0,
            tpot_s=1.0,
            e2e_s=1.0,
            rps=float("nan"),
            quality="ok",
        )
        for gpu in ("a100-80g-sxm", "h100-80g-sxm")
        for model in ("llama-3-8b", "qwen2-7b", "mistral-7b")
        for batch in (1, 16, 64)
        for length in (128, 1024)
    ]
    data, factors = measured(blank, fit)
    said = predict(data, factors) * np.exp(scatter * random.standard_normal((len(blank), 4)))
    return [
        Point(
            **{
                name: getattr(point, name)
                for name in Point.__struct_fields__
                if name not in {"ttft_s", "tpot_s", "e2e_s"}
            },
            ttft_s=float(row[0]),
            tpot_s=float(row[1]),
            e2e_s=float(row[2]),
        )
        for point, row in zip(blank, said, strict=True)
    ]


def bare() -> Fit:
    """Return the shipped curves of operators without any effect."""
    fit = shipped()
    return Fit(operators=fit.operators, donors=fit.donors, effects={})
