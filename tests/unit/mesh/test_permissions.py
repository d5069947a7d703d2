"""The permissions of each role, spelled out: a change of the table must be made here as well."""

import pytest

from opentela.core.errors import ConfigError
from opentela.mesh import permissions
from opentela.mesh.permissions import EVERY, Member, Permissions, Role
from opentela.testing.permits import may_subscribe

PROVIDER = Member(role=Role.PROVIDER, name="p", provider="p")
AT_SITE = Member(role=Role.PROVIDER, name="p", provider="p", site="a")
ROUTER = Member(role=Role.ROUTER, name="edge")

EXPECTED = {
    "registry": (
        Member(role=Role.REGISTRY, name="r1"),
        "probe.> verdict.> registries gossip.> snapshot inbox.> events.>",
        (
            "advice.> sighting.> delta.> beat.> verdict.> registries gossip.r1 snapshot relay"
            " inbox.r1.> reply.r1.>"
        ),
    ),
    "router": (
        ROUTER,
        "sighting.> snapshot relay data.> usage",
        "delta.> verdict.> registries inbox.edge.> events.> reply.edge.>",
    ),
    "placer": (
        Member(role=Role.PLACER, name="pl"),
        "snapshot relay command.> audit.>",
        "delta.> verdict.> registries inbox.pl.> events.> reply.pl.> usage audit.>",
    ),
    "tool": (
        Member(role=Role.TOOL, name="t"),
        "snapshot",
        "delta.> verdict.> registries inbox.t.> events.> audit.>",
    ),
    "provider": (
        PROVIDER,
        "advice.p.*.> delta.p.*.> beat.p.*.> reply.*.*.p.>",
        "probe.p.*.> verdict.p.*.> data.p.*.> command.p.*.>",
    ),
    "provider at one site": (
        AT_SITE,
        "advice.p.a.> delta.p.a.> beat.p.a.> reply.*.*.p.>",
        "probe.p.a.> verdict.p.a.> data.p.a.> command.p.a.>",
    ),
}
READ = {"$JS.hub.API.DIRECT.GET.otela_events", "$JS.API.DIRECT.GET.otela_events"}
MAKE = {
    f"$JS.{hub}API.STREAM.{verb}.otela_events"
    for hub in ("", "hub.")
    for verb in ("CREATE", "UPDATE")
}
LEASE = {
    "$KV.otela_placers.leader",
    "$JS.hub.API.$KV.otela_placers.leader",
    *(
        f"$JS.{hub}API.STREAM.{verb}.KV_otela_placers"
        for hub in ("", "hub.")
        for verb in ("CREATE", "MSG.GET")
    ),
}
KEPT = {"registry": MAKE, "router": READ, "placer": READ | LEASE, "tool": READ}
INTEREST = "advice.* delta.* beat.* reply.*.*.*"


def listed(words: str) -> tuple[str, ...]:
    """Return subjects without their root, in order of the alphabet."""
    return tuple(sorted(f"otela.v1.{word}" for word in words.split()))


@pytest.mark.parametrize("who", EXPECTED)
def test_of_jetstream_a_member_may_ask_exactly_this(who: str) -> None:
    """Registries keep one stream, others read it, placers elect one; nobody deletes."""
    member, *_ = EXPECTED[who]
    asked = {one for one in permissions.of(member).publish if one.startswith("$")}
    assert asked == KEPT.get(who, set())


@pytest.mark.parametrize(("member", "publish", "subscribe"), EXPECTED.values(), ids=EXPECTED)
def test_a_member_may_do_exactly_this(member: Member, publish: str, subscribe: str) -> None:
    """No more, no less."""
    allowed = permissions.of(member)
    said = [subject for subject in allowed.publish if not subject.startswith("$")]
    assert tuple(sorted(said)) == listed(publish)
    assert tuple(sorted(allowed.subscribe)) == listed(subscribe)


