"""A copy as its rule wants it, and the result of bringing it about."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from registry_controller.api.meta import GVK, Manifest, Target
from registry_controller.core.decision.marks import Marks
from registry_controller.core.mutation.left_fields import LeftPath


class DesiredCopy(msgspec.Struct, frozen=True):
    """The wanted state of a copy, with its marks; `digest` excludes the provenance's revision.

    `status` is the wanted status, None where no rule asks for it. `left` are the places that the rule leaves to this
    cluster.
    """

    target: Target
    kind: GVK
    manifest: Manifest
    digest: bytes
    marks: Marks
    status: Manifest | None = None
    left: tuple[LeftPath, ...] = ()


class Update(NamedTuple):
    """The result of an update: whether it took a write, and the managers of the changes that it undid.

    `unpaired` are lists that were written as the rule wants them, although a place in them is left to this cluster.
    """

    has_written: bool
    managers: tuple[str, ...] = ()
    unpaired: tuple[str, ...] = ()
