"""Results of a write of a copy, or of a comparison without a write, for the copy's record."""

from __future__ import annotations

from dataclasses import dataclass

from registry_controller.core.decision.ownership import Marks
from registry_controller.kube.object import PartialObject


@dataclass(frozen=True, slots=True)
class Stored:
    """Our write was stored as `obj`. `desired` is the digest of what we sent, `baseline` that of what is stored.

    `is_plain` is true if the stored object is exactly what we sent.
    """

    obj: PartialObject
    marks: Marks
    desired: bytes
    baseline: bytes
    is_plain: bool


@dataclass(frozen=True, slots=True)
class InSync:
    """The object at a revision needed no write; the digests are those of `Stored`."""

    uid: str
    revision: int
    desired: bytes
    baseline: bytes
    is_plain: bool


@dataclass(frozen=True, slots=True)
class Unchanged:
    """The object at the record's revision is still, in all that counts, what the server stored for us."""


@dataclass(frozen=True, slots=True)
class StatusStored:
    """The status has a digest; None if no rule asks for it. `obj` is what our write was stored as, None without one."""

    status_digest: bytes | None
    obj: PartialObject | None = None


@dataclass(frozen=True, slots=True)
class Rendered:
    """The copy is what it should be. `made_from` is everything that decided that, for comparing.

    `outranked_rules` are the younger rules that want it otherwise.
    """

    made_from: object
    outranked_rules: tuple[str, ...]


WriteResult = Stored | InSync | Unchanged | StatusStored | Rendered
