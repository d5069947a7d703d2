"""`otela start` from the command to the last word, with an engine that does what it is told."""

import contextlib
import os
import signal
import sys
from pathlib import Path

import aiohttp
import msgspec
import pytest
from tests.integration.supervisor.conftest import FAKE, SOON_HUNG, Ask, Start, Witness

from opentela.core.record import Lifecycle
from opentela.mesh import warrants
from opentela.supervisor import proctree
from opentela.testing.mesh import TestMesh
from opentela.testing.waiting import until
from opentela.wire import control, frames, subjects
from opentela.wire.subjects import SessionPath

pytestmark = pytest.mark.nats


async def steer(url: str, **fields: object) -> None:
    async with aiohttp.ClientSession() as http, http.post(f"{url}/control", json=fields) as answer:
        assert answer.status == 200


async def seen_by(url: str) -> dict[str, object]:
    async with aiohttp.ClientSession() as http, http.get(f"{url}/control/state") as answer:
        return dict(await answer.json())


def proc(pid: int, name: str) -> str:
    return Path(f"/proc/{pid}/{name}").read_text()


class TestALife:
    """From start to end, in order."""

    async def test_a_session_joins_serves_drains_and_leaves(
        self, start: Start, witness: Witness
    ) -> None:
        """With its models, its labels and its alias; nothing of it is left."""
        supervisor = await start(
            *FAKE,
            options=("--model-alias", "chat", "--label", "tier=a", "--node", "n1"),
        )
        joining = await witness.heard(Lifecycle.JOINING)
        assert [model.name for model in joining.offer.models] == ["tiny"]
        serving = await witness.heard(Lifecycle.SERVING)
        assert (serving.provider, serving.site, serving.node) == ("p", "a", "n1")
        (model,) = serving.offer.models
        assert (model.name, model.aliases, model.context_max) == ("tiny", ("chat",), 4096)
        assert serving.offer.labels == {"tier": "a"}
        assert serving.offer.engine == "openai"
        await until(
            lambda: any(beat.incarnation == serving.incarnation for _, beat in witness.beats),
            "a beat of the latest incarnation",
        )
        assert {path.session for path, _ in witness.beats} == {serving.session}
        await supervisor.engine()
        supervisor.process.terminate()
        assert await supervisor.ended() == 0, supervisor.said()
        left = await witness.heard(Lifecycle.LEFT)
        assert witness.lives() == {left.session: ["JOINING", "SERVING", "DRAINING", "LEFT"]}
        assert left.ended_at_ms >= left.born_at_ms
        assert supervisor.alive() == []

    async def test_the_health_page_tells_the_state(
        self, start: Start, witness: Witness, tmp_path: Path
    ) -> None:
        """Ready only while requests are taken; with the token, what the engine wrote last."""
        token = tmp_path / "token"
        token.touch(0o600)
        token.write_text("t0ken")
        options = ("--set", f"health.token_file={token}")
        unread = ("--script", '{"models_failures": 1000000}')
        supervisor = await start(*FAKE, "--load-ms", "300", *unread, options=options)
        status, page = await supervisor.page("/readyz")
        assert (status, page["ready"]) == (503, False)
        await supervisor.event("offer_unread")
        await steer((await supervisor.engine())[1], models_failures=0)
        await witness.heard(Lifecycle.SERVING)
        connected = [event["carries"] for event in supervisor.events("mesh_connected")]
        assert sorted(connected) == ["control", "data"]
        await supervisor.event("session_announced")
        await supervisor.ready()
        _, page = await supervisor.page("/status", token="t0ken")
        assert page["lifecycle"] == "SERVING"
        assert page["models"] == ["tiny"]
        assert page["engine"]["state"] == "ready"
        assert page["engine"]["progress"]["share"] == 0.9
        assert any("listening on" in line for line in page["log"])
        assert [one["what"] for one in page["story"]][-1] == "SERVING"

    async def test_running_requests_finish_while_new_ones_are_refused(
        self, start: Start, witness: Witness, ask: Ask
    ) -> None:
        """The engine is stopped after the last token, not before."""
        supervisor = await start(*FAKE, "--tokens", "40", "--tpot-ms", "25")
        serving = await witness.heard(Lifecycle.SERVING)
        asker = await ask(serving, stream=True)
        await asker.got(frames.Data)
        supervisor.process.terminate()
        await witness.heard(Lifecycle.DRAINING)
        refused = await (await ask(serving)).got(frames.Fail)
        assert (refused.kind, refused.definite) == (frames.FailKind.REFUSED, True)
        end = await asker.got(frames.End)
        assert end.stream == 1
        answer = b"".join(
            one.data for one in asker.frames if isinstance(one, frames.Data) and one.stream == 1
        )
        assert answer.endswith(b"data: [DONE]\n\n")
        assert await supervisor.ended() == 0

    async def test_a_second_signal_ends_everything_at_once(
        self, start: Start, witness: Witness, ask: Ask
    ) -> None:
        """Whoever presses Ctrl-C twice does not want to wait; still nothing is left."""
        supervisor = await start(*FAKE, "--tokens", "1000", "--tpot-ms", "50")
        serving = await witness.heard(Lifecycle.SERVING)
        await (await ask(serving, stream=True)).got(frames.Data)
        await supervisor.engine()
        supervisor.process.terminate()
        await witness.heard(Lifecycle.DRAINING)

        def is_forced() -> bool:
            # One that comes too soon is taken for an echo of the first.
            if supervisor.process.returncode is None:
                supervisor.process.terminate()
            return "stop_forced" in supervisor.said()

        await until(is_forced, "that it is forced")
        assert await supervisor.ended() == 128 + signal.SIGTERM
        await until(lambda: supervisor.alive() == [], "the end of all")

    @pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP])
    async def test_a_warning_signal_of_the_scheduler_is_a_wish_to_leave(
        self, start: Start, witness: Witness, number: signal.Signals
    ) -> None:
        """By default these would end the process on the spot; also while it is about to end."""
        # Whoever runs the tests may have it ignored, as nohup does, and children inherit that.
        inherited = signal.signal(number, signal.SIG_DFL)
        try:
            supervisor = await start(*FAKE)
        finally:
            signal.signal(number, inherited)
        await witness.heard(Lifecycle.SERVING)

        def has_ended() -> bool:
            if supervisor.process.returncode is None:
                # Not by asyncio, whose `Popen` would take the exit status from it.
                with contextlib.suppress(ProcessLookupError):
                    os.kill(supervisor.process.pid, number)
            return supervisor.process.returncode is not None

        await until(has_ended, "its end")
        assert supervisor.process.returncode == 0, supervisor.said()
        assert (await witness.heard(Lifecycle.LEFT)).reason == number.name

    async def test_it_leaves_by_itself_before_the_walltime_ends(
        self, start: Start, witness: Witness
    ) -> None:
        """The end is part of the offer; no signal is needed."""
        # It must be up before it leaves, and gone before its time is over, on shared cores too.
        quick = ("--set", "walltime.reserve_s=2", "--set", "walltime.margin_s=2")
        supervisor = await start(*FAKE, options=("--walltime", "10s", *quick))
        serving = await witness.heard(Lifecycle.SERVING)
        left = await witness.heard(Lifecycle.LEFT)
        assert left.reason == "the walltime ends"
        assert left.ended_at_ms / 1000 < serving.offer.walltime_ends_at
        assert await supervisor.ended() == 0

    async def test_slurm_tells_the_walltime(self, start: Start) -> None:
        """An end that has come leaves nothing to do."""
        supervisor = await start(*FAKE, environ={"SLURM_JOB_END_TIME": "1000"})
        assert await supervisor.ended() == 2
        assert "the allocation ends in 0 s" in supervisor.said()


