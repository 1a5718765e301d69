"""What breaks in a schedule: processes, ways, API servers, clocks, and somebody who keeps changing copies."""

from __future__ import annotations

import abc
import asyncio
import base64
import contextlib
import random
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import orjson

from registry_controller.api import meta
from registry_controller.api.meta import ObjectKey
from tests.sim.checks.expected_copies import is_membership, is_of_later_version, key_of, marks_of
from tests.sim.cluster.fields import Manifest
from tests.sim.cluster.group import carry_over
from tests.sim.cluster.kinds import BY_KIND
from tests.sim.cluster.loop import running_loop
from tests.sim.cluster.member import NAMESPACE, Member
from tests.sim.cluster.refusal import Refusal
from tests.sim.cluster.request import Answer
from tests.sim.cluster.store import Backup, Change
from tests.sim.cluster.transport import Fault, LateWrites, Wire
from tests.sim.schedule.copy_acts import read_anew
from tests.sim.schedule.drawing import another, nothing
from tests.sim.schedule.stage import Stage, deed
from tests.sim.schedule.tally import RESTORED, RESTORED_AHEAD

Names = Sequence[str]
_DURATIONS_S = (0.3, 2.0, 8.0, 25.0, 60.0)
_WRITES = ("POST", "PUT", "DELETE")
_LISTENS_S = 1.0
"""By then a daemon that was started listens to the events of our own kinds."""


def _duration(chance: random.Random, who: str, names: Names) -> tuple[Any, ...]:
    return (chance.choice(_DURATIONS_S),)


def _other_and_duration(chance: random.Random, who: str, names: Names) -> tuple[Any, ...]:
    return *another(chance, who, names), chance.choice(_DURATIONS_S)


def _any_and_number(chance: random.Random, who: str, names: Names) -> tuple[Any, ...]:
    return chance.choice(list(names)), chance.randrange(1, 6)


# Processes.


@deed(nothing, fault=True, weight=6)
def restarts(stage: Stage, member: Member) -> None:
    """Stop the daemon, as SIGTERM does, and start another one."""
    member.cancel()
    member.start_again()


@deed(nothing, fault=True, weight=8)
def is_killed(stage: Stage, member: Member) -> None:
    """Kill the daemon, and start another one at once."""
    member.kill()
    member.start_again()


@deed(_duration, fault=True, weight=5)
def is_down(stage: Stage, member: Member, duration_s: float) -> None:
    """Kill the daemon; another one starts later."""
    member.kill()
    stage.until(duration_s, member.start_again)


@deed(lambda chance, who, names: (chance.choice((0.0005, 0.002)), chance.choice(_DURATIONS_S)), fault=True, weight=0)
def has_a_slow_machine(stage: Stage, member: Member, turn_s: float, duration_s: float) -> None:
    """Let each turn of the loop take time, as on a machine without CPU to spare. All daemons share the loop."""
    loop = running_loop()
    loop.turn_s = turn_s
    stage.until(duration_s, lambda: setattr(loop, "turn_s", 0.0))


@deed(
    lambda chance, who, names: (
        chance.choice(("ends", "is killed", "stays alone")), chance.choice(_DURATIONS_S), chance.choice((0.0, 1.0)),
    ),
    fault=True, weight=0,
)  # fmt: skip
def runs_two(stage: Stage, member: Member, end: str, duration_s: float, lag_s: float) -> bool:
    """Run a second daemon for a while; it ends, is killed, or stays alone. One that does not stay has no limit.

    Some seconds after its start, it hears of our own kinds late.
    """
    if not member.has_pods or member.has_two:
        return False
    second = member.start_second(**({} if end == "stays alone" else {"DELETION_LIMIT_PERCENT": "0"}))

    late = asyncio.get_running_loop().call_later(_LISTENS_S, second.hear_late, lag_s)

    def finish() -> None:
        late.cancel()
        second.hear_late(0.0)
        if not second.runs:
            return  # its cluster was down meanwhile, and another second one may run
        if end == "stays alone":
            member.roll_over()
        else:
            second.kill() if end == "is killed" else second.cancel()

    stage.until(duration_s, finish)
    return True


@deed(
    lambda chance, who, names: (chance.random() < 0.5, chance.choice(_DURATIONS_S[:4]), chance.choice((0.3, 2.0, 8.0))),
    fault=True, weight=0,
)  # fmt: skip
def has_one_that_stands_still(stage: Stage, member: Member, second: bool, duration_s: float, late_s: float) -> bool:
    """Let one of two daemons stand still for a while: what reaches it waits, and what peers sent comes last."""
    replica = member.stand_still(second=second)
    if replica is None:
        return False
    stage.until(duration_s, replica.go_on)
    stage.until(duration_s + late_s, replica.hear_peers)
    return True


