"""The rights that rules need: of other clusters, to read objects here, and of the daemon, to write copies here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from registry_controller.api import meta
from registry_controller.api.meta import GVK
from registry_controller.api.syncrule import SyncRule
from registry_controller.core.mutation.mutate import get_copy_kind

READ: Final = ("get", "list", "watch")
WRITE: Final = (*READ, "create", "update", "delete")
_CREATE: Final = ("create",)
_UPDATE: Final = ("update",)


class NeededRight(NamedTuple):
    """The verbs on a kind, or on its status; every version of a kind is the same resource."""

    kind: GVK
    verbs: tuple[str, ...]
    subresource: str = ""


class NeededRights(NamedTuple):
    """The rights of the other clusters here (`reader`), and of the daemon here (`controller`)."""

    reader: frozenset[NeededRight]
    controller: frozenset[NeededRight]


def list_needed_rights(rules: Iterable[SyncRule]) -> NeededRights:
    """List the rights that rules need in every cluster, without those on the registry's own kinds."""
    reader: set[NeededRight] = set()
    controller: set[NeededRight] = set()
    for rule in rules:
        if rule.kind.group != meta.GROUP and rule.entries:
            reader.add(NeededRight(rule.kind, READ))
        controller.update(_list_rights_to_write(rule))
    return NeededRights(frozenset(reader), frozenset(controller))


def _list_rights_to_write(rule: SyncRule) -> Iterator[NeededRight]:
    kinds: set[GVK] = set()
    for entry in rule.entries:
        # Several entries may match one source and change its kind one after the other.
        kinds.update([get_copy_kind(kind, (entry,)) for kind in (rule.kind, *kinds)])
    has_status = any(entry.mutations.sync_status for entry in rule.entries)
    for kind in kinds:
        if kind.group != meta.GROUP:
            yield NeededRight(kind, WRITE)
            if has_status:
                yield NeededRight(kind, _UPDATE, "status")
    if rule.create_namespaces and kinds:
        yield NeededRight(meta.NAMESPACE, _CREATE)
