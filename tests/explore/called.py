"""How the numbers of the abstract network are called in the daemon's functions: IDs, objects, marks and tombstones.

Called: `unnamed_secrets`, `other_ways`, `note_memberships`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from functools import cache
from typing import Final, NamedTuple

from registry_controller.api import meta
from registry_controller.api.meta import GVK, ClusterUID, ObjectKey, Target
from registry_controller.api.provenance import Provenance
from registry_controller.api.tombstone import Tombstone
from registry_controller.core.decision.decision import Reason
from registry_controller.core.decision.marks import Marks
from registry_controller.core.decision.met_memberships import MetMemberships, note_memberships
from registry_controller.core.decision.tombstones import LASTS
from registry_controller.core.decision.ways import other_ways, unnamed_secrets
from tests.explore.world import NAMES, Credentials, Held, Rule, Stone, named

IDS: Final = tuple(ClusterUID(name) for name in NAMES)
NUMBERS: Final = {uid: number for number, uid in enumerate(IDS)}
TODAY: Final = date(2026, 1, 1)
CONFIG_MAP: Final = GVK("", "v1", "ConfigMap")
NAMESPACE: Final = "registry"
RULE: Final = "rule"
CREATED: Final = "2026-01-01T00:00:00Z"


class Truth(NamedTuple):
    """What an owner would answer now: the names of its own Secrets, its own rule, and the token that it accepts."""

    has_cluster: bool
    secrets: frozenset[int]
    rule: int
    token: int


class Removal(NamedTuple):
    """A deletion in a reaction, for the laws: a Cluster's membership, or 0 for a copy of an object of that member.

    `rule` is the UID of the rule that made the copy, or, with `is_rule`, of which it is a copy.
    """

    member: int
    membership: int
    reason: Reason
    rule: int = 0
    is_rule: bool = False


Truths = tuple[Truth | None, ...]


def uid_of(member: int, membership: int) -> str:
    return f"{NAMES[member]}{membership}"


@cache
def tombstone_of(stone: Stone) -> Tombstone:
    return Tombstone(
        IDS[stone.member], uid_of(stone.member, stone.membership), IDS[stone.by], TODAY + LASTS, stone.revision
    )


@cache
def stone_of(tombstone: Tombstone) -> Stone:
    return Stone(
        NUMBERS[tombstone.member], int(tombstone.membership[1:]), NUMBERS[tombstone.reported_by], tombstone.revision
    )


@cache
def target_of(kind: GVK, member: int, number: int = 1) -> Target:
    namespace = "" if kind.group == meta.GROUP else NAMESPACE
    name = RULE if kind == meta.RULE else f"{NAMES[member]}-{number}" if kind == meta.SECRET else NAMES[member]
    return Target(kind.group, kind.kind, namespace, name)


@cache
def key_of(kind: GVK, member: int, number: int = 1) -> ObjectKey:
    return target_of(kind, member, number).key


@cache
def marks_of(kind: GVK, member: int, uid: str, revision: int, *, number: int = 1, rule: Rule | None = None) -> Marks:
    """Return the marks of a copy, as the daemon writes them; without `rule` a core rule of this cluster made it."""
    name, home, rule_uid, policy = ("core", member, "", "Orphan")
    if rule is not None:
        name, home, rule_uid, policy = (RULE, rule.home, f"r{rule.uid}", "Delete")
    provenance = Provenance(
        IDS[member], name, IDS[home], policy, kind, key_of(kind, member, number), uid, CREATED, revision,
        target_of(kind, member, number), rule_uid=rule_uid, rule_created=CREATED if rule is not None else "",
    )  # fmt: skip
    return Marks(IDS[member], provenance, False, False)


class Access(NamedTuple):
    """Credentials for a member's API server."""

    token: int

    @property
    def verified_address(self) -> str:
        return ""


@cache
def ways_to(member: int, held: Held | None, secrets: tuple[Credentials, ...]) -> tuple[Access, ...]:
    """Return the ways to a member, the own one of its Cluster here first; none without a Cluster."""
    if held is None:
        return ()
    first = named(secrets, held.secret)
    own = Access(first.token) if first is not None else None
    owned = [(key_of(meta.SECRET, member, found.name), IDS[member]) for found in secrets if found.is_copy]
    taken = [key_of(meta.SECRET, member, held.secret)]
    unnamed = unnamed_secrets(owned, member=IDS[member], named=taken)
    tokens = {key_of(meta.SECRET, member, found.name): Access(found.token) for found in secrets}
    others = other_ways(own, aliases=(), unnamed=[tokens[key] for key in unnamed])
    return (own, *others) if own is not None else others


_Met = tuple[frozenset[int], ...]


@cache
def met_after(
    who: int, clusters: tuple[Held | None, ...], stones: frozenset[Stone], met: tuple[_Met, _Met, _Met],
    known: frozenset[tuple[int, int, int]],
) -> tuple[_Met, _Met, _Met, frozenset[tuple[int, int, int]]]:  # fmt: skip
    """Return the memberships that were here: without a tombstone, last, and before; and the last revision of each."""
    before = MetMemberships(*map(_uids, met))
    memberships, revisions = dict[ClusterUID, frozenset[str | None]](), {one[:2]: one[2] for one in known}
    for member, held in enumerate(clusters):
        if held is None:
            continue
        is_known = held.is_copy or member == who
        memberships[IDS[member]] = frozenset({uid_of(member, held.membership) if is_known else None})
        if is_known and member != who:
            revisions[member, held.membership] = held.revision
    now = note_memberships(before, memberships, map(tombstone_of, stones))
    numbers = (_numbers(now.met), _numbers(now.last), _numbers(now.former))
    return (*numbers, frozenset((*one, revision) for one, revision in revisions.items()))


def _uids(found: _Met) -> dict[ClusterUID, frozenset[str]]:
    return {IDS[member]: frozenset(uid_of(member, one) for one in known) for member, known in enumerate(found) if known}


def _numbers(found: Mapping[ClusterUID, frozenset[str]]) -> _Met:
    return tuple(frozenset(int(uid[1:]) for uid in found.get(member, ())) for member in IDS)
