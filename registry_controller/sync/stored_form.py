"""Sends dry runs, which show how the API server stores a wanted copy.

Laws: a dry run that is refused proves nothing: the copy is written then · a copy is made again only where the API
server shows that it keeps a field which a new object would not have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

import orjson

from registry_controller.api import meta
from registry_controller.api.errors import Conflict, Forbidden, Immutable, Invalid, NotFound
from registry_controller.api.meta import GVR, Manifest, ObjectKey, Target
from registry_controller.cache.copy_record import CopyRecord
from registry_controller.core.decision.marks import Marks
from registry_controller.core.diff.drift import Comparison, Drift, Left, is_repaired
from registry_controller.core.diff.question import Known, NextStep, list_suspects
from registry_controller.core.diff.remainder import list_kept, list_staying
from registry_controller.core.diff.walk import format_place
from registry_controller.core.mutation.local_fields import Path
from registry_controller.sync.digest import without_provenance

IRREPLACEABLE: Final = frozenset(
    (
        ("", "Namespace"),
        ("apiextensions.k8s.io", "CustomResourceDefinition"),
        ("", "PersistentVolume"),
        ("", "PersistentVolumeClaim"),
    )
)
"""The kinds of which a deletion takes other objects along."""

_PROVENANCE: Final = format_place(("metadata", "annotations", meta.PROVENANCE))


class DryRunClient(Protocol):
    """Sends dry runs to the local API server. Each answer is the object that would be stored."""

    async def create(self, gvr: GVR, namespace: str, body: bytes, *, dry_run: bool) -> bytes | None:
        """Create an object."""

    async def replace(
        self, gvr: GVR, key: ObjectKey, body: bytes, *, dry_run: bool, subresource: str, unknown: list[str]
    ) -> bytes | None:
        """Replace an object; the fields that the server's schema lacks are added to `unknown`."""


class StoredForm:
    """The answers of one API server. `digest` returns the digest of an object's synced fields."""

    def __init__(
        self, client: DryRunClient, *, digest: Callable[[Manifest], bytes], encode: Callable[[Manifest], bytes]
    ) -> None:
        self._client = client
        self._digest = digest
        self._encode = encode

    async def ask(
        self,
        gvr: GVR,
        target: Target,
        wanted: Manifest,
        current: Manifest,
        *,
        verdict: Comparison,
        body: Manifest,
        left: Left,
        known: Known,
        unknown: list[str],
    ) -> NextStep:
        """Send a dry run of a replacement by `body`: IN_STEP if it would store the present object, or repair nothing.

        The fields that the server's schema lacks are added to `unknown`. Raises Immutable where the server keeps a
        field of the former wish.
        """
        try:
            stored = await self._replace(gvr, target, body, unknown=unknown)
        except Immutable as error:
            raise Immutable(str(error), managers=verdict.managers) from None
        except Forbidden as error:
            if error.lacks_right and verdict.drift is Drift.AMBIGUOUS:
                raise
            return NextStep.WRITE  # a quota or a missing right shows nothing about a field
        suspects = list_suspects(verdict, known)
        if suspects and target[:2] not in IRREPLACEABLE:
            staying = list_staying(suspects, before=current, after=stored) if stored is not None else suspects
            await self._check_kept(gvr, target, wanted, current, suspects=staying, managers=verdict.managers)
        if stored is None:
            return NextStep.WRITE
        if _PROVENANCE in verdict.paths:
            return NextStep.IN_STEP if self._digest(stored) == self._digest(current) else NextStep.WRITE
        # Earlier versions write less into the provenance, which alone is no reason for a write.
        if self._digest(without_provenance(stored)) == self._digest(without_provenance(current)):
            return NextStep.IN_STEP
        if not known.is_of_now or not known.is_same_origin:
            return NextStep.WRITE  # a value that is not wanted may be that of an earlier state
        repairs = is_repaired(wanted, current, stored, manager=meta.FIELD_MANAGER, left=left)
        return NextStep.WRITE if repairs else NextStep.IN_STEP

    async def _check_kept(
        self,
        gvr: GVR,
        target: Target,
        wanted: Manifest,
        current: Manifest,
        *,
        suspects: Sequence[Path],
        managers: tuple[str, ...],
    ) -> None:
        """Raise Immutable if a new object would not have one of the suspected fields of the present one."""
        anew = await self._create(gvr, target, wanted) if suspects else None
        kept = list_kept(suspects, stored=current, anew=anew) if anew is not None else ()
        if kept:
            places = tuple(format_place(path) for path in kept)
            message = f"the API server keeps {', '.join(places)} when the copy is replaced"
            raise Immutable(message, managers=managers, kept=places)

    async def is_status_stored_so(
        self, gvr: GVR, target: Target, current: Manifest, *, body: Manifest, unknown: list[str]
    ) -> bool:
        """Return whether a replacement of the status by that of `body` would store the present one."""
        try:
            stored = await self._replace(gvr, target, body, subresource="status", unknown=unknown)
        except Forbidden:
            return False
        return stored is not None and (stored.get("status") or {}) == (current.get("status") or {})

    async def _replace(
        self, gvr: GVR, target: Target, body: Manifest, *, unknown: list[str], subresource: str = ""
    ) -> Manifest | None:
        """Return the object that a replacement would store; None where a policy or webhook refuses it, or dry runs."""
        try:
            raw = await self._client.replace(
                gvr, target.key, self._encode(body), dry_run=True, subresource=subresource, unknown=unknown
            )
        except Immutable:
            raise
        except Invalid:
            return None
        return _decode(raw)

    async def _create(self, gvr: GVR, target: Target, wanted: Manifest) -> Manifest | None:
        """Return a new object of another name as it would be stored; None where the dry run is refused."""
        info: dict[str, Any] = {name: value for name, value in wanted["metadata"].items() if name != "name"}
        body = {**wanted, "metadata": {**info, "generateName": f"{target.name}-"}}
        try:
            raw = await self._client.create(gvr, target.namespace, self._encode(body), dry_run=True)
        except (Forbidden, Invalid, NotFound, Conflict):
            return None
        return _decode(raw)


def get_known(record: CopyRecord, wanted: Marks, digest: bytes) -> Known:
    """Gather the facts about the last write of a copy: from its record, and from its provenance.

    `wanted` are the marks of the wanted copy, and `digest` is its digest.
    """
    there, ours = record.marks.provenance, wanted.provenance
    is_of_now = there is not None and there.revision == wanted.revision
    is_same = is_of_now and there is not None and ours is not None and there.same_origin(ours)
    return Known(
        is_remembered=record.desired is not None,
        is_same_wish=record.desired == digest,
        remainder=record.remainder,
        is_of_now=is_of_now,
        is_same_origin=is_same,
    )


def _decode(raw: bytes | None) -> Manifest | None:
    found: Manifest | None = orjson.loads(raw) if raw is not None else None
    return found
