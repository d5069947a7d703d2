"""The model of a request is named in one place, and the body's word is the engine's too."""

import pytest

from opentela.router.fault import Fault
from opentela.router.openai import MISSING, Ask
from opentela.router.wanted import read_wanted

JSON = (b"content-type", b"application/json")
FORM = (b"content-type", b"multipart/form-data; boundary=X")
SOUND = (b"content-type", b"audio/wav")


def form(*fields: tuple[str, str]) -> bytes:
    """Return a form."""
    parts = [
        f'--X\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in fields
    ]
    return "".join((*parts, "--X--\r\n")).encode()


@pytest.mark.parametrize(
    ("target", "headers", "body", "ask"),
    [
        (b"/v1/x", [JSON], b'{"model":"a","stream":true}', Ask("a", streams=True)),
        (b"/v1/x", [JSON], b' {"model":"a"}', Ask("a", streams=False)),
        (b"/v1/x?model=b", [(b"x-otela-model", b"c")], b'{"model":"a"}', Ask("a", streams=False)),
        (b"/v1/x", [(b"x-otela-model", b"c")], b'{"content":"t"}', Ask("c", streams=False)),
        (b"/v1/x?model=a%2Fb", [], b"", Ask("a/b", streams=False)),
        (b"/v1/x?model=%C3%A4", [], b"", Ask("ä", streams=False)),
        (b"/v1/x?q=1", [(b"x-otela-model", b" \xc3\xa4 ")], b"", Ask("ä", streams=False)),
        (b"/v1/x?model=a", [(b"x-otela-model", b"a")], b"", Ask("a", streams=False)),
        (b"/v1/x", [], b"", Ask("", streams=False)),
        (b"/v1/x?model=a", [SOUND], b"RIFF", Ask("a", streams=False)),
        (b"/v1/x", [FORM], form(("model", "a")), Ask("a", streams=False)),
        (b"/v1/x", [FORM], form(("stream", "True"), ("model", "a")), Ask("a", streams=True)),
        (b"/v1/x?model=b", [FORM], form(("model", "a")), Ask("a", streams=False)),
        (b"/v1/x?model=b", [FORM], form(("file", "a")), Ask("b", streams=False)),
    ],
)
def test_a_model_is_read_where_it_stands(
    target: bytes, headers: list[tuple[bytes, bytes]], body: bytes, ask: Ask
) -> None:
    """In the body before anywhere else."""
    method = b"POST" if body else b"GET"
    assert read_wanted(method, target, headers, body) == ask


@pytest.mark.parametrize(
    ("target", "headers", "body", "param"),
    [
        (b"/v1/x", [JSON], b"{}", "model"),
        (b"/v1/x", [JSON], b"", None),
        (b"/v1/x", [], b"", None),
        (b"/v1/x", [], b"model=m", None),
        (b"/v1/x", [SOUND], b"RIFF", "model"),
        (b"/v1/x", [FORM], form(("file", "a")), "model"),
        (b"/v1/x", [FORM], form(("model", "")), "model"),
        (b"/v1/x", [FORM], b'{"model":"a"', None),
        (b"/v1/x?model=", [], b"", "model"),
        (b"/v1/x?model=a&model=b", [], b"", "model"),
        (b"/v1/x?model=a", [(b"x-otela-model", b"b")], b"", "model"),
        (b"/v1/x?model=" + b"m" * 257, [], b"", "model"),
        (b"/v1/x?" + b"&".join([b"a=b"] * 100), [], b"", None),
    ],
)
def test_what_names_none_or_several_is_a_400(
    target: bytes, headers: list[tuple[bytes, bytes]], body: bytes, param: str | None
) -> None:
    """In words."""
    method = b"POST"
    fault = read_wanted(method, target, headers, body)
    assert isinstance(fault, Fault)
    assert (fault.http_status, fault.param) == (400, param)


def test_a_missing_model_is_one_fault() -> None:
    """Told apart from all others by being it."""
    assert read_wanted(b"POST", b"/", [JSON], b"{}") is MISSING
