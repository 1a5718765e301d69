"""A group of real clusters with our daemon in each, and the words to talk to it."""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import os
import re
import signal
import sys
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from hack.controlplane import ApiError, Cluster, CommandError, Group, Kubelet
from tests.e2e.reading import Reading
from tests.e2e.writing import Writing

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy" / "helm" / "cluster-registry"
CRDS = ROOT / "crds"
NAMESPACE = "cluster-registry"
BIN = Path(sys.executable).parent
OWNER = "cluster-registry.k8s.cisco.com/resource-owner-cluster-id"
PROVENANCE = "cluster-registry.k8s.cisco.com/provenance"
VIEWER = "system:serviceaccount:default:viewer"
API = "clusterregistry.k8s.cisco.com/v1alpha1"

T = TypeVar("T")


def eventually(look: Callable[[], T], *, within_s: float = 180.0, every_s: float = 0.2, what: str = "") -> T:
    """Look until the answer is true (or stops raising), and return it; fail with the last answer."""
    deadline = time.monotonic() + within_s
    while True:
        last: object
        try:
            found = look()
            if found:
                return found
            last = found
        except (CommandError, AssertionError, KeyError, IndexError) as error:
            last = error
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within_s} s: {what or look}: {last!r}")
        time.sleep(every_s)


def steadily(look: Callable[[], Any], *, for_s: float = 3.0, every_s: float = 0.3, what: str = "") -> None:
    """Hold that the answer is true the whole time."""
    deadline = time.monotonic() + for_s
    while time.monotonic() < deadline:
        assert look(), what or look
        time.sleep(every_s)


def _spell(manifests: Iterable[dict[str, Any]]) -> str:
    """JSON, because YAML reads a name like `y` as a boolean."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(manifests)})


class Member:
    """One cluster with the chart installed and the daemon running as its Deployment says."""

    def __init__(self, cluster: Cluster, *values: str, name: str | None = None) -> None:
        self.cluster = cluster
        self.cluster.api.timeout_s = 60.0  # a busy machine delays an API server by many seconds
        self.name = name or cluster.name
        self.kubelet: Kubelet | None = None
        self._reading = Reading(cluster)
        self._writing = Writing(cluster, self._reading)
        self.values = values
        self.writers: set[str] = set()
        """The accounts of a test's own operators here."""
        self.killed = 0

    def install(self, *flags: str) -> Member:
        """Install the chart, with more flags for helm, and start the daemon."""
        self.cluster.helm(
            "install", "cluster-registry", str(CHART), "--namespace", NAMESPACE, "--create-namespace",
            "--set", f"localCluster.name={self.name}",
            "--set", f"controller.apiServerEndpointAddress={self.cluster.server}",
            "--set", "controller.log.verbosity=1", *flags,
            *(argument for value in self.values for argument in ("--set", value)),
        )  # fmt: skip
        self.kubelet = Kubelet(self.cluster, namespace=NAMESPACE, path_prepend=[BIN])
        self.kubelet.start()
        return self

    @property
    def daemon(self) -> Kubelet:
        assert self.kubelet is not None
        return self.kubelet

    @property
    def id(self) -> str:
        return str(self.get("namespace", "kube-system")["metadata"]["uid"])

    def kill(self, pid: int) -> None:
        """Kill the process of a daemon, which the kubelet starts again."""
        os.kill(pid, signal.SIGKILL)
        self.killed += 1

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Do what kubectl does; a write returns nothing where that was possible without its process."""
        return "" if self._writing.run(arguments) else self.cluster.kubectl(*arguments, stdin=stdin)

    def get(self, *arguments: str) -> dict[str, Any]:
        """Get what `kubectl get` would; CommandError when it is not there."""
        found = self._reading.get(*arguments)
        return found if found is not None else dict(json.loads(self.kubectl("get", *arguments, "-o", "json")))

    def find(self, *arguments: str) -> dict[str, Any] | None:
        """Get an object, or None when the server says that it is not there."""
        try:
            found = self._reading.get(*arguments)
        except CommandError as error:
            if isinstance(error.__cause__, ApiError) and error.__cause__.status == 404:
                return None
            raise
        if found is not None:
            return found
        text = self.kubectl("get", *arguments, "-o", "json", "--ignore-not-found")
        return json.loads(text) if text.strip() else None

    def apply(self, *manifests: dict[str, Any]) -> None:
        if rest := [manifest for manifest in manifests if not self._writing.apply(manifest)]:
            self.kubectl("apply", "-f", "-", stdin=_spell(rest))

    def create(self, *manifests: dict[str, Any]) -> None:
        if rest := [manifest for manifest in manifests if not self._writing.create(manifest)]:
            self.kubectl("create", "-f", "-", stdin=_spell(rest))

    def list_all(self) -> list[dict[str, Any]]:
        """List every object of every kind."""
        return self._reading.list_all()

    def log(self) -> str:
        return self.daemon.log.read_text(errors="replace")

    def condition(self, kind: str, name: str, type_: str) -> dict[str, Any]:
        conditions = self.get(kind, name).get("status", {}).get("conditions", [])
        found: dict[str, Any] = next((c for c in conditions if c["type"] == type_), {})
        return found


def hand_over(giver: Member, taker: Member, *, verb: str = "create") -> None:
    """Carry one member's Cluster and Secret to another, as a person does."""
    for arguments in (("cluster", giver.name), ("-n", NAMESPACE, "secret", giver.name)):
        found = eventually(lambda arguments=arguments: giver.find(*arguments), what=f"{giver.name}: {arguments}")
        if verb == "create":
            taker.create(found)
        else:
            taker.kubectl(verb, "-f", "-", stdin=giver.kubectl("get", *arguments, "-o", "yaml"))


