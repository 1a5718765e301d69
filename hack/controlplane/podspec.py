"""The pod template of a Deployment, read once into plain data, and its environment, resolved as a kubelet does.

Law: no I/O; the caller reads Secrets and ConfigMaps. A field that is not implemented raises UnsupportedError instead of
being ignored."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .api import Manifest
from .errors import UnsupportedError

_REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z_.-][\w.-]*)\)")
_KEYED_FIELD = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]")

Lookup = Callable[[str, str], Mapping[str, bytes] | None]
"""(kind, name) -> the data of the "secrets" or "configmaps" object in the namespace; None when it does not exist."""


@dataclass(frozen=True, slots=True)
class Probe:
    """An httpGet probe; `port` may be a name."""

    path: str
    port: int | str
    scheme: str
    headers: tuple[tuple[str, str], ...]
    initial_delay_s: float
    period_s: float
    timeout_s: float
    success_threshold: int
    failure_threshold: int


@dataclass(frozen=True, slots=True)
class Mount:
    """The place of a volume in the container."""

    volume: str
    path: str


@dataclass(frozen=True, slots=True)
class Container:
    """The one container of the pod."""

    name: str
    command: tuple[str, ...]
    args: tuple[str, ...]
    working_directory: str
    env: tuple[Manifest, ...]
    env_from: tuple[Manifest, ...]
    ports: Mapping[str, int]
    startup: Probe | None
    liveness: Probe | None
    readiness: Probe | None
    mounts: tuple[Mount, ...]
    has_read_only_root: bool
    drops_capabilities: bool
    may_gain_privileges: bool


@dataclass(frozen=True, slots=True)
class Template:
    """A pod template; two with the same digest are the same."""

    digest: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    service_account: str
    mounts_token: bool | None  # None: the ServiceAccount decides
    grace_s: float
    container: Container
    volumes: Mapping[str, Manifest]


@dataclass(frozen=True, slots=True)
class Deployment:
    """The fields of a Deployment that a kubelet needs.

    During a rollout, `surge` more Pods than `replicas` may run, and `lack` fewer may be ready.
    """

    namespace: str
    name: str
    uid: str
    generation: int
    replicas: int
    surge: int
    lack: int
    template: Template
    status: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PodFacts:
    """The pod's fields in the downward API."""

    name: str
    namespace: str
    uid: str
    node: str
    ip: str = "127.0.0.1"


def read_deployment(manifest: Manifest) -> Deployment:
    """Read a Deployment that has the API server's defaults."""
    metadata, spec = manifest["metadata"], manifest["spec"]
    replicas = 0 if "deletionTimestamp" in metadata else spec.get("replicas", 1)
    surge, lack = _rolling(spec["strategy"], replicas)
    return Deployment(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        generation=metadata["generation"],
        replicas=replicas,
        surge=surge,
        lack=lack,
        template=_template(spec["template"]),
        status=manifest.get("status", {}),
    )


def _rolling(strategy: Manifest, replicas: int) -> tuple[int, int]:
    """Return a strategy's maxSurge, rounded up, and maxUnavailable, rounded down; one of them is not 0."""
    if strategy["type"] == "Recreate":
        return 0, replicas
    rolling = strategy["rollingUpdate"]
    surge = _share(rolling["maxSurge"], replicas, math.ceil)
    lack = _share(rolling["maxUnavailable"], replicas, math.floor)
    return (surge, lack) if surge or lack else (0, 1)


def _share(value: int | str, of: int, rounded: Callable[[float], int]) -> int:
    return value if isinstance(value, int) else rounded(of * int(value.removesuffix("%")) / 100)


def resolve_env(template: Template, *, facts: PodFacts, lookup: Lookup) -> dict[str, str]:
    """Return the declared environment: envFrom, then env in its order; $(NAME) refers to earlier variables."""
    env: dict[str, str] = {}
    for source in template.container.env_from:
        env |= _bulk(source, lookup)
    for item in template.container.env:
        value = _value(item, template, facts, lookup, env)
        if value is not None:
            env[item["name"]] = value
    return env


def expand(text: str, env: Mapping[str, str]) -> str:
    """Replace $(NAME); an unknown name stays, and $$ is a dollar sign."""
    return _REFERENCE.sub(
        lambda found: "$" if found[0] == "$$" else env.get(found[1], found[0]),
        text,
    )


def _bulk(source: Manifest, lookup: Lookup) -> dict[str, str]:
    kind, reference = (
        ("secrets", source["secretRef"]) if "secretRef" in source else ("configmaps", source["configMapRef"])
    )
    data = lookup(kind, reference["name"])
    if data is None and not reference.get("optional"):
        raise UnsupportedError(f"{kind} {reference['name']} does not exist, and envFrom needs it")
    return {source.get("prefix", "") + key: value.decode() for key, value in (data or {}).items()}


