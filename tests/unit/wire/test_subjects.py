"""Subjects: one place, one shape, and nothing that could widen a fence."""

import pytest

from opentela.core.errors import WireError
from opentela.core.ids import ProviderId, SessionId, SiteId
from opentela.wire import subjects
from opentela.wire.subjects import SessionPath

PATH = SessionPath(ProviderId("p"), SiteId("s"), SessionId("n"))


@pytest.mark.parametrize(
    ("built", "expected"),
    [
        (subjects.delta(PATH), "otela.v1.delta.p.s.n"),
        (subjects.beat(PATH), "otela.v1.beat.p.s.n"),
        (subjects.probe(PATH), "otela.v1.probe.p.s.n"),
        (subjects.verdict(PATH), "otela.v1.verdict.p.s.n"),
        (subjects.data(PATH), "otela.v1.data.p.s.n"),
        (subjects.echo(PATH, "1f"), "otela.v1.data.p.s.n.1f"),
        (subjects.echoes(PATH), "otela.v1.data.p.s.n.*"),
        (subjects.event("LEFT", PATH), "otela.v1.events.LEFT.p.s.n"),
        (subjects.gossip("r1"), "otela.v1.gossip.r1"),
        (subjects.reply("edge", PATH.provider, "i1", "t"), "otela.v1.reply.edge.i1.p.t"),
        (subjects.replies("edge", "i1"), "otela.v1.reply.edge.i1.>"),
        (subjects.inbox("r1"), "otela.v1.inbox.r1"),
    ],
)
def test_a_subject_is_spelled_as_published(built: str, expected: str) -> None:
    """Other versions and other languages rely on these very strings."""
    assert built == expected


@pytest.mark.parametrize("bad", ["", "a.b", "*", ">", "a b", "a\tb", "a\r\nPUB x 0"])
def test_a_token_that_means_something_to_the_server_is_refused(bad: str) -> None:
    """No id can add a level, a wildcard or a protocol line to a subject."""
    with pytest.raises(WireError, match="not one subject token"):
        subjects.token(bad)


def test_the_session_of_a_subject_is_read_back() -> None:
    """Receivers learn from the subject who the server let through."""
    for subject in (subjects.data(PATH), subjects.event("LEFT", PATH)):
        assert subjects.path_of(subject) == PATH


@pytest.mark.parametrize("short", ["", "otela.v1.delta.p.s", "otela.v1.snapshot"])
def test_a_subject_without_a_session_is_refused(short: str) -> None:
    """A path is never made of the words before it."""
    with pytest.raises(WireError, match="names no session"):
        subjects.path_of(short)


def test_a_session_answers_where_it_was_asked_to() -> None:
    """On the asker's subject, with itself as the tail."""
    path = SessionPath(ProviderId("p"), SiteId("s"), SessionId("N"))
    asked = subjects.reply("router1", path.provider, "i1", "00ff")
    assert subjects.answer(asked, path) == subjects.reply("router1", path.provider, "i1", "N")


@pytest.mark.parametrize(
    "reply_to",
    ["", "x", "otela.v1.reply.r.i.q.0", "otela.v1.data.r.i.p.0", "otela.v1.reply.r.p.0",
     "otela.v1.reply.r.i.p.", "otela.v1.reply.r.i.j.p.0"],
)  # fmt: skip
def test_a_session_answers_nowhere_else(reply_to: str) -> None:
    """A subject that is not a router's waiting for this provider."""
    path = SessionPath(ProviderId("p"), SiteId("s"), SessionId("N"))
    with pytest.raises(WireError):
        subjects.answer(reply_to, path)


@pytest.mark.parametrize(
    ("pattern", "subject", "expected"),
    [
        ("a.b", "a.b", True),
        ("a.b", "a.c", False),
        ("a.b", "a", False),
        ("a", "a.b", False),
        ("a.*", "a.b", True),
        ("a.*", "a.b.c", False),
        ("a.*.c", "a.b.c", True),
        ("a.>", "a.b.c", True),
        ("a.>", "a", False),
        (">", "a", True),
        ("a.*", "a.*", True),
        ("a.b", "a.*", False),
        ("a.>", "a.>", True),
        ("a.>", "a.*.c", True),
        ("a.*", "a.>", False),
        ("a.*.>", "a.>", False),
        ("a.*.>", "a.*.>", True),
        ("a.*", "*.b", False),
    ],
)
def test_a_pattern_matches_what_it_names_wholly(
    pattern: str, subject: str, *, expected: bool
) -> None:
    """A subject with wildcards of its own is matched only if nothing of it lies outside."""
    assert subjects.matches(pattern, subject) is expected


@pytest.mark.parametrize(
    ("built", "expected"),
    [
        (subjects.command(PATH), "otela.v1.command.p.s.n"),
        (subjects.whole("delta"), subjects.ALL_DELTAS),
        (subjects.single("snapshot"), subjects.SNAPSHOT),
        (subjects.of_provider("data", "p"), "otela.v1.data.p.*.>"),
        (subjects.of_provider("data", "*", "s"), "otela.v1.data.*.s.>"),
        (subjects.of_member("gossip", "r1", deep=False), subjects.gossip("r1")),
        (subjects.of_member("inbox", "r1", deep=True), "otela.v1.inbox.r1.>"),
        (subjects.answers_of("p"), "otela.v1.reply.*.*.p.>"),
        (subjects.interest_in("delta"), "otela.v1.delta.*"),
        (subjects.interest_in("reply"), "otela.v1.reply.*.*.*"),
    ],
)
def test_a_pattern_is_spelled_as_servers_enforce_it(built: str, expected: str) -> None:
    """Credentials that were issued long ago hold these very strings."""
    assert built == expected


@pytest.mark.parametrize("bad", ["", "a.b", ">", "**", "a*"])
def test_a_pattern_is_not_widened_by_a_name(bad: str) -> None:
    """A provider called `>` would be everybody."""
    with pytest.raises(WireError):
        subjects.of_provider("data", bad)
    with pytest.raises(WireError):
        subjects.of_member("inbox", bad, deep=True)
