"""The abstract network: what each cluster stores, what each daemon remembers, and the ways between them.

Members are numbers. Everything here is plain data that is never changed: a state of the search is a tuple of numbers
that stand for these values (`steps.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any, ClassVar, Final, NamedTuple, Self

MEMBERS: Final = (0, 1, 2)
NAMES: Final = "abc"

WINDOW: Final = 1
ABSENCE: Final = 10
TRUST: Final = 100
"""The stabilization window, the time of a lasting absence, and the time of trust: each counts after the one before.

Ages are cut off at the time that is asked for, so that there are only a few.
"""
MOMENT: Final = 0
"""A tick after which an own Cluster that is missing is made again; nothing else is due so early."""
TICKS: Final = {"moment": MOMENT, "window": WINDOW, "absence": ABSENCE, "trust": TRUST}


class Interned:
    """A mixin of the values that states are made of: equal ones are one object, so that they are compared at once."""

    __slots__ = ()
    _known: ClassVar[dict[tuple[object, ...], Any]]
    _places: ClassVar[dict[str, int]]

    def __init_subclass__(cls) -> None:
        cls._known = {}
        cls._places = {name: place for place, name in enumerate(cls._fields)}  # type: ignore[attr-defined]

    def __new__(cls, *values: object, **named: object) -> Self:
        return cls._make(super().__new__(cls, *values, **named))  # type: ignore[call-overload]

    @classmethod
    def _make(cls, values: Iterable[object]) -> Self:
        key = tuple(values)
        found: Self | None = cls._known.get(key)
        if found is None:
            found = cls._known[key] = tuple.__new__(cls, key)  # type: ignore[type-var]
        return found

    def _replace(self, **changed: object) -> Self:
        values, places = list(self), self._places  # type: ignore[call-overload]
        for name, value in changed.items():
            values[places[name]] = value
        return self._make(values)

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


class _Held(NamedTuple):
    membership: int
    revision: int
    is_copy: bool
    is_ready: bool = False
    secret: int = 1


class Held(Interned, _Held):
    """A Cluster in one store. `membership` counts the own Clusters of its member, `revision` their states.

    `is_copy` is False for the own Cluster, and for one that a person carried here. `is_ready` is its status here.
    `secret` is the number of the Secret that it names.
    """

    __slots__ = ()


class _Credentials(NamedTuple):
    name: int
    token: int
    is_copy: bool


class Credentials(Interned, _Credentials):
    """A registry Secret of a member in one store: its number, which is its name, and that of the token in it."""

    __slots__ = ()


class Stone(NamedTuple):
    """A tombstone: this membership of `member` is over, by the word of `by`. `revision` is one of its Cluster's."""

    member: int
    membership: int
    by: int
    revision: int = 0


class _Rule(NamedTuple):
    home: int
    uid: int
    is_copy: bool


class Rule(Interned, _Rule):
    """The rule in one store, or the one that made a copy: the cluster in which it was made, and its UID there."""

    __slots__ = ()


class _Store(NamedTuple):
    clusters: tuple[Held | None, ...]
    secrets: tuple[tuple[Credentials, ...], ...]
    stones: frozenset[Stone] = frozenset()
    copies: tuple[Rule | None, ...] = (None, None, None)
    rule: Rule | None = None
    record: frozenset[int] = frozenset()


class Store(Interned, _Store):
    """What readers see of a cluster: Clusters, Secrets and copies by member, tombstones, the rule, and its record.

    A copy names the rule that made it, `record` the rules that are known to be deleted there.
    """

    __slots__ = ()


class _Notes(NamedTuple):
    absent: tuple[int | None, ...] = (None, None, None)
    ordered: frozenset[Stone] = frozenset()
    births: int = 1
    revisions: int = 1
    tokens: int = 1
    accepted: int = 1
    secret: int = 1
    rules: int = 0


class Notes(Interned, _Notes):
    """What else is stored in a cluster, and outlives a restart.

    `absent` has the age of each condition `OwnClusterMissing`, `ordered` the tombstones that are orders. `births`,
    `tokens` and `rules` count the own Clusters, tokens and rules so far, `revisions` the states of the own Cluster.
    `accepted` is the token that the API server accepts, 0 for none, `secret` the Secret that the own Cluster named.
    """

    __slots__ = ()


class _Peer(NamedTuple):
    view: Store | None = None
    is_alive: bool = True
    absence: tuple[int, int | None, bool] | None = None
    silent: int | None = None
    is_connected: bool = False
    seen: tuple[tuple[int, int], ...] = ()
    record: tuple[tuple[int, int], ...] = ()


class Peer(Interned, _Peer):
    """What a daemon knows of one peer: the last state that was delivered, and whether the peer counts as alive.

    `absence` is the absence of its own Cluster: how long ago it began, since when it was heard without a break, and
    whether any Cluster is there. `silent` is for how long it has been silent while others answered. `seen` are the
    rules whose deletion its watch showed, `record` those in its record, each with the time since then.
    """

    __slots__ = ()


class _Mind(NamedTuple):
    peers: tuple[Peer | None, ...] = (None, None, None)
    left: frozenset[tuple[int, int]] = frozenset()
    met: tuple[frozenset[int], ...] = (frozenset(), frozenset(), frozenset())
    deleted_at: tuple[int, ...] = (0, 0, 0)
    last: tuple[frozenset[int], ...] = (frozenset(), frozenset(), frozenset())
    former: tuple[frozenset[int], ...] = (frozenset(), frozenset(), frozenset())
    revisions: frozenset[tuple[int, int, int]] = frozenset()
    missing: int | None = None
    has_last: bool = False
    running: int = 0
    acting: Rule | None = None
    ending: int | None = None
    seen: tuple[tuple[int, int], ...] = ()


