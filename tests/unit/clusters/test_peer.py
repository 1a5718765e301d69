"""A peer's lifetime, with a dialer and watches that the test controls, in virtual time. P4, P5, P6."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from registry_controller.api.errors import Forbidden, RegistryError, Unauthorized, Unreachable
from registry_controller.api.meta import ClusterUID
from registry_controller.clusters import peer as peer_module
from registry_controller.clusters.peer import Peer, PeerFactory
from registry_controller.clusters.plan import Engagement, PeerSnapshot
from registry_controller.kube.connect import LineBudget
from tests.sim.cluster.loop import run
from tests.unit.clusters.builders import credentials, record

B = ClusterUID("id-b")


class Reader:
    """A connection that only counts how often it was closed, which takes a moment."""

    def __init__(self, name: str) -> None:
        self.server = name
        self.lines = LineBudget()
        self.closed = 0

    async def close(self) -> None:
        self.closed += 1
        await asyncio.sleep(0.1)


class Dialer:
    """A dialer whose results the test sets: a Reader, or an error."""

    def __init__(self) -> None:
        self.cluster_id, self.name, self.address = B, "b", ("https://b.test", "")
        self.dialled: Reader | RegistryError = Reader("first")
        self.relayed: Reader | None = None
        self.other: Reader | None = None
        self.changed: asyncio.Future[Reader] = asyncio.get_running_loop().create_future()
        self.answer: RegistryError | None = None
        self.calls: list[str] = []

    async def dial(self) -> Any:
        self.calls.append("dial")
        if isinstance(self.dialled, RegistryError):
            raise self.dialled
        return self.dialled

    async def dial_over_others(self, error: RegistryError) -> Any:
        return self.other

    async def dial_with_relayed(self, error: RegistryError) -> Any:
        self.calls.append(f"relayed after {error}")
        return self.relayed

    async def dial_with_changed(self) -> Any:
        return await self.changed

    async def prove(self, reader: Reader) -> None:
        self.calls.append("prove")
        if self.answer is not None:
            raise self.answer

    async def pause(self, attempt: int) -> None:
        self.calls.append(f"pause {attempt}")
        await asyncio.sleep(5)

    def reset_relayed(self) -> None:
        self.calls.append("reset")


class Watches:
    """Watches that are started with a connection, stopped and closed."""

    def __init__(self, cluster_id: ClusterUID, **options: Any) -> None:
        self.features, self.clusters = SimpleNamespace(held=None), SimpleNamespace(held=None)
        self.signal: Callable[[], None] = options["observer"].on_answer
        self.refused: Callable[[], None] = options["observer"].on_unauthorized
        self.server = ""
        self.is_closed = False

    def start(self, scope: asyncio.TaskGroup, reader: Reader, discovery: object, *, name: str) -> None:
        self.server = reader.server

    def stop(self) -> tuple[()]:
        self.server = ""
        return ()

    def close(self) -> None:
        self.is_closed = True


class Observer:
    """Counts the changes."""

    def __init__(self) -> None:
        self.status, self.objects = 0, 0

    def on_peer_status_changed(self) -> None:
        self.status += 1

    def on_peer_objects_changed(self) -> None:
        self.objects += 1


class Stage:
    """One peer that runs."""

    def __init__(self) -> None:
        self.dialer, self.observer = Dialer(), Observer()
        made: Any = {"dialer": self.dialer, "sources": None, "members": None, "window_s": 0.0}
        self.peer = Peer(**made, observer=self.observer)
        self.watches: Any = self.peer.watches


@pytest.fixture(autouse=True)
def parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the watches, and the metadata's requests."""

    async def read_metadata(reader: Reader) -> Mapping[str, object]:
        return {"version": reader.server}

    monkeypatch.setattr(peer_module, "PeerWatches", Watches)
    monkeypatch.setattr(peer_module, "Discovery", lambda reader: SimpleNamespace(reader=reader))
    monkeypatch.setattr(peer_module, "read_metadata", read_metadata)


def play(scenario: Callable[[Stage], Coroutine[Any, Any, None]]) -> None:
    """Run a peer while a scenario lasts."""

    async def main() -> None:
        stage = Stage()
        async with asyncio.TaskGroup() as scope:
            task = scope.create_task(stage.peer.run(), name="peer")
            await scenario(stage)
            task.cancel()

    run(main)


def test_a_peer_that_answers_is_connected_and_watched() -> None:
    async def scenario(stage: Stage) -> None:
        peer = stage.peer
        assert (peer.is_connected, peer.is_alive) == (False, True)
        await asyncio.sleep(1)
        assert (peer.is_connected, peer.failure, stage.watches.server) == (True, "", "first")
        assert stage.dialer.calls == ["dial", "reset"]
        assert peer.metadata == {"version": "first"}
        assert stage.observer.status == 2  # connected, and the metadata

    play(scenario)


