"""What schedules are written in: the names, kinds, rules and objects that may occur, and what each means, in words.

The rules are few, but each uses another part of the engine. The meaning of a template stands beside it, so that the
oracle needs no template engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from registry_controller.api import meta
from registry_controller.api.meta import SYNC_DISABLED
from tests.sim.cluster.controllers import MIRRORED
from tests.sim.cluster.fields import Manifest
from tests.sim.cluster.group import rule

NAMES = ("x", "y", "z")
NAMESPACES = ("default", "team", "extra")
ELSEWHERE = "elsewhere"
NOWHERE = "nowhere"
"""A namespace that is nowhere, until somebody makes it."""
KINDS = ("ConfigMap", "Secret", "Widget", "Region", "Namespace", "Pod")
WRITTEN = (*KINDS, "Gadget", "ResourceSyncRule")
"""Every kind of which rules make copies."""

EVIL = "https://evil."
"""How the addresses begin that forgers write."""

CANARY = "canary-"
"""How every value in a Secret begins."""

NEWER = "ofALaterRelease"
"""A field of rules that this release does not know."""

ADDED_LABEL, ADDED_ANNOTATION = f"{meta.LEFT}added", "cluster-registry.k8s.cisco.com/added"
"""A label of tombstones, and an annotation of the record of deleted rules, that only a later version knows."""

LETS_IN = "bootstrap.kubernetes.io/token"
"""The type of Secrets that no rule from another cluster copies, nor any that does not ask for it."""

NAMED_BY_OWNER = '{{ printf "%s-%s" .Object.GetName .Cluster.GetName }}'
NAMED_BY_LABEL = "{{ .Object.GetName }}-{{ .Object.metadata.labels.suffix }}"
SEEN_IN = "seen in {{ .LocalCluster.GetName }}"

INSTANCE = "app.kubernetes.io/instance"
TRACKED_BY = {INSTANCE: "shop", "app.kubernetes.io/managed-by": "Helm", "kapp.k14s.io/app": "1"}
TRACKED_IN = {"argocd.argoproj.io/tracking-id": "shop:/ConfigMap", "config.k8s.io/owning-inventory": "shop"}
"""The labels and annotations by which tools know what they applied; a Pod's instance is none."""

Render = Callable[[Manifest, str, str], "str | None"]
TEMPLATES: Mapping[str, Render] = {
    NAMED_BY_OWNER: lambda source, owner, local: f"{source['metadata']['name']}-{owner}",
    NAMED_BY_LABEL: lambda source, owner, local: _named_by_label(source),
    SEEN_IN: lambda source, owner, local: f"seen in {local}",
}
"""What each template says of a source, with the names of the owner's and of the own Cluster; None: it cannot."""

CHOSEN = {"zone": "north"}
"""The label of the Clusters that some rules are for."""

SELECTORS: Mapping[str, Callable[[Mapping[str, str]], bool]] = {
    "": lambda labels: False,
    "zone=north": lambda labels: labels.get("zone") == "north",
    "zone!=north": lambda labels: labels.get("zone") != "north",
    "zone in (north, south),!gone": lambda labels: labels.get("zone") in ("north", "south") and "gone" not in labels,
}
"""What objects ask of the Clusters that copy them, and what each means; an empty one selects none."""
UNREADABLE_NAMES, UNREADABLE_SELECTORS = ("a,,b", "No Name"), ("zone=north,", "zone in (north")
"""What objects say by mistake, and nobody can read."""

_API = {"Widget": "sim.example", "Region": "sim.example", "Gadget": "sim.example"}
BODY = {"ConfigMap": "data", "Secret": "stringData", "Namespace": "", "Widget": "spec", "Region": "spec", "Pod": "spec"}


LEFT, TUNED, UNLABELLED, SUFFIX = "value", "tuning", "suffix", "s"
"""The field and the map in the body, and the label, that a rule may leave to the copy's cluster."""


def _named_by_label(source: Manifest) -> str | None:
    suffix = (source["metadata"].get("labels") or {}).get("suffix")
    return f"{source['metadata']['name']}-{suffix}" if suffix else None


def gvk(kind: str) -> dict[str, str]:
    """Spell a kind as rules do."""
    group = _API.get(kind)
    return {"group": group, "version": "v1", "kind": kind} if group else {"version": "v1", "kind": kind}


SHAPES: Mapping[str, Mapping[str, Any]] = {
    "plain": {},
    "marking": {"labels": {"add": {"by": "the rule"}}},
    "tracking": {"labels": {"add": {INSTANCE: "copies"}}},
    "renaming": {"overrides": [{"type": "replace", "path": "/metadata/name", "value": NAMED_BY_OWNER}]},
    "labelled": {"overrides": [{"type": "replace", "path": "/metadata/name", "value": NAMED_BY_LABEL}]},
    "moving": {"overrides": [{"type": "replace", "path": "/metadata/namespace", "value": ELSEWHERE}]},
    "telling": {"overrides": [{"type": "replace", "path": "/BODY/where?", "value": SEEN_IN}]},
    "leaving": {"overrides": [{"type": "remove", "path": "/BODY/value?"}]},
    "tuned": {"overrides": [{"type": "remove", "path": f"/spec/{TUNED}?"}], "labels": {"remove": [UNLABELLED]}},
    "unlabelling": {"labels": {"remove": [UNLABELLED]}},
    "turning": {"groupVersionKind": {"kind": "Gadget"}, "syncStatus": True},
    "status": {"syncStatus": True},
}
"""What a rule makes of its sources; `BODY` stands for the field with the values."""