class TestFailure:
    """Engines that die, hang or never come up."""

    @pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
    async def test_a_lost_engine_is_followed_by_a_new_session(
        self, start: Start, witness: Witness, how: signal.Signals
    ) -> None:
        """Killed: down at once. Frozen: it accepts, never answers, and is found in seconds."""
        supervisor = await start(*FAKE, "--spawn", "session", options=SOON_HUNG)
        first = await witness.heard(Lifecycle.SERVING)
        pid, _ = await supervisor.engine()
        before = supervisor.alive()
        os.kill(pid, how)
        down = await witness.heard(Lifecycle.DOWN)
        assert down.session == first.session
        assert down.reason.startswith("hung" if how is signal.SIGSTOP else "engine was ended by")
        second = await witness.heard(Lifecycle.SERVING, not_of=first.session)
        assert (second.key, second.nonce) != (first.key, first.nonce)
        assert witness.lives()[first.session] == ["JOINING", "SERVING", "DOWN", "LEFT"]
        assert set(supervisor.alive()) & set(before) == set()

    async def test_an_engine_that_answers_probes_but_makes_no_token_is_replaced(
        self, start: Start, witness: Witness, ask: Ask
    ) -> None:
        """A good health page is no proof of work."""
        supervisor = await start(*FAKE, options=("--set", "watch.blind_stall_s=1"))
        first = await witness.heard(Lifecycle.SERVING)
        _, url = await supervisor.engine()
        await steer(url, stall_after=2)
        asker = await ask(first, stream=True)
        await asker.got(frames.Data)
        down = await witness.heard(Lifecycle.DOWN)
        assert down.reason == "hung: no token for 1 s with 1 requests running"
        assert (await asker.got(frames.Fail)).kind is frames.FailKind.ENGINE_LOST
        await witness.heard(Lifecycle.SERVING, not_of=first.session)

    async def test_a_busy_engine_with_late_probes_is_left_alone(
        self, start: Start, witness: Witness, ask: Ask
    ) -> None:
        """Tokens are proof of life."""
        options = SOON_HUNG
        supervisor = await start(*FAKE, "--tokens", "60", "--tpot-ms", "50", options=options)
        serving = await witness.heard(Lifecycle.SERVING)
        _, url = await supervisor.engine()
        asker = await ask(serving, stream=True)
        await asker.got(frames.Data)
        await steer(url, health="hang")
        await asker.got(frames.End)
        assert witness.lives()[serving.session] == ["JOINING", "SERVING"]

    async def test_an_engine_that_says_it_is_ill_is_replaced(
        self, start: Start, witness: Witness
    ) -> None:
        """As vLLM's front does when its core is dead."""
        supervisor = await start(*FAKE)
        await witness.heard(Lifecycle.SERVING)
        _, url = await supervisor.engine()
        await steer(url, health_status=503)
        down = await witness.heard(Lifecycle.DOWN)
        assert down.reason == "unhealthy: 3 health probes in a row failed (/health answered 503)"

    async def test_a_command_that_fails_at_once_is_tried_twice_and_explained(
        self, start: Start, witness: Witness
    ) -> None:
        """The last line of its output is in ours; the exit status says that it failed."""
        code = "import sys; sys.exit('no such option: --modle')"
        supervisor = await start(sys.executable, "-c", code)
        assert await supervisor.ended() == 1
        assert len(supervisor.events("engine_started")) == 2
        last = supervisor.said().strip().splitlines()[-1]
        assert last == (
            "otela start: engine exited with status 1: no such option: --modle; "
            "the engine's output says more"
        )
        await until(
            lambda: [life[-1] for life in witness.lives().values()] == ["LEFT"] * 2, "two sessions"
        )

    async def test_a_command_that_ends_well_is_told_to_stay(
        self, start: Start, witness: Witness
    ) -> None:
        """What puts itself into the background cannot be watched."""
        supervisor = await start(sys.executable, "-c", "pass")
        assert await supervisor.ended() == 1
        last = supervisor.said().strip().splitlines()[-1]
        assert last == (
            "otela start: engine exited with status 0; an engine must stay in the foreground: "
            "no & and no option that makes it a daemon"
        )

    async def test_a_missing_program_is_one_line_before_anything_else(
        self, start: Start, witness: Witness
    ) -> None:
        """No session, no connection, no other complaint."""
        supervisor = await start("vlllm", "serve", "x")
        assert await supervisor.ended() == 1
        assert supervisor.said() == (
            "otela start: vlllm: command not found; load the module or activate the environment "
            "that has it, or give its full path\n"
        )
        assert witness.claims == []

    async def test_a_killed_supervisor_leaves_no_process(
        self, start: Start, witness: Witness
    ) -> None:
        """Neither the engine nor its children in other sessions."""
        supervisor = await start(*FAKE, "--spawn", "session", "--spawn", "orphan")
        await witness.heard(Lifecycle.SERVING)
        await supervisor.engine()
        assert len(supervisor.alive()) == 4
        supervisor.process.kill()
        await supervisor.ended()
        await until(lambda: supervisor.alive() == [], "the end of all")

    async def test_what_a_killed_one_left_is_ended_before_the_next_engine_starts(
        self, start: Start, witness: Witness
    ) -> None:
        """Supervisor and guardian were killed at once, so that a child of the engine lives on."""
        look = (
            "from opentela.supervisor import proctree; import sys;"
            " left = proctree.read(int(sys.argv[1]));"
            " print('left', left is not None and left.is_alive, flush=True)"
        )
        left = await self.left_behind(start)
        second = await start(sys.executable, "-c", look, str(left.pid))
        await second.ended()
        # Whether it or another supervisor that started on this host meanwhile: it was ended.
        assert "left False" in second.said()
        assert "left True" not in second.said()

    async def left_behind(self, start: Start) -> proctree.Process:
        """Return what a supervisor left that was killed together with its guardian."""
        first = await start(*FAKE, "--spawn", "session")
        await first.ready()
        await first.engine()
        guardian, engine, left = first.family
        # Neither may see the other's end: whoever does ends the engine's children in order.
        for number in (signal.SIGSTOP, signal.SIGKILL):
            first.process.send_signal(number)
            proctree.send(guardian, number)
        await first.ended()
        await until(lambda: not proctree.is_same(engine), "the engine's end by the kernel")
        return left


