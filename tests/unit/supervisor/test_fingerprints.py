"""Offers get the fingerprints of their models, and never wait long for them."""

import json
import threading
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from tests.unit.supervisor.test_weights import model

from opentela.core.record import ModelOffer
from opentela.supervisor import fingerprints, weights
from opentela.supervisor.engines import adapter_for
from opentela.supervisor.engines.base import EngineOffer, ModelSource
from opentela.supervisor.fingerprints import Fingerprints
from opentela.testing.waiting import until

COMMAND = ("vllm", "serve", "{model}", "--port", "{port}", "--dtype", "half")


def offer(folder: Path, adapter: str = "", **fields: object) -> EngineOffer:
    one = msgspec.structs.replace(ModelOffer(name="m", context_max=4096), **fields)
    return EngineOffer("vllm", (one,), "0.32", (ModelSource(str(folder), adapter=adapter),))


async def added(asked: EngineOffer, argv: Sequence[str] = COMMAND) -> ModelOffer:
    (found,) = (await Fingerprints(argv, {}).added_to(asked, adapter_for("vllm", ()))).models
    return found


async def test_the_same_configuration_on_two_nodes_has_one_fingerprint(tmp_path: Path) -> None:
    """Paths, ports and the number of GPUs differ; the answers do not."""
    one, two = model(tmp_path / "a"), model(tmp_path / "b")
    first = await added(offer(one), (*COMMAND, "-tp", "1"))
    second = await added(offer(two), ("/opt/vllm", "serve", str(two), "--dtype=half", "-tp", "2"))
    assert first.fingerprint == second.fingerprint != ""
    assert first.fingerprint != (await added(offer(one), COMMAND[:-2])).fingerprint
    assert second.quantisation == first.quantisation == "fp8"


async def test_each_thing_that_decides_answers_changes_it(tmp_path: Path) -> None:
    """Weights, limits, version, quantisation, an argument, an adapter."""
    folder = model(tmp_path / "a")
    other = model(tmp_path / "b")
    (other / "tokenizer.json").write_text("{}")
    adapter = tmp_path / "lora"
    adapter.mkdir()
    (adapter / "adapter_model.safetensors").write_bytes(b"x")
    found = [
        await added(offer(folder)),
        await added(offer(other)),
        await added(offer(folder, context_max=8192)),
        await added(offer(folder, quantisation="awq")),
        await added(offer(folder)._replace(version="0.33")),
        await added(offer(folder), (*COMMAND, "--seed", "1")),
        await added(offer(folder, adapter=str(adapter))),
    ]
    prints = [one.fingerprint for one in found]
    assert all(prints)
    assert len(set(prints)) == len(prints)


async def test_a_template_of_the_command_counts_as_what_is_in_it(tmp_path: Path) -> None:
    """The file lies elsewhere on another node, and may be edited there."""
    folder = model(tmp_path / "a")
    files = [tmp_path / name for name in ("t1", "t2", "t3")]
    for file, text in zip(files, ("x", "x", "y"), strict=True):
        file.write_text(text)
    one, two, three = [
        (await added(offer(folder), (*COMMAND, "--chat-template", str(file)))).fingerprint
        for file in files
    ]
    assert one == two != three


async def test_a_word_that_can_be_no_name_of_a_file_is_a_word(tmp_path: Path) -> None:
    """Engines take whole JSON documents for an argument."""
    folder = model(tmp_path / "a")
    for word in ("x" * 10_000, "a\0b", '{"k": "' + "v" * 300 + '"}'):
        assert (await added(offer(folder), (*COMMAND, "--json", word))).fingerprint


async def test_what_cannot_be_measured_has_no_fingerprint(tmp_path: Path) -> None:
    """Neither weights elsewhere, nor a lost shard, nor an adapter that is not here."""
    folder = model(tmp_path / "a")
    assert (await added(offer(tmp_path / "gone"))).fingerprint == ""
    assert (await added(offer(folder, adapter="org/lora"))).fingerprint == ""
    assert (await added(offer(folder)._replace(sources=()))).fingerprint == ""
    index = {"weight_map": {"layer": "lost.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert (await added(offer(folder))).fingerprint == ""


async def test_a_file_server_that_hangs_costs_the_fingerprint_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The offer goes out without it, and a later one has it."""
    gate = threading.Event()
    measure = weights.measure

    def slow(path: Path) -> weights.Measured:
        assert gate.wait(10)
        return measure(path)

    monkeypatch.setattr(weights, "measure", slow)
    monkeypatch.setattr(fingerprints, "WITHIN_S", 0.01)
    known = Fingerprints(COMMAND, {})
    asked, adapter = offer(model(tmp_path / "a")), adapter_for("vllm", ())
    assert (await known.added_to(asked, adapter)).models[0].fingerprint == ""
    gate.set()

    async def is_known() -> bool:
        return bool((await known.added_to(asked, adapter)).models[0].fingerprint)

    await until(is_known, "the fingerprint")


async def test_what_changes_on_disk_later_is_not_what_the_engine_runs(tmp_path: Path) -> None:
    """Measured once a launch."""
    folder = model(tmp_path / "a")
    known, adapter = Fingerprints(COMMAND, {}), adapter_for("vllm", ())
    before = await known.added_to(offer(folder), adapter)
    (folder / "config.json").write_text("{}")
    assert await known.added_to(offer(folder), adapter) == before
    assert (await added(offer(folder))).fingerprint != before.models[0].fingerprint


async def test_models_beyond_the_limit_are_offered_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine cannot make us read for ever."""
    monkeypatch.setattr(fingerprints, "MODELS_MAX", 2)
    source = ModelSource(str(model(tmp_path / "a")))
    models = tuple(ModelOffer(name=f"m{number}", context_max=number) for number in range(3))
    asked = EngineOffer("vllm", models, "1", (source,) * 3)
    found = await Fingerprints(COMMAND, {}).added_to(asked, adapter_for("vllm", ()))
    assert [bool(one.fingerprint) for one in found.models] == [True, True, False]
