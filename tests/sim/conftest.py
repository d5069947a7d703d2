"""A simulated run that fails leaves its diagram where people look for what was built."""

from collections.abc import Generator

import pytest

from opentela.testing.sim.run import SimFailedError


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    call: pytest.CallInfo[None],
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Draw the failure and say where it is."""
    report = yield
    error = call.excinfo.value if call.excinfo else None
    if isinstance(error, SimFailedError):
        report.sections.append(("diagram", str(error.draw())))
    return report
