"""Bodies are read once, strictly, and in one way only."""

import json

import pytest

from opentela.router import openai
from opentela.router.body_scan import BRACKETS_MAX
from opentela.router.fault import Fault, FaultKind
from opentela.router.openai import MODEL_CHARS_MAX, Ask, read_ask
from opentela.router.sifting import NESTING_MAX


def refusal(body: bytes) -> Fault:
    """Return the fault of a body that is refused."""
    fault = read_ask(body)
    assert isinstance(fault, Fault), fault
    assert fault.kind is FaultKind.BAD_REQUEST
    return fault


def nested(levels: int) -> bytes:
    """Return a body with *levels* levels in all."""
    return b'{"model":"m","x":' + b"[" * (levels - 1) + b"]" * (levels - 1) + b"}"


@pytest.mark.parametrize(
    ("body", "ask"),
    [
        (b'{"model":"m"}', Ask("m", streams=False)),
        (b' {"messages":[{"content":"\xc3\xa4"}],"model":"a/b"} ', Ask("a/b", streams=False)),
        (b'{"model":"m","stream":true}', Ask("m", streams=True)),
        (b'{"model":"m","stream":false}', Ask("m", streams=False)),
        (b'{"model":"m","stream":null}', Ask("m", streams=False)),
        # What engines make of these is theirs; a stream is what they may answer with.
        (b'{"model":"m","stream":1}', Ask("m", streams=True)),
        (b'{"model":"m","stream":"true"}', Ask("m", streams=True)),
        (b'{"model":"m","n":4,"logprobs":true,"stream":true}', Ask("m", streams=True)),
        (b'{"model":"\\u006d"}', Ask("m", streams=False)),
        (b'{"model":"m","user":"say \\"model\\" twice: \\"model\\""}', Ask("m", streams=False)),
        (b'{"model":"m","tools":[{"model":"not ours"}]}', Ask("m", streams=False)),
        (b'{"model":"model"}', Ask("model", streams=False)),
        (b'{"model":"m", "otela": {"site": "a"}}', Ask("m", streams=False, otela=b'{"site": "a"}')),
        (b'{"model":"m","x":{"otela":1}}', Ask("m", streams=False)),
    ],
)
def test_good_bodies_are_read(body: bytes, ask: Ask) -> None:
    """The model and whether a stream is wanted is all that is looked at."""
    assert read_ask(body) == ask


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b"{}", "model"),
        (b'{"messages":[]}', "model"),
        (b'{"model":""}', "model"),
        (b'{"model":null}', "model"),
        (b'{"model":3}', "model"),
        (b'{"model":["m"]}', "model"),
        (b'{"model":{"a":1}}', "model"),
        (b'{"model":"' + b"m" * (MODEL_CHARS_MAX + 1) + b'"}', "model"),
        (b"[]", None),
        (b'"model"', None),
        (b"null", None),
        (b"3", None),
        (b"", None),
        (b"nope", None),
        (b"{", None),
        (b'{"model":"m"', None),
        (b'{"model":"m"} {}', None),
        (b"model=m&stream=true", None),
        (b'{"model":"m","temperature":NaN}', None),
        (b'{"model":"m","temperature":Infinity}', None),
        (b'\xef\xbb\xbf{"model":"m"}', None),
        (b'{"model":"\xff"}', None),
        (b'{"model":"\\ud800"}', None),
        ('{"model":"m"}'.encode("utf-16"), None),
        (b"\x00" * 64, None),
    ],
)
def test_bad_bodies_are_refused_by_name_of_the_field(body: bytes, param: str | None) -> None:
    """A client must see what to change."""
    fault = refusal(body)
    assert fault.param == param
    assert fault.message.endswith(".")


@pytest.mark.parametrize(
    ("body", "key"),
    [
        (b'{"model":"a","model":"b"}', "model"),
        (b'{"model":"a","x":{"model":"y"},"model":"a"}', "model"),
        (b'{"model":"a","mod\\u0065l":"b"}', "model"),
        (b'{"\\u006d\\u006f\\u0064\\u0065\\u006c":"a","model":"b"}', "model"),
        (b'{"model":"a","stream":true,"stream":false}', "stream"),
        (b'{"model":"a","stream":true,"str\\u0065am":false}', "stream"),
        (b'{"model":"a","otela":{},"ot\\u0065la":{}}', "otela"),
        (b'{"model":"a","otela":{},"x":1,"otela":null}', "otela"),
    ],
)
def test_a_key_that_is_read_may_stand_there_only_once(body: bytes, key: str) -> None:
    """What is routed by one of them could be served under the other."""
    fault = refusal(body)
    assert fault.param == key
    assert "more than once" in fault.message


def test_a_key_of_somebody_else_may_be_repeated() -> None:
    """The engine decides what it makes of it."""
    assert read_ask(b'{"model":"m","x":1,"x":2}') == Ask("m", streams=False)


def test_a_second_look_at_what_cannot_be_read_is_a_refusal() -> None:
    """It must not crash on what the first let through."""
    fault = openai._repeated(b'{"model":')
    assert fault is not None
    assert "not a JSON object" in fault.message


def test_brackets_are_bounded() -> None:
    """Millions of them would stop the router for others while they are looked at."""
    assert "brackets" in refusal(b'{"model":"m","x":[%b0]}' % (b"[]," * BRACKETS_MAX)).message


@pytest.mark.parametrize("levels", [1000, 100_000, 3_000_000])
def test_no_depth_of_nesting_crashes(levels: int) -> None:
    """Neither reader's recursion is the client's to exhaust."""
    assert "nested deeper" in refusal(nested(levels)).message
    hidden = b'{"\\u006d":1,' + nested(levels)[1:]
    assert "nested deeper" in refusal(hidden).message


def test_nesting_is_limited_exactly() -> None:
    """One level more than allowed is refused."""
    assert read_ask(nested(NESTING_MAX)) == Ask("m", streams=False)
    assert "nested deeper" in refusal(nested(NESTING_MAX + 1)).message
    assert "nested deeper" in refusal(nested(200)).message


def test_many_brackets_are_not_deep_nesting() -> None:
    """Long conversations and code in a prompt hold hundreds of them, side by side or in text."""
    many = {"model": "m", "messages": [{"content": ["a", {}]}] * 500}
    assert read_ask(json.dumps(many).encode()) == Ask("m", streams=False)
    text = {"model": "m", "prompt": '[{"' * 500 + "\\" + '"', "stop": ["\\\\", '"[']}
    assert read_ask(json.dumps(text).encode()) == Ask("m", streams=False)


def test_a_mixed_tower_is_deep_nesting() -> None:
    """Objects count as arrays do."""
    levels = 200
    body = b'{"model":"m","x":' + b'{"a":[' * levels + b"]}" * levels + b"}"
    assert "nested deeper" in refusal(body).message
