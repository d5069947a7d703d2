"""A command reaches the engine as it was given."""

from pathlib import Path

import pytest

from opentela.core.errors import EngineError, UsageError
from opentela.supervisor import command
from opentela.supervisor.engines import adapter_for
from opentela.supervisor.engines.base import EngineAdapter

OPENAI = adapter_for("openai", [])
LLAMA = adapter_for("llamacpp", [])
VLLM = adapter_for("vllm", [])


def test_a_program_on_the_path_or_at_its_path_may_run(tmp_path: Path) -> None:
    """Both forms are checked before anything else is done."""
    program = tmp_path / "engine"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    command.check(["engine"], {"PATH": str(tmp_path)})
    command.check([str(program)], {})


def test_a_missing_command_is_one_clear_line() -> None:
    """Which program, and what to do."""
    with pytest.raises(EngineError) as caught:
        command.check(["vllm", "serve"], {"PATH": "/nowhere"})
    assert caught.value.line() == (
        "vllm: command not found; load the module or activate the environment that has it, "
        "or give its full path"
    )


def test_a_missing_or_unfit_file_is_told_apart(tmp_path: Path) -> None:
    """Not there is not the same as not executable."""
    with pytest.raises(EngineError, match="no such file"):
        command.check([str(tmp_path / "engine")], {})
    (tmp_path / "engine").write_text("")
    with pytest.raises(EngineError, match="not an executable file") as caught:
        command.check([str(tmp_path / "engine")], {})
    assert "chmod +x" in caught.value.remedy


def test_no_command_is_the_callers_fault() -> None:
    """The remedy shows how one is written."""
    with pytest.raises(UsageError) as caught:
        command.check([], {})
    assert "otela start --" in caught.value.remedy


@pytest.mark.parametrize(
    ("argv", "configured", "adapter", "port"),
    [
        (["serve", "--port", "{port}"], 0, VLLM, 0),
        (["serve", "--port={port}"], 9000, VLLM, 0),
        (["serve", "--port", "8123"], 9000, VLLM, 8123),
        (["serve", "--port", "no-number"], 9000, OPENAI, 9000),
        (["serve"], 9000, OPENAI, 9000),
        (["serve"], 0, OPENAI, 0),
        (["serve"], 0, VLLM, 8000),
        (["serve"], 0, LLAMA, 0),
    ],
)
def test_the_port_is_the_commands_if_it_insists(
    argv: list[str], configured: int, adapter: EngineAdapter, port: int
) -> None:
    """`{port}`, then `--port`, then the setting, then what the engine does by itself."""
    assert command.fixed_port(argv, configured, adapter) == port


def test_only_the_port_is_replaced() -> None:
    """Quotes, blanks, dollar signs and other braces are the engine's business."""
    argv = ["e", "--json", '{"a": {"port": 1}}', "a b", "'q'", "$HOME", "http://h:{port}/{port}"]
    assert command.with_port(argv, 7) == [*argv[:-1], "http://h:7/7"]


def test_the_environment_is_ours_and_what_the_engine_needs() -> None:
    """Port and key go where its kind looks for them; what the user has set about caches stays."""
    made = command.environment(
        {"HOME": "/h", "PORT": "1", "B": "mine", "PYTHONUNBUFFERED": ""},
        adapter=LLAMA,
        port=7,
        key="secret",
        caches={"A": "/tmp/a", "B": "/tmp/b"},
    )
    assert made == {
        "HOME": "/h",
        "A": "/tmp/a",
        "B": "mine",
        "PYTHONUNBUFFERED": "",
        "OTELA_PORT": "7",
        "PORT": "7",
        "LLAMA_ARG_PORT": "7",
        "LLAMA_API_KEY": "secret",
    }


def test_proxies_stay_out_of_conversations_on_this_host() -> None:
    """What stands there already is kept."""
    made = command.environment(
        {"http_proxy": "http://proxy:3128", "no_proxy": "intra"},
        adapter=OPENAI,
        port=7,
        key="",
        caches={},
    )
    assert made["no_proxy"] == "intra,127.0.0.1,localhost,::1"
    assert made["NO_PROXY"] == "127.0.0.1,localhost,::1"
    assert "OTELA_ENGINE_API_KEY" not in made
