"""The command: quick, grouped help, and one line for each mistake."""

import os
import subprocess
import sys
from importlib.metadata import EntryPoint

import click
import pytest

from opentela import cli
from opentela.core.errors import ConfigError

HELP_BUDGET_S = 0.2


@click.command()
@click.option("--fail", type=click.Choice(["usage", "config", "abort", "bug"]))
def probe(fail: str | None) -> None:
    """Stand in for a service's command."""
    match fail:
        case "usage":
            raise click.UsageError("Give one\nthing.")
        case "config":
            raise ConfigError("a.b = 0 is wrong", remedy="give 1")
        case "abort":
            raise click.Abort
        case "bug":
            raise KeyError("impossible")
        case _:
            pass
    click.echo("done")


@pytest.fixture(autouse=True)
def _commands(monkeypatch: pytest.MonkeyPatch) -> None:
    made = {
        "router": EntryPoint("router", f"{__name__}:probe", cli.GROUP),
        "absent": EntryPoint("absent", "no_such_module_anywhere:x", cli.GROUP),
    }
    monkeypatch.setattr(cli, "_entry_points", lambda: made)
    monkeypatch.setattr(EntryPoint, "load", _load)


def _load(self: EntryPoint) -> click.Command:
    if self.name == "absent":
        raise ModuleNotFoundError("No module named 'httptools'", name="httptools")
    return probe


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    captured = capsys.readouterr()
    assert isinstance(ended.value.code, int)
    return ended.value.code, captured.out, captured.err


def test_a_command_that_works_exits_0(capsys: pytest.CaptureFixture[str]) -> None:
    """What the command printed is all that is printed."""
    assert run(capsys, "router") == (0, "done\n", "")


@pytest.mark.parametrize(
    ("arguments", "code", "line"),
    [
        (["router", "--fail", "config"], 2, "otela router: a.b = 0 is wrong; give 1\n"),
        (["router", "--fail", "usage"], 2, "otela router: Give one thing; see otela router --help"),
        (["router", "--flail"], 2, "otela router: No such option '--flail'"),
        (["rooter"], 2, "otela: No such command 'rooter'. Did you mean 'router'? See"),
        (["absent"], 1, "otela: absent needs httptools, which is not installed; run: pip install"),
        (["router", "--fail", "abort"], 130, ""),
    ],
)
def test_each_mistake_is_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, line: str
) -> None:
    """Exit 2 when asked wrongly, 1 when it failed, and never a traceback."""
    ended, out, err = run(capsys, *arguments)
    assert (ended, out) == (code, "")
    assert err.startswith(line)
    assert err.count("\n") <= 1


def test_a_bug_is_no_line() -> None:
    """What nobody expected keeps its traceback."""
    with pytest.raises(KeyError):
        cli.main(["router", "--fail", "bug"])


def test_help_is_grouped_by_what_people_come_for(capsys: pytest.CaptureFixture[str]) -> None:
    """Known commands stand under their section, others under More."""
    code, out, _ = run(capsys, "--help")
    assert code == 0
    operate, _, more = out.partition("More:")
    assert "Operate:\n  router   Run a router, the endpoint for OpenAI clients." in operate
    assert "absent" in more


def test_help_imports_no_service_and_is_quick() -> None:
    """Completion and a glance at the help must not wait for a web server to be imported."""
    source = (
        "import sys; from opentela import cli\n"
        "try: cli.main(['--help'])\n"
        "except SystemExit: pass\n"
        "slow = {'asyncio', 'aiohttp', 'nats', 'rich', 'structlog', 'opentela.router'}\n"
        "sys.exit(len(slow & set(sys.modules)))"
    )
    spent = []
    for _ in range(3):
        child = subprocess.Popen(
            [sys.executable, "-c", source], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        assert child.returncode == 0
        # Time on a processor: what else this machine does is not the command's fault.
        spent.append(used.ru_utime + used.ru_stime)
    assert min(spent) < HELP_BUDGET_S
