"""Reads kubeconfigs of peers as untrusted data, and writes the kubeconfig that this cluster publishes. No I/O.

Law: fields are read by an allow-list. Any other field is refused by name, before a process, file or connection.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import yaml

from registry_controller.api import meta
from registry_controller.api.cluster import Endpoint
from registry_controller.api.errors import InvalidKubeconfig
from registry_controller.kube.address import read_address, read_server
from registry_controller.kube.pem import decode_base64, read_ca, read_key_pair
from registry_controller.kube.strict_yaml import load_document

_KEYS: Final[Mapping[str, Sequence[str]]] = {
    meta.REGISTRY_SECRET_TYPE: (meta.KUBECONFIG_KEY, "value", "Config"),
    meta.CLUSTER_API_SECRET_TYPE: ("value",),
}
"""The keys of a Secret that may hold its kubeconfig, by the type of the Secret."""
_TOP: Final = frozenset(
    {"apiVersion", "kind", "clusters", "users", "contexts", "current-context", "preferences", "extensions"}
)
_ENTRY: Final = {
    "cluster": frozenset(
        {"server", "certificate-authority-data", "tls-server-name", "insecure-skip-tls-verify", "extensions"}
    ),
    "user": frozenset({"token", "client-certificate-data", "client-key-data", "extensions"}),
    "context": frozenset({"cluster", "user", "namespace", "extensions"}),
}
_CREDENTIALS: Final = "; use token, or client-certificate-data with client-key-data"
_FLATTEN: Final = "-data instead, which kubectl config view --flatten --minify --raw writes"
_ADVICE: Final[Mapping[str, str]] = {
    "certificate-authority": f"; use certificate-authority{_FLATTEN}",
    "proxy-url": "; a peer is reached directly",
    "insecure-skip-tls-verify": "; use certificate-authority-data",
    "client-certificate": f"; use client-certificate{_FLATTEN}",
    "client-key": f"; use client-key{_FLATTEN}",
    "tokenFile": "; use token",
    **dict.fromkeys(("exec", "auth-provider", "username", "password"), _CREDENTIALS),
    **dict.fromkeys(
        ("as", "as-uid", "as-groups", "as-user-extra"), "; the daemon uses the identity of the credentials"
    ),
}
"""The advice for a field that kubectl knows and this project refuses."""
_FIELD_NAME: Final = re.compile(r"[A-Za-z][A-Za-z-]{0,39}\Z")  # no token and no password looks like this by chance
_DUMPER: Final = getattr(yaml, "CSafeDumper", yaml.SafeDumper)  # libyaml is ten times faster, where PyYAML has it
_TOKEN: Final = re.compile(r"[\x21-\x7e]+\Z")
_TOKEN_CHARS: Final = 16 * 1024  # Go's servers take 1 MiB of headers; the longest tokens of providers have 4 KiB
_SERVER_NAME: Final = re.compile(r"[A-Za-z0-9_.:-]{1,253}\Z")
_ADDRESS_FIELD: Final = "spec.kubernetesApiEndpoints.serverAddress"
_BUNDLE_FIELD: Final = "spec.kubernetesApiEndpoints.caBundle"


@dataclass(frozen=True, slots=True)
class Credentials:
    """The address and credentials of one API server. Certificates and keys are PEM; an empty CA means the system's."""

    server: str
    ca_pem: str = field(repr=False)
    token: str = field(repr=False)
    client_certificate_pem: str = field(repr=False)
    client_key_pem: str = field(repr=False)
    tls_server_name: str

    @property
    def server_address(self) -> tuple[str, str]:
        """Return the server and its TLS name: one address may lead to several servers, by that name."""
        return (self.server, self.tls_server_name)

    @property
    def verified_address(self) -> tuple[str, str, str]:
        """Return the address with the CA that verifies it, without our credentials."""
        return (*self.server_address, self.ca_pem)


