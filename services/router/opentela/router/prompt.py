"""How a prompt begins, as two numbers: equal ones share what an engine's prefix cache may hold.

The beginning is what the turns of one conversation have in common: everything up to its first
message of the user. Of a prompt that is one text it is the first part.
Numbers are the same in every router, whoever computes them: BLAKE2b, RFC 7693.
"""

import hashlib
from typing import Final, NamedTuple

import msgspec

from opentela.core.pieces import Text

LEAD_BYTES: Final = 2048
"""About 512 tokens: shorter common beginnings are hardly worth a detour."""
WHOLE_BYTES_MAX: Final = 16 * 1024
"""Of the beginning of a conversation; hashing them takes some 20 µs."""
PARSED_BYTES_MAX: Final = 1024 * 1024
"""Larger bodies are not parsed for it: they bear pictures, and the first part of them will do. Nor
does anybody look further for where the prompt begins."""
_HASH_BYTES: Final = 8
_STARTS: Final = (b'"messages"', b'"prompt"', b'"input"')


class Keys(NamedTuple):
    """Where a prompt belongs.

    Attributes:
        lead: Of the first `LEAD_BYTES`: the same for all prompts with one long system prompt or
            one document in front.
        whole: Of all that the turns of one conversation share.
    """

    lead: int
    whole: int


class _Message(msgspec.Struct):
    role: msgspec.Raw = msgspec.Raw(b"")


class _Body(msgspec.Struct):
    messages: msgspec.Raw = msgspec.Raw(b"")
    prompt: msgspec.Raw = msgspec.Raw(b"")
    input: msgspec.Raw = msgspec.Raw(b"")


_decode_body: Final = msgspec.json.Decoder(_Body).decode
_decode_list: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode
_decode_message: Final = msgspec.json.Decoder(_Message).decode


def keys_of(body: Text) -> Keys:
    """Return the keys of the prompt in *body*, whatever that is."""
    start = _beginning(body)
    whole = _hash(start[:WHOLE_BYTES_MAX])
    return Keys(whole if len(start) <= LEAD_BYTES else _hash(start[:LEAD_BYTES]), whole)


def _beginning(body: Text) -> bytes:
    start = body[:PARSED_BYTES_MAX]
    if len(body) <= PARSED_BYTES_MAX:
        try:
            read = _decode_body(start)
            messages = bytes(read.messages or read.input)
            if messages.startswith(b"["):
                return _first_turn(messages)
            # A text that grows turn by turn shares with the next turn only what it has now.
            return (bytes(read.prompt) or messages)[:LEAD_BYTES]
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass  # no JSON, hence no prompt: all such bodies belong together
    found = (start.find(name) for name in _STARTS)
    at = next((at for at in found if at >= 0), 0)
    return body[at : at + LEAD_BYTES]


def _first_turn(messages: bytes) -> bytes:
    """Return the messages up to the first one of the user."""
    parts: list[bytes] = []
    size = 0
    for raw in _decode_list(messages):
        part = bytes(raw)
        parts.append(part)
        size += len(part)
        is_object = part.startswith(b"{")
        if size >= WHOLE_BYTES_MAX or not is_object or bytes(_decode_message(raw).role) == _USER:
            break
    return b"\n".join(parts)


_USER: Final = b'"user"'


def _hash(data: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(data, digest_size=_HASH_BYTES).digest(), "big")