class TestTheOffer:
    """What is offered is what the engine says."""

    async def test_a_list_that_could_not_be_read_is_read_again(
        self, start: Start, witness: Witness
    ) -> None:
        """The session serves once it is known what."""
        supervisor = await start(*FAKE, "--script", '{"models_failures": 2}')
        serving = await witness.heard(Lifecycle.SERVING)
        assert [model.name for model in serving.offer.models] == ["tiny"]
        _, url = await supervisor.engine()
        assert int(str((await seen_by(url))["model_lists"])) >= 3

    async def test_a_list_that_stays_unreadable_is_logged_shown_and_asked_for_on(
        self, start: Start, witness: Witness
    ) -> None:
        """Without a word of it, the session would seem to load for ever."""
        supervisor = await start(*FAKE, "--script", '{"models_failures": 1000000}')
        told = await supervisor.event("offer_unread")
        assert told["reason"] == "/v1/models answered 500"
        status, page = await supervisor.page("/readyz")
        assert status == 503
        assert page["reason"].endswith("its models cannot be read: /v1/models answered 500")
        _, url = await supervisor.engine()

        async def is_asked_on() -> bool:
            return int(str((await seen_by(url))["model_lists"])) >= 8

        await until(is_asked_on, "more reads")
        assert len(supervisor.events("offer_unread")) == 1
        await steer(url, models_failures=0)
        await witness.heard(Lifecycle.SERVING)

    async def test_a_list_that_changes_is_offered_anew(
        self, start: Start, witness: Witness
    ) -> None:
        """Such as when an adapter is loaded."""
        supervisor = await start(*FAKE)
        first = await witness.heard(Lifecycle.SERVING)
        _, url = await supervisor.engine()
        await steer(url, models=["tiny", "lora"])
        await until(lambda: len(witness.claims[-1].offer.models) == 2, "two models")
        last = witness.claims[-1]
        assert last.session == first.session
        assert last.incarnation > first.incarnation

    async def test_an_engine_is_recognised_by_its_answers(
        self, start: Start, witness: Witness
    ) -> None:
        """A script hides the command; the load comes from the metrics of the kind."""
        await start(
            *FAKE, "--owned-by", "vllm", "--script", '{"version": "0.32.0", "kv_used": 0.5}'
        )
        serving = await witness.heard(Lifecycle.SERVING)
        assert (serving.offer.engine, serving.offer.engine_version) == ("vllm", "0.32.0")
        await until(lambda: any(beat.kv_used == 0.5 for _, beat in witness.beats), "load in beats")

    async def test_equal_engines_have_one_fingerprint_and_others_another(
        self, start: Start, witness: Witness, tmp_path: Path
    ) -> None:
        """Measured by each supervisor from the files where its own engine says that they lie."""
        for name, tokenizer in (("a", "{}"), ("b", "{}"), ("c", "[]")):
            (tmp_path / name).mkdir()
            (tmp_path / name / "model.safetensors").write_bytes(b"weights")
            (tmp_path / name / "tokenizer.json").write_text(tokenizer)
        prints: dict[str, str] = {}
        for name in "abc":
            supervisor = await start(*FAKE, "--owned-by", "vllm", options=("--node", name))
            _, url = await supervisor.engine()

            async def is_measured(url: str = url, name: str = name) -> bool:
                with contextlib.suppress(aiohttp.ClientError):
                    await steer(url, root=str(tmp_path / name))
                offers = [one.offer for one in witness.claims if one.node == name]
                prints[name] = offers[-1].models[0].fingerprint if offers else ""
                return bool(prints[name])

            await until(is_measured, f"a fingerprint from {name}")
        assert prints["a"] == prints["b"] != prints["c"]

    async def test_the_engine_gets_a_key_that_nobody_else_can_read(
        self, start: Start, witness: Witness, ask: Ask
    ) -> None:
        """Not in any command line; requests through the mesh are let in, others are not."""
        supervisor = await start(*FAKE)
        serving = await witness.heard(Lifecycle.SERVING)
        pid, url = await supervisor.engine()
        variables = proc(pid, "environ").split("\0")
        (key,) = [one[21:] for one in variables if one.startswith("OTELA_ENGINE_API_KEY=")]
        assert len(key) >= 32
        for process in supervisor.family:
            assert key not in proc(process.pid, "cmdline")
        assert key not in supervisor.said()
        async with aiohttp.ClientSession() as http, http.get(f"{url}/v1/models") as answer:
            assert answer.status == 401
        head = await (await ask(serving)).got(frames.Head)
        assert head.status == 200

    async def test_arguments_reach_the_engine_untouched(self, start: Start) -> None:
        """But for the port; `--` and what looks like an option of ours included."""
        code = "import sys, os; print(repr(sys.argv[1:]), os.environ['OTELA_PORT'], flush=True)"
        words = ("{port}", "a b", "'q' \"d\"", "--", "--set", '{"x": "{port}"}', "$HOME", "")
        supervisor = await start(sys.executable, "-c", code, *words)
        await supervisor.ended()
        event = supervisor.events("engine_started")[-1]
        port = str(event["port"])
        assert f"{[word.replace('{port}', port) for word in words]!r} {port}" in supervisor.said()

    async def test_two_engines_that_start_at_once_both_come_up(
        self, start: Start, witness: Witness
    ) -> None:
        """Each on a port of its own; when one dies the other serves on."""
        first, second = await start(*FAKE), await start(*FAKE)
        await until(
            lambda: sum("SERVING" in life for life in witness.lives().values()) == 2,
            "two serving sessions",
        )
        assert (await first.engine())[1] != (await second.engine())[1]
        first.process.kill()
        await first.ended()
        await second.ready()

    async def test_without_a_token_the_page_holds_no_word_of_the_engine(
        self, start: Start, witness: Witness
    ) -> None:
        """Loopback is shared by the users of a host, and an engine may print prompts."""
        supervisor = await start(*FAKE)
        await witness.heard(Lifecycle.SERVING)
        _, page = await supervisor.page("/status")
        assert page["log"] == []

    async def test_a_port_that_is_taken_is_named_with_a_remedy(
        self, start: Start, witness: Witness
    ) -> None:
        """Two commands with the same fixed port cannot both run, and the second one says so."""
        supervisor = await start(*FAKE)
        await witness.heard(Lifecycle.SERVING)
        _, url = await supervisor.engine()
        port = url.rpartition(":")[2]
        other = await start(*(word.replace("{port}", port) for word in FAKE))
        assert await other.ended() == 1
        assert f"port {port} is in use on this host; write {{port}}" in other.said()