def swap(one: Member, other: Member, *, verb: str = "create") -> None:
    """Hand over both ways."""
    hand_over(one, other, verb=verb)
    hand_over(other, one, verb=verb)


def in_sync(members: Iterable[Member], *, within_s: float = 180.0) -> None:
    """Wait until every member knows every member, Ready and synced."""
    members = list(members)
    for member in members:
        for other in members:
            condition = "Ready" if other is member else "ClustersSynced"
            eventually(
                lambda member=member, other=other, condition=condition: (
                    member.condition("cluster", other.name, condition).get("status") == "True"
                    and member.get("cluster", other.name)["status"]["state"] == "Ready"
                ),
                within_s=within_s,
                what=f"{condition} of {other.name} at {member.name}",
            )


def start_members(group: Group, *values: str) -> list[Member]:
    """Install the daemon in every cluster of a group."""
    members = [Member(cluster, *values).install() for cluster in group]
    for member in members:
        member.daemon.wait_ready(timeout_s=180)
    return members


def grant(member: Member, name: str, groups: list[str], resources: list[str]) -> None:
    """Open kinds for reading by peers and writing by the daemon, by the aggregation labels."""
    rights = (("reader", ["get", "list", "watch"]),
              ("controller", ["get", "list", "watch", "create", "update", "patch", "delete"]))  # fmt: skip
    for role, verbs in rights:
        member.apply(
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRole",
                "metadata": {
                    "name": f"{name}-{role}",
                    "labels": {f"cluster-registry.k8s.cisco.com/{role}-aggregated": "true"},
                },
                "rules": [{"apiGroups": groups, "resources": resources, "verbs": verbs}],
            }
        )


def rule(name: str, kind: dict[str, str], *rules: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """Write a ResourceSyncRule."""
    entries = list(rules) or [{"match": [{}]}]
    return {
        "apiVersion": API,
        "kind": "ResourceSyncRule",
        "metadata": {"name": name},
        "spec": {"groupVersionKind": kind, "rules": entries, **spec},
    }


CONFIG_MAP = {"version": "v1", "kind": "ConfigMap"}
SECRET = {"version": "v1", "kind": "Secret"}


def config_map(name: str, data: dict[str, str], *, namespace: str = "default", **info: Any) -> dict[str, Any]:
    """Write a ConfigMap."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace, **info},
        "data": data,
    }


def secret(name: str, data: dict[str, str], *, namespace: str = "default", **info: Any) -> dict[str, Any]:
    """Write a Secret."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace, **info},
        "stringData": data,
    }


