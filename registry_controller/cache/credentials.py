"""The Secrets of the local cluster with the credentials of members, decoded and checked.

`clusters/resolver.py` and `core/decision/ways.py` decide which of them are used, and `clusters/dialer.py` connects.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from registry_controller.api import meta
from registry_controller.api.errors import InvalidKubeconfig, ProtocolError, RegistryError
from registry_controller.api.meta import ClusterUID, ObjectKey
from registry_controller.cache.members import secret_target
from registry_controller.core.decision.marks import read_marks
from registry_controller.kube.kubeconfig import Credentials, read_secret
from registry_controller.kube.object import PartialObject, decode_manifest
from registry_controller.watch.event_handler import EventHandler

_COPIED: Final = (
    f"is a copy of a member's object, and of type {meta.CLUSTER_API_SECRET_TYPE}: only Cluster API here may write it"
)


class _Place(NamedTuple):
    """The Secrets that one watch shows."""

    namespace: str
    secret_type: str


def may_be_of_cluster_api(key: ObjectKey) -> bool:
    """Return whether a Secret has the name of one in which Cluster API keeps a kubeconfig."""
    return key.name.endswith(meta.CLUSTER_API_SECRET_SUFFIX)


class CredentialStore:
    """Maps each registry Secret, and each of Cluster API, to its credentials, or to a message with its error.

    `owners` are the members to which registry Secrets belong by their marks. `of_cluster_api` are the Secrets that
    Cluster API keeps. `explain` adds to an error what to do about it.
    """

    def __init__(
        self,
        *,
        on_change: Callable[[ObjectKey], None],
        explain: Callable[[RegistryError], RegistryError] = lambda error: error,
    ) -> None:
        self.owners: Mapping[ObjectKey, ClusterUID] = {}
        self.of_cluster_api: frozenset[ObjectKey] = frozenset()
        self._held: dict[ObjectKey, Credentials | str] = {}
        self._complete: set[_Place] = set()
        self._errors: dict[_Place, RegistryError] = {}
        self._on_change = on_change
        self._explain = explain

    def find(self, key: ObjectKey) -> Credentials | str | None:
        """Return a Secret's credentials, or its error; None while the namespace is not synced yet."""
        found = self._held.get(key)
        if found is not None:
            return found
        places = [_Place(key.namespace, meta.REGISTRY_SECRET_TYPE)]
        if may_be_of_cluster_api(key):
            places.append(_Place(key.namespace, meta.CLUSTER_API_SECRET_TYPE))
        error = next((self._errors[place] for place in places if place in self._errors), None)
        if error is not None:
            return f"Secret {key} cannot be read: {error}"
        if self._complete.issuperset(places):
            return (
                f"Secret {key} of type {meta.REGISTRY_SECRET_TYPE} does not exist; it comes through any member that "
                "can be read, and without one by a new swap"
            )
        return None

    def handler(self, namespace: str, *, secret_type: str = meta.REGISTRY_SECRET_TYPE) -> EventHandler:
        """Return the event handler for the Secrets of one type in one namespace."""
        return _SecretHandler(self, _Place(namespace, secret_type))

    def set_secret(self, obj: PartialObject) -> None:
        """Decode a Secret."""
        try:
            found: Credentials | str = read_secret(
                secret_type=obj.kind_type, data=decode_manifest(obj.raw).get("data") or {}
            )
        except (InvalidKubeconfig, ProtocolError) as error:
            found = f"Secret {obj.key}: {error}"
        owner = read_marks(obj.annotations, of=secret_target(obj.key)).owner
        if obj.kind_type == meta.CLUSTER_API_SECRET_TYPE:
            self.of_cluster_api |= {obj.key}
            # No registry Secret: it does not belong to a member, and no content that came from a member is trusted.
            found, owner = (found if owner is None else f"Secret {obj.key}: {_COPIED}"), None
        if (self._held.get(obj.key), self.owners.get(obj.key)) != (found, owner):
            self._held[obj.key] = found
            self._set_owner(obj.key, owner)
            self._on_change(obj.key)

    def drop_secret(self, key: ObjectKey) -> None:
        """Drop a Secret."""
        self._held.pop(key, None)
        self.of_cluster_api -= {key}
        self._set_owner(key, None)
        self._on_change(key)

    def _set_owner(self, key: ObjectKey, owner: ClusterUID | None) -> None:
        if self.owners.get(key) != owner:
            others = {known: member for known, member in self.owners.items() if known != key}
            self.owners = {**others, key: owner} if owner is not None else others

    def set_error(self, place: _Place, error: RegistryError | None) -> None:
        """Record whether the Secrets of one type in a namespace can be read."""
        if error is None:
            self._complete.add(place)
            self._errors.pop(place, None)
        else:
            self._errors[place] = self._explain(error)
        self._on_change(ObjectKey(place.namespace, ""))


class _SecretHandler(EventHandler):
    def __init__(self, store: CredentialStore, place: _Place) -> None:
        self._store = store
        self._place = place

    def on_object(self, obj: PartialObject) -> None:
        self._store.set_secret(obj)

    def on_delete(self, key: ObjectKey, obj: PartialObject | None) -> None:
        self._store.drop_secret(key)

    def on_synced(self, revision: int) -> None:
        self._store.set_error(self._place, None)

    def on_error(self, error: RegistryError) -> None:
        self._store.set_error(self._place, error)

    def on_recovered(self) -> None:
        self._store.set_error(self._place, None)
