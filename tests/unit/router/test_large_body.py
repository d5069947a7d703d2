"""A large body is read while it comes as a small one is at once, and leaves as it came."""

import json
from typing import Any

import pytest

from opentela.core.pieces import Pieces, whole
from opentela.router import sifting
from opentela.router.constraints import Settled, settle
from opentela.router.fault import Fault
from opentela.router.large_body import PIECE_BYTES, LargeBody
from opentela.router.members import FIELDS_MAX
from opentela.router.openai import Ask, read_ask
from opentela.router.wanted import read_wanted

READ_BYTES = 250_000
"""Of one read of a socket."""
TEXT = 'A "quoted" word, and a \\. '
CHAT: dict[str, Any] = {"messages": [{"role": "user", "content": TEXT * 20_000}], "model": "m"}
JSON = (b"content-type", b"application/json")


def came(
    body: bytes, read_bytes: int = READ_BYTES, *, kind: bytes = JSON[1]
) -> tuple[Pieces, LargeBody]:
    """Return *body* as it is kept, and what has read it."""
    large = LargeBody(kind)
    for at in range(0, len(body), read_bytes):
        large.feed(body[at : at + read_bytes])
    return large.end(), large


def asked(body: bytes) -> Ask | Fault:
    """Return what it asks for; what a small one would ask for is the same."""
    pieces, large = came(body)
    assert whole(pieces) == body
    ask, alone = read_ask(pieces, large), read_ask(body)
    if isinstance(ask, Ask):
        assert isinstance(alone, Ask)
        assert (ask.model, ask.streams, ask.otela) == (alone.model, alone.streams, alone.otela)
    else:
        assert ask == alone
    return ask


@pytest.mark.parametrize("read_bytes", [10, 1000, PIECE_BYTES, READ_BYTES])
def test_pieces_are_of_a_good_size(read_bytes: int) -> None:
    """However little comes at once."""
    body = json.dumps(CHAT).encode()
    pieces, _ = came(body, read_bytes)
    sizes = [len(piece) for piece in pieces._pieces]
    assert min(sizes[:-1]) >= PIECE_BYTES
    assert max(sizes) < PIECE_BYTES + READ_BYTES
    assert whole(pieces) == body


@pytest.mark.parametrize(
    "body",
    [
        json.dumps(CHAT).encode(),
        b" \n" + json.dumps({**CHAT, "stream": True}, indent=2).encode(),
        json.dumps({**CHAT, "otela": {"site": "a"}, "tools": [{"model": 1}]}).encode(),
        json.dumps({**CHAT, "model": ""}).encode(),
        json.dumps({**CHAT, "model": "m" * 300}).encode(),
        json.dumps({**CHAT, "model": 7}).encode(),
        json.dumps({"messages": CHAT["messages"]}).encode(),
        json.dumps(CHAT)[:-1].encode(),
        json.dumps(CHAT).replace('"model"', '"model":"n","model"').encode(),
        json.dumps(CHAT).replace('"model"', '"x":1,"x":2,"model"').encode(),
        json.dumps({**CHAT, "x": [":" * FIELDS_MAX, {"model": 1}]}).encode(),
        json.dumps([CHAT]).encode(),
        TEXT.encode() * 20_000,
    ],
    ids=lambda body: f"{body[:9]!r} {body[-20:]!r}",
)
def test_it_asks_for_what_a_small_one_would(body: bytes) -> None:
    """Or is refused by the same words."""
    asked(body)


def test_what_it_is_for_may_stand_elsewhere() -> None:
    """As with any other body."""
    pieces, large = came(json.dumps({"messages": CHAT["messages"]}).encode())
    target = b"/v1/chat/completions?model=m"
    assert read_wanted(b"POST", target, [JSON], pieces, large) == Ask("m", streams=False)


def test_a_form_is_read_while_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """And never put together, wherever its fields are."""
    monkeypatch.setattr(Pieces, "whole", None)
    kind = b"multipart/form-data; boundary=XX"
    part = b'--XX\r\nContent-Disposition: form-data; name="%b"\r\n\r\n%b\r\n'
    body = part % (b"file", b"\xff\x00" * READ_BYTES) + part % (b"model", b"m") + b"--XX--\r\n"
    pieces, large = came(body, kind=kind)
    target = b"/v1/audio/transcriptions"
    asked_for = read_wanted(b"POST", target, [(b"content-type", kind)], pieces, large)
    assert asked_for == Ask("m", streams=False)


@pytest.mark.parametrize(
    "fields",
    [
        {"otela": {"site": "a"}, **CHAT, "model": "m@abcdef"},
        {**CHAT, "model": "m@abcdef", "otela": {"site": "a"}},
        {"model": "m@abcdef", "otela": {"site": "a"}, **CHAT, "stream": True},
    ],
)
def test_what_is_for_us_is_taken_out_of_the_pieces(
    fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every other byte stays, and nobody joins them for it."""
    fields["model"] = "m@abcdef"
    body = json.dumps(fields).encode()
    pieces, large = came(body)
    ask = read_ask(pieces, large)
    assert isinstance(ask, Ask)
    alone = settle("m@abcdef", body, headers=(), ask=read_small(body), is_pinned=True)
    with monkeypatch.context() as patched:
        patched.setattr(Pieces, "whole", None)
        settled = settle("m@abcdef", pieces, headers=(), ask=ask, is_pinned=True)
    assert isinstance(settled, Settled)
    assert isinstance(alone, Settled)
    assert (settled.model, settled.wish) == (alone.model, alone.wish)
    assert whole(settled.body) == alone.body
    del fields["otela"]
    assert json.loads(whole(settled.body)) == {**fields, "model": "m"}


def read_small(body: bytes) -> Ask:
    """Return what a small body asks for."""
    ask = read_ask(body)
    assert isinstance(ask, Ask)
    return ask


def test_no_step_reads_more_than_came_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody else would be served meanwhile; and the pieces are never joined."""
    read: list[int] = []

    def counted(document: bytes) -> sifting.Body:
        read.append(len(document))
        return decode(document)

    decode = sifting.decode
    monkeypatch.setattr(sifting, "decode", counted)
    monkeypatch.setattr(Pieces, "whole", None)
    body = json.dumps({"messages": CHAT["messages"] * 8, "model": "m"}).encode()
    pieces, large = came(body)
    assert isinstance(read_ask(pieces, large), Ask)
    assert len(body) > 10 * READ_BYTES
    assert max(read) < 2 * READ_BYTES
    assert sum(read) < len(body) + len(read) * 100
