"""What is no amount is refused with the option that it was given for."""

import math

import click
import pytest
from click.testing import CliRunner

from opentela.placer.amount import Amount


@click.command()
@click.option("--rate", type=Amount(0.0, 10.0), default=1.0)
@click.option("--wait", type=Amount(0.0, endless=True), default=math.inf)
def said(rate: float, wait: float) -> None:
    """Say what was given."""
    click.echo(f"{rate:g} {wait:g}")


@pytest.mark.parametrize(
    "argument", ["--rate=nan", "--rate=inf", "--rate=-1", "--rate=11", "--rate=x", "--wait=nan"]
)
def test_what_is_no_amount_is_refused(argument: str) -> None:
    """NaN is within no bounds, although every comparison with it says that it is not outside."""
    result = CliRunner().invoke(said, [argument])
    assert result.exit_code == 2
    assert f"Invalid value for '{argument.partition('=')[0]}'" in result.output


def test_an_amount_is_taken() -> None:
    """Without end where that is meant."""
    assert CliRunner().invoke(said, []).output == "1 inf\n"
    assert CliRunner().invoke(said, ["--rate=2.5", "--wait=inf"]).output == "2.5 inf\n"