def _value(item: Manifest, template: Template, facts: PodFacts, lookup: Lookup, env: Mapping[str, str]) -> str | None:
    """Return the value of one variable; None for an optional reference to a missing object or key."""
    match item.get("valueFrom"):
        case None:
            return expand(item.get("value", ""), env)
        case {"fieldRef": {"fieldPath": str() as path}}:
            return _field(path, template, facts)
        case {"secretKeyRef": dict() as reference}:
            return _key("secrets", reference, lookup)
        case {"configMapKeyRef": dict() as reference}:
            return _key("configmaps", reference, lookup)
        case other:
            raise UnsupportedError(f"variable {item['name']} comes from {sorted(other)}, which is not implemented")


def _field(path: str, template: Template, facts: PodFacts) -> str:
    fields = {
        "metadata.name": facts.name,
        "metadata.namespace": facts.namespace,
        "metadata.uid": facts.uid,
        "spec.nodeName": facts.node,
        "spec.serviceAccountName": template.service_account,
        "status.podIP": facts.ip,
        "status.podIPs": facts.ip,
        "status.hostIP": facts.ip,
        "status.hostIPs": facts.ip,
    }
    if (keyed := _KEYED_FIELD.fullmatch(path)) is not None:
        return (template.labels if keyed[1] == "labels" else template.annotations).get(keyed[2], "")
    if path not in fields:
        raise UnsupportedError(f"fieldRef {path} is not implemented")
    return fields[path]


def _key(kind: str, reference: Manifest, lookup: Lookup) -> str | None:
    data = lookup(kind, reference["name"])
    if data is not None and reference["key"] in data:
        return data[reference["key"]].decode()
    if reference.get("optional"):
        return None
    raise UnsupportedError(f"{kind} {reference['name']} has no key {reference['key']}, or does not exist")


def _template(manifest: Manifest) -> Template:
    spec, metadata = manifest["spec"], manifest.get("metadata", {})
    if len(spec["containers"]) != 1 or spec.get("initContainers"):
        raise UnsupportedError("only pods with one container and without init containers are implemented")
    return Template(
        digest=hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()[:10],
        labels=metadata.get("labels") or {},
        annotations=metadata.get("annotations") or {},
        service_account=spec.get("serviceAccountName", "default"),
        mounts_token=spec.get("automountServiceAccountToken"),
        grace_s=float(spec.get("terminationGracePeriodSeconds", 30)),
        container=_container(spec["containers"][0]),
        volumes={volume["name"]: volume for volume in spec.get("volumes", [])},
    )


def _container(manifest: Manifest) -> Container:
    security = manifest.get("securityContext", {})
    return Container(
        name=manifest["name"],
        command=tuple(manifest.get("command", [])),
        args=tuple(manifest.get("args", [])),
        working_directory=manifest.get("workingDir", "/"),
        env=tuple(manifest.get("env", [])),
        env_from=tuple(manifest.get("envFrom", [])),
        ports={port["name"]: port["containerPort"] for port in manifest.get("ports", []) if "name" in port},
        startup=_probe(manifest.get("startupProbe")),
        liveness=_probe(manifest.get("livenessProbe")),
        readiness=_probe(manifest.get("readinessProbe")),
        mounts=_mounts(manifest.get("volumeMounts", [])),
        has_read_only_root=security.get("readOnlyRootFilesystem", False),
        drops_capabilities="ALL" in security.get("capabilities", {}).get("drop", []),
        may_gain_privileges=security.get("allowPrivilegeEscalation", True),
    )


def _mounts(manifests: Sequence[Manifest]) -> tuple[Mount, ...]:
    for manifest in manifests:
        if manifest.get("subPath") or manifest.get("subPathExpr"):
            raise UnsupportedError(f"volume mount {manifest['name']}: subPath is not implemented")
    return tuple(Mount(manifest["name"], path=manifest["mountPath"].rstrip("/")) for manifest in manifests)


def _probe(manifest: Manifest | None) -> Probe | None:
    if manifest is None:
        return None
    if "httpGet" not in manifest:
        raise UnsupportedError("only httpGet probes are implemented")
    get = manifest["httpGet"]
    return Probe(
        path=get.get("path", "/"),
        port=get["port"],
        scheme=get.get("scheme", "HTTP").lower(),
        headers=tuple((header["name"], header["value"]) for header in get.get("httpHeaders", [])),
        initial_delay_s=manifest.get("initialDelaySeconds", 0),
        period_s=manifest.get("periodSeconds", 10),
        timeout_s=manifest.get("timeoutSeconds", 1),
        success_threshold=manifest.get("successThreshold", 1),
        failure_threshold=manifest.get("failureThreshold", 3),
    )
