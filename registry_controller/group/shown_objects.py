"""Which objects of a kind exist at a member, where several streams show a part of them.

Laws: current streams count before those that may be out of date · one that shows all objects of a place decides which
are there · an object has its body if one stream has it · a thread may read while the loop changes the streams.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from registry_controller.api.meta import ObjectKey
from registry_controller.api.selectors import Selector
from registry_controller.group.objects import Object
from registry_controller.group.streams import MemberStream


def find_object(streams: Sequence[MemberStream], key: ObjectKey) -> Object | None:
    """Return an object as the streams show it; None where it does not exist, or none of them shows it."""
    current = [stream for stream in streams if stream.is_current]
    deciding = next((stream for stream in current if stream.request.is_whole(key.namespace)), None)
    if deciding is None:
        return _best(current, key) or _best(streams, key)
    found = deciding.objects.get(key)
    return found if found is None or found.has_body else _best(current, key, uid=found.uid)


def _best(streams: Iterable[MemberStream], key: ObjectKey, *, uid: str = "") -> Object | None:
    """Return the latest state of an object, with a body where one is known."""
    known = (obj for stream in streams if (obj := stream.objects.get(key)) is not None)
    found = (obj for obj in known if uid in ("", obj.uid))
    return max(found, key=lambda obj: (obj.has_body, obj.revision), default=None)


def list_objects(streams: Sequence[MemberStream], *, namespace: str, labels: Selector) -> Sequence[Object]:
    """List the objects in a namespace, or in all, that labels select, by namespace and name."""
    known = (key for stream in streams for key in tuple(stream.objects))  # a copy: see the law about threads
    keys = {key for key in known if namespace in ("", key.namespace)}
    found = (find_object(streams, key) for key in sorted(keys))
    return [obj for obj in found if obj is not None and labels.matches(obj.labels)]


def may_be_stale(streams: Iterable[MemberStream], *, namespace: str) -> bool:
    """Return whether the streams may not show the objects in a namespace, or in all, as they are now."""
    streams = list(streams)
    if any(stream.is_current and stream.request.is_whole(namespace) for stream in streams):
        return False
    return not all(stream.is_current for stream in streams)
