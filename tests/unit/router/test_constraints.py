"""What a client insists on is understood, or refused by name; no other byte of a body changes."""

import json
from typing import Any

import pytest

from opentela.router.constraints import (
    OTELA_BYTES_MAX,
    REMEDIES,
    Settled,
    _Given,
    settle,
)
from opentela.router.fault import Fault, FaultKind
from opentela.router.matching import Wish
from opentela.router.members import FIELDS_MAX
from opentela.router.openai import Ask

BODY = b'{"model":"m"}'
ASK = Ask("m", streams=False)


def headed(*lines: str) -> Settled | Fault:
    """Return what the headers come to."""
    pairs = [line.partition(": ")[::2] for line in lines]
    headers = [(f"x-otela-{name}".encode(), value.encode()) for name, value in pairs]
    return settle("m", BODY, headers=headers, ask=ASK, is_pinned=False)


def wished(*lines: str) -> Wish:
    """Return the wish in them."""
    settled = headed(*lines)
    assert isinstance(settled, Settled), settled
    assert (settled.model, settled.body) == ("m", BODY)
    return settled.wish


def told(otela: object, *headers: tuple[bytes, bytes], model: str = "m") -> Settled | Fault:
    """Return what an object in the body comes to."""
    raw = json.dumps(otela).encode()
    body = b'{"model":"%b","otela":%b, "n": 1}' % (model.encode(), raw)
    return settle(
        model, body, headers=headers, ask=Ask("m", streams=False, otela=raw), is_pinned="@" in model
    )


def refused(answer: Settled | Fault) -> Fault:
    """Return the 400."""
    assert isinstance(answer, Fault), answer
    assert answer.kind is FaultKind.BAD_REQUEST
    return answer


@pytest.mark.parametrize(
    ("line", "wish"),
    [
        ("site:  alps, jura,", Wish(sites=("alps", "jura"))),
        ("provider: cscs", Wish(providers=("cscs",))),
        ("quantisation: fp8", Wish(quantisations=("fp8",))),
        ("tier: gold,iron,*", Wish(tiers=("gold", "iron", "*"))),
        ("min-context: 8192", Wish(context_min=8192)),
        ("min-walltime: 90.5", Wish(walltime_min_s=90.5)),
        ("fingerprint: 0a1b2c", Wish(fingerprint="0a1b2c")),
        ("label: zone=a, team=x,zone=b", Wish(labels=(("team", ("x",)), ("zone", ("a", "b"))))),
        ("model: whatever", Wish()),
    ],
)
def test_headers_are_read(line: str, wish: Wish) -> None:
    """Each constraint has one; the one that names the model is not among them."""
    assert wished(line) == wish


@pytest.mark.parametrize(
    ("otela", "wish"),
    [
        ({}, Wish()),
        ({"site": "alps"}, Wish(sites=("alps",))),
        ({"site": ["alps", "jura"]}, Wish(sites=("alps", "jura"))),
        ({"min_context": 1, "min_walltime": 60}, Wish(context_min=1, walltime_min_s=60.0)),
        (
            {"label": {"team": "x", "a": ["y", "z"]}},
            Wish(labels=(("a", ("y", "z")), ("team", ("x",)))),
        ),
        (
            {"tier": ["a", "*"], "fingerprint": "abcdef"},
            Wish(tiers=("a", "*"), fingerprint="abcdef"),
        ),
    ],
)
def test_objects_are_read_and_taken_out(otela: object, wish: Wish) -> None:
    """The same constraints, as JSON."""
    assert told(otela) == Settled("m", wish, b'{"model":"m","n": 1}')


@pytest.mark.parametrize(
    ("line", "field", "said"),
    [
        ("site: ", "site", "x-otela-site must be a name"),
        ("site: " + "a," * 65, "site", "must be a name"),
        ("min-context: many", "min_context", "x-otela-min-context must be tokens"),
        ("min-context: 0", "min_context", "a whole number above 0"),
        ("min-context: 1.5", "min_context", "a whole number above 0"),
        ("min-walltime: -1", "min_walltime", "seconds, a number above 0"),
        ("min-walltime: nan", "min_walltime", "seconds, a number above 0"),
        ("fingerprint: ABCDEF", "fingerprint", "in lower case"),
        ("fingerprint: abc", "fingerprint", "first 6 or more"),
        ("label: team", "label", "team=a,zone=z"),
        ("label: =a", "label", "team=a,zone=z"),
        ("quantization: fp8", "quantization", "Unknown constraint x-otela-quantization; known are"),
    ],
)  # fmt: skip
def test_a_wrong_header_is_refused_with_its_remedy(line: str, field: str, said: str) -> None:
    """A wish that is dropped would send a prompt where it must not go."""
    fault = refused(headed(line))
    assert fault.param == f"otela.{field}"
    assert said in fault.message


def test_a_header_twice_is_refused() -> None:
    """Which of them would count?"""
    assert "more than once" in refused(headed("site: a", "site: b")).message


