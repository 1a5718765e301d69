"""What Kubernetes' own controllers do in a simulated cluster: fill token Secrets, end namespaces, collect garbage."""

from __future__ import annotations

import asyncio
import base64
import functools

import trustme

from registry_controller.api.meta import ObjectKey
from tests.sim.cluster.apiserver import ApiServer
from tests.sim.cluster.kinds import BY_KIND
from tests.sim.cluster.store import Change

_TOKEN_TYPE = "kubernetes.io/service-account-token"
_ACCOUNT = "kubernetes.io/service-account.name"
_DELAY_S = 0.2


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
        elif change.kind.kind == "Namespace" and new is not None and new["metadata"].get("deletionTimestamp"):
            loop.call_later(_DELAY_S, self._finish, change.key.name)
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
        self._server.store.replace(kind, key, {**held, "data": encoded}, manager="kube-controller-manager")

    def _finish(self, namespace: str) -> None:
        kind, key = BY_KIND["Namespace"], ObjectKey("", namespace)
        if key in self._server.store.all(kind) and not self._server.store.finish(namespace):
            asyncio.get_running_loop().call_later(_DELAY_S, self._finish, namespace)

    def _collect(self, uid: str) -> None:
        """Delete what only a deleted object owned."""
        for kind in BY_KIND.values():
            for key, found in list(self._server.store.all(kind).items()):
                owners = found["metadata"].get("ownerReferences") or []
                if owners and all(owner.get("uid") == uid for owner in owners):
                    self._server.store.delete(kind, key)
