"""Clients say who may serve them, and engines never hear of it."""

import json

import pytest
from tests.integration.router.conftest import Bench
from tests.integration.router.raw import post
from tests.integration.router.test_forwarding import whole
from tests.unit.router.parts import record, session_of

from opentela.core.record import ModelOffer

FP = "0123456789abcdef0123456789abcdef"
OTHER = "0123456789abcdef0123456789abcdee"


@pytest.fixture
async def varied(bench: Bench) -> Bench:
    """A router with three plain sessions, and three special ones."""
    bench.link.script = whole
    small = ModelOffer(name="m", context_max=4096, quantisation="fp8", fingerprint=FP)
    large = ModelOffer(name="m", context_max=32768, quantisation="bf16", fingerprint=OTHER)
    bench.front.directory.apply(
        [
            record(5, models=[small], labels={"tier": "gold", "team": "x"}),
            record(6, models=[large], labels={"tier": "iron"}),
            record(7, models=[large], walltime_ends_at=100.0),
        ]
    )
    return bench


@pytest.mark.parametrize(
    ("header", "served"),
    [
        ("X-Otela-Quantisation: fp8", {5}),
        ("X-Otela-Min-Context: 8192", {6, 7}),
        ("X-Otela-Min-Context: 8192\r\nX-Otela-Min-Walltime: 60", {6}),
        (f"X-Otela-Fingerprint: {FP}", {5}),
        ("X-Otela-Label: team=x", {5}),
        ("X-Otela-Tier: iron, gold", {6}),
        ("X-Otela-Tier: tin, gold", {5}),
    ],
)
async def test_headers_are_kept(varied: Bench, header: str, served: set[int]) -> None:
    """And stay here."""
    client = await varied.client()
    answers = [
        await client.ask(post(b'{"model":"m"}', "/v1/completions", header)) for _ in "abcdef"
    ]
    sessions = {answer.headers["x-otela-session"] for answer in answers}
    expected = {session_of(number) for number in served}
    # An allocation about to end is a last resort.
    assert sessions == expected - ({session_of(7)} if len(served) > 1 else set())
    names = {name for stream in varied.link.streams for name, _ in stream.headers}
    assert not any(name.startswith("x-otela-") for name in names)


async def test_an_object_in_the_body_is_kept_and_taken_out(varied: Bench) -> None:
    """Every other byte reaches the engine as it was sent."""
    body = (
        b'{ "model" : "m",\t"n":4 , "otela": {"quantisation": ["fp8"]},'
        b'\r\n"user":"\xc3\xa4\\"otela\\":"}'
    )
    answer = await (await varied.client()).ask(post(body))
    assert answer.headers["x-otela-session"] == session_of(5)
    assert (
        varied.link.streams[0].body == b'{ "model" : "m",\t"n":4 , "user":"\xc3\xa4\\"otela\\":"}'
    )


async def test_a_pin_holds_for_what_the_header_told(varied: Bench) -> None:
    """Who got an answer can ask for more of the same."""
    client = await varied.client()
    asked = post(b'{"model":"m"}', "/v1/completions", "X-Otela-Quantisation: fp8")
    fingerprint = (await client.ask(asked)).headers["x-otela-fingerprint"]
    assert fingerprint == FP
    for pin in (fingerprint, fingerprint[:32]):
        answer = await client.ask(post(b'{"stream":false,"model":"m@%b"}' % pin.encode()))
        assert answer.headers["x-otela-session"] == session_of(5)
        assert varied.link.streams[-1].body == b'{"stream":false,"model":"m"}'
    plain = await client.ask(post(b'{"model":"m"}', "/v1/completions", "X-Otela-Label: tier=iron"))
    assert plain.headers["x-otela-fingerprint"] == OTHER


@pytest.mark.parametrize(
    ("body", "header", "param"),
    [
        ({"otela": {"sites": "a"}}, "", "otela.sites"),
        ({"otela": {"min_context": "lots"}}, "", "otela.min_context"),
        ({"otela": 1}, "", "otela"),
        ({}, "X-Otela-Min-Walltime: soon", "otela.min_walltime"),
        ({}, "X-Otela-Sites: a", "otela.sites"),
        ({"model": "m@beef"}, "", "otela.fingerprint"),
    ],
)
async def test_what_is_no_constraint_is_refused_by_name(
    varied: Bench, body: dict[str, object], header: str, param: str
) -> None:
    """No session is tried, and the remedy is told."""
    raw = json.dumps({"model": "m", **body}).encode()
    answer = await (await varied.client()).ask(
        post(raw, "/v1/completions", *filter(None, [header]))
    )
    assert (answer.status, answer.error["param"]) == (400, param)
    assert varied.link.streams == []


async def test_an_object_twice_is_refused(varied: Bench) -> None:
    """Two readers could take two of them."""
    raw = b'{"otela":{"site":"a"},"model":"m","\\u006ftela":{}}'
    answer = await (await varied.client()).ask(post(raw))
    assert (answer.status, answer.error["param"]) == (400, "otela")


async def test_nobody_matching_is_told_with_what_there_is(varied: Bench) -> None:
    """So that the client can ask for something else."""
    raw = b'{"model":"m","otela":{"quantisation":"int4","min_context":1}}'
    answer = await (await varied.client()).ask(post(raw))
    assert (answer.status, answer.error["code"]) == (503, "no_matching_session")
    assert answer.error["param"] == "otela.quantisation"
    assert "unknown (3), bf16 (2), fp8 (1)" in answer.error["message"]
