"""What is configured reaches those who decide by it."""

import msgspec
import pytest

from opentela.stream.callee import CalleeSettings
from opentela.supervisor.config import GatewayConfig
from opentela.supervisor.gateway import GatewaySettings
from opentela.supervisor.run import gateway_settings


def test_unless_told_otherwise_limits_are_those_of_the_protocol() -> None:
    """The defaults stand in one place for people and in another for code; they agree."""
    assert gateway_settings(GatewayConfig()) == GatewaySettings()


@pytest.mark.parametrize("name", CalleeSettings.__struct_fields__)
def test_each_limit_of_a_stream_can_be_configured(name: str) -> None:
    """None of them is left to whoever edits code."""
    changed = msgspec.structs.replace(GatewayConfig(), **{name: 7})
    assert getattr(gateway_settings(changed).stream, name) == 7


def test_the_number_of_streams_can_be_configured() -> None:
    """It belongs to the gateway, not to a stream."""
    assert gateway_settings(GatewayConfig(streams_max=3)).streams_max == 3
