"""The hardened profile, as the daemon reads it: what is closed to every rule, and what to those from elsewhere. W8."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from registry_controller import settings
from registry_controller.api import meta
from registry_controller.api.meta import GVK, GroupKind, Target
from registry_controller.api.syncrule import SyncRule, read_rule
from registry_controller.core.rules.policy import Barrier, RulePolicy

PROFILE = Path(__file__).parents[4] / "deploy" / "helm" / "cluster-registry" / "values-hardened.yaml"
CONTROLLER = yaml.safe_load(PROFILE.read_text(encoding="utf-8"))["controller"]

# Written out, so that a line which the profile loses is missed here.
CLOSED_KINDS = {
    "*.rbac.authorization.k8s.io": ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"),
    "*.authentication.k8s.io": ("TokenReview",),
    "*.authorization.k8s.io": ("SubjectAccessReview",),
    "*.certificates.k8s.io": ("CertificateSigningRequest", "ClusterTrustBundle"),
    "*.admissionregistration.k8s.io": (
        "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration", "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding", "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding",
    ),
    "*.apiextensions.k8s.io": ("CustomResourceDefinition",),
    "*.apiregistration.k8s.io": ("APIService",),
    "*.flowcontrol.apiserver.k8s.io": ("FlowSchema", "PriorityLevelConfiguration"),
    "Node": ("Node",),
    "PersistentVolume": ("PersistentVolume",),
    "ServiceAccount": ("ServiceAccount",),
}  # fmt: skip
CLOSED_NAMESPACES = ("kube-node-lease", "kube-public", "kube-system")
CLOSED = [GVK(line.partition(".")[2], "v1", kind) for line, kinds in CLOSED_KINDS.items() for kind in kinds]
OWN = [meta.CLUSTER, meta.RULE, meta.FEATURE]
CONFIG_MAP, SECRET = GVK("", "v1", "ConfigMap"), GVK("", "v1", "Secret")
NAMESPACE, DEPLOYMENT = GVK("", "v1", "Namespace"), GVK("apps", "v1", "Deployment")
OPEN = [CONFIG_MAP, SECRET, NAMESPACE, DEPLOYMENT]


def hardened(**others: str) -> RulePolicy:
    """Read the profile as the daemon does, with options that come after it."""
    closed = CONTROLLER["closed"]
    environment = {
        "SYNCED_RULES_ENABLED": str(CONTROLLER["syncedRules"]["enabled"]).lower(),
        "CLOSED_KINDS": ",".join(closed["kinds"]),
        "CLOSED_NAMESPACES": ",".join(closed["namespaces"]),
    }
    loaded = settings.load(environment | others, {})
    return RulePolicy(
        enabled=loaded.synced_rules_enabled,
        closed_kinds=frozenset(loaded.closed_kinds),
        closed_namespaces=frozenset(loaded.closed_namespaces),
    )


HARDENED = hardened()
OPENED = hardened(SYNCED_RULES_ENABLED="true")  # what is closed holds alone, too


def rule(kind: GVK, written: GVK | None = None) -> SyncRule:
    def spelled(gvk: GVK) -> dict[str, str]:
        return {name: value for name, value in gvk._asdict().items() if value}

    entry: dict[str, Any] = {"match": [{}]}
    if written is not None:
        entry["mutations"] = {"groupVersionKind": spelled(written)}
    return read_rule({"metadata": {"name": "r"}, "spec": {"groupVersionKind": spelled(kind), "rules": [entry]}})


def path(allowance: RulePolicy, judged: SyncRule, *, synced: bool) -> str:
    bar = allowance.find_bar(judged, synced=synced)
    return bar.path if bar is not None else ""


def barrier(
    allowance: RulePolicy, kind: GVK, place: str, *, synced: bool, name: str = "x", secret_type: str = ""
) -> Barrier | None:
    target = Target(kind.group, kind.kind, place, name)
    return allowance.find_barrier(target, source=kind, secret_type=secret_type, synced=synced)


def test_the_profile_closes_these_kinds_and_namespaces_and_no_others() -> None:
    closed = {GroupKind(*reversed(line.split(".", 1))) if "." in line else GroupKind("", line) for line in CLOSED_KINDS}
    assert HARDENED.closed_kinds == closed
    assert HARDENED.closed_namespaces == set(CLOSED_NAMESPACES)


@pytest.mark.parametrize("kind", [*CLOSED, *OWN, *OPEN], ids=lambda kind: kind.kind)
def test_no_rule_from_elsewhere_does_anything(kind: GVK) -> None:
    assert path(HARDENED, rule(kind), synced=True) == "SYNCED_RULES_ENABLED"
    assert barrier(HARDENED, kind, "shared", synced=True) in {Barrier.NOT_ALLOWED, Barrier.RESERVED}


@pytest.mark.parametrize("synced", [True, False], ids=["from elsewhere", "made here"])
@pytest.mark.parametrize("kind", CLOSED, ids=lambda kind: kind.kind)
def test_a_closed_kind_is_closed_to_every_rule_though_rules_from_elsewhere_act(kind: GVK, synced: bool) -> None:
    assert path(OPENED, rule(kind), synced=synced) == "CLOSED_KINDS"
    assert path(OPENED, rule(CONFIG_MAP, kind), synced=synced) == "CLOSED_KINDS"
    assert barrier(OPENED, kind, "shared", synced=synced) is Barrier.CLOSED


@pytest.mark.parametrize("kind", OWN, ids=lambda kind: kind.kind)
def test_the_registrys_own_kinds_are_closed_to_rules_from_elsewhere_though_these_act(kind: GVK) -> None:
    assert path(OPENED, rule(kind), synced=True) == "spec.groupVersionKind"
    assert barrier(OPENED, kind, "", synced=True) is Barrier.RESERVED
    assert path(HARDENED, rule(kind), synced=False) == ""
    assert barrier(HARDENED, kind, "", synced=False) is None


@pytest.mark.parametrize("secret_type", [meta.REGISTRY_SECRET_TYPE, "kubernetes.io/service-account-token"])
def test_secrets_that_let_somebody_in_are_closed_to_rules_from_elsewhere(secret_type: str) -> None:
    assert barrier(OPENED, SECRET, "shared", synced=True, secret_type=secret_type) is Barrier.RESERVED
    assert barrier(OPENED, SECRET, "shared", synced=True, secret_type="Opaque") is None


@pytest.mark.parametrize("synced", [True, False], ids=["from elsewhere", "made here"])
@pytest.mark.parametrize("namespace", CLOSED_NAMESPACES)
def test_a_closed_namespace_is_closed_to_every_rule_and_so_is_its_own_object(namespace: str, synced: bool) -> None:
    assert barrier(OPENED, CONFIG_MAP, namespace, synced=synced) is Barrier.CLOSED
    assert barrier(OPENED, NAMESPACE, "", name=namespace, synced=synced) is Barrier.CLOSED


@pytest.mark.parametrize("kind", OPEN, ids=lambda kind: kind.kind)
def test_other_kinds_are_open_to_rules_made_here_and_to_others_where_these_act(kind: GVK) -> None:
    for allowance, synced in ((HARDENED, False), (OPENED, False), (OPENED, True)):
        assert path(allowance, rule(kind), synced=synced) == ""
        assert barrier(allowance, kind, "shared", synced=synced) is None
