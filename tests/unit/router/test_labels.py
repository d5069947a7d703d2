"""Metric labels stay few."""

from opentela.router.labels import OTHER, ModelLabels


def test_served_models_have_their_own_label_up_to_a_limit() -> None:
    """The first ones keep theirs."""
    labels = ModelLabels(models_max=2)
    assert labels.label("a", is_served=True) == "a"
    assert labels.label("b", is_served=True) == "b"
    assert labels.label("c", is_served=True) == OTHER
    assert labels.label("a", is_served=False) == "a"


def test_names_that_nobody_serves_share_one() -> None:
    """Ten thousand of them make one series."""
    labels = ModelLabels()
    assert {labels.label(f"random-{n}", is_served=False) for n in range(10_000)} == {OTHER}
    assert labels.label("real", is_served=True) == "real"
