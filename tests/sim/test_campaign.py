"""Campaigns count what they claim to count; here run the seeds that CI has time for."""

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from opentela.core.errors import ConfigError
from opentela.testing.sim.campaign import report, store
from opentela.testing.sim.campaign.__main__ import main
from opentela.testing.sim.campaign.ground import MEMBERS, REGISTRIES, ROUTERS, Ground, members
from opentela.testing.sim.campaign.harms import CELLS
from opentela.testing.sim.campaign.product import presets
from opentela.testing.sim.campaign.rows import Death, Row
from opentela.testing.sim.campaign.settings import PRODUCT, SETTINGS, knobs
from opentela.testing.sim.campaign.sightings import Sighting, Sightings
from opentela.testing.sim.campaign.statistics import found, removals, summed, undisturbed
from opentela.testing.sim.campaign.trial import Trial
from opentela.testing.world import World

HARMS = len(CELLS)
HARM_MAX_S = 32.0
BRIEF = ("calm", "stopped 1 s", "stopped 4 s", "stopped 8 s", "clocks")


@pytest.mark.parametrize("setting", presets())
def test_nobody_who_lives_is_removed_and_the_dead_are_found(setting: str) -> None:
    """Under each harm once with the defaults; a healed member is used again."""
    for seed in range(HARMS, 2 * HARMS, 1 if setting == "LAN" else 3):
        row = Trial(SETTINGS[setting], seed).row()
        # Longer than its grace nobody is waited for.
        is_patient = PRODUCT[setting].detector.grace_s > HARM_MAX_S
        assert (row.broken, row.lost) == ("", 0), row
        assert row.removed == 0 or not (is_patient or row.cell in BRIEF), row
        assert all(death.last_s >= 0 for death in row.deaths), row
        assert row.out_others == 0 or row.cell == "one-way cut", row


def test_who_stands_still_for_long_is_left_out_meanwhile() -> None:
    """And nobody else: the trials would else measure nothing."""
    row = Trial(SETTINGS["LAN"], list(CELLS).index("stopped 16 s")).row()
    assert row.out_victims == row.victims > 0
    assert row.out_others == 0


def test_a_trial_depends_on_its_seed_alone() -> None:
    """The same rows come of the same seed, whoever runs it after what."""
    first, _, again = (Trial(SETTINGS["LAN"], seed).row() for seed in (3, 4, 3))
    assert {**_plain(first), "cpu_s": 0} == {**_plain(again), "cpu_s": 0}


