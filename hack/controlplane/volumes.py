"""What is mounted into a container: the ServiceAccount's token, Secrets and ConfigMaps.

Law: a volume changes as a kubelet changes it, all files at once: they are symlinks into `..data`, itself a
symlink that is replaced atomically. Who holds a file open goes on reading the old one.
"""

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
    """Ask the TokenRequest API for a token, and put the CA and the namespace beside it."""
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
    """Read the data of a Secret or a ConfigMap ("secrets", "configmaps"); None: there is none."""
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
    """Read what a declared volume holds; None: it is an emptyDir."""
    match volume:
        case {"emptyDir": _}:
            return None
        case {"secret": dict() as source}:
            kind, name = "secrets", source["secretName"]
        case {"configMap": dict() as source}:
            kind, name = "configmaps", source["name"]
        case _:
            raise UnsupportedError(f"volume {volume['name']} is of a kind that is not played here")
    data = read_data(cluster, namespace=namespace, kind=kind, name=name)
    if data is None and not source.get("optional"):
        raise UnsupportedError(f"{kind} {name} is not there, volume {volume['name']} needs it")
    if "items" not in source:
        return data or {}
    return {item["path"]: data[item["key"]] for item in source["items"] if data is not None}