SHAPES_OF: Mapping[str, tuple[str, ...]] = {
    "ConfigMap": ("plain", "marking", "tracking", "renaming", "labelled", "moving", "telling", "leaving"),
    "Secret": ("plain", "marking", "renaming", "moving"),
    "Widget": (
        "plain",
        "marking",
        "tracking",
        "renaming",
        "labelled",
        "moving",
        "telling",
        "leaving",
        "turning",
        "status",
    ),
    "Region": ("plain", "marking", "renaming", "leaving", "status"),
    "Namespace": ("plain", "marking"),
    "Pod": ("plain", "marking"),
}

SELECTIONS = ("labels", "content", "name", "place", "all", "misplaced")


def _match(kind: str, selection: str) -> dict[str, Any]:
    match selection:
        case "labels":
            return {"labels": [{"matchLabels": {"sync": "yes"}}]}
        case "content" if kind == "Secret":
            return {"content": [{"key": "type", "value": "sim/gold"}]}
        case "content" if kind in ("ConfigMap", "Widget", "Region"):
            return {"content": [{"key": f"{BODY[kind]}.tier", "value": "gold"}]}
        case "place" if kind in ("ConfigMap", "Secret", "Widget"):
            return {"namespaces": ["team", "extra"], "labels": [{"matchLabels": {"sync": "yes"}}]}
        case "all" if kind in ("ConfigMap", "Widget"):
            return {}
        case "name":
            return {"objectKey": {"name": "y"}, "labels": [{"matchLabels": {"sync": "yes"}}]}
        case "misplaced":
            return {"name": "y", "labels": [{"matchLabels": {"sync": "yes"}}]}
        case _:
            return {"labels": [{"matchExpressions": [{"key": "sync", "operator": "In", "values": ["yes", "maybe"]}]}]}


Wish = tuple[str, str, str, str, str]
"""What a rule says: kind, shape, selection, policy, and some of `gold`, `targets`, `chosen`, `named`, `makes`, `stays`,
`suspended`, and `newer`: it has a field of a later release.
"""


_MORE: Mapping[str, Mapping[str, Any]] = {
    "gold": {"clusterFeatureMatch": [{"featureName": "gold"}]},
    "targets": {"targetClusters": {"names": ["a", "b"]}},
    "chosen": {"targetClusters": {"matchLabels": CHOSEN}},
    "named": {"objectTargets": "Required"},
    "makes": {"createNamespaces": True},
    "suspended": {"suspend": True},
    "newer": {NEWER: "yes"},
}


def make_rule(name: str, wish: Wish) -> dict[str, Any]:
    """Write a rule."""
    kind, shape, selection, policy, more = wish
    mutations = dict(SHAPES[shape])
    if shape == "marking":
        mutations = {"labels": {"add": {"by": name}}}
    if shape == "telling":
        mutations = {"overrides": [{"type": "replace", "path": f"/{BODY[kind]}/where?", "value": SEEN_IN}]}
    if shape == "leaving":
        mutations = {"overrides": [{"type": "remove", "path": f"/{BODY[kind]}/{LEFT}?"}]}
    spec: dict[str, Any] = {}
    if policy:
        spec["deletionPolicy"] = policy
    for word, part in _MORE.items():
        spec |= part if word in more else {}
    made = rule(name, gvk(kind), {"match": [_match(kind, selection)], "mutations": mutations}, **spec)
    if "stays" in more:
        made["metadata"]["annotations"] = {SYNC_DISABLED: "true"}
    return made


def make_object(place: tuple[str, str, str], value: str, more: str) -> dict[str, Any]:
    """Write an object at a place: kind, namespace and name.

    `more` is what else it has: any of `sync`, `gold`, `suffix`, `disabled`, `fixed`, `mirrored` and `tracked`.
    """
    kind, namespace, name = place
    info: dict[str, Any] = {"name": name} if kind in ("Region", "Namespace") else {"name": name, "namespace": namespace}
    info["labels"] = {"sync": "yes"} if "sync" in more else {"sync": "no"}
    if "suffix" in more:
        info["labels"][UNLABELLED] = SUFFIX
    if "mirrored" in more and kind == "ConfigMap":
        info["labels"][MIRRORED] = "yes"
    info["annotations"] = {"note": value} | ({SYNC_DISABLED: "true"} if "disabled" in more else {})
    if "tracked" in more:
        info["labels"] |= TRACKED_BY
        info["annotations"] |= TRACKED_IN
    made: dict[str, Any] = {"kind": kind, "metadata": info}
    if BODY[kind]:
        secret = CANARY if kind == "Secret" else ""
        made[BODY[kind]] = {"value": secret + value} | ({"tier": "gold"} if "gold" in more else {})
    if kind == "Secret" and "gold" in more:
        made["type"] = "sim/gold"
    if kind in ("ConfigMap", "Secret") and "fixed" in more:
        made["immutable"] = True
    return made