@deed(_other_and_duration, fault=True, weight=0)
def is_rebuilt(stage: Stage, member: Member, peer: str, duration_s: float) -> bool:
    """Build the cluster anew, under its old name and address; somebody swaps it with another one later.

    Not one that has more names: under those the old one would be known for ever.
    """
    before = member.server
    if any(one.find("Cluster", f"{member.name}-0") for one in stage.group.members):
        return False
    stage.group.rebuild(member.name)
    stage.observer.see_rebuilt(member, before)
    member.create({"kind": "Namespace", "metadata": {"name": "team"}})
    member.start_again()
    if stage.program is not None and stage.program.name == member.name:  # it ran in the cluster that is gone
        stage.program.kill()
        stage.program.start_again()
    stage.until(duration_s, lambda: introduce_again(member, stage.group[peer]))
    return True


def introduce_again(member: Member, other: Member) -> bool:
    """Carry a rebuilt cluster's Cluster and Secret over what another has of the one that it was, and the other's."""
    for giver, taker in ((member, other), (other, member)):
        if not giver.find("Cluster", giver.name) or not giver.find("Secret", giver.published, namespace=NAMESPACE):
            return False
        held = taker.find("Cluster", giver.name)
        if held is None or held["spec"]["clusterID"] != giver.id:
            carry_over(giver, taker)
    return True


# Ways.


def _break(stage: Stage, wires: Sequence[Wire], fault: Fault, duration_s: float) -> None:
    for wire in wires:
        wire.set(fault)
    stage.until(duration_s, lambda: _mend(wires))


def _mend(wires: Sequence[Wire]) -> None:
    for wire in wires:
        wire.set(Fault.NONE)


@deed(_other_and_duration, fault=True, weight=4)
def is_cut_off_from(stage: Stage, member: Member, peer: str, duration_s: float) -> None:
    """Cut two members off from each other, both ways."""
    wires = [stage.group.wire(member.name, peer), stage.group.wire(peer, member.name)]
    _break(stage, wires, Fault.REFUSED, duration_s)


@deed(_other_and_duration, fault=True, weight=4)
def cannot_reach(stage: Stage, member: Member, peer: str, duration_s: float) -> None:
    """Cut one way."""
    _break(stage, [stage.group.wire(member.name, peer)], Fault.REFUSED, duration_s)


@deed(_other_and_duration, fault=True, weight=4)
def hangs_on(stage: Stage, member: Member, peer: str, duration_s: float) -> None:
    """Let nothing through on one way, without a word."""
    _break(stage, [stage.group.wire(member.name, peer)], Fault.HUNG, duration_s)


@deed(_duration, fault=True, weight=2)
def hangs_at_home(stage: Stage, member: Member, duration_s: float) -> None:
    """Let nothing through to the own API server."""
    _break(stage, [stage.group.wire(member.name, member.name)], Fault.HUNG, duration_s)


@deed(_duration, fault=True, weight=3)
def is_slow(stage: Stage, member: Member, duration_s: float) -> None:
    """Make every way to and from a member slow."""
    wires = [stage.group.wire(a, b) for a, b in _pairs(stage) if member.name in (a, b)]
    for wire in wires:
        wire.delay_s = (0.1, 1.5)

    def mend() -> None:
        for wire in wires:
            wire.delay_s = (0.001, 0.02)

    stage.until(duration_s, mend)


def _pairs(stage: Stage) -> list[tuple[str, str]]:
    names = [member.name for member in stage.group.members]
    return [(one, other) for one in names for other in names]


@deed(nothing, fault=True, weight=3)
def has_its_streams_reset(stage: Stage, member: Member) -> None:
    """Reset every connection to a member."""
    stage.group.cut(member.name)


@deed(_any_and_number, fault=True, weight=3)
def gets_torn_chunks_from(stage: Stage, member: Member, peer: str, count: int) -> None:
    """Break the next chunks of watches off in the middle."""
    wire = stage.group.wire(member.name, peer)
    wire.torn = count
    stage.at_the_end(lambda: setattr(wire, "torn", 0))


@deed(lambda chance, who, names: (chance.randrange(1, 5),), fault=True, weight=4)
def loses_answers(stage: Stage, member: Member, count: int) -> None:
    """Lose the answers to the next writes: they were made, and nobody says so."""
    wire = stage.group.wire(member.name, member.name)
    wire.lost = count
    stage.at_the_end(lambda: setattr(wire, "lost", 0))


