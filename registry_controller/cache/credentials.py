"""The registry Secrets here, read and judged: credentials, or the words that say what is wrong with them."""

from __future__ import annotations

from collections.abc import Callable

from registry_controller.api import meta
from registry_controller.api.errors import InvalidKubeconfig, ProtocolError, RegistryError
from registry_controller.api.meta import ObjectKey
from registry_controller.kube.kubeconfig import Credentials, read_secret
from registry_controller.kube.watch import PartialObject, decode_manifest
from registry_controller.watch.event_handler import EventHandler


class CredentialStore:
    """Registry Secrets here, read and judged: credentials, or the words that say what is wrong with them."""

    def __init__(self, *, on_change: Callable[[ObjectKey], None]) -> None:
        self._held: dict[ObjectKey, Credentials | str] = {}
        self._complete: set[str] = set()
        self._errors: dict[str, RegistryError] = {}
        self._on_change = on_change

    def find(self, key: ObjectKey) -> Credentials | str | None:
        """Find a Secret's credentials, or the problem with them; None while the namespace was not heard yet."""
        found = self._held.get(key)
        if found is not None:
            return found
        error = self._errors.get(key.namespace)
        if error is not None:
            return f"Secret {key} cannot be read: {error}"
        if key.namespace in self._complete:
            return f"Secret {key} of type {meta.REGISTRY_SECRET_TYPE} does not exist"
        return None

    def handler(self, namespace: str) -> EventHandler:
        """Make the sink for one namespace."""
        return _SecretHandler(self, namespace)

    def upsert(self, obj: PartialObject) -> None:
        """Hear a Secret."""
        try:
            found: Credentials | str = read_secret(
                secret_type=obj.kind_type, data=decode_manifest(obj.raw).get("data") or {}
            )
        except (InvalidKubeconfig, ProtocolError) as error:
            found = f"Secret {obj.key}: {error}"
        if self._held.get(obj.key) != found:
            self._held[obj.key] = found
            self._on_change(obj.key)

    def remove(self, key: ObjectKey) -> None:
        """Hear that a Secret is gone."""
        self._held.pop(key, None)
        self._on_change(key)

    def judge(self, namespace: str, error: RegistryError | None) -> None:
        """Hear whether a namespace's Secrets can be heard."""
        if error is None:
            self._complete.add(namespace)
            self._errors.pop(namespace, None)
        else:
            self._errors[namespace] = error
        self._on_change(ObjectKey(namespace, ""))


class _SecretHandler:
    def __init__(self, store: CredentialStore, namespace: str) -> None:
        self._store = store
        self._namespace = namespace

    def on_object(self, obj: PartialObject) -> None:
        self._store.upsert(obj)

    def on_delete(self, key: ObjectKey, obj: PartialObject | None) -> None:
        self._store.remove(key)

    def on_synced(self, revision: int) -> None:
        self._store.judge(self._namespace, None)

    def on_error(self, error: RegistryError) -> None:
        self._store.judge(self._namespace, error)

    def on_recovered(self) -> None:
        self._store.judge(self._namespace, None)

    def on_reset(self) -> None:
        pass
