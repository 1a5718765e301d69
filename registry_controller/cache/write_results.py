"""Results of a write of a copy, or of a comparison without a write, for the copy's record."""

from __future__ import annotations

import msgspec

from registry_controller.core.decision.marks import Marks
from registry_controller.core.diff.remainder import NOTHING_REMAINS, Remainder
from registry_controller.kube.object import PartialObject


class Stored(msgspec.Struct, frozen=True):
    """Our write was stored as `obj`. `desired` is the digest of the sent object, `baseline` that of the stored one.

    `is_plain` is true if the stored object is exactly the sent one; else `remainder` is what remains between the two.
    """

    obj: PartialObject
    marks: Marks
    desired: bytes
    baseline: bytes
    is_plain: bool
    remainder: Remainder = NOTHING_REMAINS


class InSync(msgspec.Struct, frozen=True):
    """The object at a revision needed no write; the digests are as in `Stored`."""

    uid: str
    revision: int
    desired: bytes
    baseline: bytes
    is_plain: bool
    remainder: Remainder = NOTHING_REMAINS


class Unchanged(msgspec.Struct, frozen=True):
    """The object at the record's revision still has the synced fields that the server stored for us."""


class StatusStored(msgspec.Struct, frozen=True):
    """A wanted status has a digest; None if no rule asks for it, or if the stored one is to be compared again.

    `baseline` is the digest of the stored status, and `lost` are the wanted fields that it lacks. `obj` is what our
    write was stored as, None without one.
    """

    status_digest: bytes | None
    obj: PartialObject | None = None
    baseline: bytes | None = None
    lost: tuple[str, ...] = ()


class Doubted(msgspec.Struct, frozen=True):
    """It is to be asked again how the API server stores the wanted object: a schema changed, or an answer was lost."""


class Deleted(msgspec.Struct, frozen=True):
    """Our deletion of the object with a uid was answered. An object that is shown nevertheless is there again."""

    uid: str


class Rendered(msgspec.Struct, frozen=True):
    """The copy is as wanted. `made_from` is its whole input, for comparison.

    `outranked_rules` are the younger rules that want it otherwise.
    """

    made_from: object
    outranked_rules: tuple[str, ...]


WriteResult = Stored | InSync | Unchanged | StatusStored | Doubted | Deleted | Rendered
