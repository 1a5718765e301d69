"""What rules may do here: by where they came from, by what they write, and by what is closed."""

from __future__ import annotations

from typing import Any

import pytest

from registry_controller import settings
from registry_controller.api import names
from registry_controller.api.errors import InvalidOption
from registry_controller.api.meta import GROUP, GVK, REGISTRY_SECRET_TYPE, GroupKind, Target
from registry_controller.api.syncrule import SyncRule, read_rule
from registry_controller.core.rules.policy import Barrier, RulePolicy

RBAC = "rbac.authorization.k8s.io"
CONFIG_MAP, SECRET, NAMESPACE = GVK("", "v1", "ConfigMap"), GVK("", "v1", "Secret"), GVK("", "v1", "Namespace")
ROLE, CLUSTER_ROLE = GVK(RBAC, "v1", "Role"), GVK(RBAC, "v1", "ClusterRole")
RULE, CLUSTER = GVK(GROUP, "v1alpha1", "ResourceSyncRule"), GVK(GROUP, "v1alpha1", "Cluster")
FEATURE = GVK(GROUP, "v1alpha1", "ClusterFeature")
DEPLOYMENT = GVK("apps", "v1", "Deployment")
NOTHING, ALL = RulePolicy(enabled=False), RulePolicy()


def kinds(*texts: str) -> frozenset[GroupKind]:
    return frozenset(settings.load({"CLOSED_KINDS": ",".join(texts)}, {}).closed_kinds)


def rule(kind: GVK, *mutations: GVK) -> SyncRule:
    def spelled(gvk: GVK) -> dict[str, str]:
        return {name: value for name, value in gvk._asdict().items() if value}

    rules: list[dict[str, Any]] = [
        {"match": [{}], "mutations": {"groupVersionKind": spelled(gvk)}} for gvk in mutations or (GVK("", "", ""),)
    ]
    return read_rule({"metadata": {"name": "r"}, "spec": {"groupVersionKind": spelled(kind), "rules": rules}})


LISTED = RulePolicy(kinds=kinds("ConfigMap", "*.apps"))
CLOSED = RulePolicy(closed_kinds=kinds(f"*.{RBAC}", "Secret", f"*.{GROUP}"))

RULES: dict[str, tuple[RulePolicy, SyncRule, bool, str]] = {
    "a rule from elsewhere acts by default": (ALL, rule(CONFIG_MAP), True, ""),
    "it does not where none may": (NOTHING, rule(CONFIG_MAP), True, "SYNCED_RULES_ENABLED"),
    "one that was made here does": (NOTHING, rule(CONFIG_MAP), False, ""),
    "its kind is listed": (LISTED, rule(CONFIG_MAP), True, ""),
    "its group is listed": (LISTED, rule(DEPLOYMENT), True, ""),
    "its kind is not listed": (LISTED, rule(SECRET), True, "SYNCED_RULES_KINDS"),
    "what it writes is not listed": (LISTED, rule(CONFIG_MAP, SECRET), True, "SYNCED_RULES_KINDS"),
    "part of what it writes is not": (LISTED, rule(CONFIG_MAP, CONFIG_MAP, SECRET), True, "SYNCED_RULES_KINDS"),
    "what it reads is not listed": (LISTED, rule(SECRET, DEPLOYMENT), True, "SYNCED_RULES_KINDS"),
    "a list is no matter for one made here": (LISTED, rule(SECRET), False, ""),
    "it never writes rules": (ALL, rule(RULE), True, "spec.groupVersionKind"),
    "nor Clusters out of others": (ALL, rule(CONFIG_MAP, CLUSTER), True, "spec.groupVersionKind"),
    "nor features, though listed": (
        RulePolicy(kinds=kinds(f"*.{GROUP}")), rule(FEATURE), True, "spec.groupVersionKind"
    ),
    "it may read Clusters": (ALL, rule(CLUSTER, DEPLOYMENT), True, ""),
    "one made here writes rules": (ALL, rule(RULE), False, ""),
    "a closed kind is closed to it": (CLOSED, rule(CLUSTER_ROLE), True, "CLOSED_KINDS"),
    "and to one made here": (CLOSED, rule(CLUSTER_ROLE), False, "CLOSED_KINDS"),
    "also under another name": (CLOSED, rule(CONFIG_MAP, ROLE), False, "CLOSED_KINDS"),
    "others are open": (CLOSED, rule(CONFIG_MAP), False, ""),
    "what it reads is not closed": (CLOSED, rule(ROLE, DEPLOYMENT), False, ""),
    "the registry goes on": (CLOSED, rule(CLUSTER), False, ""),
    "Secrets are judged one by one": (CLOSED, rule(SECRET), False, ""),
}  # fmt: skip


@pytest.mark.parametrize(("allowance", "judged", "synced", "path"), RULES.values(), ids=RULES)
def test_a_rule_acts_here_or_says_what_does_not_let_it(
    allowance: RulePolicy, judged: SyncRule, synced: bool, path: str
) -> None:
    bar = allowance.find_bar(judged, synced=synced)
    assert (bar.path if bar is not None else "") == path


IN_A = Target("", "ConfigMap", "a", "x")
PLACES = RulePolicy(namespaces=frozenset({"a"}))
PLACES_AND_KINDS = RulePolicy(namespaces=frozenset({"a"}), kinds=kinds("ConfigMap", "Namespace", f"ClusterRole.{RBAC}"))
SHUT = RulePolicy(closed_kinds=kinds("Secret", f"*.{RBAC}", f"*.{GROUP}"), closed_namespaces=frozenset({"kube-system"}))
A_ROLE, OUR_SECRET = Target(RBAC, "ClusterRole", "", "x"), Target("", "Secret", "cluster-registry", "b")
TOKEN, BOOTSTRAP = "kubernetes.io/service-account-token", "bootstrap.kubernetes.io/token"