def test_a_leaf_carries_its_providers_at_its_sites() -> None:
    """And hears of the interest of others in what they say, by patterns that match no message."""
    carried = permissions.of_leaf(("a", "b"), providers=("p", "q"))
    assert tuple(sorted(carried.publish)) == listed(
        "advice.p.a.> advice.p.b.> advice.q.a.> advice.q.b.> "
        "delta.p.a.> delta.p.b.> delta.q.a.> delta.q.b.> "
        "beat.p.a.> beat.p.b.> beat.q.a.> beat.q.b.> reply.*.*.p.> reply.*.*.q.> " + INTEREST
    )
    assert tuple(sorted(carried.subscribe)) == listed(
        " ".join(
            f"{conversation}.{provider}.{site}.>"
            for conversation in ("probe", "verdict", "data", "command")
            for provider in "pq"
            for site in "ab"
        )
    )


def test_a_leaf_without_a_list_of_providers_carries_everybody_at_its_site() -> None:
    """But nobody elsewhere."""
    carried = permissions.of_leaf(("a",))
    assert tuple(sorted(carried.publish)) == listed(
        "advice.*.a.> delta.*.a.> beat.*.a.> reply.*.*.*.> " + INTEREST
    )
    assert permissions.may_publish(carried, "otela.v1.delta.q.a.n")
    assert not permissions.may_publish(carried, "otela.v1.delta.q.b.n")
    assert not may_subscribe(carried, "otela.v1.data.q.b.n")


def test_a_leaf_carries_the_members_that_work_there() -> None:
    """By name, each as much as it may itself, and nothing twice."""
    carried = permissions.of_leaf(("a",), providers=("p",), members=(ROUTER, ROUTER))
    mine = permissions.of(ROUTER)
    assert set(mine.publish) <= set(carried.publish)
    assert set(mine.subscribe) <= set(carried.subscribe)
    assert len(set(carried.publish)) == len(carried.publish)
    assert len(set(carried.subscribe)) == len(carried.subscribe)


@pytest.mark.parametrize(
    "message",
    ["delta.p.a.n", "beat.p.a.n", "reply.edge.i.p.t", "reply.edge.i.p.t.u"],
)
def test_interest_patterns_match_no_message(message: str) -> None:
    """Otherwise they would open the fence that they are for."""
    interest = Permissions(publish=listed(INTEREST), subscribe=())
    assert not permissions.may_publish(interest, f"otela.v1.{message}")


@pytest.mark.parametrize("subscription", ["delta.>", "beat.>", "reply.edge.i.>"])
def test_interest_patterns_match_the_subscriptions_of_askers(subscription: str) -> None:
    """Otherwise a leaf would never hear that somebody listens."""
    interest = Permissions(publish=listed(INTEREST), subscribe=())
    # Servers compare the text: there its `>` is a token like any other.
    text = subscription.replace(">", "x")
    assert permissions.may_publish(interest, f"otela.v1.{text}")


def test_a_provider_is_fenced_in() -> None:
    """Neither exactly nor by a wildcard does it reach another."""
    allowed = permissions.of(PROVIDER)
    assert permissions.may_publish(allowed, "otela.v1.reply.edge.i.p.t")
    assert may_subscribe(allowed, "otela.v1.data.p.a.n")
    for subject in ("data.q.a.n", "data.>", "data.*.a.n", ">", "*.p.a.n", "delta.p.a.n"):
        assert not may_subscribe(allowed, f"otela.v1.{subject}")
    for subject in ("reply.edge.i.q.t", "delta.q.a.n", "verdict.p.a.n", "events.LEFT.p.a.n"):
        assert not permissions.may_publish(allowed, f"otela.v1.{subject}")


@pytest.mark.parametrize(
    "nobody",
    [
        Member(role=Role.PROVIDER, name="p"),
        Member(role=Role.ROUTER, name="r", provider="p"),
        Member(role=Role.ROUTER, name=""),
    ],
)
def test_a_member_that_is_half_a_provider_is_refused(nobody: Member) -> None:
    """Who names no provider would get the subjects of nobody, or of everybody."""
    with pytest.raises(ConfigError, match="is no member"):
        permissions.of(nobody)


def test_every_role_takes_part_and_every_conversation_has_both_ends() -> None:
    """Nobody speaks who is not heard, and nobody listens where nothing is said."""
    for role in Role:
        assert any(role in row.publish for row in permissions.TABLE)
        assert any(role in row.subscribe for row in permissions.TABLE)
    assert all(row.subscribe and row.publish for row in permissions.TABLE)
    assert EVERY == "*"
