"""Results of a write of a copy, or of a comparison without a write, for the copy's record."""

from __future__ import annotations

from dataclasses import dataclass

from registry_controller.core.decision.ownership import Marks
from registry_controller.kube.object import PartialObject


@dataclass(frozen=True, slots=True)
class Stored:
    """Our write was stored as `obj`. `desired` is the digest of the sent object, `baseline` that of the stored one.

    `is_plain` is true if the stored object is exactly the sent one.
    """

    obj: PartialObject
    marks: Marks
    desired: bytes
    baseline: bytes
    is_plain: bool


@dataclass(frozen=True, slots=True)
class InSync:
    """The object at a revision needed no write; the digests are as in `Stored`."""

    uid: str
    revision: int
    desired: bytes
    baseline: bytes
    is_plain: bool


@dataclass(frozen=True, slots=True)
class Unchanged:
    """The object at the record's revision still has the synced fields that the server stored for us."""


@dataclass(frozen=True, slots=True)
class StatusStored:
    """The status has a digest; None if no rule asks for it. `obj` is what our write was stored as, None without one."""

    status_digest: bytes | None
    obj: PartialObject | None = None


@dataclass(frozen=True, slots=True)
class Rendered:
    """The copy is as wanted. `made_from` is its whole input, for comparison.

    `outranked_rules` are the younger rules that want it otherwise.
    """

    made_from: object
    outranked_rules: tuple[str, ...]


WriteResult = Stored | InSync | Unchanged | StatusStored | Rendered