def test_p5_a_connected_peer_is_probed_after_15_s_of_silence_and_every_signal_delays_that() -> None:
    async def scenario(stage: Stage) -> None:
        await asyncio.sleep(14)
        assert "prove" not in stage.dialer.calls
        stage.watches.signal()
        await asyncio.sleep(14)
        assert "prove" not in stage.dialer.calls
        await asyncio.sleep(2)
        assert stage.dialer.calls[-1] == "prove"

    play(scenario)


def test_p5_bytes_of_a_watch_delay_the_probe_and_answer_for_an_unanswered_one() -> None:
    async def scenario(stage: Stage) -> None:
        await asyncio.sleep(14)
        reader = stage.peer.reader
        assert reader is not None
        reader.lines.received_at_s = asyncio.get_running_loop().time()
        await asyncio.sleep(14)
        assert "prove" not in stage.dialer.calls
        stage.dialer.answer = Unreachable("probe: no answer")
        await asyncio.sleep(2)
        assert stage.dialer.calls.count("prove") == 1
        for _ in range(5):  # each of them comes between two probes
            reader.lines.received_at_s = asyncio.get_running_loop().time()
            await asyncio.sleep(5)
        assert stage.peer.is_alive
        assert stage.dialer.calls.count("prove") < 4
        stage.dialer.dialled = Unreachable("dial: no answer")
        await asyncio.sleep(21)
        assert not stage.peer.is_alive

    play(scenario)


def test_p5_two_probes_without_answer_end_the_connection_and_the_caches_stay() -> None:
    async def scenario(stage: Stage) -> None:
        await asyncio.sleep(1)
        first = stage.peer.reader
        stage.dialer.answer = Unreachable("probe: no answer")
        stage.dialer.dialled = Unreachable("dial: no answer")
        await asyncio.sleep(15)
        assert (stage.peer.is_alive, stage.peer.is_connected) == (True, True)
        await asyncio.sleep(6)
        assert (stage.peer.is_alive, stage.peer.is_connected) == (False, False)
        assert stage.peer.failure == "dial: no answer"
        assert isinstance(first, Reader)
        assert first.closed == 1
        assert (stage.watches.server, stage.watches.is_closed) == ("", False)

    play(scenario)


def test_p6_a_peer_that_cannot_be_reached_is_dialled_again_and_comes_back() -> None:
    async def scenario(stage: Stage) -> None:
        stage.dialer.dialled = Unreachable("no route")
        await asyncio.sleep(1)
        assert (stage.peer.is_alive, stage.peer.failure) == (True, "no route")
        assert stage.dialer.calls == ["dial", "pause 0"]
        await asyncio.sleep(5)
        assert not stage.peer.is_alive
        assert stage.dialer.calls == ["dial", "pause 0", "dial", "relayed after no route", "pause 1"]
        stage.dialer.dialled = Reader("back")
        await asyncio.sleep(5)
        assert (stage.peer.is_alive, stage.peer.is_connected, stage.peer.failure) == (True, True, "")
        assert stage.watches.server == "back"

    play(scenario)


def test_p4_an_unreachable_peer_is_connected_with_relayed_credentials_that_work() -> None:
    async def scenario(stage: Stage) -> None:
        stage.dialer.dialled, stage.dialer.relayed = Unauthorized("401", status=401), Reader("relayed")
        await asyncio.sleep(6)
        assert stage.watches.server == "relayed"
        assert stage.dialer.calls == ["dial", "pause 0", "dial", "relayed after 401", "reset"]

    play(scenario)


def test_p4_changed_credentials_replace_the_connection_once_they_work() -> None:
    async def scenario(stage: Stage) -> None:
        await asyncio.sleep(1)
        first, second = stage.peer.reader, Reader("second")
        stage.dialer.changed.set_result(second)
        stage.dialer.changed = asyncio.get_running_loop().create_future()
        await asyncio.sleep(1)
        assert stage.watches.server == "second"
        assert isinstance(first, Reader)
        assert (first.closed, second.closed, stage.peer.failure) == (1, 0, "")
        assert stage.dialer.calls == ["dial", "reset", "reset"]

    play(scenario)


def test_p5_refused_credentials_cause_a_probe_at_once_and_a_refused_probe_is_a_failure_until_one_is_answered() -> None:
    async def scenario(stage: Stage) -> None:
        await asyncio.sleep(1)
        stage.dialer.answer = Unauthorized("401", status=401)
        stage.watches.refused()
        await asyncio.sleep(1)
        assert stage.dialer.calls[-1] == "prove"
        assert (stage.peer.failure, stage.peer.is_connected) == ("401", True)
        stage.watches.signal()
        assert stage.peer.failure == "401"
        stage.dialer.answer = None
        await asyncio.sleep(5)
        assert (stage.peer.failure, stage.peer.is_connected) == ("", True)

    play(scenario)