TARGETS: dict[str, tuple[RulePolicy, Target, GVK, str, bool, Barrier | None]] = {
    "in a namespace of the list": (PLACES, IN_A, CONFIG_MAP, "", True, None),
    "in another one": (PLACES, IN_A._replace(namespace="b"), CONFIG_MAP, "", True, Barrier.NOT_ALLOWED),
    "in another one, made here": (PLACES, IN_A._replace(namespace="b"), CONFIG_MAP, "", False, None),
    "in none, and no kind is listed": (PLACES, A_ROLE, CLUSTER_ROLE, "", True, Barrier.NOT_ALLOWED),
    "in none, and its kind is listed": (PLACES_AND_KINDS, A_ROLE, CLUSTER_ROLE, "", True, None),
    "a namespace of the list": (PLACES, Target("", "Namespace", "", "a"), NAMESPACE, "", True, None),
    "another one, though Namespaces are listed":
        (PLACES_AND_KINDS, Target("", "Namespace", "", "b"), NAMESPACE, "", True, Barrier.NOT_ALLOWED),
    "of a kind that is not listed": (LISTED, Target("", "Secret", "a", "x"), CONFIG_MAP, "", True, Barrier.NOT_ALLOWED),
    "made of a kind that is not listed": (LISTED, IN_A, SECRET, "", True, Barrier.NOT_ALLOWED),
    "where no rule from elsewhere acts": (NOTHING, IN_A, CONFIG_MAP, "", True, Barrier.NOT_ALLOWED),
    "a Secret": (ALL, OUR_SECRET, SECRET, "Opaque", True, None),
    "a registry Secret": (ALL, OUR_SECRET, SECRET, REGISTRY_SECRET_TYPE, True, Barrier.RESERVED),
    "a registry Secret, by a core rule": (SHUT, OUR_SECRET, SECRET, REGISTRY_SECRET_TYPE, False, None),
    "a token of a ServiceAccount": (ALL, OUR_SECRET, SECRET, TOKEN, True, Barrier.RESERVED),
    "a token to join by": (ALL, OUR_SECRET, SECRET, BOOTSTRAP, True, Barrier.RESERVED),
    "a Cluster": (ALL, Target(GROUP, "Cluster", "", "b"), CLUSTER, "", True, Barrier.RESERVED),
    "a Cluster, by a core rule": (SHUT, Target(GROUP, "Cluster", "", "b"), CLUSTER, "", False, None),
    "a core rule, by a core rule":
        (ALL, Target(GROUP, RULE.kind, "", names.RULES_SINK), RULE, "", False, Barrier.RESERVED),
    "the core feature":
        (ALL, Target(GROUP, FEATURE.kind, "", names.CORE_FEATURE_OBJECT), FEATURE, "", False, Barrier.RESERVED),
    "the record of deleted rules":
        (ALL, Target(GROUP, FEATURE.kind, "", names.DELETED_RULES_OBJECT), FEATURE, "", False, Barrier.RESERVED),
    "a closed kind": (SHUT, Target("", "Secret", "a", "x"), SECRET, "Opaque", False, Barrier.CLOSED),
    "a kind of a closed group": (SHUT, A_ROLE, CLUSTER_ROLE, "", False, Barrier.CLOSED),
    "a kind of a group of like name": (SHUT, A_ROLE._replace(group=f"my.{RBAC}"), CLUSTER_ROLE, "", False, None),
    "a closed namespace": (SHUT, IN_A._replace(namespace="kube-system"), CONFIG_MAP, "", False, Barrier.CLOSED),
    "the Namespace itself":
        (SHUT, Target("", "Namespace", "", "kube-system"), NAMESPACE, "", False, Barrier.CLOSED),
    "a registry Secret there": (
        SHUT, Target("", "Secret", "kube-system", "b"), SECRET, REGISTRY_SECRET_TYPE, False, Barrier.CLOSED),
}  # fmt: skip


@pytest.mark.parametrize("case", TARGETS.values(), ids=TARGETS)
def test_a_target_is_written_or_something_is_in_the_way(
    case: tuple[RulePolicy, Target, GVK, str, bool, Barrier | None],
) -> None:
    allowance, target, source, secret_type, synced, barrier = case
    assert allowance.find_barrier(target, source=source, secret_type=secret_type, synced=synced) is barrier


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("", ()),
        ("Secret", (GroupKind("", "Secret"),)),
        (" Secret , Role.rbac.authorization.k8s.io,", (GroupKind("", "Secret"), GroupKind(RBAC, "Role"))),
        ("*.apps,*.apps", (GroupKind("apps", "*"),)),
    ],
)
def test_kinds_are_read_as_kubernetes_spells_them(text: str, read: tuple[GroupKind, ...]) -> None:
    loaded = settings.load({"SYNCED_RULES_KINDS": text}, {})
    assert loaded.synced_rules_kinds == read
    assert settings.load({"SYNCED_RULES_KINDS": str(loaded.dump()["SYNCED_RULES_KINDS"])}, {}) == loaded


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("SYNCED_RULES_KINDS", "secrets"),
        ("SYNCED_RULES_KINDS", "*"),
        ("CLOSED_KINDS", "apps/v1/Deployment"),
        ("CLOSED_KINDS", "Role rbac"),
        ("SYNCED_RULES_NAMESPACES", "A_b"),
        ("CLOSED_NAMESPACES", "kube-*"),
        ("CLOSED_NAMESPACES", "kube-system,cluster-registry"),
    ],
)
def test_what_would_limit_nothing_is_refused(name: str, text: str) -> None:
    with pytest.raises(InvalidOption, match=name):
        settings.load({name: text}, {})
