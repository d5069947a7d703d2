"""When a service that died is started again."""

from opentela.local.restarts import DEATHS_MAX, DELAY_S, WINDOW_S, Restarts


def test_deaths_in_a_row_are_answered_more_slowly_until_given_up() -> None:
    """A service that cannot live does not keep the machine busy."""
    restarts = Restarts()
    delays = [restarts.after_death(float(second)) for second in range(DEATHS_MAX)]
    assert delays == [DELAY_S, 2 * DELAY_S, 4 * DELAY_S, 8 * DELAY_S, None]


def test_old_deaths_are_forgiven() -> None:
    """A service that lived for long starts again at once."""
    restarts = Restarts()
    for second in range(DEATHS_MAX - 1):
        restarts.after_death(float(second))
    assert restarts.after_death(WINDOW_S * 2) == DELAY_S
