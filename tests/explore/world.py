"""The abstract network: what each cluster stores, what each daemon remembers, and the ways between them.

Members are numbers. Everything here is plain data that is never changed: a state of the search is a `World` of numbers
that stand for these values (`intern.py`).
"""

from __future__ import annotations

from typing import Final, NamedTuple

MEMBERS: Final = (0, 1, 2)
NAMES: Final = "abc"

WINDOW: Final = 1
ABSENCE: Final = 10
TRUST: Final = 100
"""The stabilization window, the time of a lasting absence, and the time of trust: each counts after the one before.

Ages are cut off at the time that is asked for, so that there are only a few.
"""
TICKS: Final = {"window": WINDOW, "absence": ABSENCE, "trust": TRUST}


class Held(NamedTuple):
    """A Cluster in one store. `membership` counts the own Clusters of its member, `revision` their states.

    `is_copy` is False for the own Cluster, and for one that a person carried here. `is_ready` is its status here.
    """

    membership: int
    revision: int
    is_copy: bool
    is_ready: bool = False


class Credentials(NamedTuple):
    """A registry Secret in one store: the number of the token in it."""

    token: int
    is_copy: bool


class Stone(NamedTuple):
    """A tombstone: this membership of `member` is over, by the word of `by`. `revision` is one of its Cluster's."""

    member: int
    membership: int
    by: int
    revision: int = 0


class Store(NamedTuple):
    """What readers see of a cluster: Clusters, Secrets and copies by member, and tombstones.

    The own Secret holds the token that the API server accepts; without it every token was withdrawn.
    """

    clusters: tuple[Held | None, ...]
    secrets: tuple[Credentials | None, ...]
    stones: frozenset[Stone] = frozenset()
    copies: tuple[bool, ...] = (True, True, True)


class Notes(NamedTuple):
    """What else a cluster stores, for its own daemon: it outlives a restart.

    `absent` has the age of each condition `OwnClusterMissing`, `ordered` the tombstones that are orders. `births` and
    `tokens` count the own Clusters and tokens so far, `revisions` the states of the own Cluster.
    """

    absent: tuple[int | None, ...] = (None, None, None)
    ordered: frozenset[Stone] = frozenset()
    births: int = 1
    revisions: int = 1
    tokens: int = 1


class Peer(NamedTuple):
    """What a daemon knows of one peer: the last state that was delivered, and whether the peer counts as alive.

    `absence` is the absence of its own Cluster: how long ago it began, since when it was heard without a break, and
    whether any Cluster is there. `silent` is for how long it has been silent while others answered.
    """

    view: Store | None = None
    is_alive: bool = True
    absence: tuple[int, int | None, bool] | None = None
    silent: int | None = None
    is_connected: bool = False


class Mind(NamedTuple):
    """What a running daemon remembers. `peers` has None for each member that is not read.

    `left` are the members with a proven departure, `met` the memberships that were here and have no tombstone,
    `last` the last ones, `former` those before, `revisions` the last of each with its member. `deleted_at` is up to
    which revision a member was seen to delete its Cluster. `missing` is for how long the own Cluster has been missing,
    `has_last` whether this process saw it.
    """

    peers: tuple[Peer | None, ...] = (None, None, None)
    left: frozenset[tuple[int, int]] = frozenset()
    met: tuple[frozenset[int], ...] = (frozenset(), frozenset(), frozenset())
    deleted_at: tuple[int, ...] = (0, 0, 0)
    last: tuple[int | None, ...] = (None, None, None)
    former: tuple[frozenset[int], ...] = (frozenset(), frozenset(), frozenset())
    revisions: frozenset[tuple[int, int, int]] = frozenset()
    missing: int | None = None
    has_last: bool = False


class Cluster(NamedTuple):
    """One cluster, with its daemon; `mind` is None while the daemon is down."""

    store: Store
    notes: Notes
    mind: Mind | None


class Ghost(NamedTuple):
    """What the laws remember, and no daemon knows.

    `farewells` are the memberships that their member ended by `leave`, `declared` those that `leave NAME` ended,
    `removed` those that a member (first) removed. `missing` is for how long each own Cluster has been missing.
    `returned` are the members that swapped after they were out.
    """

    farewells: frozenset[tuple[int, int]] = frozenset()
    declared: frozenset[tuple[int, int]] = frozenset()
    removed: frozenset[tuple[int, int, int]] = frozenset()
    missing: tuple[int | None, ...] = (None, None, None)
    returned: frozenset[int] = frozenset()

    def out(self) -> frozenset[int]:
        """Return the members that have left, or were removed, since their last swap."""
        ends = self.farewells | self.declared | {gone[1:] for gone in self.removed}
        return frozenset(member for member, _ in ends)


class Way(NamedTuple):
    """The way from one cluster to the daemon that reads it: states that were not delivered yet, first in, first out.

    `cut` is 0 while it is up, 1 from a cut on, and 2 once it was cut for so long that the reader lists again. A way
    that nobody reads is not `is_open`.
    """

    is_open: bool = False
    queue: tuple[Store, ...] = ()
    cut: int = 0


WAYS: Final = tuple((reader, source) for reader in MEMBERS for source in MEMBERS if reader != source)


def put(values: tuple, index: int, value: object) -> tuple:  # type: ignore[type-arg]
    """Return a tuple with another value at one place."""
    return (*values[:index], value, *values[index + 1 :])


def aged(age: int | None, by: int, *, at_most: int) -> int | None:
    """Return an age after a tick. Ticks do not add up: each is as long as may be before the next longer one is due."""
    return None if age is None else min(max(age, by), at_most)
