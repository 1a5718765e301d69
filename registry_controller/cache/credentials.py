"""The registry Secrets of the local cluster, decoded and checked.

`clusters/resolver.py` and `core/decision/ways.py` decide which of them are used, and `clusters/dialer.py` connects.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from registry_controller.api import meta
from registry_controller.api.errors import InvalidKubeconfig, ProtocolError, RegistryError
from registry_controller.api.meta import ClusterUID, ObjectKey
from registry_controller.cache.members import secret_target
from registry_controller.core.decision.marks import read_marks
from registry_controller.kube.kubeconfig import Credentials, read_secret
from registry_controller.kube.object import PartialObject, decode_manifest
from registry_controller.watch.event_handler import EventHandler


class CredentialStore:
    """Maps each registry Secret to its credentials, or to a message that describes its error.

    `owners` are the members to which Secrets belong by their marks.
    """

    def __init__(self, *, on_change: Callable[[ObjectKey], None]) -> None:
        self.owners: Mapping[ObjectKey, ClusterUID] = {}
        self._held: dict[ObjectKey, Credentials | str] = {}
        self._complete: set[str] = set()
        self._errors: dict[str, RegistryError] = {}
        self._on_change = on_change

    def find(self, key: ObjectKey) -> Credentials | str | None:
        """Return a Secret's credentials, or its error; None while the namespace is not synced yet."""
        found = self._held.get(key)
        if found is not None:
            return found
        error = self._errors.get(key.namespace)
        if error is not None:
            return f"Secret {key} cannot be read: {error}"
        if key.namespace in self._complete:
            return (
                f"Secret {key} of type {meta.REGISTRY_SECRET_TYPE} does not exist; it comes through any member that "
                "can be read, and without one by a new swap"
            )
        return None

    def handler(self, namespace: str) -> EventHandler:
        """Return the event handler for the Secrets of one namespace."""
        return _SecretHandler(self, namespace)

    def set_secret(self, obj: PartialObject) -> None:
        """Decode a Secret."""
        try:
            found: Credentials | str = read_secret(
                secret_type=obj.kind_type, data=decode_manifest(obj.raw).get("data") or {}
            )
        except (InvalidKubeconfig, ProtocolError) as error:
            found = f"Secret {obj.key}: {error}"
        owner = read_marks(obj.annotations, of=secret_target(obj.key)).owner
        if (self._held.get(obj.key), self.owners.get(obj.key)) != (found, owner):
            self._held[obj.key] = found
            self._set_owner(obj.key, owner)
            self._on_change(obj.key)

    def drop_secret(self, key: ObjectKey) -> None:
        """Drop a Secret."""
        self._held.pop(key, None)
        self._set_owner(key, None)
        self._on_change(key)

    def _set_owner(self, key: ObjectKey, owner: ClusterUID | None) -> None:
        if self.owners.get(key) != owner:
            others = {known: member for known, member in self.owners.items() if known != key}
            self.owners = {**others, key: owner} if owner is not None else others

    def set_error(self, namespace: str, error: RegistryError | None) -> None:
        """Record whether the Secrets of a namespace can be read."""
        if error is None:
            self._complete.add(namespace)
            self._errors.pop(namespace, None)
        else:
            self._errors[namespace] = error
        self._on_change(ObjectKey(namespace, ""))


class _SecretHandler(EventHandler):
    def __init__(self, store: CredentialStore, namespace: str) -> None:
        self._store = store
        self._namespace = namespace

    def on_object(self, obj: PartialObject) -> None:
        self._store.set_secret(obj)

    def on_delete(self, key: ObjectKey, obj: PartialObject | None) -> None:
        self._store.drop_secret(key)

    def on_synced(self, revision: int) -> None:
        self._store.set_error(self._namespace, None)

    def on_error(self, error: RegistryError) -> None:
        self._store.set_error(self._namespace, error)

    def on_recovered(self) -> None:
        self._store.set_error(self._namespace, None)
