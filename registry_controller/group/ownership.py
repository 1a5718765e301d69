"""Ownership across clusters: the annotation that names an object's owner at a member.

An ownerReference can only name an owner in the same cluster: the garbage collector of Kubernetes would delete the
object at once. The annotation names the object too, with its cluster, because controllers, people and backups copy
annotations to other objects.

Laws: a mark on an object that it does not name is no mark · neither is a mark of a later format, nor one in which a
name was replaced · each mark that is written can be read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, get_args

import orjson

from registry_controller.api import meta
from registry_controller.api.errors import InvalidObject
from registry_controller.api.jsontext import is_later, read_object
from registry_controller.api.meta import UID_LENGTH, ClusterUID, ObjectKey, Target
from registry_controller.group.objects import Object, check_origin

FORMAT: Final = 1
ID_HIDDEN: Final = "it has not answered, or its namespace kube-system is hidden"
_LENGTH: Final = 16 * 1024
_TEXT_LENGTH: Final = 4096

Propagation = Literal["Background", "Foreground", "Orphan"]
"""Describes what happens to an object once its owner is gone.

`Background` and `Foreground` delete it, with these propagationPolicies; `Orphan` keeps it, without the mark.
"""


class Owner(NamedTuple):
    """An object of a member that owns objects in other clusters. `namespace` is empty for none."""

    cluster: ClusterUID
    group: str
    kind: str
    namespace: str
    name: str
    uid: str

    @property
    def key(self) -> ObjectKey:
        """Return namespace and name."""
        return ObjectKey(self.namespace, self.name)

    @property
    def target(self) -> Target:
        """Return kind, namespace and name."""
        return Target(self.group, self.kind, self.namespace, self.name)


@dataclass(frozen=True, slots=True)
class OwnerMark:
    """The owner of an object. `operator` is the operator that made the object. InvalidObject for a wrong part."""

    owner: Owner
    propagation: Propagation
    operator: str

    def __post_init__(self) -> None:
        if not isinstance(self.owner, Owner):
            raise InvalidObject("owner", "must be an Owner, as member.as_owner(obj) returns it")
        for name, value in self.owner._asdict().items():
            _check_text(f"owner.{name}", value, most=UID_LENGTH if name == "uid" else _TEXT_LENGTH)
        if not self.owner.uid:
            raise InvalidObject("owner.uid", "must not be empty")
        check_propagation(self.propagation)
        _check_text("operator", self.operator, most=_TEXT_LENGTH)


def check_propagation(value: object) -> None:
    """Check a propagation; InvalidObject for another value."""
    if value not in get_args(Propagation):
        shown = repr(value) if isinstance(value, str) else f"a {type(value).__name__}"
        raise InvalidObject("propagation", f"must be Background, Foreground or Orphan, and is {shown}")


def _check_text(path: str, value: object, *, most: int) -> None:
    if not isinstance(value, str) or len(value) > most:
        raise InvalidObject(path, f"must be a text of at most {most} characters")


def make_owner(obj: Object, *, cluster: ClusterUID, member: str, is_local: bool) -> Owner:
    """Return an object of a member as an owner.

    LookupError while the ID of the member is not known. ValueError for an object of another cluster: the member would
    answer that there is no such owner, and the collector would delete the objects that it owns.
    """
    if not cluster:
        raise LookupError(f"{member}: its ID is not known: {ID_HIDDEN}")
    check_origin(obj, member=member, cluster=cluster, is_local=is_local)
    return Owner(cluster, obj.kind.group, obj.kind.kind, obj.namespace, obj.name, obj.uid)


def encode_mark(mark: OwnerMark, *, of: Target, cluster: ClusterUID) -> str:
    """Return the value of the annotation for the object `of` in a cluster: compact JSON with sorted keys."""
    content = {
        "format": FORMAT,
        "dependent": {**of._asdict(), "cluster": cluster},
        "owner": mark.owner._asdict(),
        "propagation": mark.propagation,
        "operator": mark.operator,
        "digest": _digest(mark, of, cluster),
    }
    return orjson.dumps(content, option=orjson.OPT_SORT_KEYS).decode()


def read_mark(annotations: Mapping[str, str], *, of: Target, cluster: ClusterUID) -> OwnerMark | None:
    """Return the mark of the object `of` in a cluster; None without a mark that is valid there."""
    found = read_object(annotations.get(meta.GROUP_OWNER, ""), most=_LENGTH)
    if not found or is_later(found, than=FORMAT):
        return None
    try:
        mark = _read(found)
    except (KeyError, TypeError, InvalidObject):
        return None
    return mark if found.get("digest") == _digest(mark, of, cluster) else None


def read_owner(obj: Object, *, cluster: ClusterUID) -> Owner | None:
    """Return the owner of an object that a cluster has; None without a valid mark."""
    target = Target(obj.kind.group, obj.kind.kind, obj.namespace, obj.name)
    mark = read_mark(obj.annotations, of=target, cluster=cluster)
    return mark.owner if mark is not None else None


def _read(found: Mapping[str, Any]) -> OwnerMark:
    """Read a mark; KeyError, TypeError or InvalidObject for another text."""
    owner = Owner(**{name: found["owner"][name] for name in Owner._fields})
    return OwnerMark(owner, found["propagation"], found["operator"])


def _digest(mark: OwnerMark, of: Target, cluster: ClusterUID) -> str:
    """Return the digest of the names of an object and its owner: it binds the mark to the object."""
    text = "\0".join((*of, cluster, *mark.owner, mark.propagation, mark.operator))
    return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).hexdigest()
