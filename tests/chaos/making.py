"""What a rule makes of an object, written once more and only as far as the workload goes.

Matching by labels, names and namespaces; mutations by added labels and by overrides that replace a name, a namespace
or one field of the data with a plain text. Law: nothing here imports anything of the daemon.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.chaos.history import NAMESPACE, Manifest

_MARKS = "cluster-registry.k8s.cisco.com"
OWNER = f"{_MARKS}/resource-owner-cluster-id"
PROVENANCE = f"{_MARKS}/provenance"
ORIGINAL = {"name": f"{_MARKS}/original-name", "namespace": f"{_MARKS}/original-namespace"}
_OURS = (OWNER, PROVENANCE, *ORIGINAL.values(), "kubectl.kubernetes.io/last-applied-configuration")


@dataclass(frozen=True, slots=True)
class Copy:
    """What is to be somewhere. Labels and annotations of others beside these are none of our business."""

    kind: str
    namespace: str
    name: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    content: Mapping[str, Any]

    def differs(self, found: Manifest) -> str:
        """Say in what an object is not this; empty where it is."""
        info = found["metadata"]
        for which, wanted in (("labels", self.labels), ("annotations", self.annotations)):
            held = info.get(which) or {}
            for name, text in wanted.items():
                if held.get(name) != text:
                    return f"{which[:-1]} {name} is {_short(held.get(name))} and not {_short(text)}"
        for name in sorted(self.content.keys() | content_of(found).keys()):
            if self.content.get(name) != found.get(name):
                return f"{name} is not as it should be"
        return ""


def _short(text: object) -> str:
    return repr(text)[:60]


def owner_of(manifest: Manifest) -> str:
    """The ID of the cluster whose copy it says that it is, in either of its two marks; empty for a native object."""
    marks = manifest["metadata"].get("annotations") or {}
    if OWNER in marks or PROVENANCE not in marks:
        return str(marks.get(OWNER, ""))
    try:
        return str(json.loads(marks[PROVENANCE]).get("owner", ""))
    except ValueError:
        return ""


def source_key(copy: Manifest) -> tuple[str, str]:
    """Namespace and name that it has at its owner."""
    info = copy["metadata"]
    labels = info.get("labels") or {}
    return (
        labels.get(ORIGINAL["namespace"], info.get("namespace", "")),
        labels.get(ORIGINAL["name"], info["name"]),
    )


def content_of(manifest: Manifest) -> dict[str, Any]:
    """What an object is about."""
    return {name: value for name, value in manifest.items() if name not in ("apiVersion", "kind", "metadata", "status")}


def is_never_copied(manifest: Manifest) -> bool:
    """What nobody asks for by a match that names nothing (see docs/rules.md), and the group's own Secrets."""
    info = manifest["metadata"]
    return (
        info.get("namespace", "").startswith("kube-")
        or info["name"] == "kube-root-ca.crt"
        or (manifest.get("kind") == "Secret" and info.get("namespace") == NAMESPACE)
        or manifest.get("type") in ("helm.sh/release.v1", "kubernetes.io/service-account-token")
    )


def is_core(rule: Manifest) -> bool:
    """Whether it is one of the rules that the daemon makes for itself."""
    return "core-sync-resource" in str(rule["metadata"].get("labels") or {})


def make(source: Manifest, rule: Manifest, *, owner: str) -> Copy | None:
    """What a rule makes of a native object of the cluster `owner`; None when it does not match."""
    spec = rule["spec"]
    if spec["groupVersionKind"]["kind"] != source["kind"] or is_never_copied(source) or spec.get("suspend"):
        return None
    entries = [entry for entry in spec["rules"] if any(_matches(m, source) for m in entry.get("match") or [{}])]
    if not entries:
        return None
    info = source["metadata"]
    key = {"name": info["name"], "namespace": info.get("namespace", "")}
    labels = {name: text for name, text in (info.get("labels") or {}).items() if name not in _OURS}
    annotations = {name: text for name, text in (info.get("annotations") or {}).items() if name not in _OURS}
    content = content_of(source)
    for mutations in (entry.get("mutations") or {} for entry in entries):
        labels |= (mutations.get("labels") or {}).get("add") or {}
        for path, text in _overrides(mutations):
            if path[0] == "metadata":
                key[path[1]] = text
            else:
                content = {**content, path[0]: {**(content.get(path[0]) or {}), path[1]: text}}
    for part in ("name", "namespace"):
        if key[part] != info.get(part, ""):
            labels[ORIGINAL[part]] = info[part]
    labels[OWNER] = annotations[OWNER] = owner
    return Copy(source["kind"], key["namespace"], key["name"], labels, annotations, content)


def _overrides(mutations: Manifest) -> Iterator[tuple[list[str], str]]:
    for override in mutations.get("overrides") or ():
        assert override["type"] == "replace", "the workload only replaces"
        yield override["path"].replace("?", "").strip("/").split("/"), override["value"]


def _matches(match: Manifest, source: Manifest) -> bool:
    info, named = source["metadata"], match.get("objectKey") or {}
    labels = info.get("labels") or {}
    if named.get("name", info["name"]) != info["name"]:
        return False
    if named.get("namespace", info.get("namespace")) != info.get("namespace"):
        return False
    if match.get("namespaces") and info.get("namespace") not in match["namespaces"]:
        return False
    selectors = match.get("labels") or [{}]
    return any((selector.get("matchLabels") or {}).items() <= labels.items() for selector in selectors)
