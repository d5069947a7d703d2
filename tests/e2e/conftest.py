"""Whole-product tests: real processes, real servers, real networks where the machine allows it."""

import os
from collections.abc import Generator, Iterator

import pytest
from tests.e2e import netns
from tests.e2e.product import Product


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs namespaces where none can be made; on CI that is an error instead."""
    reason = netns.why_not()
    if not reason or os.environ.get("CI"):
        return
    for item in items:
        if item.get_closest_marker("netns"):
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    call: pytest.CallInfo[None],
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the ends of all logs beside a failure."""
    # A product that the test itself opened has ended by now, and is remembered by its exception.
    tails = [product.tails() for product in Product.running]
    if call.excinfo is not None:
        tails.extend(getattr(call.excinfo.value, "__notes__", ()))
    report = yield
    if report.failed and tails:
        report.sections.append(("processes", "\n".join(tails)))
    return report


@pytest.fixture
def lab() -> Iterator[netns.Lab]:
    """A hub, a client, and two compute nodes behind a NAT router."""
    with netns.Lab() as made:
        yield made
