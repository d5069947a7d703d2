"""Configuration: precedence, checks, and messages that say what to do."""

from pathlib import Path
from typing import Annotated

import click
import msgspec
import pytest
from click.testing import CliRunner
from msgspec import Meta

from opentela import settings
from opentela.core.errors import ConfigError


class Queue(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of its own."""

    depth_max: Annotated[int, Meta(ge=1)] = 100
    wait_s: Annotated[float, Meta(gt=0)] = 5.0


class Form(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One field of each sort that a service has."""

    access: str
    queue: Queue = Queue()
    names: tuple[str, ...] = ()
    labels: dict[str, str] = {}
    limit: Annotated[int, Meta(ge=1)] | None = None
    is_open: bool = False


def load(
    tmp_path: Path, toml: str = "", environ: dict[str, str] | None = None, *overrides: str
) -> settings.Settings[Form]:
    file = tmp_path / "router.toml"
    file.write_text('access = "a.toml"\n' + toml)
    return settings.load(
        Form, service="router", file=file, environ=environ or {}, overrides=overrides
    )


def complaint(tmp_path: Path, *args: object) -> str:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, *args)  # type: ignore[arg-type]
    return caught.value.line()


def test_later_sources_override_earlier_ones(tmp_path: Path) -> None:
    """Defaults give way to the file, the file to the environment, that to the command line."""
    loaded = load(
        tmp_path,
        "[queue]\ndepth_max = 1\nwait_s = 1",
        {"OTELA_ROUTER__QUEUE__DEPTH_MAX": "2", "OTELA_ROUTER__QUEUE__WAIT_S": "2.5"},
        "queue.depth_max=3",
    )
    assert loaded.value.queue == Queue(depth_max=3, wait_s=2.5)
    assert loaded.sources["queue.depth_max"] == "--set"
    assert loaded.sources["queue.wait_s"] == "OTELA_ROUTER__QUEUE__WAIT_S"
    assert loaded.sources["access"] == str(tmp_path / "router.toml")
    assert loaded.sources["is_open"] == settings.DEFAULT


def test_text_is_read_as_the_field_wants_it(tmp_path: Path) -> None:
    """Numbers, lists, tables and truth values can be given as text."""
    loaded = load(
        tmp_path, "", {}, "names=a, b", "labels.tier=1", "limit=7", "is_open=true", "access=5"
    )
    assert loaded.value == Form(
        access="5", names=("a", "b"), labels={"tier": "1"}, limit=7, is_open=True
    )


def test_lists_may_be_written_as_toml(tmp_path: Path) -> None:
    """An item with a comma needs TOML's own notation."""
    assert load(tmp_path, "", {}, 'names=["a,b", "c"]').value.names == ("a,b", "c")


@pytest.mark.parametrize(
    ("toml", "environ", "overrides", "line"),
    [
        ("", {}, ["queue.depth_mx=1"], "--set: unknown field queue.depth_mx; did you mean"),
        ("", {}, ["zzz=1"], "--set: unknown field zzz; known here: access, queue, names"),
        ("", {}, ["access.x=1"], "--set: unknown field access.x; access is a single value"),
        ("", {}, ["queue.depth_max=0"], "--set: queue.depth_max: expected `int` >= 1; correct"),
        ("", {}, ["queue.depth_max=ten"], "--set: queue.depth_max: expected `int`, got `str`"),
        ("", {}, ["queue.depth_max"], "--set queue.depth_max: no value; write --set FIELD=VALUE"),
        (
            "",
            {"OTELA_ROUTER__QUEUE__WAIT": "1"},
            [],
            "OTELA_ROUTER__QUEUE__WAIT: unknown field queue.wait; did you mean queue.wait_s?",
        ),
        ("names = [1]", {}, [], "router.toml: names[0]: expected `str`, got `int`"),
        ("queue = 3", {}, [], "router.toml: queue: expected `object`, got `int`"),
        ("[qeue]", {}, [], "router.toml: unknown field qeue; did you mean queue?"),
        ("a = ", {}, [], "router.toml: not TOML: Invalid value (at end of document)"),
    ],
)
def test_each_mistake_names_its_place_and_remedy(
    tmp_path: Path, toml: str, environ: dict[str, str], overrides: list[str], line: str
) -> None:
    """Whoever reads the message knows what to change, and where."""
    assert line in complaint(tmp_path, toml, environ, *overrides)


def test_a_missing_field_says_how_it_can_be_set() -> None:
    """A field without default is asked for by all its names."""
    with pytest.raises(ConfigError, match="access is not configured") as caught:
        settings.load(Form, service="router", environ={})
    assert "OTELA_ROUTER__ACCESS or --set access=…" in caught.value.line()


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """The path that was given is the path that is shown."""
    with pytest.raises(ConfigError, match=r"nowhere\.toml: No such file"):
        settings.load(Form, service="router", file=tmp_path / "nowhere.toml", environ={})


def test_variables_of_other_services_are_ignored(tmp_path: Path) -> None:
    """One environment may hold the settings of every service."""
    assert load(tmp_path, "", {"OTELA_REGISTRY__X": "1"}).value == Form(access="a.toml")


def test_print_config_shows_each_field_and_its_source(tmp_path: Path) -> None:
    """What is in force can be seen without starting anything."""

    @click.command()
    @settings.add_options(Form, service="router")
    def command(settings: settings.Settings[Form]) -> None:
        click.echo(f"ran with {settings.value.access}")

    run = CliRunner().invoke(command, ["--set", "access=x", "--print-config"])
    assert run.output.splitlines()[:2] == [
        'access = "x"           # --set',
        "queue.depth_max = 100  # default",
    ]
    assert CliRunner().invoke(command, ["--set", "access=x"]).output == "ran with x\n"


def test_print_config_works_before_anything_is_given() -> None:
    """Whoever looks for the fields to set has not set them yet; any other fault is still one."""

    @click.command()
    @settings.add_options(Form, service="router")
    def command(settings: settings.Settings[Form]) -> None:
        raise AssertionError(settings)

    run = CliRunner().invoke(command, ["--print-config"])
    assert run.output.splitlines()[0] == 'access = ""            # required, and not given'
    wrong = CliRunner().invoke(command, ["--print-config", "--set", "queue.depth_max=-1"])
    assert isinstance(wrong.exception, ConfigError)