@pytest.mark.clause("P7")
def test_another_way_replaces_a_connection_whose_credentials_are_refused_before_that_is_a_failure() -> None:
    async def scenario(stage: Stage) -> None:
        await asyncio.sleep(1)
        first = stage.peer.reader
        before = stage.observer.status
        stage.dialer.answer, stage.dialer.other = Unauthorized("401", status=401), Reader("other")
        stage.dialer.dialled = Unauthorized("401", status=401)
        stage.watches.refused()
        await asyncio.sleep(1)
        assert (stage.watches.server, stage.peer.failure) == ("other", "")
        assert isinstance(first, Reader)
        assert (first.closed, stage.dialer.other.closed) == (1, 0)
        assert stage.observer.status > before

    play(scenario)


@pytest.mark.clause("P6")
def test_of_two_connections_that_replace_a_lost_one_the_other_is_closed() -> None:
    async def scenario(stage: Stage) -> None:
        other, changed = Reader("other"), Reader("changed")

        async def dial_over_others(error: RegistryError) -> Reader:
            stage.dialer.changed.set_result(changed)
            stage.dialer.changed = asyncio.get_running_loop().create_future()
            return other

        stage.dialer.dial_over_others = dial_over_others  # type: ignore[method-assign]
        await asyncio.sleep(1)
        stage.dialer.answer = Unauthorized("401", status=401)
        stage.watches.refused()
        await asyncio.sleep(3)
        assert stage.peer.reader in (other, changed)
        assert other.closed + changed.closed == 1

    play(scenario)


@pytest.mark.clause("P6")
def test_a_peer_that_is_cancelled_between_two_connections_closes_both() -> None:
    async def main() -> None:
        stage, second = Stage(), Reader("second")
        async with asyncio.TaskGroup() as scope:
            task = scope.create_task(stage.peer.run(), name="peer")
            await asyncio.sleep(1)
            first = stage.peer.reader
            stage.dialer.changed.set_result(second)
            await asyncio.sleep(0.05)
            task.cancel()
        assert isinstance(first, Reader)
        assert (first.closed, second.closed) == (1, 1)

    run(main)


@pytest.mark.parametrize("error", [Forbidden("no nodes", status=403, reason="Forbidden"), Unreachable("passes")])
def test_metadata_that_may_not_be_read_are_a_problem_and_a_passing_failure_is_not(
    error: RegistryError, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(reader: Reader) -> Mapping[str, object]:
        raise error

    monkeypatch.setattr(peer_module, "read_metadata", refuse)

    async def scenario(stage: Stage) -> None:
        await asyncio.sleep(1)
        assert stage.peer.metadata_problem == ("no nodes" if isinstance(error, Forbidden) else "")
        assert stage.peer.is_connected

    play(scenario)


def test_a_peer_that_is_cancelled_closes_its_connection() -> None:
    async def main() -> None:
        stage = Stage()
        async with asyncio.TaskGroup() as scope:
            task = scope.create_task(stage.peer.run(), name="peer")
            await asyncio.sleep(1)
            reader = stage.peer.reader
            task.cancel()
        assert task.cancelled()
        assert isinstance(reader, Reader)
        assert (reader.closed, stage.peer.reader) == (1, None)
        stage.peer.close()
        assert stage.watches.is_closed

    run(main)


def test_a_snapshot_has_the_facts_of_one_moment() -> None:
    async def main() -> None:
        stage = Stage()
        assert stage.peer.snapshot() == PeerSnapshot("b", is_alive=True, clusters={})
        stage.watches.clusters.held = {"c": record("c")}
        assert stage.peer.snapshot() == PeerSnapshot("b", is_alive=True, clusters={"c": record("c")})

    run(main)


def test_a_factory_makes_peers_that_dial_with_the_credentials_of_their_engagement() -> None:
    async def main() -> None:
        made: Any = {"relayed_credentials": lambda: None, "sources": None, "members": None, "window_s": 0.0}

        def connect(_: object) -> Any:
            raise Unreachable("no network in this test")

        factory = PeerFactory(connect_peer=connect, **made)
        peer = factory.make(B, Engagement("b", credentials("b")), observer=Observer())
        assert (peer.cluster_id, peer.name, peer.address) == (B, "b", ("https://b.test", ""))
        peer.set_engagement(Engagement("renamed", credentials("elsewhere")))
        assert (peer.name, peer.address) == ("renamed", ("https://elsewhere.test", ""))

    run(main)
