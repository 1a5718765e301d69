"""Which objects a rule asks for, and with which of its entries.

Law: what cannot be evaluated is an error, never "no match".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol

from registry_controller.api import meta
from registry_controller.api.meta import GVK, Manifest, ObjectKey
from registry_controller.api.syncrule import ContentMatch, Match, RuleEntry, SyncRule
from registry_controller.core.content import Contents
from registry_controller.gotemplate.limits import Pool

CREDENTIAL_TYPES: Final = frozenset(("kubernetes.io/service-account-token", "bootstrap.kubernetes.io/token"))
"""Types of Secrets that Kubernetes fills with a token of the cluster in which they are, or lets their reader in by."""

_CLUSTERS_OWN_SECRETS: Final = CREDENTIAL_TYPES | {"helm.sh/release.v1"}
_CLUSTERS_OWN_CONFIG_MAP: Final = "kube-root-ca.crt"


class Facts(Protocol):
    """What a match may ask of an object without its body. `kind_type` is a Secret's `type`."""

    @property
    def key(self) -> ObjectKey: ...

    @property
    def labels(self) -> Mapping[str, str]: ...

    @property
    def annotations(self) -> Mapping[str, str]: ...

    @property
    def kind_type(self) -> str: ...


def matching_entries(
    rule: SyncRule, facts: Facts, body: Callable[[], Manifest], *, pool: Pool | None = None
) -> tuple[RuleEntry, ...]:
    """Find the entries of a rule that match an object of the rule's kind, in order.

    `body` is called at most once, and only when a match asks for content that `facts` cannot answer. Raises
    InvalidObject for content that cannot be evaluated, or takes too many steps in all, or of the pool.
    """
    if facts.labels.get(meta.CORE_RESOURCE) == "true":
        return ()
    contents = Contents(body, pool=pool)
    return tuple(entry for entry in rule.entries if _entry_matches(entry, rule.kind, facts, contents))


def needs_body(rule: SyncRule) -> bool:
    """Say whether the rule asks for content that is not known without the body."""
    return any(
        not is_secret_type(content, rule.kind)
        for entry in rule.entries
        for match in entry.matches
        for content in match.content
    )


def _entry_matches(entry: RuleEntry, kind: GVK, facts: Facts, contents: Contents) -> bool:
    if not entry.matches:
        return not is_clusters_own(kind, facts)
    return any(_matches(match, kind, facts, contents) for match in entry.matches)


def _matches(match: Match, kind: GVK, facts: Facts, contents: Contents) -> bool:
    if match.is_empty:
        return not is_clusters_own(kind, facts)
    namespace, name = facts.key
    return (
        match.name in ("", name)
        and match.namespace in ("", namespace)
        and (not match.namespaces or not namespace or namespace in match.namespaces)
        and (not match.labels or any(selector.matches(facts.labels) for selector in match.labels))
        and (not match.annotations or any(selector.matches(facts.annotations) for selector in match.annotations))
        and asks_for_type(match, kind, facts)
        and all(content_holds(content, kind, facts, contents) for content in match.content)
    )


def asks_for_type(match: Match, kind: GVK, facts: Facts) -> bool:
    """Say whether a match may have a Secret of its type: one that lets somebody in here is to be asked for by type.

    Whoever offers an object chooses its name, labels and type: a rule that selects by others means no such Secret.
    """
    is_credential = (kind.group, kind.kind) == ("", "Secret") and facts.kind_type in CREDENTIAL_TYPES
    return not is_credential or any(is_secret_type(content, kind) for content in match.content)


def content_holds(content: ContentMatch, kind: GVK, facts: Facts, contents: Contents) -> bool:
    """Say whether an object has what a match asks of its content; InvalidObject when that cannot be evaluated."""
    if is_secret_type(content, kind):
        return bool(facts.kind_type) and contents.hold(content, known=facts.kind_type)
    return contents.hold(content)


def is_secret_type(content: ContentMatch, kind: GVK) -> bool:
    """Say whether it is a Secret's type that is asked for, which is known without the body."""
    return content.key == "type" and kind.group == "" and kind.kind == "Secret"


def is_clusters_own(kind: GVK, facts: Facts) -> bool:
    """Say whether every cluster has its own of this, so that "everything of the kind" leaves it out (W7)."""
    if facts.key.namespace.startswith("kube-"):
        return True
    if kind.group:
        return False
    if kind.kind == "Secret":
        return facts.kind_type in _CLUSTERS_OWN_SECRETS
    return kind.kind == "ConfigMap" and facts.key.name == _CLUSTERS_OWN_CONFIG_MAP
