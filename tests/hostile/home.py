"""A home with the real daemon in it: who is introduced to it, what it says, what is here, and what that costs."""

from __future__ import annotations

import base64
import contextlib
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import yaml

from hack.controlplane.errors import ApiError
from registry_controller.api import meta
from tests.e2e.group import NAMESPACE, Member, eventually
from tests.hostile.cases import Case, config_map
from tests.hostile.server.stranger import Elsewhere, Grounds, Stranger, Victims
from tests.hostile.server.world import Manifest
from tests.hostile.shown import MAPS

REGISTRY: Final = "/apis/clusterregistry.k8s.cisco.com/v1alpha1"
SECRETS: Final = f"/api/v1/namespaces/{NAMESPACE}/secrets"
WORDS_S: Final = 240.0
FOLLOW_S: Final = 180.0  # how long it took is printed: on an idle machine at most six seconds


class Home:
    """The cluster under siege, as its admin sees it."""

    def __init__(self, member: Member, grounds: Grounds) -> None:
        self.member = member
        self.grounds = grounds
        self.api = member.cluster.api
        self.honest = Stranger(grounds, "honest").open()
        self.elsewhere = Elsewhere(grounds)
        self.victims = Victims(member.id, member.name, self.honest.uid, self.elsewhere.port)
        self.follow_s = FOLLOW_S
        self._round = 0

    def close(self) -> None:
        """End the servers that are always there."""
        self.honest.close()
        self.elsewhere.close()

    # Who is let in.

    def introduce(self, *servers: Stranger) -> None:
        """Give the daemon a Cluster and a Secret for each."""
        for server in servers:
            self.api.request("POST", SECRETS, body=registry_secret(server))
            self.api.request("POST", f"{REGISTRY}/clusters", body=cluster(server))

    def dismiss(self, *servers: Stranger) -> None:
        """Take Clusters, Secrets and copies away again: the copies when no rule reads the servers any more.

        Clusters and copies come to the daemon by different streams, and a copy that goes while its owner is
        still read is made again.
        """
        for server in servers:
            self.api.request("DELETE", f"{REGISTRY}/clusters/{server.name}")
        owners = {server.uid for server in servers}
        eventually(lambda: not owners & self._read_from(), within_s=WORDS_S, what="nobody reads who is dismissed")
        names = {server.name for server in servers}
        for path in (f"{REGISTRY}/clusters", SECRETS, f"{REGISTRY}/resourcesyncrules", MAPS):
            for found in self.maps(path):
                name = found["metadata"]["name"]
                if owner(found) in owners or name.removeprefix("evil-") in names:
                    self._delete(f"{path}/{name}")

    def _read_from(self) -> set[str]:
        """List the owners that rules tell of."""
        rules = self.maps(f"{REGISTRY}/resourcesyncrules")
        return {entry["clusterID"] for rule in rules for entry in rule.get("status", {}).get("clusters", ())}

    def _delete(self, path: str) -> None:
        with contextlib.suppress(ApiError):  # it may have gone by itself
            self.api.request("DELETE", path)

    # What is said.

    def standing(self, server: Stranger, case: Case) -> tuple[Manifest, str]:
        """Tell the status of a Cluster, and everything that it and the rules say of that peer and what it brought."""
        status = self.api.get(f"{REGISTRY}/clusters/{server.name}").get("status", {})
        texts = [status.get("message", ""), *(found.get("message", "") for found in status.get("conditions", ()))]
        if case.introduces:
            found = self.api.get(f"{REGISTRY}/clusters/{case.introduces.format(server.name)}")
            texts.append(found.get("status", {}).get("message", ""))
        for rule in self.api.get(f"{REGISTRY}/resourcesyncrules")["items"]:
            status_of_rule = rule.get("status", {})
            if owner(rule) == server.uid:
                texts.extend(found["message"] for found in status_of_rule.get("conditions", ()))
            for condition in status_of_rule.get("conditions", ()):
                parts = condition.get("message", "").split("; ")
                texts.extend(part for part in parts if part.startswith(f"peer {server.name}:"))
            for entry in status_of_rule.get("clusters", ()):
                if entry["clusterID"] == server.uid:
                    texts.append(entry.get("lastError", ""))
                    texts.extend(failure["message"] for failure in entry.get("failures", ()))
        return status, "\n".join(texts)

    def hears(self, server: Stranger, case: Case, meanwhile: Callable[[], None]) -> None:
        """Wait until what a case says is said; do something else before each look."""

        def look() -> bool:
            meanwhile()
            status, said = self.standing(server, case)
            assert all(any(words in said for words in ways) for ways in case.ways), said
            assert case.state in ("", status.get("state")), status.get("state")
            return True

        eventually(look, within_s=WORDS_S, what=f"{case.does}: {case.said} {case.state}")

    def own(self) -> dict[str, Any]:
        """Tell what is home's own: who it and the honest peer are, how they are reached, and its rules."""
        names = (self.victims.home_name, "honest")
        rules = {found["metadata"]["name"]: found for found in self.maps(f"{REGISTRY}/resourcesyncrules")}
        own = {
            **{f"Cluster {name}": self.api.get(f"{REGISTRY}/clusters/{name}") for name in names},
            **{f"Secret {name}": self.api.get(f"{SECRETS}/{name}") for name in names},
            **{f"rule {name}": found for name, found in rules.items() if not owner(found)},
        }
        return {
            what: (found["metadata"]["uid"], found["metadata"].get("annotations"), found.get("spec"), found.get("data"))
            for what, found in own.items()
        }

    # What is here.

    def find(self, name: str) -> dict[str, Any] | None:
        """Find a ConfigMap of the default namespace."""
        found = [item for item in self.maps() if item["metadata"]["name"] == name]
        return found[0] if found else None

    def maps(self, path: str = "/api/v1/configmaps") -> list[dict[str, Any]]:
        """List ConfigMaps."""
        return list(self.api.get(path)["items"])

    def copies(self, owners: Iterable[str]) -> list[dict[str, Any]]:
        """List the copies of some owners, in any namespace."""
        wanted = set(owners)
        return [item for item in self.maps() if owner(item) in wanted]

    def follows(self) -> float:
        """Change an object of the honest peer, and wait for its copy; return how long that took, in seconds."""
        self._round += 1
        value = f"{self._round}"
        began = time.monotonic()
        self.honest.put(config_map("steady", round=value))
        eventually(
            lambda: (self.find("steady") or {}).get("data", {}).get("round") == value,
            within_s=FOLLOW_S, every_s=0.05, what="the honest peer is followed",
        )  # fmt: skip
        return time.monotonic() - began

    # What it costs.

    def forget_peak(self) -> int:
        """Begin to measure the daemon's highest memory anew; return what it has now, in bytes."""
        Path(f"/proc/{self.member.daemon.pid}/clear_refs").write_text("5")
        return self._memory("VmRSS")

    def peak(self) -> int:
        """Tell the daemon's highest memory since then, in bytes."""
        return self._memory("VmHWM")

    def cpu_s(self) -> float:
        """Tell how much CPU time the daemon has taken, in seconds."""
        fields = Path(f"/proc/{self.member.daemon.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / 100

    def _memory(self, field: str) -> int:
        for line in Path(f"/proc/{self.member.daemon.pid}/status").read_text().splitlines():
            if line.startswith(f"{field}:"):
                return int(line.split()[1]) * 1024
        raise AssertionError(field)


def registry_secret(server: Stranger, *, url: str = "", token: str = "") -> dict[str, Any]:
    """Write the Secret with which a server is read."""
    ca = base64.b64encode(server.ca.cert_pem.bytes()).decode()
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "it",
        "clusters": [{"name": "it", "cluster": {"server": url or server.url, "certificate-authority-data": ca}}],
        "users": [{"name": "it", "user": {"token": token or server.token}}],
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
    }
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": server.name, "namespace": NAMESPACE},
        "type": meta.REGISTRY_SECRET_TYPE,
        "data": {"kubeconfig": base64.b64encode(yaml.safe_dump(document).encode()).decode()},
    }


def cluster(server: Stranger) -> dict[str, Any]:
    """Write the Cluster of a server."""
    reference = {"name": server.name, "namespace": NAMESPACE}
    return {
        "apiVersion": meta.API_VERSION,
        "kind": "Cluster",
        "metadata": {"name": server.name},
        "spec": {"clusterID": server.uid, "authInfo": {"secretRef": reference}},
    }


def owner(item: dict[str, Any]) -> str:
    annotations = item.get("metadata", {}).get("annotations") or {}
    return str(annotations.get(meta.OWNER, ""))