def crd(kind: str, *, scope: str = "Namespaced", versions: tuple[str, ...] = ("v1",)) -> dict[str, Any]:
    """Write the definition of a kind of test.example.com that takes any fields and has a status."""
    plural = f"{kind.lower()}s"
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.test.example.com"},
        "spec": {
            "group": "test.example.com",
            "scope": scope,
            "names": {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"},
            "versions": [
                {"name": name, "served": True, "storage": name == versions[-1], "schema": schema,
                 "subresources": {"status": {}}}
                for name in versions
            ],
        },
    }  # fmt: skip


_READS = frozenset({"get", "list", "watch"})
_KUBERNETES = ("system:kube-", "system:apiserver", "system:serviceaccount:kube-")
_PUBLIC = frozenset({"ca.crt", "namespace"})
_TELLING = 12  # characters from which a value in a Secret is one that would be recognised elsewhere


@contextlib.contextmanager
def joined_group(
    size: int,
    *,
    prefix: str,
    values: tuple[str, ...] = (),
    canaries: tuple[str, ...] = (),
    verb: str = "create",
    has_workloads: bool = False,
) -> Iterator[list[Member]]:
    """Run clusters that form a group by a chain of swaps and may sync ConfigMaps; hold the invariants at the end."""
    with Group(size, prefix=prefix, has_workloads=has_workloads) as group, holding_invariants(*canaries) as members:
        members += start_members(group, *values)
        for member in members:
            grant(member, "configmaps", [""], ["configmaps"])
        for one, other in itertools.pairwise(members):
            swap(one, other, verb=verb)
        in_sync(members)
        yield members


@contextlib.contextmanager
def holding_invariants(*canaries: str) -> Iterator[list[Member]]:
    """Give a list for members; unless a test has failed in it, hold what must be so after every test."""
    members: list[Member] = []
    yield members
    for member in members:
        _hold_who_wrote(member)
        _hold_clean_end(member)
        _hold_no_secret_out(member, canaries)


def _hold_who_wrote(member: Member) -> None:
    """Readers only get, list and watch; nobody writes but the own controller, the admin and Kubernetes.

    A test's user who may only read may ask by dry runs, too.
    """
    account = f"system:serviceaccount:{NAMESPACE}:cluster-registry-controller"
    for line in member.cluster.audit():
        user = line["user"].get("username", "")  # none where a request ended before it was known
        if user and line["verb"] not in _READS and not user.startswith(_KUBERNETES):
            asks = user == VIEWER and "dryRun=All" in line["requestURI"]
            may_write = {"kubernetes-admin", account, *member.writers}
            assert asks or user in may_write, (member.name, user, line["verb"], line["requestURI"])


def _hold_clean_end(member: Member) -> None:
    """No daemon died but of what tests did, and none met what it did not expect."""
    assert member.daemon.restarts == member.killed, f"{member.name}: {member.log()[-3000:]}"
    errors = [line for line in member.log().splitlines() if '"level":"error"' in line or "Traceback" in line]
    assert not errors, f"{member.name}: {errors[:3]}"


def _hold_no_secret_out(member: Member, canaries: Iterable[str]) -> None:
    """What lies in Secrets is in no log, metric, Event, annotation, condition or other object."""
    shown: list[Any] = []
    hidden = set(canaries)
    for item in member.list_all():
        if item["kind"] == "Secret":
            hidden |= _hidden(item.pop("data", None) or {})
        shown.append(item)
    with urllib.request.urlopen(member.daemon.metrics_url, timeout=60) as answer:
        texts = [json.dumps(shown), member.log(), answer.read().decode()]
    for value in hidden:
        for spelled in (value, base64.b64encode(value.encode()).decode().rstrip("=")):
            assert not any(spelled in text for text in texts), f"{member.name}: a value of a Secret got out"


def _hidden(data: dict[str, str]) -> set[str]:
    """List what a Secret hides: its values, and the tokens and keys in a kubeconfig."""
    found = set()
    for key, encoded in data.items():
        value = base64.b64decode(encoded).decode(errors="replace")
        if key not in _PUBLIC and len(value) >= _TELLING:
            found.add(value)
        if key == "kubeconfig":
            found |= set(re.findall(r"(?:token|client-key-data): *[\"']?([\w.=+/-]{12,})", value))
    return found