class Mind(Interned, _Mind):
    """What a running daemon remembers. `peers` has None for each member that is not read.

    `left` are the members with a proven departure, `met` the memberships that were here and have no tombstone,
    `last` the last ones, `former` those before, `revisions` the last of each with its member. `deleted_at` is up to
    which revision a member was seen to delete its Cluster. `missing` is for how long the own Cluster has been missing,
    `has_last` whether this process saw it. `running` is for how long it has run. `acting` is the rule that acts here;
    `ending` is for how long it has not been here any more. `seen` are the rules whose deletion here it has seen.
    """

    __slots__ = ()


class _Cluster(NamedTuple):
    store: Store
    notes: Notes
    mind: Mind | None


class Cluster(Interned, _Cluster):
    """One cluster, with its daemon; `mind` is None while the daemon is down."""

    __slots__ = ()


class Ended(NamedTuple):
    """A rule that people deleted at its home: its UID, and for how long.

    `is_known` means that a daemon there saw it for a moment, or that a copy there shows it.
    """

    uid: int
    age: int
    is_known: bool


class _Ghost(NamedTuple):
    farewells: frozenset[tuple[int, int]] = frozenset()
    earlier: frozenset[tuple[int, int]] = frozenset()
    declared: frozenset[tuple[int, int]] = frozenset()
    removed: frozenset[tuple[int, int, int]] = frozenset()
    missing: tuple[int | None, ...] = (None, None, None)
    joining: frozenset[int] = frozenset()
    home: int | None = None
    ended: frozenset[Ended] = frozenset()


class Ghost(Interned, _Ghost):
    """What the laws remember, and no daemon knows.

    `farewells` are the memberships that their member ended by `leave`, `earlier` those of members that swapped since,
    `declared` those that `leave NAME` ended, `removed` those that a member (first) removed, which is the
    removed one itself where nobody remembers it. `missing` is for how long each own Cluster has been missing.
    `joining` are the members that were not there from the beginning on, or swapped after they were out. `home` is the
    cluster in which people make the rule, None where each has its own; `ended` are the rules that they deleted there.
    """

    __slots__ = ()

    def out(self) -> frozenset[int]:
        """Return the members that have left, or were removed, since their last swap."""
        ends = self.farewells | {gone[1:] for gone in self.removed}
        return frozenset(member for member, _ in ends)


class _Way(NamedTuple):
    is_open: bool = False
    queue: tuple[Store, ...] = ()
    cut: int = 0
    lists: bool = False


class Way(Interned, _Way):
    """The way from one cluster to the daemon that reads it: states that were not delivered yet, first in, first out.

    `cut` is 0 while it is up, 1 from a cut on, and 2 once it was cut for so long that the reader lists again. A way
    that nobody reads is not `is_open`. `lists` means that the next state is a list, and no event.
    """

    __slots__ = ()


class _Seat(NamedTuple):
    cluster: Cluster
    ways: tuple[Way | None, ...]


class Seat(Interned, _Seat):
    """One member: its cluster, and the ways by which its daemon reads the others, None for itself."""

    __slots__ = ()

    @property
    def who(self) -> int:
        """The member."""
        return self.ways.index(None)


WAYS: Final = tuple((reader, source) for reader in MEMBERS for source in MEMBERS if reader != source)


def put(values: tuple, index: int, value: object) -> tuple:  # type: ignore[type-arg]
    """Return a tuple with another value at one place."""
    return (*values[:index], value, *values[index + 1 :])


@cache
def shown(store: Store, reader: int) -> Store:
    """Return what a reader reads of a store: no copies of objects, and of its own Cluster there only that it is there.

    Which one it is counts where a tombstone there says that the reader left as this one. A change of the rest is no
    event for the reader, whose decisions on that read it nowhere.
    """
    held = store.clusters[reader]
    if held is not None:
        has_left = any(stone[:3] == (reader, held.membership, reader) for stone in store.stones)
        held = Held(held.membership if held.is_copy and has_left else 0, 0, is_copy=True)
    clusters = put(store.clusters, reader, held)
    return store._replace(clusters=clusters, secrets=put(store.secrets, reader, ()), copies=(None,) * len(MEMBERS))


def known(cluster: Cluster, who: int) -> Cluster:
    """Return a cluster with no more of its peers' states than its daemon reads."""
    mind = cluster.mind
    if mind is None:
        return cluster
    peers = tuple(
        peer if peer is None or peer.view is None else peer._replace(view=shown(peer.view, who)) for peer in mind.peers
    )
    return cluster._replace(mind=mind._replace(peers=peers))


def named(secrets: Iterable[Credentials], name: int) -> Credentials | None:
    """Return the Secret of a name."""
    return next((found for found in secrets if found.name == name), None)


def with_secret(secrets: Iterable[Credentials], name: int, found: Credentials | None) -> tuple[Credentials, ...]:
    """Return Secrets with another one under a name, or with none under it."""
    others = [one for one in secrets if one.name != name]
    return tuple(sorted([*others, found] if found is not None else others))


def aged(age: int | None, by: int, *, at_most: int) -> int | None:
    """Return an age after a tick. Ticks do not add up: each is as long as may be before the next longer one is due."""
    return None if age is None else min(max(age, by), at_most)
