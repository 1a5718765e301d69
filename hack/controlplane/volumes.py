"""The volumes of a container: the ServiceAccount's token, Secrets and ConfigMaps.

Law: as with a kubelet, all files of a volume change at once: they are symlinks into `..data`, a symlink that is
replaced atomically. A program that has a file open continues to read the old content."""

from __future__ import annotations

import base64
import os
import shutil
import uuid
from collections.abc import Mapping
from pathlib import Path

from .api import Manifest
from .cluster import Cluster
from .errors import ApiError, UnsupportedError

TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"


def write_volume(directory: Path, files: Mapping[str, bytes]) -> None:
    """Fill a volume, or replace all of its content at once."""
    directory.mkdir(parents=True, exist_ok=True)
    data = directory / "..data"
    old = data.readlink() if data.is_symlink() else None
    new = directory / f"..{uuid.uuid4().hex[:12]}"
    new.mkdir()
    for name, content in files.items():
        (new / name).write_bytes(content)
        (new / name).chmod(0o644)
        if not (directory / name).is_symlink():
            (directory / name).symlink_to(Path("..data") / name)
    swap = directory / "..data_tmp"
    swap.symlink_to(new.name)
    os.replace(swap, data)  # noqa: PTH105 - Path.replace reads as if it replaced text
    if old is not None:
        shutil.rmtree(directory / old)


def token_files(cluster: Cluster, *, namespace: str, service_account: str, duration_s: int) -> dict[str, bytes]:
    """Request a token (TokenRequest API), and write it with the CA and the namespace."""
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{service_account}/token"
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": duration_s},
    }
    answer = cluster.api.request("POST", path, body=body)
    return {
        "token": answer["status"]["token"].encode(),
        "ca.crt": cluster.pki.server_ca.read_bytes(),
        "namespace": namespace.encode(),
    }


def read_data(cluster: Cluster, *, namespace: str, kind: str, name: str) -> dict[str, bytes] | None:
    """Return the data of a Secret or a ConfigMap ("secrets", "configmaps"); None when it does not exist."""
    try:
        found = cluster.api.get(f"/api/v1/namespaces/{namespace}/{kind}/{name}")
    except ApiError as error:
        if error.status == 404:
            return None
        raise
    binary = found.get("data" if kind == "secrets" else "binaryData") or {}
    text = {} if kind == "secrets" else found.get("data") or {}
    return {
        **{key: value.encode() for key, value in text.items()},
        **{key: base64.b64decode(value) for key, value in binary.items()},
    }


def volume_files(cluster: Cluster, *, namespace: str, volume: Manifest) -> dict[str, bytes] | None:
    """Return the content of a declared volume; None for an emptyDir."""
    match volume:
        case {"emptyDir": _}:
            return None
        case {"secret": dict() as source}:
            kind, name = "secrets", source["secretName"]
        case {"configMap": dict() as source}:
            kind, name = "configmaps", source["name"]
        case _:
            raise UnsupportedError(f"volume {volume['name']} is of a kind that is not implemented")
    data = read_data(cluster, namespace=namespace, kind=kind, name=name)
    if data is None and not source.get("optional"):
        raise UnsupportedError(f"{kind} {name} does not exist, and volume {volume['name']} needs it")
    if "items" not in source:
        return data or {}
    return {item["path"]: data[item["key"]] for item in source["items"] if data is not None}