def test_seeds_are_shared_among_processes(tmp_path: Path) -> None:
    """Whatever runs the command; they write the rows that one process would."""
    said = subprocess.run(  # our own module
        [
            *(sys.executable, "-m", "opentela.testing.sim.campaign", "run", "--setting", "LAN"),
            *("--seeds", "2", "--workers", "2", "--out", str(tmp_path)),
        ],
        check=False,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert said.stdout == "LAN: 2 seeds run, 0 before, 0 bad\n", said.stderr
    assert sorted(store.read(tmp_path, "LAN")) == [0, 1]


def _plain(row: Row) -> dict[str, object]:
    return {name: getattr(row, name) for name in row.__struct_fields__}


@pytest.mark.parametrize("cell", CELLS)
def test_the_same_befalls_the_same_members_with_and_without_watchers(cell: str) -> None:
    """Or two systems would be compared under different harms."""
    draws = []
    for watchers in ({}, {**REGISTRIES, **ROUTERS}):
        world = World(5)
        for name, site in {**members(), **watchers}.items():
            world.add_node(name, site=site).start()
        rng = world.fork("harm")
        ground = Ground(world=world, members=members(), watchers=tuple(watchers))
        harm = CELLS[cell](ground, rng)
        draws.append((harm.length_s, harm.victims, rng.random()))
    assert draws[0] == draws[1]


def test_what_is_thought_of_the_dead_is_not_held_against_views() -> None:
    """Nor what those think who are dead or blind."""
    seen = Sightings()
    for sighting in (
        Sighting(1.0, "a", "living", "out"),
        Sighting(3.0, "a", "living", "back"),
        Sighting(4.0, "blind", "other", "out"),
        Sighting(5.0, "b", "gone", "out"),
        Sighting(6.0, "a", "gone", "out"),
        Sighting(7.0, "b", "gone", "removed"),
    ):
        seen.add(sighting)
    died_at = {"gone": ("killed", 4.5)}
    wrong = seen.of(died_at, 10.0, {"a", "b"})
    assert wrong.removed == set()
    assert wrong.out_s == {"living": 2.0}
    assert seen.deaths(died_at, ["a", "b"]) == (
        Death(how="killed", first_s=0.5, last_s=1.5, removed_s=2.5),
    )


def test_a_removal_of_the_living_counts_whoever_did_it() -> None:
    """It cannot be taken back."""
    seen = Sightings()
    seen.add(Sighting(1.0, "blind", "living", "removed"))
    assert seen.of({}, 2.0, set()).removed == {"living"}


def test_a_death_that_one_view_never_noticed_is_found_never() -> None:
    """A mean over the others would hide it."""
    seen = Sightings()
    seen.add(Sighting(1.0, "a", "gone", "out"))
    (death,) = seen.deaths({"gone": ("killed", 0.0)}, ["a", "b"])
    assert (death.first_s, death.last_s) == (1.0, -1.0)


def _rows() -> list[Row]:
    times = [0.5, 1.0, 1.5, -1.0]
    return [
        Row(
            seed=seed,
            cell="calm",
            out_others=int(seed == 0),
            deaths=(Death(how="killed", last_s=time, removed_s=45.0 if time > 0 else -1.0),),
        )
        for seed, time in enumerate(times)
    ]


def test_quantiles_count_what_was_never_found_as_last() -> None:
    """So that censoring makes no figure better."""
    of = found(_rows(), "killed")
    assert (of.never, of.quantile(0.5), of.quantile(0.75)) == (1, 1.0, 1.5)
    assert of.quantile(0.99) == float("inf")
    assert removals(_rows()) == [45.0, 45.0, 45.0]
    assert found([], "killed").quantile(0.5) != found([], "killed").quantile(0.5)


def test_times_are_compared_where_views_can_see() -> None:
    """Where messages are lost or views stand still, they stand by harm."""
    rows = [Row(seed=seed, cell=cell) for seed, cell in enumerate(CELLS)]
    seeing = {row.cell for row in undisturbed(rows)}
    assert {"calm", "clocks", "stopped 1 s", "stopped 32 s"} <= seeing
    assert not {"loss 5 %", "one-way cut", "starved"} & seeing


def test_no_event_in_many_trials_bounds_its_share() -> None:
    """Zero of n says no more than that it is rarer than 3/n."""
    sum_ = summed(_rows(), MEMBERS)
    assert (sum_.trials, sum_.removed, sum_.out_others) == (4, 0, 1)
    assert sum_.removed_below == 0.75


def test_rows_outlive_a_stop_in_the_middle_of_a_line(tmp_path: Path) -> None:
    """Half a row is run again, and no row is lost."""
    rows = _rows()
    store.append(tmp_path, "LAN", rows[:2])
    path = store.path_of(tmp_path, "LAN")
    path.write_bytes(path.read_bytes() + b'{"seed":7,"ce')
    assert list(store.read(tmp_path, "LAN")) == [0, 1]
    store.append(tmp_path, "LAN", rows[2:])
    assert list(store.read(tmp_path, "LAN").values()) == rows


def test_a_line_that_is_no_row_is_named(tmp_path: Path) -> None:
    """With its file, its number and what to do."""
    store.path_of(tmp_path, "LAN").write_text("nonsense\n")
    with pytest.raises(ConfigError, match=r"lan\.jsonl:1 is no row ") as failure:
        store.read(tmp_path, "LAN")
    assert failure.value.remedy == "remove that line"


def test_tables_name_every_setting_and_harm() -> None:
    """One line each, beside what they are compared with."""
    rows = [Row(seed=seed, cell=cell, victims=1) for seed, cell in enumerate(CELLS)]
    campaigns = dict.fromkeys(SETTINGS, rows)
    assert [line.split(" | ")[0] for line in report.compared(campaigns).splitlines()[2:]] == [
        f"| {name}" for name in SETTINGS
    ]
    by_cell = report.by_cell("LAN", rows)
    assert all(f"| {cell} |" in by_cell for cell in CELLS)
    assert all(name in report.wrongly(campaigns) for name in SETTINGS)
    assert "LAN" in report.settings_told(SETTINGS)
    assert knobs("Serf LAN") == ""


def test_a_document_is_rewritten_where_it_says_so() -> None:
    """What stands around its measured parts stays, also parts of a name that is not known."""
    rows = [Row(seed=0, cell="calm")]
    parts = [f"<!-- measured: {name} -->\nold\n<!-- end -->\n" for name in ("LAN", "other")]
    text = "".join(["# A\n", *parts])
    new = report.rewritten(text, {"LAN": rows})
    assert new.startswith("# A\n<!-- measured: LAN -->\n| harm | trials |")
    assert "| calm | 1 |" in new
    assert new.endswith("<!-- measured: other -->\nold\n<!-- end -->\n")
    assert report.rewritten(new, {"LAN": rows}) == new


def campaign(*arguments: str) -> str:
    """Return what the command prints, unless it fails."""
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_a_mesh_is_cut_and_counted_by_command() -> None:
    """One line for each, with units."""

    assert "36 born and 36 died meanwhile; views equal after" in campaign("split", "--members", "9")
    head, _, idle, churn = campaign("traffic", "--members", "9", "--seconds", "3").splitlines()
    assert "[B/s]" in head
    assert "| 9 | idle |" in idle
    assert "delta" in churn


def test_the_command_goes_on_where_it_stopped(tmp_path: Path) -> None:
    """And makes tables of what there is."""

    out = ("--out", str(tmp_path))
    assert "2 seeds run, 0 before, 0 bad" in campaign("run", *out, "--seed", "1", "--seeds", "2")
    assert "1 seeds run, 2 before, 0 bad" in campaign("run", *out, "--seed", "1", "--seeds", "3")
    assert "| LAN | 3 |" in campaign("tables", *out)
    assert "stopped" in campaign("show", "--seed", "1")


def test_who_is_wronged_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`local` gives up who stands still for longer than its grace: that is a diagram."""
    monkeypatch.chdir(tmp_path)
    seed = str(list(CELLS).index("stopped 16 s"))
    told = campaign("show", "--setting", "LOCAL", "--seed", seed)
    path = Path(told.rpartition("diagram: ")[2].strip())
    assert path.name == f"local-{seed}.svg"
    assert "verdict" in path.read_text()