@deed(lambda chance, who, names: (chance.choice(_WRITES), chance.randrange(1, 5), chance.choice((1.0, 10.0, 50.0))),
      fault=True, weight=4)  # fmt: skip
def has_writes_carried_out_late(stage: Stage, member: Member, method: str, count: int, late_s: float) -> None:
    """Carry out the next writes of one method so late that nobody waits for the answers any more."""
    wire = stage.group.wire(member.name, member.name)
    wire.late_writes = LateWrites(method, count, late_s)
    stage.at_the_end(lambda: setattr(wire, "late_writes", None))


@deed(lambda chance, who, names: (chance.choice(list(names)), chance.choice((1, 5, 30)), chance.choice((1.0, 20.0))),
      fault=True, weight=4)  # fmt: skip
def reads_from_the_past_of(stage: Stage, member: Member, peer: str, lag: int, behind_s: float) -> None:
    """Answer new watches from a cache that is behind."""
    wire = stage.group.wire(member.name, peer)
    wire.lag, wire.behind_s = lag, behind_s
    wire.cut()
    stage.until(behind_s + 10.0, lambda: setattr(wire, "lag", 0))


@deed(lambda chance, who, names: (chance.choice(list(names)), chance.choice((1, 5, 30, 200))), fault=True, weight=5)
def hears_again_from(stage: Stage, member: Member, peer: str, count: int) -> None:
    """Let watches that resume begin with the last changes that they have heard of; at home, list our own kinds anew."""
    wire = stage.group.wire(member.name, peer)
    wire.again = count
    wire.cut()
    if peer == member.name:
        member.list_own_kinds_again()
    stage.until(10.0, lambda: setattr(wire, "again", 0))


@deed(lambda chance, who, names: (chance.choice(list(names)), chance.choice((0.3, 3.0, 12.0)),
                                  chance.choice((8.0, 60.0))), fault=True, weight=5)  # fmt: skip
def hears_out_of_order_from(stage: Stage, member: Member, peer: str, late_s: float, duration_s: float) -> None:
    """Let each stream of events be late for itself; on one stream, and of one object, they stay in order."""
    wire = stage.group.wire(member.name, peer)
    wire.late_s = late_s
    stage.until(duration_s, lambda: setattr(wire, "late_s", 0.0))


# API servers.


@deed(_other_and_duration, fault=True, weight=0)
def meets_a_clone(stage: Stage, member: Member, peer: str, duration_s: float) -> bool:
    """Carry the Cluster and the Secret of a copy of another member's etcd here, and take both away later.

    The copy runs beside the original under another name. Its Cluster stays here: each member that took it would have to
    delete it.
    """
    group, other = stage.group, stage.group[peer]
    own, secret = other.find("Cluster", peer), other.find("Secret", other.published, namespace=NAMESPACE)
    if stage.rebuilt or group.clones or own is None or "status" not in own or secret is None:
        return False
    called = group.clone(peer)
    text = base64.b64decode(secret["data"][meta.KUBECONFIG_KEY]).decode().replace(f"//{peer}.", f"//{called}.")
    info = {"name": called, "annotations": {meta.SYNC_DISABLED: "true"}}
    data = {meta.KUBECONFIG_KEY: base64.b64encode(text.encode()).decode()}
    reference = {"secretRef": {"name": called, "namespace": NAMESPACE}}
    member.create({**secret, "metadata": {**info, "namespace": NAMESPACE}, "data": data})
    member.create({"kind": "Cluster", "metadata": info, "spec": {**own["spec"], "authInfo": reference}})

    def forget() -> None:
        for kind, namespace in (("Cluster", ""), ("Secret", NAMESPACE)):
            if member.find(kind, called, namespace=namespace) is not None:
                member.delete(kind, called, namespace=namespace)
        group.drop_clone(called)

    stage.until(duration_s, forget)
    return True


_FIXED = [BY_KIND[kind] for kind in ("Cluster", "ClusterFeature", "Secret", "Namespace", "CustomResourceDefinition")]


def _membership(backup: Backup) -> list[dict[ObjectKey, Manifest]]:
    """Take of a backup what people would have to do again, or what was said between members; of a Cluster no status.

    The feature that rules ask for is like any other object, and so is a Secret without credentials.
    """
    return [
        {
            key: {name: value for name, value in found.items() if name not in ("metadata", "status")} | _identity(found)
            for key, found in backup.objects.get(kind, {}).items()
            if (kind.kind != "Secret" or is_membership(found)) and (kind.kind, key.name) != ("ClusterFeature", "gold")
        }
        for kind in _FIXED
    ]


