"""Objects of members, and the events of a watch."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple, Protocol

from registry_controller.api.meta import GVK, ClusterUID, ObjectKey
from registry_controller.kube.object import PartialObject, decode_body


class ObjectOrigin(Protocol):
    """The cluster that objects were read from, always the same one. `cluster_id` is empty while it is not known."""

    @property
    def name(self) -> str: ...

    @property
    def cluster_id(self) -> ClusterUID: ...


class LocalOrigin:
    """The local cluster, which `group.local` reads."""

    name: Final = "the local cluster"

    def __init__(self) -> None:
        self.cluster_id = ClusterUID("")


@dataclass(frozen=True, slots=True)
class Object:
    """An object of a member at one moment. `revision` is its resourceVersion as a number, 0 when it is not a number.

    `created` is in RFC 3339. `is_deleting` means that it waits for its finalizers. An object that a program has made
    itself has no origin.
    """

    kind: GVK
    namespace: str
    name: str
    uid: str
    revision: int
    created: str
    is_deleting: bool
    generation: int
    labels: Mapping[str, str]
    annotations: Mapping[str, str] = field(repr=False)  # they may hold the data of a Secret
    _partial: PartialObject | None = field(default=None, repr=False, compare=False)
    _origin: ObjectOrigin | None = field(default=None, repr=False, compare=False)

    @property
    def key(self) -> ObjectKey:
        """Return namespace and name."""
        return ObjectKey(self.namespace, self.name)

    @property
    def has_body(self) -> bool:
        """Return whether the whole object is known; false for a watch with `metadata_only`."""
        return self._partial is not None

    @property
    def manifest(self) -> dict[str, Any]:
        """Decode the whole object, a new copy each time.

        LookupError with `metadata_only`, InvalidObject for an object that cannot be decoded (too large, too many
        levels).
        """
        if self._partial is None:
            raise LookupError(f"{self.kind.kind} {self.key}: only its metadata is known; watch without metadata_only")
        return dict(decode_body(self._partial))


def read_object(
    partial: PartialObject, *, kind: GVK, metadata_only: bool, origin: ObjectOrigin | None = None
) -> Object:
    """Return a decoded object in its public form."""
    return Object(
        kind=kind,
        namespace=partial.key.namespace,
        name=partial.key.name,
        uid=partial.uid,
        revision=partial.revision,
        created=partial.created,
        is_deleting=partial.deleting,
        generation=partial.generation,
        labels=partial.labels,
        annotations=partial.annotations,
        _partial=None if metadata_only else partial,
        _origin=origin,
    )


def is_known_state(known: Object | None, partial: PartialObject, *, kind: GVK) -> bool:
    """Return whether a decoded object is in its known state.

    An aggregated API server may give resourceVersions that are not numbers. There the bytes are compared, and without
    them each state is a new one.
    """
    if known is None or (known.uid, known.revision, known.kind) != (partial.uid, partial.revision, kind):
        return False
    return partial.revision > 0 or (known._partial is not None and known._partial.raw == partial.raw)


def is_same_state(one: Object | None, other: Object | None) -> bool:
    """Return whether two known states of an object are the same; None is the state of one that does not exist."""
    if one is None or other is None or one is other:
        return one is other
    return one == other and (one.revision > 0 or (one._partial is not None and one._partial == other._partial))


def without_body(obj: Object) -> Object:
    """Return an object of which only the metadata is known."""
    return replace(obj, _partial=None)


def check_origin(obj: Object, *, member: str, cluster: ClusterUID, is_local: bool) -> None:
    """ValueError for an object that was read from another cluster than a member; `cluster` is the ID of the member.

    `is_local` is true for the member that is the local cluster. Objects of `group.local` are from there, also before
    its ID was read.
    """
    origin = obj._origin
    if origin is None or origin.cluster_id == cluster:
        return
    if is_local and isinstance(origin, LocalOrigin) and not origin.cluster_id:
        return
    before = f"{origin.name}, cluster {origin.cluster_id or 'of an ID that is not known'}"
    raise ValueError(
        f"{obj.kind.kind} {obj.key} was read from {before}, and {member} is cluster {cluster}: give an object that "
        f"group[{member!r}] shows, or use as_owner of the member that the object is from"
    )


class EventType(enum.StrEnum):
    """The type of an event: three about an object, and three about the state of a member's objects."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    SYNCED = "SYNCED"
    """Every object of the member was delivered, and further events follow as they come."""
    STALE = "STALE"
    """The member is silent, or does not show the kind: its objects stay as they were known last."""
    LEFT = "LEFT"
    """The member is not in the group any more; each of its objects was delivered as DELETED before."""


def type_of_change(*, was_known: bool, exists: bool) -> EventType | None:
    """Return the type of the one event for all changes of an object that a consumer has not taken.

    `was_known` is whether it has known the object before, and `exists` whether the object is there now. None for an
    object that is gone and was never known.
    """
    if exists:
        return EventType.MODIFIED if was_known else EventType.ADDED
    return EventType.DELETED if was_known else None


class Event(NamedTuple):
    """An event of a watch. `object` is None for SYNCED, STALE and LEFT.

    `reason` is set for STALE and LEFT. `is_relisted` means that a new list has shown the change, not the watch, or that
    one has shown everything again. `skipped` counts the earlier states of the object that the consumer was too slow to
    get.
    """

    member: str
    type: EventType
    object: Object | None = None
    reason: str = ""
    is_relisted: bool = False
    skipped: int = 0


class Key(NamedTuple):
    """The key of a reconciliation: the name of a member, and an object there. `namespace` is empty for none."""

    member: str
    namespace: str
    name: str
