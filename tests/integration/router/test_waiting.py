"""Requests wait for what is loading or full, within bounds, and are told when not to."""

import asyncio

import pytest
from tests.integration.router.conftest import Bench, MakeBench
from tests.integration.router.raw import Raw, Response, post
from tests.integration.router.test_forwarding import ANSWER, whole
from tests.unit.router.parts import record, session_of

from opentela.core.record import Lifecycle, ModelOffer
from opentela.router.config import WaitConfig
from opentela.router.waiting import ASKED_MAX
from opentela.testing.fake_link import FakeStream

X = [ModelOffer(name="x")]
SITES = ("alps", "jura")
ASK_X = post(b'{"model":"x"}')


async def asked(bench: Bench, request: bytes = ASK_X) -> Raw:
    """Return a client whose request waits."""
    before = len(bench.front.desk.waiting)
    client = await bench.client()
    client.send(request)
    await bench.until(lambda: len(bench.front.desk.waiting) == before + 1)
    return client


async def test_a_request_waits_while_its_model_loads(bench: Bench) -> None:
    """And is answered as soon as it is there."""
    bench.link.script = whole
    bench.front.sessions_changed([record(5, models=X, lifecycle=Lifecycle.JOINING)])
    client = await asked(bench)
    assert bench.link.streams == []
    assert (await (await bench.client()).ask(post())).status == 200  # other models are not affected
    bench.front.sessions_changed([record(5, models=X, incarnation=2)])
    answer = await client.answer()
    assert (answer.status, answer.headers["x-otela-session"]) == (200, session_of(5))
    assert len(bench.front.desk.waiting) == 0


async def test_a_load_that_fails_ends_the_wait(bench: Bench) -> None:
    """Nobody else offers the model now."""
    bench.front.sessions_changed([record(5, models=X, lifecycle=Lifecycle.JOINING)])
    client = await asked(bench)
    bench.front.sessions_changed([record(5, models=X, incarnation=2, lifecycle=Lifecycle.DOWN)])
    answer = await client.answer()
    assert (answer.status, answer.error["code"]) == (503, "model_unavailable")


async def test_a_request_waits_for_a_session_that_only_stood_still(bench: Bench) -> None:
    """It is answered as soon as the session has refuted what is held against it."""
    bench.link.script = whole
    bench.front.sessions_changed([record(5, models=X, suspected=1)])
    client = await asked(bench)
    bench.front.sessions_changed([record(5, models=X, incarnation=2)])
    answer = await client.answer()
    assert (answer.status, answer.headers["x-otela-session"]) == (200, session_of(5))


async def test_a_wait_that_is_too_long_is_ended(make_bench: MakeBench) -> None:
    """With what is known of the load, and an advice when to come again."""
    bench = await make_bench(wait=WaitConfig(loading_s=0.02))
    bench.front.sessions_changed([record(5, models=X, lifecycle=Lifecycle.JOINING)])
    answer = await (await bench.client()).ask(ASK_X)
    assert (answer.status, answer.error["code"]) == (503, "model_loading")
    assert int(answer.headers["retry-after"]) > 0
    assert len(bench.front.desk.waiting) == 0


async def test_who_must_not_wait_is_told_at_once(make_bench: MakeBench) -> None:
    """When it is configured so, and when too many wait already."""
    bench = await make_bench(wait=WaitConfig(loading_s=0))
    bench.front.sessions_changed([record(5, models=X, lifecycle=Lifecycle.JOINING)])
    assert (await (await bench.client()).ask(ASK_X)).error["code"] == "model_loading"
    bench = await make_bench(wait=WaitConfig(depth_max=1))
    bench.front.sessions_changed([record(5, models=X, lifecycle=Lifecycle.JOINING)])
    first = await asked(bench)
    refused = await (await bench.client()).ask(ASK_X)
    assert (refused.status, refused.error["code"]) == (503, "model_loading")
    bench.link.script = whole
    bench.front.sessions_changed([record(5, models=X, incarnation=2)])
    assert (await first.answer()).status == 200


async def test_who_waits_keeps_its_place_in_a_full_line(make_bench: MakeBench) -> None:
    """Whatever else changes: only who comes anew finds no room."""
    bench = await make_bench(wait=WaitConfig(depth_max=1))
    bench.link.script = whole
    bench.front.sessions_changed([record(5, models=X, lifecycle=Lifecycle.JOINING)])
    first = await asked(bench)
    bench.front.sessions_changed([record(6, models=[ModelOffer(name="y")])])
    assert len(bench.front.desk.waiting) == 1
    bench.front.sessions_changed([record(5, models=X, incarnation=2)])
    assert (await first.answer()).status == 200