def _identity(found: Manifest) -> dict[str, Any]:
    info = found["metadata"]
    return {name: info.get(name) for name in ("uid", "labels", "annotations", "finalizers", "deletionTimestamp")}


@deed(nothing, fault=True, weight=3)
def forgets_history(stage: Stage, member: Member) -> None:
    """Compact: watches that were cut have to begin anew."""
    stage.group.cut(member.name)
    member.server.compact()


@deed(lambda chance, who, names: (chance.choice((3.0, 12.0, 30.0)), chance.choice((0, 10**6))), fault=True, weight=3)
def has_its_etcd_restored(stage: Stage, member: Member, age_s: float, bump: int) -> None:
    """Lose all that is written in some seconds: the etcd is put back, with or without a raised revision.

    It is not put back where membership has changed meanwhile: what people did about that would have to be done again.
    """
    server = member.server
    backup = server.store.backup()

    def restore() -> None:
        if member.server is server and _membership(server.store.backup()) == _membership(backup):
            stage.group.cut(member.name)
            there = {copy["metadata"]["uid"] for copy in stage.list_copies(member)}
            stage.observer.see_restored(member, lambda: server.store.restore(backup, bump=bump))
            for copy in stage.list_copies(member):
                if copy["metadata"]["uid"] not in there:
                    stage.note_put_back(member, copy["kind"], key_of(copy).namespace)
            stage.tally.effect(RESTORED_AHEAD if bump else RESTORED)

    stage.until(age_s, restore)


@deed(_duration, fault=True, weight=3)
def has_its_api_server_restarted(stage: Stage, member: Member, duration_s: float) -> None:
    """Let the API server be gone for a while, for all."""
    stage.group.fail(member.name, Fault.REFUSED)
    member.server.compact()
    stage.until(duration_s, lambda: stage.group.fail(member.name, Fault.NONE))


@deed(lambda chance, who, names: (chance.choice((500, 502, 503, 504)), chance.randrange(1, 12)), fault=True, weight=3)
def answers_with(stage: Stage, member: Member, status: int, count: int) -> None:
    """Answer the next requests with a failure of the server."""
    said = {"kind": "Status", "status": "Failure", "reason": "InternalError", "code": status}
    answer = Answer(status, orjson.dumps(said) if status == 500 else b"bad gateway")
    member.server.trouble.extend([answer] * count)
    stage.at_the_end(member.server.trouble.clear)


@deed(lambda chance, who, names: (chance.choice((1, 3, 10)), chance.randrange(1, 12)), fault=True, weight=3)
def asks_for_patience(stage: Stage, member: Member, retry_after_s: int, count: int) -> None:
    """Answer the next requests with 429 and how long to wait."""
    said = {"kind": "Status", "status": "Failure", "reason": "TooManyRequests", "code": 429}
    answer = Answer(429, orjson.dumps({**said, "details": {"retryAfterSeconds": retry_after_s}}))
    member.server.trouble.extend([answer] * count)
    stage.at_the_end(member.server.trouble.clear)


@deed(lambda chance, who, names: (chance.choice(("Widget", "Gadget", "Region")), chance.choice(_DURATIONS_S)),
      fault=True, weight=3)  # fmt: skip
def does_not_serve(stage: Stage, member: Member, kind: str, duration_s: float) -> None:
    """Serve a kind no longer, for a while."""
    member.server.change_served(kind, served=False)
    stage.group.cut(member.name)
    stage.until(duration_s, lambda: member.server.change_served(kind, served=True))


@deed(lambda chance, who, names: (chance.choice(("ConfigMap", "Secret", "Widget")), chance.choice(_DURATIONS_S)),
      fault=True, weight=3)  # fmt: skip
def forbids(stage: Stage, member: Member, kind: str, duration_s: float) -> None:
    """Refuse every write of a kind, for a while."""
    denied = member.server.denied
    denied.add(kind)
    stage.until(duration_s, lambda: denied.discard(kind))


@deed(lambda chance, who, names: (chance.choice(list(names)), chance.choice(("configmaps", "secrets", "widgets")),
                                  chance.choice(_DURATIONS_S)), fault=True, weight=3)  # fmt: skip
def lacks_rights_at(stage: Stage, member: Member, peer: str, plural: str, duration_s: float) -> None:
    """Take all rights on a kind at a member, or at home, from a daemon, for a while."""
    wire = stage.group.wire(member.name, peer)
    wire.unallowed.add(plural)
    wire.cut()
    stage.until(duration_s, lambda: wire.unallowed.discard(plural))


