"""Finds why a rule does not match an object: the first clause that fails, of the match that comes nearest.

Laws: there is a mismatch exactly when no entry matches · messages never contain values of annotations and contents,
which may be secrets.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final, NamedTuple

from registry_controller.api import meta
from registry_controller.api.cluster import ClusterIdentity
from registry_controller.api.feature import Feature, FeatureMatch
from registry_controller.api.meta import GVK, Manifest
from registry_controller.api.selectors import Operator, Requirement, Selector
from registry_controller.api.syncrule import Match, RuleEntry, SyncRule
from registry_controller.core.rules.content import ObjectContent
from registry_controller.core.rules.destinations import NAMES_PATH, SELECTOR_PATH, read_destinations
from registry_controller.core.rules.matching import (
    ObjectFacts,
    RequiredClause,
    asks_for_secret_type,
    find_required_clause,
    has_content,
    has_required_clause,
)

_MOST_SHOWN: Final = 10
"""Names in one message."""


class Mismatch(NamedTuple):
    """A clause that fails: the path of its field in the rule, and the cause. `passed` clauses before it hold."""

    path: str
    message: str
    passed: int = 0

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


def find_mismatch(rule: SyncRule, facts: ObjectFacts, body: Callable[[], Manifest]) -> Mismatch | None:
    """Return why a rule does not match an object of its kind; None when it matches.

    Raises InvalidObject for content that cannot be evaluated.
    """
    if facts.labels.get(meta.CORE_RESOURCE) == "true":
        return Mismatch("spec.rules", f"the object has the label {meta.CORE_RESOURCE}: the daemon itself created it")
    nearest: Mismatch | None = None
    content = ObjectContent(body)
    for entry in rule.entries:
        for mismatch in _check_entry(entry, rule.kind, facts, content):
            if mismatch is None:
                return None
            nearest = mismatch if nearest is None or mismatch.passed > nearest.passed else nearest
    return nearest or Mismatch("spec.rules", "is empty and matches nothing")


def find_feature_mismatch(matches: tuple[FeatureMatch, ...], features: tuple[Feature, ...]) -> Mismatch | None:
    """Return the first feature match that a peer's features do not fulfil; None when they fulfil all."""
    for index, match in enumerate(matches):
        if not match.matches(features):
            name = f"featureName {match.feature_name}" if match.feature_name else ""
            labels = "the labels that the rule asks for" if match.selector.requirements else ""
            conditions = " and ".join(filter(None, (name, labels)))
            feature = f"ClusterFeature with {conditions}" if conditions else "ClusterFeature at all"
            return Mismatch(f"spec.clusterFeatureMatch[{index}]", f"that cluster has no {feature}")
    return None


def get_target_mismatch(rule: SyncRule, *, selected: bool | None) -> Mismatch | None:
    """Return why a rule does not act in this cluster; None when it does. `selected` is None while that is unknown."""
    if selected is None:
        message = "cannot be evaluated: there must be exactly one Cluster with this cluster's ID"
        return Mismatch("spec.objectTargets" if rule.targets is None else "spec.targetClusters", message)
    return None if selected else Mismatch("spec.targetClusters", "does not select this cluster")


def find_destination_mismatch(rule: SyncRule, facts: ObjectFacts, own: ClusterIdentity | None) -> Mismatch | None:
    """Return why an object is not for a cluster by the annotations that a rule requires; None when it is.

    `own` is the Cluster of that cluster; with None, the object must only name any. Raises InvalidObject for annotations
    that cannot be read.
    """
    if not rule.requires_targets:
        return None
    path = "spec.objectTargets"
    if facts.kind_type == meta.REGISTRY_SECRET_TYPE:
        return Mismatch(path, "is not for the Secrets of the registry, which the core rules copy")
    found = read_destinations(facts.annotations)
    if found.names is None and found.selector is None:
        return Mismatch(path, f"the object names no cluster: it has no annotation {meta.TARGET_CLUSTERS}")
    if found.is_empty:
        return Mismatch(NAMES_PATH if found.names == () else SELECTOR_PATH, "is empty: the object names no cluster")
    if own is None or found.include(own):
        return None
    if found.names is not None and own.name not in found.names:
        return Mismatch(NAMES_PATH, f'does not name this cluster, "{own.name}"')
    return Mismatch(SELECTOR_PATH, f'does not select the labels of this cluster\'s Cluster, "{own.name}"')


def describe_ignored_names(
    rule: SyncRule, facts: ObjectFacts, *, owner: str, known: Collection[str]
) -> Iterator[tuple[str, str]]:
    """Yield the path and the cause for each group of names in an object's annotations that have no effect.

    `owner` is the name of the object's own cluster, `known` are the names of all Clusters here.
    """
    if not rule.requires_targets or facts.kind_type == meta.REGISTRY_SECRET_TYPE:
        return
    found = read_destinations(facts.annotations)
    if unknown := found.find_unknown(known):
        yield NAMES_PATH, f"no Cluster here has the name {_join_quoted(unknown[:_MOST_SHOWN])}"
    if owner in (found.names or ()):
        yield NAMES_PATH, f'"{owner}" is the cluster of the object itself, which needs no copy'


