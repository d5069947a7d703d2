"""What `otela start` makes of its options."""

from pathlib import Path

import pytest

from opentela.core.errors import ConfigError, CredentialError
from opentela.mesh.access import Access
from opentela.supervisor import cli
from opentela.supervisor.config import SupervisorConfig


def access(**fields: str) -> Access:
    return Access(
        name="p",
        role="provider",
        provider="ethz",
        servers=("nats://127.0.0.1:4222",),
        credentials="",
        **fields,
    )


def place(
    config: SupervisorConfig | None = None,
    *,
    site: str = "",
    host: str = "nid001234.alps.cscs.ch",
    **environ: str,
) -> tuple[str, str, str]:
    return cli.placed(config or SupervisorConfig(), access(site=site), environ, host)


def test_a_place_is_found_without_being_told() -> None:
    """Provider and site from the access file, the node from the host's first name."""
    assert place(site="alps") == ("ethz", "alps", "nid001234")
    assert place(SLURM_CLUSTER_NAME="Euler.X") == ("ethz", "euler", "nid001234")
    assert place() == ("ethz", "local", "nid001234")


def test_what_is_configured_counts_first() -> None:
    """As far as the access allows it."""
    config = SupervisorConfig(site="jura", node="n1")
    assert place(config, SLURM_CLUSTER_NAME="euler") == ("ethz", "jura", "n1")
    with pytest.raises(CredentialError, match="for site alps, not for jura"):
        place(config, site="alps")


@pytest.mark.parametrize(
    ("host", "node"), [("GPU_Node-7", "gpu_node-7"), ("Rechner Ü", "rechner"), ("---", "node")]
)
def test_a_host_name_becomes_a_name_of_ours(host: str, node: str) -> None:
    """Whatever it holds."""
    assert place(host=host)[2] == node


def test_a_name_that_is_none_is_refused() -> None:
    """What people write is not bent silently."""
    with pytest.raises(ConfigError, match="site = 'My Site'"):
        place(SupervisorConfig(site="My Site"))


def test_an_access_file_is_needed(tmp_path: Path) -> None:
    """Of the right role, and readable."""
    with pytest.raises(ConfigError, match="no access file") as caught:
        cli.admission(SupervisorConfig())
    assert "--access" in caught.value.remedy
    with pytest.raises(CredentialError, match="missing"):
        cli.admission(SupervisorConfig(access=str(tmp_path / "missing.toml")))


def test_pairs_are_read_or_refused() -> None:
    """An alias may stand for itself, a label may not."""
    assert cli.pairs(["a=b=c", "d"], "--x", needs_value=False) == {"a": "b=c", "d": ""}
    for wrong in ("d", "=b", ""):
        with pytest.raises(ConfigError, match="--label"):
            cli.pairs([wrong], "--label", needs_value=True)
    for wrong in ("", "=m"):
        with pytest.raises(ConfigError, match="names no alias"):
            cli.pairs([wrong], "--model-alias", needs_value=False)
