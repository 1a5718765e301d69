"""The faults to survive, by number and name: what each does, how it is undone, and what is not done of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.chaos.play import Play


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault. `do` breaks, holds and mends; it returns when nothing is broken any more.

    missing: what of its number is not done here, and where it is; empty when nothing is missing.
    needs: what must be there beside the group; empty for nothing. size: clusters of the group; within_s: how long it
    may take until all is as it must be. minutes: about how long all of it takes.
    """

    number: int
    name: str
    what: str
    undone: str
    do: Callable[[Play], None]
    missing: str = ""
    needs: str = ""
    size: int = 3
    within_s: float = 90.0
    minutes: float = 1.0


FAULTS: dict[str, Fault] = {}


def fault(
    number: int, name: str, *, what: str, undone: str, missing: str = "", needs: str = "", size: int = 3,
    within_s: float = 90.0, minutes: float = 1.0,
) -> Callable[[Callable[[Play], None]], Callable[[Play], None]]:  # fmt: skip
    """Enter a function into the catalogue."""

    def enter(do: Callable[[Play], None]) -> Callable[[Play], None]:
        assert name not in FAULTS
        FAULTS[name] = Fault(number, name, what, undone, do, missing, needs, size, within_s, minutes)
        return do

    return enter


TITLES = {
    1: "kill -9 before and after every API call, exhaustively, and at random",
    2: "cut both ways",
    3: "cut one way",
    4: "slow peer (latency, bandwidth, CPU)",
    5: "half-open TCP and a stopped API server",
    6: "expired resourceVersion by compaction and by restart",
    7: "API server restarts, 5xx, 429",
    8: "a peer that answers from the past",
    9: "token expired, revoked, rotated",
    10: "clock skew and jumps",
    11: "a clusterID used twice, two clusters of one name, a restored etcd",
    12: "kubeconfigs of every bad kind",
    13: "objects of 1 MiB, 256 KiB of annotations, 10,000 keys",
    14: "three owners of one name",
    15: "rules that flap or change during bulk work",
    16: "namespace missing, created, terminating",
    17: "RBAC lost and regained, here and at a peer",
    18: "CRD or version removed and back",
    19: "a webhook that denies, or hangs",
    20: "quota",
    21: "etcd out of space",
    22: "two replicas at once, one of them paused for 30 s",
    23: "owner deletes while cut off; delete and recreate",
    24: "peers that come up in every order",
    25: "a hundred joins, leaves, rotations",
    26: "people edit and delete copies, remove marks, add finalizers",
    27: "5,000 events a second while writes hang",
    28: "memory limit, 10 % of a core, few descriptors",
}