def read_secret(*, secret_type: str, data: Mapping[str, str]) -> Credentials:
    """Read a registry Secret, or one of Cluster API (`data` is base64, as in the API).

    Raises InvalidKubeconfig with the field's name. Both are untrusted: the Secret may come from a peer's server.
    """
    key = find_key(secret_type=secret_type, data=data)
    encoded = data[key]
    if not isinstance(encoded, str):
        raise InvalidKubeconfig(f"data.{key}: is not a text")
    return _read_kubeconfig(load_document(_decode(encoded, field=f"data.{key}")))


def find_key(*, secret_type: str, data: Mapping[str, str]) -> str:
    """Return the key of a Secret's data that holds the kubeconfig; raise InvalidKubeconfig where there is none."""
    keys = _KEYS.get(secret_type) if isinstance(secret_type, str) else None
    if keys is None:
        raise InvalidKubeconfig(f"type: must be {meta.REGISTRY_SECRET_TYPE}, or {meta.CLUSTER_API_SECRET_TYPE}")
    if not isinstance(data, Mapping):
        raise InvalidKubeconfig("data: is not a mapping")
    found = next((key for key in keys if data.get(key)), None)
    if found is None:
        raise InvalidKubeconfig(f"data.{keys[0]}: is missing")
    return found


def with_endpoint(credentials: Credentials, endpoint: Endpoint | None) -> Credentials:
    """Apply the address and CA of a Cluster's endpoint; raise InvalidKubeconfig with the field's name."""
    if endpoint is None:
        return credentials
    if endpoint.server_address.strip():
        server = read_address(endpoint.server_address, field=_ADDRESS_FIELD)
        credentials = replace(credentials, server=server, tls_server_name="")
    if endpoint.ca_bundle.strip():
        bundle = decode_base64(endpoint.ca_bundle, field=_BUNDLE_FIELD)
        credentials = replace(credentials, ca_pem=read_ca(bundle, field=_BUNDLE_FIELD))
    return credentials


def render(*, cluster_name: str, server: str, ca_pem: str, user: str, token: str) -> str:
    """Return the kubeconfig to publish: one cluster, one user, one context, with inline data."""
    cluster = {"server": server}
    if ca_pem:
        cluster["certificate-authority-data"] = base64.b64encode(ca_pem.encode()).decode()
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": cluster_name, "cluster": cluster}],
        "contexts": [{"name": cluster_name, "context": {"cluster": cluster_name, "user": user}}],
        "current-context": cluster_name,
        "preferences": {},
        "users": [{"name": user, "user": {"token": token}}],
    }
    return str(yaml.dump(document, Dumper=_DUMPER, width=10**9))


def _decode(encoded: str, *, field: str) -> str:
    try:
        return decode_base64(encoded, field=field).decode()
    except UnicodeDecodeError:
        pass
    raise InvalidKubeconfig(f"{field}: is not UTF-8")  # outside of the except: Python's error holds all the bytes


def _read_kubeconfig(document: Any) -> Credentials:
    top = _mapping(document, path="kubeconfig", allowed=_TOP)
    if top.get("apiVersion") not in (None, "", "v1") or top.get("kind") not in (None, "", "Config"):
        raise InvalidKubeconfig("apiVersion, kind: must be v1 and Config")
    clusters, users, contexts = (_entries(top, kind) for kind in _ENTRY)
    current = _text(top, "current-context", path="current-context")
    if not current:
        raise InvalidKubeconfig("current-context: is missing; name one of the contexts")
    if current not in contexts:
        raise InvalidKubeconfig("current-context: names no context; name one of the contexts")
    path, context = contexts[current]
    cluster_path, cluster = _chosen(context, "cluster", among=clusters, path=path)
    user_path, user = _chosen(context, "user", among=users, path=path)
    return _read_credentials(cluster, user, cluster_path=cluster_path, user_path=user_path)


