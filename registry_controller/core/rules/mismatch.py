"""Why a rule does not match an object: the first clause that fails, of the match that comes nearest.

Laws: there is a miss exactly when the rule matches nothing · values of annotations and contents are never spelled,
because they may be anybody's secrets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from registry_controller.api import meta
from registry_controller.api.feature import Feature, FeatureMatch
from registry_controller.api.meta import GVK, Manifest
from registry_controller.api.selectors import Operator, Requirement, Selector
from registry_controller.api.syncrule import Match, RuleEntry, SyncRule
from registry_controller.core.rules.content import ObjectContent
from registry_controller.core.rules.matching import (
    ObjectFacts,
    RequiredClause,
    asks_for_secret_type,
    find_required_clause,
    has_content,
    has_required_clause,
)


class Mismatch(NamedTuple):
    """A clause that fails: the path of its field in the rule, and why. `held` clauses before it do hold."""

    path: str
    message: str
    passed: int = 0

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


def find_mismatch(rule: SyncRule, facts: ObjectFacts, body: Callable[[], Manifest]) -> Mismatch | None:
    """Say why a rule does not match an object of its kind; None when it does.

    Raises InvalidObject for content that cannot be evaluated.
    """
    if facts.labels.get(meta.CORE_RESOURCE) == "true":
        return Mismatch("spec.rules", f"the object has the label {meta.CORE_RESOURCE}: the daemon made it itself")
    nearest: Mismatch | None = None
    contents = ObjectContent(body)
    for entry in rule.entries:
        for miss in _check_entry(entry, rule.kind, facts, contents):
            if miss is None:
                return None
            nearest = miss if nearest is None or miss.passed > nearest.passed else nearest
    return nearest or Mismatch("spec.rules", "is empty and matches nothing")


def find_feature_mismatch(asked: tuple[FeatureMatch, ...], features: tuple[Feature, ...]) -> Mismatch | None:
    """Say which feature a peer lacks that a rule asks for; None when it has all of them."""
    for index, wanted in enumerate(asked):
        if not wanted.matches(features):
            name = f"featureName {wanted.feature_name}" if wanted.feature_name else ""
            labels = "the labels that are asked for" if wanted.selector.requirements else ""
            asked_for = " and ".join(filter(None, (name, labels)))
            words = f"ClusterFeature with {asked_for}" if asked_for else "ClusterFeature at all"
            return Mismatch(f"spec.clusterFeatureMatch[{index}]", f"that cluster has no {words}")
    return None


def get_target_mismatch(selected: bool | None) -> Mismatch | None:
    """Say why a rule is not for this cluster; None when it is. `selected` is None while that cannot be judged."""
    if selected is None:
        return Mismatch("spec.targetClusters", "cannot be judged while not exactly one Cluster has this cluster's ID")
    return None if selected else Mismatch("spec.targetClusters", "does not select this cluster")


def _check_entry(entry: RuleEntry, kind: GVK, facts: ObjectFacts, contents: ObjectContent) -> Iterator[Mismatch | None]:
    """Give one answer for each match of an entry; None for one that holds."""
    if not entry.matches:
        wanted = find_required_clause(kind, facts)
        yield _build_required_mismatch(wanted, f"{entry.path}.match", facts) if wanted is not None else None
    for match in entry.matches:
        answers = list(_check_until_failure(match, kind, facts, contents))
        yield answers[-1]._replace(passed=len(answers) - 1) if answers and answers[-1] is not None else None


def _build_required_mismatch(wanted: RequiredClause, path: str, facts: ObjectFacts) -> Mismatch:
    """Say what a match does not ask for, and has to for what every cluster has of its own (W7)."""
    match wanted:
        case RequiredClause.ANYTHING:
            return Mismatch(
                path, "asks for nothing, and so leaves out what every cluster has of its own; name or select it"
            )
        case RequiredClause.NAME:
            words = f'Kubernetes itself makes "{facts.key.name}" in every cluster: a match has to name it'
            return Mismatch(f"{path}.objectKey.name", words)
        case RequiredClause.TYPE:
            words = f'the type is "{facts.kind_type}", which lets somebody into a cluster'
            return Mismatch(f"{path}.content", f"{words}: a match has to ask for that type")


def _check_until_failure(
    match: Match, kind: GVK, facts: ObjectFacts, contents: ObjectContent
) -> Iterator[Mismatch | None]:
    """Give an answer for each clause that asks for something, up to the first that fails."""
    for found in _check_clauses(match, kind, facts, contents):
        yield found
        if found is not None:
            return


def _check_clauses(match: Match, kind: GVK, facts: ObjectFacts, contents: ObjectContent) -> Iterator[Mismatch | None]:
    namespace, name = facts.key
    path = match.path
    if match.name:
        words = f'the name is "{name}", the rule asks for "{match.name}"'
        yield None if match.name == name else Mismatch(f"{path}.objectKey.name", words)
    if match.namespace:
        words = f'the namespace is "{namespace}", the rule asks for "{match.namespace}"'
        yield None if match.namespace == namespace else Mismatch(f"{path}.objectKey.namespace", words)
    if match.namespaces and namespace:
        words = f'the namespace is "{namespace}", the rule asks for {_join_quoted(match.namespaces)}'
        yield None if namespace in match.namespaces else Mismatch(f"{path}.namespaces", words)
    if match.labels:
        yield _check_selectors(match.labels, facts.labels, f"{path}.labels", noun="label")
    if match.annotations:
        yield _check_selectors(match.annotations, facts.annotations, f"{path}.annotations", noun="annotation")
    wanted = find_required_clause(kind, facts)
    if wanted is not None:
        yield None if has_required_clause(match, wanted, kind) else _build_required_mismatch(wanted, path, facts)
    for content in match.content:
        if has_content(content, kind, facts, contents):
            yield None
        elif asks_for_secret_type(content, kind):
            words = f'the type is "{facts.kind_type}", the rule asks for "{content.value}"'
            yield Mismatch(content.path, words)
        else:
            yield Mismatch(content.path, f"{content.key} does not have the value that the rule asks for")


def _check_selectors(
    choices: tuple[Selector, ...], found: Mapping[str, str], path: str, *, noun: str
) -> Mismatch | None:
    """Say why none of several selectors holds: of the one of which most holds."""
    nearest: Mismatch | None = None
    for index, selector in enumerate(choices):
        failing = [wanted for wanted in selector.requirements if not wanted.matches(found)]
        if not failing:
            return None
        held = len(selector.requirements) - len(failing)
        if nearest is None or held > nearest.passed:
            nearest = Mismatch(f"{path}[{index}]", _describe_requirement(failing[0], found, noun=noun), held)
    return nearest


def _describe_requirement(wanted: Requirement, found: Mapping[str, str], *, noun: str) -> str:
    value = found.get(wanted.key)
    has = f"{noun} {wanted.key} is missing" if value is None else f'{noun} {wanted.key} is "{value}"'
    if noun != "label" and value is not None:
        has = f"{noun} {wanted.key} has another value"
    match wanted.operator:
        case Operator.IN:
            return f"{has}, the rule asks for {_join_quoted(sorted(wanted.values))}"
        case Operator.NOT_IN:
            return f"{noun} {wanted.key} is one of {_join_quoted(sorted(wanted.values))}, which the rule leaves out"
        case Operator.EXISTS:
            return f"{has}, the rule asks for objects that have it"
        case Operator.DOES_NOT_EXIST:
            return f"{noun} {wanted.key} is there, the rule asks for objects without it"


def _join_quoted(values: tuple[str, ...] | list[str]) -> str:
    return " or ".join(f'"{value}"' for value in values)
