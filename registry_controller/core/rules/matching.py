"""Which objects a rule asks for, and with which of its entries.

Law: what cannot be evaluated is an error, never "no match".
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from registry_controller.api import meta
from registry_controller.api.meta import GVK, GroupKind, Manifest, ObjectKey, Target
from registry_controller.api.syncrule import ContentMatch, Match, RuleEntry, SyncRule
from registry_controller.core.rules.content import ObjectContent
from registry_controller.gotemplate.limits import Pool

NAMESPACE: Final = GroupKind("", "Namespace")
CUSTOM_RESOURCE_DEFINITION: Final = GroupKind("apiextensions.k8s.io", "CustomResourceDefinition")
CREDENTIAL_TYPES: Final = frozenset(("kubernetes.io/service-account-token", "bootstrap.kubernetes.io/token"))
"""Types of Secrets that Kubernetes fills with a token of the cluster in which they are, or lets their reader in by."""

_HELM_RELEASE: Final = "helm.sh/release.v1"

_API_SERVER: Final = frozenset({("default", "kubernetes")})
_MADE_BY_KUBERNETES: Final[Mapping[tuple[str, str], frozenset[tuple[str, str]]]] = {
    ("", "ConfigMap"): frozenset({("*", "kube-root-ca.crt")}),
    ("", "ServiceAccount"): frozenset({("*", "default")}),
    ("", "Service"): _API_SERVER,
    ("", "Endpoints"): _API_SERVER,
    ("discovery.k8s.io", "EndpointSlice"): _API_SERVER,
    ("", "Namespace"): frozenset(
        {("", "default"), ("", "kube-system"), ("", "kube-public"), ("", "kube-node-lease")},
    ),
    ("scheduling.k8s.io", "PriorityClass"): frozenset({("", "system-cluster-critical"), ("", "system-node-critical")}),
}
"""Namespace, or `*` for each, and name of what is in every cluster, and comes again where somebody deletes it: no copy
can take its place."""


class RequiredClause(enum.Enum):
    """What a match has to ask for to get what every cluster has of its own."""

    ANYTHING = "anything"
    NAME = "name"
    TYPE = "type"


class ObjectFacts(Protocol):
    """What a match may ask of an object without its body. `kind_type` is a Secret's `type`."""

    @property
    def key(self) -> ObjectKey: ...

    @property
    def labels(self) -> Mapping[str, str]: ...

    @property
    def annotations(self) -> Mapping[str, str]: ...

    @property
    def kind_type(self) -> str: ...


def find_matching_entries(
    rule: SyncRule, facts: ObjectFacts, body: Callable[[], Manifest], *, pool: Pool | None = None
) -> tuple[RuleEntry, ...]:
    """Find the entries of a rule that match an object of the rule's kind, in order.

    `body` is called at most once, and only when a match asks for content that `facts` cannot answer. Raises
    InvalidObject for content that cannot be evaluated, or takes too many steps in all, or of the pool.
    """
    if facts.labels.get(meta.CORE_RESOURCE) == "true":
        return ()
    contents = ObjectContent(body, pool=pool)
    return tuple(entry for entry in rule.entries if _entry_matches(entry, rule.kind, facts, contents))


def needs_body(rule: SyncRule) -> bool:
    """Say whether the rule asks for content that is not known without the body."""
    return any(
        not asks_for_secret_type(content, rule.kind)
        for entry in rule.entries
        for match in entry.matches
        for content in match.content
    )


def _entry_matches(entry: RuleEntry, kind: GVK, facts: ObjectFacts, contents: ObjectContent) -> bool:
    if not entry.matches:
        return find_required_clause(kind, facts) is None
    return any(_matches(match, kind, facts, contents) for match in entry.matches)


def _matches(match: Match, kind: GVK, facts: ObjectFacts, contents: ObjectContent) -> bool:
    namespace, name = facts.key
    return (
        match.name in ("", name)
        and match.namespace in ("", namespace)
        and (not match.namespaces or not namespace or namespace in match.namespaces)
        and (not match.labels or any(selector.matches(facts.labels) for selector in match.labels))
        and (not match.annotations or any(selector.matches(facts.annotations) for selector in match.annotations))
        and has_required_clause(match, find_required_clause(kind, facts), kind)
        and all(has_content(content, kind, facts, contents) for content in match.content)
    )


def find_required_clause(kind: GVK, facts: ObjectFacts) -> RequiredClause | None:
    """Say what a match has to ask for to get an object; None for one that is no cluster's own (W7).

    Whoever offers an object chooses its name, labels and type: a rule that selects by others means no Secret that lets
    somebody in. And what Kubernetes makes here itself is not meant by who selects a namespace.
    """
    is_secret = (kind.group, kind.kind) == ("", "Secret")
    if is_secret and facts.kind_type in CREDENTIAL_TYPES:
        return RequiredClause.TYPE
    if is_made_by_kubernetes(kind, facts.key):
        return RequiredClause.NAME
    if facts.key.namespace.startswith("kube-") or (is_secret and facts.kind_type == _HELM_RELEASE):
        return RequiredClause.ANYTHING
    return None


def has_required_clause(match: Match, required: RequiredClause | None, kind: GVK) -> bool:
    """Say whether a match that holds otherwise asks for what it has to; None is nothing."""
    match required:
        case None:
            return True
        case RequiredClause.ANYTHING:
            return not match.is_empty
        case RequiredClause.NAME:
            return bool(match.name)
        case RequiredClause.TYPE:
            return any(asks_for_secret_type(content, kind) for content in match.content)


def is_container(target: Target) -> bool:
    """Say whether deleting the target deletes other objects with it."""
    return GroupKind(target.group, target.kind) in (NAMESPACE, CUSTOM_RESOURCE_DEFINITION)


def is_made_by_kubernetes(kind: GVK, key: ObjectKey) -> bool:
    """Say whether Kubernetes makes this object by itself in every cluster, or in every namespace."""
    made = _MADE_BY_KUBERNETES.get((kind.group, kind.kind))
    return made is not None and not made.isdisjoint({key, ("*", key.name)})


def has_content(content: ContentMatch, kind: GVK, facts: ObjectFacts, contents: ObjectContent) -> bool:
    """Say whether an object has what a match asks of its content; InvalidObject when that cannot be evaluated."""
    if asks_for_secret_type(content, kind):
        return bool(facts.kind_type) and contents.matches(content, known=facts.kind_type)
    return contents.matches(content)


def asks_for_secret_type(content: ContentMatch, kind: GVK) -> bool:
    """Say whether it is a Secret's type that is asked for, which is known without the body."""
    return content.key == "type" and kind.group == "" and kind.kind == "Secret"