class TestTheMesh:
    """What registries say and ask, and a mesh that comes and goes."""

    async def test_a_probe_is_answered_and_a_suspicion_refuted(
        self, mesh: TestMesh, start: Start, witness: Witness
    ) -> None:
        """The answer carries the claim, under the greater incarnation."""
        await start(*FAKE)
        serving = await witness.heard(Lifecycle.SERVING)
        path = SessionPath(serving.provider, serving.site, serving.session)
        access = mesh.access(role="registry", name="registry2")
        bus = await mesh.bus(role="registry", name="registry2")
        replies: list[control.ProbeReply] = []
        await bus.subscribe(
            subjects.replies("registry2", "i"),
            lambda message: replies.append(control.read_probe_reply(message.payload)),
        )
        reply = subjects.reply("registry2", path.provider, "i", path.session)
        for probe in (
            control.Probe(sequence=1),
            control.Probe(sequence=2, suspected=serving.incarnation),
        ):
            await bus.publish(subjects.probe(path), control.encode(probe), reply=reply)
        await until(lambda: len(replies) == 2, "two answers")
        assert [one.sequence for one in replies] == [1, 2]
        await until(lambda: witness.claims[-1].incarnation == serving.incarnation + 1, "refutation")
        meant = serving.lifecycle, serving.incarnation + 1
        said = warrants.seal(access).state(path.session, meant, quorum=1, sites=1)
        verdict = control.Verdict(registry="registry2", session=path.session, witnesses=(said,))
        forged = msgspec.structs.replace(said, incarnation=serving.incarnation + 5)
        lie = msgspec.structs.replace(verdict, witnesses=(forged,))
        await bus.publish(subjects.verdict(path), control.encode(lie))
        await bus.publish(subjects.verdict(path), control.encode(verdict))
        await until(lambda: witness.claims[-1].incarnation == serving.incarnation + 2, "refutation")
        assert set(witness.lives()) == {serving.session}

    async def test_an_evicted_session_comes_back_as_a_new_one_with_the_same_engine(
        self, mesh: TestMesh, start: Start, witness: Witness, ask: Ask
    ) -> None:
        """What runs on the old one finishes; the new one is routed with its models."""
        supervisor = await start(*FAKE, "--tokens", "40", "--tpot-ms", "40")
        first = await witness.heard(Lifecycle.SERVING)
        path = SessionPath(first.provider, first.site, first.session)
        asker = await ask(first, stream=True)
        await asker.got(frames.Data)
        bus = await mesh.bus(role="registry", name="registry2")
        meant = first.lifecycle, first.incarnation
        ending = tuple(
            warrants.seal(mesh.access(role="registry", name=name)).state(
                path.session, meant, quorum=2, sites=1, ended_at_ms=first.born_at_ms
            )
            for name in ("registry1", "registry2")
        )
        verdict = control.Verdict(registry="registry2", session=path.session, ending=ending)
        await bus.publish(subjects.verdict(path), control.encode(verdict))
        second = await witness.heard(Lifecycle.SERVING, not_of=first.session)
        assert second.offer == first.offer
        assert len(supervisor.events("engine_started")) == 1
        assert (await asker.got(frames.End)).stream == 1
        assert (await (await ask(second)).got(frames.Head)).status == 200

    async def test_what_was_lost_with_a_server_is_said_again(
        self, mesh: TestMesh, start: Start, witness: Witness
    ) -> None:
        """The leaf restarts; requests of the engine are not concerned."""
        await start(*FAKE)
        serving = await witness.heard(Lifecycle.SERVING)
        witness.claims.clear()
        await mesh.restart("a")
        again = await witness.heard(Lifecycle.SERVING)
        assert again == serving

    async def test_nonsense_from_the_mesh_is_counted_and_changes_nothing(
        self, mesh: TestMesh, start: Start, witness: Witness
    ) -> None:
        """Neither a probe nor a verdict that is none ends anything."""
        supervisor = await start(*FAKE)
        serving = await witness.heard(Lifecycle.SERVING)
        path = SessionPath(serving.provider, serving.site, serving.session)
        bus = await mesh.bus(role="registry", name="registry2")
        for subject in (subjects.probe(path), subjects.verdict(path)):
            await bus.publish(subject, b"\xc1nonsense", reply="")
        counted = 'otela_supervisor_messages_rejected_total{kind="verdict"} 1.0'
        url = (await supervisor.event("health_page_opened"))["url"]

        async def is_counted() -> bool:
            async with aiohttp.ClientSession() as http, http.get(f"{url}/metrics") as answer:
                return counted in await answer.text()

        await until(is_counted, "the count")
        await supervisor.ready()


