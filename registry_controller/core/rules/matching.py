"""Matches objects with the entries of a rule.

Law: an entry that cannot be evaluated is an error, never "no match".
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from registry_controller.api import meta
from registry_controller.api.meta import GVK, Manifest, ObjectKey
from registry_controller.api.selectors import Selector
from registry_controller.api.syncrule import ContentMatch, Match, RuleEntry, SyncRule
from registry_controller.core.rules.content import ObjectContent
from registry_controller.gotemplate.limits import Pool

CREDENTIAL_TYPES: Final = frozenset(("kubernetes.io/service-account-token", "bootstrap.kubernetes.io/token"))
"""Types of Secrets that grant access to their cluster: Kubernetes fills them with a token, or accepts their content."""

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
"""Namespace (`*` for every one) and name of objects that Kubernetes creates in every cluster, and again after a
deletion: no copy can replace them."""


class RequiredClause(enum.Enum):
    """The condition that a match needs to select objects that every cluster has itself."""

    ANYTHING = "anything"
    NAME = "name"
    TYPE = "type"


class ObjectFacts(Protocol):
    """The properties of an object that a match can check without its body. `kind_type` is a Secret's `type`."""

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
    """Return the entries of a rule that match an object of the rule's kind, in order.

    `body` is called at most once, and only when a match checks content that is not in `facts`. Raises InvalidObject
    for content that cannot be evaluated, or that takes too many steps of the object's budget or of the pool.
    """
    if facts.labels.get(meta.CORE_RESOURCE) == "true":
        return ()
    kind = rule.kind
    found: list[RuleEntry] = []
    content: ObjectContent | None = None
    for entry in rule.entries:
        if not entry.matches and find_required_clause(kind, facts) is None:
            found.append(entry)
        for match in entry.matches:
            if not _facts_match(match, kind, facts):
                continue
            if match.content:  # all clauses of the rule share one decoded body and one budget
                content = content or ObjectContent(body, pool=pool)
                if not all(has_content(clause, kind, facts, content) for clause in match.content):
                    continue
            found.append(entry)
            break
    return tuple(found)


def _facts_match(match: Match, kind: GVK, facts: ObjectFacts) -> bool:
    """Return whether an object fulfils all conditions of a match but those for its content."""
    namespace, name = facts.key
    if match.name not in ("", name) or match.namespace not in ("", namespace):
        return False
    if match.namespaces and namespace and namespace not in match.namespaces:
        return False
    if match.labels and not _is_selected(facts.labels, match.labels):
        return False
    if match.annotations and not _is_selected(facts.annotations, match.annotations):
        return False
    required = find_required_clause(kind, facts)
    return required is None or has_required_clause(match, required, kind)


def _is_selected(found: Mapping[str, str], selectors: Sequence[Selector]) -> bool:
    for selector in selectors:  # noqa: SIM110 - a generator costs more than the comparison
        if selector.matches(found):
            return True
    return False


def find_required_clause(kind: GVK, facts: ObjectFacts) -> RequiredClause | None:
    """Return the clause that a match needs to select an object; None for objects that need none (W7).

    The owner of an object chooses its name, labels and type. So a rule that does not ask for the type must not select
    a Secret that grants access. A rule that selects a namespace does not mean the objects that Kubernetes creates.
    """
    is_secret = kind.kind == "Secret" and not kind.group
    if is_secret and facts.kind_type in CREDENTIAL_TYPES:
        return RequiredClause.TYPE
    if (kind.group, kind.kind) in _MADE_BY_KUBERNETES and is_made_by_kubernetes(kind, facts.key):
        return RequiredClause.NAME
    if facts.key.namespace.startswith("kube-") or (is_secret and facts.kind_type == _HELM_RELEASE):
        return RequiredClause.ANYTHING
    return None


def has_required_clause(match: Match, required: RequiredClause | None, kind: GVK) -> bool:
    """Return whether a match has the required clause, if any is required."""
    match required:
        case None:
            return True
        case RequiredClause.ANYTHING:
            return not match.is_empty
        case RequiredClause.NAME:
            return bool(match.name)
        case RequiredClause.TYPE:
            return any(asks_for_secret_type(content, kind) for content in match.content)


def is_made_by_kubernetes(kind: GVK, key: ObjectKey) -> bool:
    """Return whether Kubernetes itself creates this object in every cluster, or in every namespace."""
    keys = _MADE_BY_KUBERNETES.get((kind.group, kind.kind))
    return keys is not None and not keys.isdisjoint({key, ("*", key.name)})


def has_content(clause: ContentMatch, kind: GVK, facts: ObjectFacts, content: ObjectContent) -> bool:
    """Return whether an object fulfils a content clause; raise InvalidObject when that cannot be evaluated."""
    if asks_for_secret_type(clause, kind):
        return bool(facts.kind_type) and content.matches(clause, known=facts.kind_type)
    return content.matches(clause)


def asks_for_secret_type(clause: ContentMatch, kind: GVK) -> bool:
    """Return whether a content clause asks for a Secret's type, which is known without the body."""
    return clause.key == "type" and kind.group == "" and kind.kind == "Secret"