def _read_credentials(
    cluster: Mapping[str, Any], user: Mapping[str, Any], *, cluster_path: str, user_path: str
) -> Credentials:
    ca_field = f"{cluster_path}.certificate-authority-data"
    ca = _text(cluster, "certificate-authority-data", path=ca_field)
    token = _text(user, "token", path=f"{user_path}.token")
    if token and not _TOKEN.match(token):
        raise InvalidKubeconfig(f"{user_path}.token: must be printable ASCII, without spaces and line breaks")
    if len(token) > _TOKEN_CHARS:
        raise InvalidKubeconfig(f"{user_path}.token: is longer than {_TOKEN_CHARS} characters")
    server_name = _text(cluster, "tls-server-name", path=f"{cluster_path}.tls-server-name")
    if server_name and not _SERVER_NAME.match(server_name):
        raise InvalidKubeconfig(f"{cluster_path}.tls-server-name: is not a host name")
    certificate, key = (
        _text(user, name, path=f"{user_path}.{name}") for name in ("client-certificate-data", "client-key-data")
    )
    if bool(certificate) != bool(key):
        raise InvalidKubeconfig(f"{user_path}: has one of client-certificate-data and client-key-data; both are needed")
    pair = ("", "")
    if certificate:
        raw = decode_base64(certificate, field=f"{user_path}.client-certificate-data")
        pair = read_key_pair(raw, decode_base64(key, field=f"{user_path}.client-key-data"), field=user_path)
    if not token and not certificate:
        raise InvalidKubeconfig(f"{user_path}: has no credentials; a token or a client certificate is needed")
    return Credentials(
        server=read_server(_text(cluster, "server", path=f"{cluster_path}.server"), field=f"{cluster_path}.server"),
        ca_pem=read_ca(decode_base64(ca, field=ca_field), field=ca_field) if ca else "",
        token=token,
        client_certificate_pem=pair[0],
        client_key_pem=pair[1],
        tls_server_name=server_name,
    )


def _entries(top: Mapping[str, Any], kind: str) -> dict[str, tuple[str, Mapping[str, Any]]]:
    """Read the entries of `clusters`, `users` or `contexts`; all must be valid, also unused ones."""
    items = top.get(f"{kind}s") or []
    if not isinstance(items, list):
        raise InvalidKubeconfig(f"{kind}s: is not a list")
    found: dict[str, tuple[str, Mapping[str, Any]]] = {}
    for index, item in enumerate(items):
        path = f"{kind}s[{index}]"
        entry = _mapping(item, path=path, allowed=frozenset({"name", kind}))
        name = _text(entry, "name", path=f"{path}.name")
        if not name or name in found:
            raise InvalidKubeconfig(f"{path}.name: is missing, or another entry has the same name")
        body = _mapping(entry.get(kind) or {}, path=f"{path}.{kind}", allowed=_ENTRY[kind])
        if body.get("insecure-skip-tls-verify", False) is not False:
            raise _refuse("insecure-skip-tls-verify", path=f"{path}.{kind}")
        found[name] = (f"{path}.{kind}", body)
    return found


def _chosen(
    context: Mapping[str, Any], kind: str, *, among: Mapping[str, tuple[str, Mapping[str, Any]]], path: str
) -> tuple[str, Mapping[str, Any]]:
    name = _text(context, kind, path=f"{path}.{kind}")
    if name not in among:
        raise InvalidKubeconfig(f"{path}.{kind}: names no {kind} of the kubeconfig")
    return among[name]


def _mapping(value: Any, *, path: str, allowed: frozenset[str]) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise InvalidKubeconfig(f"{path}: is not a mapping")
    for name, found in value.items():
        if name not in allowed and found is not None:
            raise _refuse(name, path=path)
    return value


def _refuse(name: str, *, path: str) -> InvalidKubeconfig:
    shown = f"{path}.{name}" if _FIELD_NAME.match(name) else f"{path}: a field in it"
    return InvalidKubeconfig(f"{shown}: is not allowed{_ADVICE.get(name, '')}")


def _text(mapping: Mapping[str, Any], name: str, *, path: str) -> str:
    value = mapping.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InvalidKubeconfig(f"{path}: is not a text; put it in quotes")
    return value