async def test_full_sessions_are_served_in_order_of_arrival(make_bench: MakeBench) -> None:
    """One request at a time, and none is lost."""
    bench = await make_bench(sessions=1, wait=WaitConfig(session_requests_max=1))
    clients = [await bench.client()]
    clients[0].send(post())
    await bench.opened()
    clients += [await asked(bench, post(b'{"model":"m","n":%d}' % n)) for n in range(3)]
    late = await bench.client()
    for number in range(4):
        stream = await bench.opened(number + 1)
        assert b'"n":%d' % (number - 1) in stream.body or number == 0
        # Who comes at this very moment does not overtake.
        if number == 0:
            late.send(post(b'{"model":"m","late":1}'))
        stream.answer(ANSWER)
        assert (await clients[number].answer()).status == 200
    assert b"late" in (await bench.opened(5)).body
    bench.link.streams[-1].answer(ANSWER)
    assert (await late.answer()).status == 200


async def test_a_client_that_leaves_while_it_waits_is_forgotten(make_bench: MakeBench) -> None:
    """The next one gets the session."""
    bench = await make_bench(sessions=1, wait=WaitConfig(session_requests_max=1))
    running = await bench.client()
    running.send(post())
    stream = await bench.opened()
    leaving = await asked(bench, post())
    staying = await asked(bench, post())
    leaving.abort()
    await bench.until(lambda: len(bench.front.desk.waiting) == 1)
    stream.answer(ANSWER)
    (await bench.opened(2)).answer(ANSWER)
    assert (await staying.answer()).status == 200


async def test_a_constraint_does_not_hold_up_others(make_bench: MakeBench) -> None:
    """A session's room goes to the first who can use it."""
    bench = await make_bench(sessions=1, wait=WaitConfig(session_requests_max=1))
    bench.front.sessions_changed([record(9, site="jura")])
    clients = [await bench.client() for _ in range(2)]
    for client, site in zip(clients, ("alps", "jura"), strict=True):
        client.send(post(b'{"model":"m"}', "/v1/completions", f"X-Otela-Site: {site}"))
    await bench.opened(2)
    alps = await asked(bench, post(b'{"model":"m"}', "/v1/completions", "X-Otela-Site: alps"))
    anywhere = await asked(bench, post())
    jura = next(one for one in bench.link.streams if one.path.site == "jura")
    jura.answer(ANSWER)
    (await bench.opened(3)).answer(ANSWER)
    assert (await anywhere.answer()).headers["x-otela-site"] == "jura"
    next(one for one in bench.link.streams if one.path.site == "alps").answer(ANSWER)
    (await bench.opened(4)).answer(ANSWER)
    assert (await alps.answer()).headers["x-otela-site"] == "alps"


@pytest.mark.parametrize("count", [40])
async def test_nobody_is_left_behind_under_load(make_bench: MakeBench, count: int) -> None:
    """Many more requests than places, answers at random moments."""
    bench = await make_bench(
        sessions=3, policy="least_load", wait=WaitConfig(session_requests_max=2)
    )
    most: list[int] = []

    def script(stream: FakeStream) -> None:
        running = [one for one in bench.link.streams if not one.ended]
        most.append(len(running))
        asyncio.get_running_loop().call_soon(whole, stream)

    bench.link.script = script
    clients = [await bench.client() for _ in range(count)]
    answers: list[Response] = await asyncio.gather(*(one.ask(post()) for one in clients))
    assert {answer.status for answer in answers} == {200}
    assert max(most) <= 6
    assert not bench.front.desk.waiting.full


async def test_many_who_cannot_use_a_session_do_not_keep_it_from_who_can(
    make_bench: MakeBench,
) -> None:
    """However far behind them it stands in the line."""
    bench = await make_bench(sessions=1, wait=WaitConfig(session_requests_max=1))
    bench.front.sessions_changed([record(9, site="jura")])
    asks = [post(b'{"model":"m"}', "/v1/completions", f"X-Otela-Site: {site}") for site in SITES]
    for request in asks:
        (await bench.client()).send(request)
    await bench.opened(2)
    for _ in range(2 * ASKED_MAX):
        await asked(bench, asks[0])
    anywhere = await asked(bench, post())
    jura = next(one for one in bench.link.streams if one.path.site == "jura")
    jura.answer(ANSWER)
    (await bench.opened(3)).answer(ANSWER)
    assert (await anywhere.answer()).headers["x-otela-site"] == "jura"
    bench.link.script = whole
    next(one for one in bench.link.streams if not one.ended).answer(ANSWER)
    await bench.until(lambda: not bench.front.desk.in_flight)