@pytest.mark.parametrize(
    ("otela", "param", "said"),
    [
        ([], "otela", "must be an object"),
        (None, "otela", "must be an object"),
        ({"site": []}, "otela.site", "otela.site must be a name"),
        ({"site": 7}, "otela.site", "otela.site must be a name"),
        ({"site": ["a", None]}, "otela.site", "must be a name"),
        ({"min_context": "8192"}, "otela.min_context", "a whole number"),
        ({"min_context": True}, "otela.min_context", "a whole number"),
        ({"label": "team=x"}, "otela.label", '{"team": "a"'),
        ({"label": {"": "x"}}, "otela.label", '{"team": "a"'),
        ({"label": {"a": 1}}, "otela.label", '{"team": "a"'),
        ({"hold": 1}, "otela.hold", "Unknown constraint otela.hold"),
    ],
)
def test_a_wrong_object_is_refused_with_its_remedy(otela: Any, param: str, said: str) -> None:
    """Naming the field."""
    fault = refused(told(otela))
    assert fault.param == param
    assert said in fault.message


def test_a_pin_is_taken_off_the_name() -> None:
    """The engine knows the model without it."""
    body = b'{ "stream":true, "model" : "a\\/b@abcdef" , "x":"model"}'
    settled = settle("a/b@abcdef", body, headers=(), ask=ASK, is_pinned=True)
    assert settled == Settled(
        "a/b", Wish(fingerprint="abcdef"), b'{ "stream":true, "model" : "a/b" , "x":"model"}'
    )


def test_a_wrong_pin_is_refused() -> None:
    """And where it cannot be taken off."""
    for model in ("m@", "m@xyz", "m@abc"):
        fault = refused(settle(model, BODY, headers=(), ask=ASK, is_pinned=True))
        assert fault.param == "otela.fingerprint"
        assert "name@fingerprint" in fault.message
    formed = refused(settle("m@abcdef", b"--x", headers=(), ask=ASK, is_pinned=True))
    assert "x-otela-fingerprint" in formed.message


def test_header_body_and_model_all_hold() -> None:
    """Together they ask for what satisfies each."""
    otela = {"site": ["a", "b"], "min_context": 10, "label": {"z": ["x", "y"]}, "provider": "p"}
    headers = [
        (b"x-otela-site", b"b,c"),
        (b"x-otela-min-context", b"20"),
        (b"x-otela-label", b"z=y,w=1"),
        (b"x-otela-fingerprint", b"abcdef01"),
    ]
    settled = told(otela, *headers, model="m@abcdef")
    assert isinstance(settled, Settled)
    assert settled.wish == Wish(
        sites=("b",),
        providers=("p",),
        context_min=20,
        labels=(("w", ("1",)), ("z", ("y",))),
        fingerprint="abcdef01",
    )


@pytest.mark.parametrize(
    ("otela", "header", "field"),
    [
        ({"site": "a"}, (b"x-otela-site", b"b"), "site"),
        ({"label": {"z": "a"}}, (b"x-otela-label", b"z=b"), "label"),
        ({"fingerprint": "abcdef"}, (b"x-otela-fingerprint", b"abcdee"), "fingerprint"),
    ],
)
def test_wishes_that_exclude_each_other_are_refused(
    otela: object, header: tuple[bytes, bytes], field: str
) -> None:
    """No session could ever match."""
    fault = refused(told(otela, header))
    assert fault.param == f"otela.{field}"
    assert "contradict each other" in fault.message


def test_every_field_has_its_remedy() -> None:
    """A constraint without one could not be explained."""
    assert set(REMEDIES) == set(_Given.__struct_fields__)


@pytest.mark.parametrize(
    "otela",
    [
        b'{"site":"a","site":"b"}',
        b'{"site":"a","s\\u0069te":"b"}',
        b'{"label":{"team":"a","team":"b"}}',
    ],
)
def test_a_wish_that_is_said_twice_is_refused(otela: bytes) -> None:
    """One of the two would be dropped, and a prompt go where its sender did not want it."""
    body = b'{"model":"m","otela":%b}' % otela
    fault = settle("m", body, headers=(), ask=Ask("m", streams=False, otela=otela), is_pinned=False)
    assert isinstance(fault, Fault)
    assert (fault.kind, fault.param) == (FaultKind.BAD_REQUEST, "otela")
    assert "more than once" in fault.message


def test_an_object_larger_than_headers_may_be_is_refused() -> None:
    """Reading it would take as long as it is large."""
    otela = b'{"site":["%b"]}' % (b"a" * OTELA_BYTES_MAX)
    fault = settle(
        "m",
        b'{"otela":%b}' % otela,
        headers=(),
        ask=Ask("m", streams=False, otela=otela),
        is_pinned=False,
    )
    assert isinstance(fault, Fault)
    assert f"more than {OTELA_BYTES_MAX} bytes" in fault.message


def test_who_pins_in_a_body_of_too_many_fields_is_told_of_the_header() -> None:
    """Headers say the same, and nothing must be looked for."""
    body = b'{"model":"m@abcdef","x":[%b0]}' % (b'{"":0},' * (FIELDS_MAX + 1))
    fault = settle("m@abcdef", body, headers=(), ask=ASK, is_pinned=True)
    assert isinstance(fault, Fault)
    assert fault.param == "model"
    assert "x-otela-" in fault.message