@deed(lambda chance, who, names: (chance.choice((-86400.0, -3.0, 30.0, 3600.0)),), fault=True, weight=4)
def has_its_clock_jump(stage: Stage, member: Member, seconds: float) -> None:
    """Move a cluster's clock."""
    member.server.skew_s += seconds


@deed(lambda chance, who, names: (chance.choice((-100, 100, 200)), chance.choice((5.0, 60.0))), fault=True, weight=2)
def is_in_another_day(stage: Stage, member: Member, days: int, duration_s: float) -> None:
    """Move the clock of a cluster and of its daemon by many days, for a while."""
    member.server.clock_ahead = timedelta(days=days)
    stage.until(duration_s, lambda: _set_clock_right(member))


def _set_clock_right(member: Member) -> None:
    member.server.clock_ahead = timedelta()


# Somebody here.


@deed(lambda chance, who, names: (chance.choice(("ConfigMap", "Widget")), chance.choice((1.0, 15.0, 90.0))),
      fault=True, weight=3)  # fmt: skip
def has_a_controller_that_changes(stage: Stage, member: Member, kind: str, duration_s: float) -> None:
    """Change copies of a kind each time that they are written."""
    meddler = Meddler(member, kind)
    stage.until(duration_s, meddler.stop)


@deed(lambda chance, who, names: (chance.choice(("ConfigMap", "Widget")), chance.choice((0.05, 1.0, 7.0)),
                                  chance.choice((20.0, 90.0))), fault=True, weight=0)  # fmt: skip
def has_a_controller_that_restores(stage: Stage, member: Member, kind: str, after_s: float, duration_s: float) -> None:
    """Make copies of a kind again, as they were, each time that the daemon deletes one."""
    restorer = Restorer(stage, member, kind, after_s)
    stage.until(duration_s, restorer.stop)


_LOST = (("targetClusters",), ("clusterFeatureMatch",), ("createNamespaces",))


@deed(lambda chance, who, names: (chance.choice(_LOST), chance.choice((20.0, 60.0))), fault=True, weight=4)
def drops_a_field_of_rules(stage: Stage, member: Member, path: tuple[str, ...], duration_s: float) -> None:
    """Have an older definition of rules, without a field; once it is replaced, the daemon is started again."""
    unknown, field = member.server.store.unknown, ("ResourceSyncRule", "spec", *path)
    unknown.add(field)

    def install() -> None:
        unknown.discard(field)
        member.kill()
        member.start_again()

    stage.until(duration_s, install)


class Listener(abc.ABC):
    """A controller that hears every change in a cluster, until it is stopped."""

    def __init__(self, member: Member, kind: str) -> None:
        self._member = member
        self._kind = kind
        self._store = member.server.store
        self._store.listeners.append(self._hear)
        self._is_on = True

    def stop(self) -> None:
        """Stop for good."""
        if self._is_on:
            self._is_on = False
            self._store.listeners.remove(self._hear)

    @abc.abstractmethod
    def _hear(self, change: Change) -> None:
        """Hear one change."""


class Meddler(Listener):
    """A controller that thinks that it knows better."""

    def _hear(self, change: Change) -> None:
        new = change.new
        written = new is not None and change.kind.kind == self._kind and self._member.server.acting
        if written and new is not None and marks_of(new).owner not in ("", self._member.id):
            asyncio.get_running_loop().call_later(0.01, self._change, change)

    def _change(self, change: Change) -> None:
        found = self._member.find(self._kind, change.key.name, namespace=change.key.namespace)
        body = "data" if self._kind == "ConfigMap" else "spec"
        if found is None or not self._is_on or found["metadata"].get("deletionTimestamp"):
            return
        with contextlib.suppress(Refusal):
            self._member.replace({**found, body: {**(found.get(body) or {}), "value": "meddled"}})


class Restorer(Listener):
    """A controller that wants what was there."""

    def __init__(self, stage: Stage, member: Member, kind: str, after_s: float) -> None:
        super().__init__(member, kind)
        self._stage = stage
        self._after_s = after_s

    def _hear(self, change: Change) -> None:
        copy = change.before
        is_deleted = copy is not None and change.new is None and change.kind.kind == self._kind
        if is_deleted and copy is not None and self._member.server.acting and not is_of_later_version(copy):
            asyncio.get_running_loop().call_later(self._after_s, self._restore, copy)

    def _restore(self, copy: Manifest) -> None:
        if not self._is_on or marks_of(copy).owner in ("", self._member.id):
            return
        self._stage.note_put_back(self._member, self._kind, key_of(copy).namespace)
        with contextlib.suppress(Refusal):
            self._member.create(read_anew(copy))