async def test_an_access_that_does_not_fit_is_refused_with_a_remedy(start: Start) -> None:
    """Before an engine is started."""
    supervisor = await start(*FAKE, options=("--site", "elsewhere"))
    assert await supervisor.ended() == 2
    assert "the access file is for site a, not for elsewhere; omit --site" in supervisor.said()
    supervisor = await start(*FAKE, options=("--access", "/nowhere/access.toml"))
    assert await supervisor.ended() == 2
    assert "/nowhere/access.toml" in supervisor.said()
    assert supervisor.events("engine_started") == []


async def test_a_place_for_caches_that_cannot_be_written_is_refused(start: Start) -> None:
    """Rather than an engine that fails after half an hour of compiling."""
    supervisor = await start(*FAKE, options=("--set", "cache.directory=/nowhere"))
    assert await supervisor.ended() == 2
    assert "/nowhere cannot be written (no such file or directory)" in supervisor.said()


async def test_a_mesh_that_is_away_is_waited_for_while_the_engine_loads(
    mesh: TestMesh, start: Start, witness: Witness
) -> None:
    """An hour of loading is not spent waiting for a server that comes back in a minute."""
    await mesh.server("a").kill()
    supervisor = await start(*FAKE)
    await supervisor.event("mesh_unreachable")
    await supervisor.engine()
    await until(
        lambda: "no connection" in supervisor.events("readiness_changed")[-1]["reason"],
        "an engine without a mesh",
    )
    await mesh.restart("a")
    await witness.heard(Lifecycle.SERVING)
    await supervisor.ready()
