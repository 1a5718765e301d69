"""What controllers do in a simulated cluster: fill token Secrets, collect garbage, mirror objects; and when a namespace
or a definition is deleted, delete all that is in it.

As the mirroring controller of EndpointSlices does, one makes an object from each ConfigMap with the label `MIRRORED`,
with its annotations and its other labels, and owns it.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import functools

import trustme

from registry_controller.api.meta import ObjectKey
from tests.sim.cluster.apiserver import ApiServer
from tests.sim.cluster.kinds import BY_DEFINITION, BY_KIND
from tests.sim.cluster.refusal import Refusal
from tests.sim.cluster.store import CLEANUP, Change

_TOKEN_TYPE = "kubernetes.io/service-account-token"
_MANAGER = "kube-controller-manager"
_ACCOUNT = "kubernetes.io/service-account.name"
_DELAY_S = 0.2
_DEFINITION = BY_KIND["CustomResourceDefinition"]
MIRRORED = "sim.example/mirrored"
_MIRROR = "-mirror"


@functools.cache
def ca_pem(generation: int = 0) -> str:
    """Make the CA of all simulated clusters that were built so often: real PEM, because it is read as such."""
    return trustme.CA(key_type=trustme.KeyType.ECDSA).cert_pem.bytes().decode()


class Controllers:
    """The controllers of one cluster."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        server.store.listeners.append(self._hear)

    def _hear(self, change: Change) -> None:
        loop = asyncio.get_running_loop()
        new = change.new
        if change.kind.kind == "Secret":
            self._hear_secret(change)
        elif change.kind.kind == "ConfigMap":
            loop.call_later(_DELAY_S, self._mirror, change.key._replace(name=change.key.name.removesuffix(_MIRROR)))
        elif change.kind.kind == "Namespace" and new is not None and new["metadata"].get("deletionTimestamp"):
            loop.call_later(_DELAY_S, self._finish, change.key.name)
        elif change.kind is _DEFINITION and new is not None and CLEANUP in new["metadata"].get("finalizers", ()):
            loop.call_later(_DELAY_S, self._finish_definition, change.key)
        if new is None and change.old is not None:
            loop.call_later(_DELAY_S, self._collect, change.old["metadata"]["uid"])

    def _hear_secret(self, change: Change) -> None:
        held = change.new or change.old
        assert held is not None
        if held.get("type") != _TOKEN_TYPE:
            return
        token = base64.b64decode((held.get("data") or {}).get("token") or "").decode()
        if change.new is None:
            self._server.tokens.discard(token)
        elif not token:
            asyncio.get_running_loop().call_later(_DELAY_S, self._fill, change.key)

    def _fill(self, key: ObjectKey) -> None:
        kind = BY_KIND["Secret"]
        held = self._server.store.all(kind).get(key)
        if held is None or (held.get("data") or {}).get("token"):
            return
        account = ObjectKey(key.namespace, held["metadata"].get("annotations", {}).get(_ACCOUNT, ""))
        if account not in self._server.store.all(BY_KIND["ServiceAccount"]):
            self._server.store.delete(kind, key)
            return
        token = f"token-{self._server.store.new_uid()}"
        self._server.tokens.add(token)
        data = {"token": token, "ca.crt": ca_pem(self._server.generation), "namespace": key.namespace}
        encoded = {name: base64.b64encode(text.encode()).decode() for name, text in data.items()}
        self._server.store.replace(kind, key, {**held, "data": encoded}, manager=_MANAGER)

    def _mirror(self, key: ObjectKey) -> None:
        """Make the mirror of a ConfigMap, or bring it up to date."""
        kind, store = BY_KIND["ConfigMap"], self._server.store
        base, at = store.all(kind).get(key), key._replace(name=key.name + _MIRROR)
        if base is None or base["metadata"].get("deletionTimestamp"):
            return
        info = base["metadata"]
        labels = dict(info.get("labels") or {})
        if labels.pop(MIRRORED, None) is None:
            return
        owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": key.name, "uid": info["uid"], "controller": True}
        made = {"kind": "ConfigMap", "data": base.get("data") or {}}
        made["metadata"] = {
            "name": at.name, "namespace": at.namespace, "labels": labels,
            "annotations": dict(info.get("annotations") or {}), "ownerReferences": [owner],
        }  # fmt: skip
        found = store.all(kind).get(at)
        if found is None:
            with contextlib.suppress(Refusal):
                store.create(kind, at.namespace, made, manager=_MANAGER)
        elif found["metadata"].get("ownerReferences") == [owner] and found.get("data") != made["data"]:
            store.replace(kind, at, {**found, "data": made["data"]}, manager=_MANAGER)

    def _finish(self, namespace: str) -> None:
        kind, key = BY_KIND["Namespace"], ObjectKey("", namespace)
        if key in self._server.store.all(kind) and not self._server.store.finish(namespace):
            asyncio.get_running_loop().call_later(_DELAY_S, self._finish, namespace)

    def _finish_definition(self, key: ObjectKey) -> None:
        found = self._server.store.all(_DEFINITION).get(key)
        if found is None or CLEANUP not in found["metadata"].get("finalizers", ()):
            return
        if not self._server.store.finish_definition(key, BY_DEFINITION.get(key.name)):
            asyncio.get_running_loop().call_later(_DELAY_S, self._finish_definition, key)

    def _collect(self, uid: str) -> None:
        """Delete what only a deleted object owned."""
        for kind in BY_KIND.values():
            for key, found in list(self._server.store.all(kind).items()):
                owners = found["metadata"].get("ownerReferences") or []
                if owners and all(owner.get("uid") == uid for owner in owners):
                    self._server.store.delete(kind, key)