def _check_entry(entry: RuleEntry, kind: GVK, facts: ObjectFacts, content: ObjectContent) -> Iterator[Mismatch | None]:
    """Yield the mismatch of each match of an entry; None for a match that holds."""
    if not entry.matches:
        required = find_required_clause(kind, facts)
        yield _build_required_mismatch(required, f"{entry.path}.match", facts) if required is not None else None
    for match in entry.matches:
        results = list(_check_until_failure(match, kind, facts, content))
        yield results[-1]._replace(passed=len(results) - 1) if results and results[-1] is not None else None


def _build_required_mismatch(required: RequiredClause, path: str, facts: ObjectFacts) -> Mismatch:
    """Return the mismatch of a match without the clause that an object of the cluster's own requires (W7)."""
    match required:
        case RequiredClause.ANYTHING:
            message = "has no condition, which excludes objects that every cluster has itself; name or select them"
            return Mismatch(path, message)
        case RequiredClause.NAME:
            message = f'Kubernetes itself creates "{facts.key.name}" in every cluster: a match must name it'
            return Mismatch(f"{path}.objectKey.name", message)
        case RequiredClause.TYPE:
            message = f'the type is "{facts.kind_type}", which grants access to a cluster'
            return Mismatch(f"{path}.content", f"{message}: a match must ask for that type")


def _check_until_failure(
    match: Match, kind: GVK, facts: ObjectFacts, content: ObjectContent
) -> Iterator[Mismatch | None]:
    """Yield None for each clause that holds, up to the mismatch of the first clause that fails."""
    for mismatch in _check_clauses(match, kind, facts, content):
        yield mismatch
        if mismatch is not None:
            return


def _check_clauses(match: Match, kind: GVK, facts: ObjectFacts, content: ObjectContent) -> Iterator[Mismatch | None]:
    namespace, name = facts.key
    path = match.path
    if match.name:
        message = f'the name is "{name}", the rule asks for "{match.name}"'
        yield None if match.name == name else Mismatch(f"{path}.objectKey.name", message)
    if match.namespace:
        message = f'the namespace is "{namespace}", the rule asks for "{match.namespace}"'
        yield None if match.namespace == namespace else Mismatch(f"{path}.objectKey.namespace", message)
    if match.namespaces and namespace:
        message = f'the namespace is "{namespace}", the rule asks for {_join_quoted(match.namespaces)}'
        yield None if namespace in match.namespaces else Mismatch(f"{path}.namespaces", message)
    if match.labels:
        yield _check_selectors(match.labels, facts.labels, f"{path}.labels", noun="label")
    if match.annotations:
        yield _check_selectors(match.annotations, facts.annotations, f"{path}.annotations", noun="annotation")
    required = find_required_clause(kind, facts)
    if required is not None:
        yield None if has_required_clause(match, required, kind) else _build_required_mismatch(required, path, facts)
    for clause in match.content:
        if has_content(clause, kind, facts, content):
            yield None
        elif asks_for_secret_type(clause, kind):
            message = f'the type is "{facts.kind_type}", the rule asks for "{clause.value}"'
            yield Mismatch(clause.path, message)
        else:
            yield Mismatch(clause.path, f"{clause.key} does not have the value that the rule asks for")


def _check_selectors(
    selectors: tuple[Selector, ...], pairs: Mapping[str, str], path: str, *, noun: str
) -> Mismatch | None:
    """Return why none of several selectors matches: the mismatch of the selector of which most requirements hold."""
    nearest: Mismatch | None = None
    for index, selector in enumerate(selectors):
        failing = [requirement for requirement in selector.requirements if not requirement.matches(pairs)]
        if not failing:
            return None
        passed = len(selector.requirements) - len(failing)
        if nearest is None or passed > nearest.passed:
            nearest = Mismatch(f"{path}[{index}]", _describe_requirement(failing[0], pairs, noun=noun), passed)
    return nearest


def _describe_requirement(requirement: Requirement, pairs: Mapping[str, str], *, noun: str) -> str:
    key, values = requirement.key, _join_quoted(sorted(requirement.values))
    value = pairs.get(key)
    actual = f"{noun} {key} is missing" if value is None else f'{noun} {key} is "{value}"'
    if noun != "label" and value is not None:
        actual = f"{noun} {key} has another value"
    match requirement.operator:
        case Operator.IN:
            return f"{actual}, the rule asks for {values}"
        case Operator.NOT_IN:
            return f"{noun} {key} is one of {values}, which the rule excludes"
        case Operator.EXISTS:
            return f"{actual}, the rule asks for objects that have it"
        case Operator.DOES_NOT_EXIST:
            return f"{noun} {key} is set, the rule asks for objects without it"


def _join_quoted(values: tuple[str, ...] | list[str]) -> str:
    return " or ".join(f'"{value}"' for value in values)
