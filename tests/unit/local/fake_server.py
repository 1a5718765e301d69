"""A small API server in memory, for the tests of the local cluster's own objects."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from registry_controller.api import errors, meta
from registry_controller.api.meta import GVR, ObjectKey
from registry_controller.kube.failures import KUBECONFIG
from registry_controller.local import client
from registry_controller.local.manifests import TOKEN_SECRET_TYPE

NAMESPACE = "registry"
READER = "reader"
CA = "-----BEGIN CERTIFICATE-----\ntoken-ca\n-----END CERTIFICATE-----\n"

Body = dict[str, Any]


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


class FakeServer:
    """Stores objects by path; fills token Secrets as Kubernetes does; counts writes."""

    def __init__(self) -> None:
        self.ca_pem = ""
        self.server = "https://own.example:6443"
        self.objects: dict[str, Body] = {}
        self.writes: list[str] = []
        self.forbidden: set[tuple[str, str]] = set()
        self.missing: set[str] = set()
        self.busy = 0
        self.source = KUBECONFIG
        self.reported = ["10.0.0.1:6443"]
        self.fills_tokens = True
        self.unknown: dict[str, tuple[str, ...]] = {}
        self.grants_s = 600
        self.now_s = time.time
        self._revision = 0
        self.put(client.SERVICE_ACCOUNTS, {"metadata": {"name": READER, "namespace": NAMESPACE}})

    def put(self, gvr: GVR, manifest: Mapping[str, Any]) -> Body:
        info = manifest["metadata"]
        self._revision += 1
        stored: Body = json.loads(json.dumps(manifest))
        self._prune(gvr, stored)
        stored["metadata"] |= {"resourceVersion": str(self._revision)}
        stored["metadata"].setdefault("uid", f"uid-{self._revision}")
        stored["metadata"].setdefault("creationTimestamp", f"2026-01-01T00:00:{self._revision:02}Z")
        if self.fills_tokens and stored.get("type") == TOKEN_SECRET_TYPE:
            stored.setdefault("data", {"token": b64(f"token-{self._revision}"), "ca.crt": b64(CA)})
        self.objects[gvr.path(info.get("namespace", ""), info["name"])] = stored
        return stored

    def find(self, gvr: GVR, name: str, namespace: str = "") -> Body | None:
        return self.objects.get(gvr.path(namespace, name))

    def drop(self, gvr: GVR, name: str, namespace: str = "") -> None:
        del self.objects[gvr.path(namespace, name)]

    async def get(self, gvr: GVR, key: ObjectKey) -> bytes:
        self._check("get", gvr)
        found = self.objects.get(gvr.path(key.namespace, key.name))
        if found is None:
            raise errors.NotFound(f"get {gvr} {key}: 404", names_object=True)
        return json.dumps(found).encode()

    async def get_path(self, path: str) -> bytes:
        if path == "/api":
            return json.dumps({"serverAddressByClientCIDRs": self._addresses()}).encode()
        collection = urlsplit(path).path
        self._check_served(collection.rsplit("/", 1)[1])
        if ("list", collection.rsplit("/", 1)[1]) in self.forbidden:
            raise errors.Forbidden("no", status=403, reason="Forbidden", lacks_right=True)
        items = [body for where, body in self.objects.items() if where.rsplit("/", 1)[0] == collection]
        return json.dumps({"items": items}).encode()

    async def create(self, gvr: GVR, namespace: str, body: bytes) -> bytes:
        self._check("create", gvr)
        manifest = json.loads(body)
        if gvr.path(namespace, manifest["metadata"]["name"]) in self.objects:
            raise errors.AlreadyExists("there", status=409, reason="AlreadyExists")
        self.writes.append(f"create {gvr.resource}")
        return json.dumps(self.put(gvr, manifest)).encode()

    async def replace(self, gvr: GVR, key: ObjectKey, body: bytes, *, dry_run: bool, subresource: str = "") -> bytes:
        self._check("update", gvr)
        manifest = json.loads(body)
        self._prune(gvr, manifest)
        current = self.objects[gvr.path(key.namespace, key.name)]
        if manifest["metadata"]["resourceVersion"] != current["metadata"]["resourceVersion"]:
            raise errors.Conflict("stale", status=409, reason="Conflict")
        if dry_run:
            return json.dumps(manifest).encode()
        self.writes.append(f"replace {gvr.resource}{f'/{subresource}' if subresource else ''}")
        return json.dumps(self.put(gvr, manifest)).encode()

    async def apply(
        self, gvr: GVR, key: ObjectKey, body: bytes, *, manager: str, force: bool, subresource: str = ""
    ) -> bytes:
        self._check("patch", gvr)
        self.writes.append(f"apply {gvr.resource}")
        return json.dumps(self.put(gvr, json.loads(body))).encode()

    async def merge_patch(self, gvr: GVR, key: ObjectKey, patch: Mapping[str, Any], *, manager: str = "") -> bytes:
        self._check("patch", gvr)
        current = self.objects[gvr.path(key.namespace, key.name)]
        self.writes.append(f"patch {gvr.resource}")
        return json.dumps(self.put(gvr, {**current, **patch})).encode()

    async def delete(
        self, gvr: GVR, key: ObjectKey, *, uid: str, resource_version: str, propagation: str = "Background"
    ) -> None:
        self._check("delete", gvr)
        self.writes.append(f"delete {gvr.resource}")
        del self.objects[gvr.path(key.namespace, key.name)]

    async def post_path(self, path: str, body: bytes) -> bytes:
        if path.endswith("/selfsubjectaccessreviews"):
            asked = json.loads(body)["spec"]["resourceAttributes"]
            allowed = (asked["verb"], asked["resource"]) not in self.forbidden
            return json.dumps({"status": {"allowed": allowed}}).encode()
        self._check("create", GVR("", "v1", "serviceaccounts/token", True))
        assert path == f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{READER}/token"
        spec = json.loads(body)["spec"]
        bound = spec["boundObjectRef"]
        found = self.find(meta.SECRETS, bound["name"], NAMESPACE)
        assert found is not None
        assert bound == {"apiVersion": "v1", "kind": "Secret", "name": bound["name"], "uid": found["metadata"]["uid"]}
        account = self.find(client.SERVICE_ACCOUNTS, READER, NAMESPACE)
        assert account is not None
        now_s = int(self.now_s())
        claims = {
            "iat": now_s, "exp": now_s + min(self.grants_s, spec["expirationSeconds"]), "jti": str(len(self.writes)),
            "kubernetes.io": {"serviceaccount": {"uid": account["metadata"]["uid"]}, "secret": {"uid": bound["uid"]}},
        }  # fmt: skip
        self.writes.append("issue token")
        token = ".".join(
            base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in ({}, claims, {})
        )
        return json.dumps({"status": {"token": token}}).encode()

    def _prune(self, gvr: GVR, manifest: Body) -> None:
        for field in self.unknown.get(gvr.resource, ()):
            manifest["spec"].pop(field, None)

    def _addresses(self) -> list[Body]:
        self.reported = [*self.reported[1:], self.reported[0]]
        return [{"clientCIDR": "0.0.0.0/0", "serverAddress": self.reported[-1]}] if self.reported[-1] else []

    def _check_served(self, resource: str) -> None:
        if self.busy:
            self.busy -= 1
            raise errors.TooManyRequests("busy", status=429, reason="TooManyRequests")
        if resource in self.missing:
            raise errors.NotFound(f"{resource}: 404")

    def _check(self, verb: str, gvr: GVR) -> None:
        self._check_served(gvr.resource)
        if (verb, gvr.resource) in self.forbidden:
            raise errors.Forbidden(f"{verb}: 403", status=403, reason="Forbidden", lacks_right=True)
