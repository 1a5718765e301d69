"""Keeps which memberships were here, for the tombstones (O6).

Laws: a membership is kept when its Cluster goes · one with a tombstone here needs no other tombstone · a membership
that was followed by another one of its member stays a former one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from registry_controller.api.meta import ClusterUID
from registry_controller.api.tombstone import Tombstone
from registry_controller.core.decision.tombstones import Memberships

UIDsByMember = Mapping[ClusterUID, frozenset[str]]
_NONE: Final[UIDsByMember] = MappingProxyType({})


class MetMemberships(NamedTuple):
    """The memberships that were here, by member.

    `met` have no tombstone here yet, `last` were here last, `former` before those.
    """

    met: UIDsByMember = _NONE
    last: UIDsByMember = _NONE
    former: UIDsByMember = _NONE


def note_memberships(before: MetMemberships, memberships: Memberships, here: Iterable[Tombstone]) -> MetMemberships:
    """Return the memberships that were here, once these are here, with these tombstones.

    An unknown membership, or one of a Cluster that a person carried here, is left out.
    """
    met, last, former = dict(before.met), dict(before.last), dict(before.former)
    for member, uids in memberships.items():
        now = frozenset(uid for uid in uids if uid)
        if not now:
            continue
        earlier = last.get(member, frozenset()) - now
        if earlier:
            former[member] = former.get(member, frozenset()) | earlier
        met[member] = last[member] = now
    for stone in here:
        met[stone.member] = met.get(stone.member, frozenset()) - {stone.membership}
    return MetMemberships(met, last, former)
