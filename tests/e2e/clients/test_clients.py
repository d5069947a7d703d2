"""Clients of the field notice no difference; `make clients` makes the environments they need."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from tests.e2e.processes import wait_until
from tests.e2e.product import NOTHING_TO_LEARN, Product, Service, wait_for_models
from tests.e2e.scenes import Engine

CLIENTS: Final = Path(os.environ.get("OTELA_TEST_CLIENTS", ""))
HERE: Final = Path(__file__).parent
MODEL: Final = "Org/Tiny-é 1"
TEXT: Final = ("Grüezi", " 🦊", " €", " there", ".")
EIGHT: Final = "Grüezi 🦊 € there.Grüezi 🦊 €"
RUN_WITHIN_S: Final = 120.0
ABORT_WITHIN_S: Final = 2.0

pytestmark = [
    pytest.mark.nats,
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not CLIENTS.name, reason="OTELA_TEST_CLIENTS names no folder: make clients"),
]


class Stand:
    """A router with one scripted engine."""

    def __init__(self, router: Service, engine: Engine) -> None:
        self.router = router
        self.engine = engine

    def aborted(self, count: int) -> None:
        """Return once so many requests were aborted at the engine, and none runs."""
        wait_until(
            lambda: {"aborted": count, "running": 0}.items() <= self.engine.seen().items(),
            f"{count} aborted requests",
            within_s=ABORT_WITHIN_S,
            detail=lambda: str(self.engine.seen()),
        )


@pytest.fixture
def stand(tmp_path: Path) -> Iterator[Stand]:
    """A router and one engine behind a leaf; its model's name is not made for URLs."""
    command = [
        *(sys.executable, "-m", "opentela.testing.fake_engine", "--port", "{port}"),
        *("--model", MODEL, "--owned-by", "vllm", "--tokens", "64", "--tpot-ms", "10"),
        *("--script", json.dumps({"text": TEXT})),
    ]
    with Product(tmp_path) as product:
        product.start_hub()
        product.start_registry("registry", NOTHING_TO_LEARN)
        router = product.start_router()
        engine = Engine(product.start_engine("alpha", product.start_leaf("site-a"), command))
        wait_for_models(router, MODEL)
        yield Stand(router, engine)


def run(argv: list[str], **environment: str) -> str:
    """Return what a client prints."""
    done = subprocess.run(
        argv,
        capture_output=True,
        text=True,
        timeout=RUN_WITHIN_S,
        check=False,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr[-3000:] + done.stdout[-3000:]
    return done.stdout


def test_the_javascript_sdk_is_served_in_everything(stand: Stand) -> None:
    """Lists, answers, streams, forms, errors, and what it leaves is stopped."""
    script = str(HERE / "openai_client.cjs")
    node_path = str(CLIENTS / "js" / "node_modules")
    node = str(CLIENTS / "node" / "bin" / "node")
    told: dict[str, Any] = json.loads(
        run([node, script, stand.router.url, MODEL], NODE_PATH=node_path)
    )
    assert told["models"] == [MODEL]
    assert told["model"] == MODEL
    assert told["chat"] == EIGHT
    assert told["session"] == stand.engine.session
    assert told["text"] == EIGHT[: len("Grüezi 🦊 € there")]
    assert told["vector"] == [0.1, -0.2, 0.3]
    assert told["stream"] == {"text": EIGHT, "finish": "length", "tokens": 8}
    assert told["heard"] == {"path": "/v1/audio/transcriptions", "method": "POST", "model": ""}
    assert told["stored"]["method"] == "GET"
    assert told["stored"]["path"].startswith("/v1/responses/resp_1")
    assert told["unknown"] == {"name": "NotFoundError", "status": 404, "code": "model_not_found"}
    assert told["missing"] == {"name": "BadRequestError", "status": 400, "code": "invalid_value"}
    assert told["left"] == 3
    assert told["late"]["name"] == "APIConnectionTimeoutError"
    stand.aborted(2)


def test_litellm_is_served(stand: Stand) -> None:
    """As one of its OpenAI-compatible servers."""
    python = str(CLIENTS / "litellm" / "bin" / "python")
    told: dict[str, Any] = json.loads(
        run(
            [python, str(HERE / "litellm_client.py"), stand.router.url, MODEL],
            LITELLM_LOCAL_MODEL_COST_MAP="True",
        )
    )
    assert told == {
        "chat": EIGHT,
        "tokens": 8,
        "stream": EIGHT,
        "stream_tokens": 8,
        "vector": [0.1, -0.2, 0.3],
        "unknown": {"name": "NotFoundError", "status": 404},
        "left": 3,
    }
    stand.aborted(1)


@pytest.mark.parametrize("streaming", [True, False], ids=["streaming", "whole"])
def test_aiperf_measures_without_an_error(stand: Stand, tmp_path: Path, *, streaming: bool) -> None:
    """A load tool of the field finds what it asked for: every request, every token."""
    count, tokens = 60, 16
    stand.engine.script(tpot_ms=2)
    started = time.monotonic()
    run(
        [
            *(str(CLIENTS / "aiperf" / "bin" / "aiperf"), "profile"),
            *("--model", MODEL, "--url", stand.router.url, "--endpoint-type", "chat"),
            *(("--streaming",) if streaming else ()),
            *(
                "--tokenizer",
                str(CLIENTS / "tokenizer"),
                "--use-server-token-count",
                "--random-seed",
                "1",
            ),
            *("--concurrency", "8", "--request-count", str(count)),
            *("--prompt-input-tokens-mean", "64", "--num-dataset-entries", "10"),
            *("--extra-inputs", f"max_tokens:{tokens}", "--ui-type", "simple"),
            *("--output-artifact-dir", str(tmp_path / "aiperf")),
        ]
    )
    assert time.monotonic() - started < RUN_WITHIN_S
    (file,) = (tmp_path / "aiperf").rglob("profile_export_aiperf.json")
    report = json.loads(file.read_text())
    assert report["request_count"]["avg"] == count
    assert not report.get("error_summary")
    assert report["output_sequence_length"]["avg"] == tokens
    if streaming:
        assert report["time_to_first_token"]["p50"] > 0
    seen = stand.engine.seen()
    assert (seen["aborted"], seen["failed"], seen["running"]) == (0, 0, 0)
