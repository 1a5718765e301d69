"""Silence of peers, grace periods, and differences of liveness, in virtual time. P5, P11, A1."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from registry_controller.api.meta import ClusterUID, Target
from registry_controller.cache.members import cluster_target
from registry_controller.clusters.liveness import GracePeriods, Liveness, SilenceTimer
from registry_controller.core.decision.restoration import Restoration
from tests.sim.cluster.loop import run

B, C, D = (ClusterUID(name) for name in "bcd")


def peer(*, is_alive: bool) -> Any:
    return SimpleNamespace(is_alive=is_alive)


def test_silence_is_counted_from_the_first_question_until_the_peer_is_alive() -> None:
    async def main() -> None:
        peers = {B: peer(is_alive=False), C: peer(is_alive=True)}
        timer = SilenceTimer(peers)
        assert timer.count({B, C, D}) == {B: 0.0}
        await asyncio.sleep(30)
        assert timer.count({B}) == {B: 30.0}
        peers[B].is_alive = True
        assert timer.count({B}) == {}
        peers[B].is_alive = False
        await asyncio.sleep(10)
        assert timer.count({B}) == {B: 0.0}

    run(main)


def test_silence_does_not_count_while_no_peer_answers() -> None:
    """P11: this cluster may be partitioned itself."""

    async def main() -> None:
        peers = {B: peer(is_alive=False), C: peer(is_alive=True)}
        timer = SilenceTimer(peers)
        timer.count({B})
        await asyncio.sleep(30)
        peers[C].is_alive = False
        assert timer.count({B}) == {B: 30.0}
        await asyncio.sleep(1000)
        assert timer.count({B}) == {B: 30.0}
        peers[C].is_alive = True
        timer.count({B})
        await asyncio.sleep(5)
        assert timer.count({B}) == {B: 35.0}

    run(main)


def test_a_question_that_leaves_a_peer_out_ends_its_count() -> None:
    async def main() -> None:
        timer = SilenceTimer({B: peer(is_alive=False), C: peer(is_alive=True)})
        timer.count({B})
        timer.count(set())
        await asyncio.sleep(30)
        assert timer.count({B}) == {B: 0.0}

    run(main)


def test_a1_a_peer_stays_for_90_s_while_its_cluster_may_be_restored() -> None:
    asked: list[tuple[ClusterUID, Target]] = []

    def restoration(member: ClusterUID, target: Target) -> Restoration:
        asked.append((member, target))
        return Restoration.POSSIBLE if member == B else Restoration.NONE

    async def main() -> None:
        grace = GracePeriods(restoration=restoration)
        assert grace.update_after_s is None
        missing = {B: cluster_target("b"), C: cluster_target("c")}
        assert grace.update(missing) == {B}
        assert asked == [(B, cluster_target("b")), (C, cluster_target("c"))]
        assert grace.update_after_s == 1.0
        await asyncio.sleep(89)
        assert grace.update(missing) == {B}
        await asyncio.sleep(1)
        assert grace.update(missing) == frozenset()
        assert grace.update_after_s is None

    run(main)


def test_a1_a_grace_period_ends_when_nothing_is_restored_or_nothing_is_missing() -> None:
    found = {B: Restoration.POSSIBLE}

    async def main() -> None:
        grace = GracePeriods(restoration=lambda member, _: found[member])
        assert grace.update({B: cluster_target("b")}) == {B}
        found[B] = Restoration.NONE
        assert grace.update({B: cluster_target("b")}) == frozenset()
        found[B] = Restoration.POSSIBLE
        assert grace.update({B: cluster_target("b")}) == {B}
        assert grace.update({}) == frozenset()

    run(main)


def test_a1_the_90_s_do_not_begin_while_the_member_lacks_its_own_cluster_too() -> None:
    found = {B: Restoration.AWAITED}

    async def main() -> None:
        grace, missing = GracePeriods(restoration=lambda member, _: found[member]), {B: cluster_target("b")}
        for _ in range(10):
            assert grace.update(missing) == {B}
            await asyncio.sleep(60)
        found[B] = Restoration.POSSIBLE
        assert grace.update(missing) == {B}
        await asyncio.sleep(29)
        assert grace.update(missing) == {B}
        await asyncio.sleep(1)
        assert grace.update(missing) == frozenset()

    run(main)


def test_a1_peers_that_went_with_the_own_cluster_stay_until_they_can_be_stored_again() -> None:
    """However long that takes, and whether they answer or not; then for 90 s from their first answer on."""

    async def main() -> None:
        grace = GracePeriods(restoration=lambda *_: Restoration.NONE)
        missing = {B: cluster_target("b")}
        assert grace.update(missing, silent={C}, is_home_lost=True) == {B, C}
        await asyncio.sleep(1000)
        assert grace.update(missing, silent={C}, is_home_lost=True) == {B, C}
        assert grace.update(missing, silent={C}) == {B, C}
        await asyncio.sleep(89)
        assert grace.update(missing, silent={C}) == {B, C}
        await asyncio.sleep(1)
        assert grace.update(missing, silent={C}) == {C}
        assert grace.update({C: cluster_target("c")}) == {C}  # it answers
        await asyncio.sleep(90)
        assert grace.update({C: cluster_target("c")}) == frozenset()
        assert grace.update(missing, silent={D}) == frozenset()
        assert grace.update(missing, is_home_lost=True) == {B}
        assert grace.update({}) == frozenset()  # its Cluster is here

    run(main)


def test_the_difference_of_two_livenesses_names_each_member_that_differs() -> None:
    before = Liveness(known=frozenset({B, C}), alive=frozenset({B}), contested=frozenset())
    now = Liveness(known=frozenset({B, D}), alive=frozenset(), contested=frozenset({B}))
    assert now.changed_since(before) == {B, C, D}
    assert now._replace(alive=frozenset({B})).changed_since(before) == {C, D}
    assert now.changed_since(now) == frozenset()
