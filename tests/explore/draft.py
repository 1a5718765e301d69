"""A state that is being changed by one step: an act of people, a tick or a delivery."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from registry_controller.core.peer_health import count_silence
from tests.explore.called import Removal, Truth, Truths, ways_to
from tests.explore.daemon import with_own
from tests.explore.steps import GHOST, LEFT, State, Step
from tests.explore.world import (
    ABSENCE,
    MEMBERS,
    MOMENT,
    TRUST,
    WAYS,
    WINDOW,
    Cluster,
    Credentials,
    Ended,
    Mind,
    Peer,
    Rule,
    Seat,
    Stone,
    Store,
    Way,
    aged,
    named,
    put,
    with_secret,
)

if TYPE_CHECKING:
    from tests.explore.network import Network


class Draft:
    """A state that is being changed by one step."""

    def __init__(self, net: Network, state: State) -> None:
        self._net = net
        seats = [net.seats[number] for number in state[: len(MEMBERS)]]
        self.clusters = [seat.cluster for seat in seats]
        self.ways = {(who, other): way for who, seat in enumerate(seats) for other, way in enumerate(seat.ways) if way}
        self.ghost = net.ghosts[state[GHOST]]
        self.left = state[LEFT]
        self.removals: list[tuple[int, Removal]] = []
        self.written: list[Store] = []
        self.opened = False

    def state(self) -> State:
        net = self._net
        ways = [tuple(self.ways.get((who, other)) for other in MEMBERS) for who in MEMBERS]
        seats = map(net.number, map(Seat, self.clusters, ways))
        return (*seats, net.ghosts.number(self.ghost), self.left)

    def token(self, member: int) -> int | None:
        """Return the token that a member's API server accepts."""
        return self.clusters[member].notes.accepted or None

    def write(self, who: int, store: Store) -> None:
        """Store a state of a cluster, which its readers hear in their order."""
        cluster = self.clusters[who]
        if store == cluster.store:
            return
        was, own = cluster.store.clusters[who], store.clusters[who]
        if (own is None) != (was is None):
            self.ghost = self.ghost._replace(missing=put(self.ghost.missing, who, 0 if own is None else None))
        self.clusters[who] = cluster._replace(store=store)
        self.written.append(store)
        for reader in MEMBERS:
            if reader != who:
                way, both = self.ways[reader, who], (reader, who)
                self.ways[reader, who] = self._net.lengthened(way, self.clusters[reader], both, store)

    def settle(self, *members: int) -> None:
        """Let these daemons react until they rest."""
        for who in members:
            while self._react(who) or self._connect(who):
                pass
        for who in MEMBERS:  # to a cluster whose credentials are good again
            if self._connect(who):
                self.settle(who)

    def _react(self, who: int) -> bool:
        cluster = self.clusters[who]
        if cluster.mind is None:
            return False
        found = self._net.react(who, cluster, self._truths(who))
        self.removals += [(who, removal) for removal in found.removals]
        self.write(who, found.cluster.store)
        self.clusters[who] = found.cluster
        return found.cluster != cluster

    def _truths(self, who: int) -> Truths:
        def ask(member: int) -> Truth | None:
            way = self.ways.get((who, member))
            if way is None or way.cut or not way.is_open:
                return None
            return _truth(self.clusters[member].store, self.clusters[member].notes.accepted, member)

        return tuple(map(ask, MEMBERS))

    def _connect(self, who: int) -> bool:
        """Open and close the ways of a daemon; return whether it must react."""
        is_changed = False
        cluster = self.clusters[who]
        for member in MEMBERS:
            if member == who:
                continue
            way = self.ways[who, member]
            mind = cluster.mind
            if mind is None or not ways_to(member, cluster.store.clusters[member], cluster.store.secrets[member]):
                if way.is_open:
                    self.ways[who, member] = Way(cut=way.cut)
                if mind is not None and mind.peers[member] is not None:
                    cluster = cluster._replace(mind=mind._replace(peers=put(mind.peers, member, None)))
                    is_changed = True
                continue
            if mind.peers[member] is None:
                cluster = cluster._replace(mind=mind._replace(peers=put(mind.peers, member, Peer())))
                is_changed = True
            if not way.is_open and self._net.has_credentials(who, cluster, member, self.token(member)):
                queue = (self._net.show(self.clusters[member].store, who),) if way.cut < 2 else ()
                self.ways[who, member] = Way(True, queue, way.cut, lists=True)
                self.opened = True
        self.clusters[who] = cluster
        return is_changed

    # Steps.

    def deliver(self, who: int, source: int) -> None:
        way = self.ways[who, source]
        self.ways[who, source] = way._replace(queue=way.queue[1:], lists=False)
        cluster = self.clusters[who]
        mind = cluster.mind
        assert mind is not None
        peer = mind.peers[source]
        assert peer is not None
        before, now = peer.view, way.queue[0]
        had = before.clusters[source] if before is not None else None
        if had is not None and now.clusters[source] is None:
            mind = mind._replace(deleted_at=put(mind.deleted_at, source, had.revision))
        rule = before.rule if before is not None and not way.lists else None
        seen = () if way.lists else peer.seen
        if rule is not None and not rule.is_copy and (now.rule is None or now.rule.uid != rule.uid):
            seen = (*seen, (rule.uid, 0))
        ages = dict(peer.record)
        record = tuple((uid, ages.get(uid, 0)) for uid in sorted(now.record))
        heard = peer._replace(view=now, is_alive=True, is_connected=True, seen=seen, record=record)
        self.clusters[who] = cluster._replace(mind=mind._replace(peers=put(mind.peers, source, heard)))
        self.settle(who)

    def pass_time(self, tick: int) -> None:
        if tick == MOMENT:
            self._pass_moment()
            return
        for who, cluster in enumerate(self.clusters):
            notes = cluster.notes
            notes = notes._replace(absent=tuple(aged(age, tick, at_most=ABSENCE) for age in notes.absent))
            mind = cluster.mind
            if mind is not None:
                is_any_alive = any(peer is not None and peer.is_alive for peer in mind.peers)
                peers = tuple(self._older(who, n, peer, tick, is_any_alive) for n, peer in enumerate(mind.peers))
                mind = mind._replace(
                    peers=peers,
                    missing=aged(mind.missing, tick, at_most=WINDOW),
                    running=aged(mind.running, tick, at_most=WINDOW) or 0,
                    ending=aged(mind.ending, tick, at_most=WINDOW),
                    seen=_older(mind.seen, tick),
                )
            self.clusters[who] = Cluster(cluster.store, notes, mind)
        for (who, member), way in self.ways.items():
            if way.cut:
                self.ways[who, member] = way._replace(queue=(), cut=2)
            elif way.is_open and not self._net.has_credentials(who, self.clusters[who], member, self.token(member)):
                self.ways[who, member] = Way()
        missing = tuple(aged(age, tick, at_most=ABSENCE) for age in self.ghost.missing)
        ended = frozenset(one._replace(age=WINDOW) for one in self.ghost.ended)
        self.ghost = self.ghost._replace(missing=missing, ended=ended)
        self.settle(*MEMBERS)

    def _pass_moment(self) -> None:
        for who, cluster in enumerate(self.clusters):
            if cluster.mind is not None and cluster.mind.missing == 0:
                self.clusters[who] = cluster._replace(mind=cluster.mind._replace(missing=WINDOW))
                self.settle(who)

    def _older(self, who: int, member: int, peer: Peer | None, tick: int, is_any_alive: bool) -> Peer | None:
        if peer is None:
            return None
        way = self.ways[who, member]
        is_good = self._net.has_credentials(who, self.clusters[who], member, self.token(member))
        is_answering = not way.cut and is_good
        absence = peer.absence
        if absence is not None:
            since, heard, has_any = absence
            since = aged(since, tick, at_most=ABSENCE) or 0
            absence = (since, aged(heard, tick, at_most=WINDOW) if is_answering else None, has_any)
        silent = peer.silent
        if silent is not None:
            passed_s = float(tick if tick == TRUST else 0)
            counted = count_silence((member,), {member: float(silent)}, passed_s=passed_s, was_any_alive=is_any_alive)
            silent = min(int(counted[member]), TRUST)
        return peer._replace(
            seen=_older(peer.seen, tick),
            record=_older(peer.record, tick),
            absence=absence,
            silent=silent,
            is_alive=peer.is_alive and is_answering,
            is_connected=peer.is_connected and is_answering,
        )

    def act(self, step: Step) -> None:
        self.left -= 1
        getattr(self, f"_{step.kind}")(step.who, step.other)

    def _swap(self, who: int, other: int) -> None:
        for member in (who, other):
            self._join_again(member)
        for giver, taker in ((who, other), (other, who)):
            theirs, ours = self.clusters[giver].store, self.clusters[taker].store
            clusters, secrets = ours.clusters, ours.secrets
            own = theirs.clusters[giver]
            published = named(theirs.secrets[giver], own.secret) if own is not None else None
            if clusters[giver] is None and own is not None:
                clusters = put(clusters, giver, own._replace(is_copy=False, is_ready=False))
            if own is not None and published is not None and named(secrets[giver], own.secret) is None:
                secrets = put(secrets, giver, with_secret(secrets[giver], own.secret, published))
            self.write(taker, ours._replace(clusters=clusters, secrets=secrets))
        self.settle(who, other)

    def _join_again(self, who: int) -> None:
        """Take the own tombstone away, and let the daemon make a new Cluster and credentials."""
        store = self.clusters[who].store
        if store.clusters[who] is not None:
            return
        self.write(who, store._replace(stones=frozenset()))
        made = with_own(who, self.clusters[who])
        notes, store = made.notes, made.store
        if not notes.accepted:
            notes = notes._replace(tokens=notes.tokens + 1, accepted=notes.tokens + 1)
            published = (Credentials(notes.secret, notes.accepted, is_copy=False),)
            store = store._replace(secrets=put(store.secrets, who, published))
        self.write(who, store)
        self.clusters[who] = self.clusters[who]._replace(notes=notes._replace(ordered=frozenset()))

    def _leave(self, who: int, other: int) -> None:
        cluster = self.clusters[who]
        own = cluster.store.clusters[who]
        assert own is not None
        stone = Stone(who, own.membership, who, own.revision)
        self.clusters[who] = cluster._replace(notes=cluster.notes._replace(ordered=cluster.notes.ordered | {stone}))
        self.ghost = self.ghost._replace(farewells=self.ghost.farewells | {(who, own.membership)})
        self.write(who, cluster.store._replace(stones=cluster.store.stones | {stone}))
        self._delete(who, other)

    def _declare(self, who: int, other: int) -> None:
        cluster = self.clusters[who]
        store, held = cluster.store, cluster.store.clusters[other]
        assert held is not None
        stone = Stone(other, held.membership, who, held.revision if held.is_copy else 0)
        self.clusters[who] = cluster._replace(notes=cluster.notes._replace(ordered=cluster.notes.ordered | {stone}))
        stones = frozenset(one for one in store.stones if one[:2] != stone[:2]) | {stone}
        self.ghost = self.ghost._replace(declared=self.ghost.declared | {(other, held.membership)})
        self.write(who, store._replace(stones=stones))
        if not held.is_copy:
            self.ghost = self.ghost._replace(removed=self.ghost.removed | {(who, other, held.membership)})
            self.write(who, self.clusters[who].store._replace(clusters=put(store.clusters, other, None)))
        self.settle(who)

    def _delete(self, who: int, other: int) -> None:
        store = self.clusters[who].store
        self.write(who, store._replace(clusters=put(store.clusters, who, None)))
        self.settle(who)

    def _replace(self, who: int, other: int) -> None:
        store = self.clusters[who].store
        self.write(who, store._replace(clusters=put(store.clusters, who, None)))
        made = with_own(who, self.clusters[who])
        self.write(who, made.store)
        self.clusters[who] = made
        self.settle(who)

    def _rename(self, who: int, other: int) -> None:
        """Let the own Cluster name another Secret, and rename the Secret only then."""
        cluster = self.clusters[who]
        own, notes = cluster.store.clusters[who], cluster.notes
        assert own is not None
        earlier, revisions = own.secret, notes.revisions + 1
        renamed = own._replace(revision=revisions, secret=earlier + 1)
        self.clusters[who] = cluster._replace(notes=notes._replace(revisions=revisions, secret=earlier + 1))
        self.write(who, cluster.store._replace(clusters=put(cluster.store.clusters, who, renamed)))
        store = self.clusters[who].store
        if (found := named(store.secrets[who], earlier)) is not None:
            renamed_secret = (found._replace(name=earlier + 1),)
            self.write(who, store._replace(secrets=put(store.secrets, who, renamed_secret)))
        self.settle(who)

    def _rotate(self, who: int, other: int) -> None:
        """Withdraw the credentials; the daemon makes new ones."""
        cluster = self.clusters[who]
        self.clusters[who] = cluster._replace(notes=cluster.notes._replace(accepted=0))
        self.settle(who)

    def _rule(self, who: int, other: int) -> None:
        cluster = self.clusters[who]
        uid = cluster.notes.rules + 1
        self.clusters[who] = cluster._replace(notes=cluster.notes._replace(rules=uid))
        self.write(who, cluster.store._replace(rule=Rule(who, uid, is_copy=False)))
        self.settle(who)

    def _unrule(self, who: int, other: int) -> None:
        cluster = self.clusters[who]
        rule, mind = cluster.store.rule, cluster.mind
        assert rule is not None
        if mind is not None:
            self.clusters[who] = cluster._replace(mind=mind._replace(seen=(*mind.seen, (rule.uid, 0))))
        is_known = mind is not None or self._has_copy(who, rule.uid)
        self.ghost = self.ghost._replace(ended=self.ghost.ended | {Ended(rule.uid, 0, is_known)})
        self.write(who, cluster.store._replace(rule=None))
        self.settle(who)

    def _crash(self, who: int, other: int) -> None:
        self.clusters[who] = self.clusters[who]._replace(mind=None)
        if who == self.ghost.home:
            ended = {
                one if one.age else one._replace(is_known=self._has_copy(who, one.uid)) for one in self.ghost.ended
            }
            self.ghost = self.ghost._replace(ended=frozenset(ended))
        self._connect(who)

    def _has_copy(self, who: int, rule: int) -> bool:
        """Return whether a cluster has a copy that a rule of it made."""
        return any(made is not None and made.uid == rule for made in self.clusters[who].store.copies)

    def _restart(self, who: int, other: int) -> None:
        self.clusters[who] = self.clusters[who]._replace(mind=Mind())
        self.settle(who)

    def _cut(self, who: int, other: int) -> None:
        self.ways[who, other] = self.ways[who, other]._replace(cut=1)

    def _heal(self, who: int, other: int) -> None:
        way = self.ways[who, other]
        lists = way.is_open and way.cut == 2
        queue = (self._net.show(self.clusters[other].store, who),) if lists else way.queue
        self.ways[who, other] = way._replace(queue=queue, cut=0, lists=way.lists or lists)

    def repair(self) -> None:
        for who, member in WAYS:
            if self.ways[who, member].cut:
                self._heal(who, member)
        for who in MEMBERS:
            if self.clusters[who].mind is None:
                self._restart(who, who)


@cache
def _truth(store: Store, accepted: int, member: int) -> Truth:
    rule = store.rule.uid if store.rule is not None and not store.rule.is_copy else 0
    names = frozenset(found.name for found in store.secrets[member])
    return Truth(store.clusters[member] is not None, names, rule, accepted)


def _older(seen: tuple[tuple[int, int], ...], tick: int) -> tuple[tuple[int, int], ...]:
    return tuple((uid, aged(age, tick, at_most=WINDOW) or 0) for uid, age in seen)
