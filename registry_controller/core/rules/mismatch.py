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
from registry_controller.core.rules.content import Contents
from registry_controller.core.rules.matching import Asked, Facts, asks, content_holds, is_secret_type, to_be_asked


class Miss(NamedTuple):
    """A clause that fails: the path of its field in the rule, and why. `held` clauses before it do hold."""

    path: str
    words: str
    held: int = 0

    def __str__(self) -> str:
        return f"{self.path}: {self.words}"


def miss_of(rule: SyncRule, facts: Facts, body: Callable[[], Manifest]) -> Miss | None:
    """Say why a rule does not match an object of its kind; None when it does.

    Raises InvalidObject for content that cannot be evaluated.
    """
    if facts.labels.get(meta.CORE_RESOURCE) == "true":
        return Miss("spec.rules", f"the object has the label {meta.CORE_RESOURCE}: the daemon made it itself")
    nearest: Miss | None = None
    contents = Contents(body)
    for entry in rule.entries:
        for miss in _misses(entry, rule.kind, facts, contents):
            if miss is None:
                return None
            nearest = miss if nearest is None or miss.held > nearest.held else nearest
    return nearest or Miss("spec.rules", "is empty and matches nothing")


def feature_miss(asked: tuple[FeatureMatch, ...], features: tuple[Feature, ...]) -> Miss | None:
    """Say which feature a peer lacks that a rule asks for; None when it has all of them."""
    for index, wanted in enumerate(asked):
        if not wanted.matches(features):
            name = f"featureName {wanted.feature_name}" if wanted.feature_name else ""
            labels = "the labels that are asked for" if wanted.selector.requirements else ""
            asked_for = " and ".join(filter(None, (name, labels)))
            words = f"ClusterFeature with {asked_for}" if asked_for else "ClusterFeature at all"
            return Miss(f"spec.clusterFeatureMatch[{index}]", f"that cluster has no {words}")
    return None


def targets_miss(selected: bool | None) -> Miss | None:
    """Say why a rule is not for this cluster; None when it is. `selected` is None while that cannot be judged."""
    if selected is None:
        return Miss("spec.targetClusters", "cannot be judged while not exactly one Cluster has this cluster's ID")
    return None if selected else Miss("spec.targetClusters", "does not select this cluster")


def _misses(entry: RuleEntry, kind: GVK, facts: Facts, contents: Contents) -> Iterator[Miss | None]:
    """Give one answer for each match of an entry; None for one that holds."""
    if not entry.matches:
        wanted = to_be_asked(kind, facts)
        yield _own_miss(wanted, f"{entry.path}.match", facts) if wanted is not None else None
    for match in entry.matches:
        answers = list(_clauses(match, kind, facts, contents))
        yield answers[-1]._replace(held=len(answers) - 1) if answers and answers[-1] is not None else None


def _own_miss(wanted: Asked, path: str, facts: Facts) -> Miss:
    """Say what a match does not ask for, and has to for what every cluster has of its own (W7)."""
    match wanted:
        case Asked.ANYTHING:
            return Miss(
                path, "asks for nothing, and so leaves out what every cluster has of its own; name or select it"
            )
        case Asked.NAME:
            words = f'Kubernetes itself makes "{facts.key.name}" in every cluster: a match has to name it'
            return Miss(f"{path}.objectKey.name", words)
        case Asked.TYPE:
            words = f'the type is "{facts.kind_type}", which lets somebody into a cluster'
            return Miss(f"{path}.content", f"{words}: a match has to ask for that type")


def _clauses(match: Match, kind: GVK, facts: Facts, contents: Contents) -> Iterator[Miss | None]:
    """Give an answer for each clause that asks for something, up to the first that fails."""
    for found in _answers(match, kind, facts, contents):
        yield found
        if found is not None:
            return


def _answers(match: Match, kind: GVK, facts: Facts, contents: Contents) -> Iterator[Miss | None]:
    namespace, name = facts.key
    path = match.path
    if match.name:
        words = f'the name is "{name}", the rule asks for "{match.name}"'
        yield None if match.name == name else Miss(f"{path}.objectKey.name", words)
    if match.namespace:
        words = f'the namespace is "{namespace}", the rule asks for "{match.namespace}"'
        yield None if match.namespace == namespace else Miss(f"{path}.objectKey.namespace", words)
    if match.namespaces and namespace:
        words = f'the namespace is "{namespace}", the rule asks for {_spell(match.namespaces)}'
        yield None if namespace in match.namespaces else Miss(f"{path}.namespaces", words)
    if match.labels:
        yield _selector_miss(match.labels, facts.labels, f"{path}.labels", noun="label")
    if match.annotations:
        yield _selector_miss(match.annotations, facts.annotations, f"{path}.annotations", noun="annotation")
    wanted = to_be_asked(kind, facts)
    if wanted is not None:
        yield None if asks(match, wanted, kind) else _own_miss(wanted, path, facts)
    for content in match.content:
        if content_holds(content, kind, facts, contents):
            yield None
        elif is_secret_type(content, kind):
            words = f'the type is "{facts.kind_type}", the rule asks for "{content.value}"'
            yield Miss(content.path, words)
        else:
            yield Miss(content.path, f"{content.key} does not have the value that the rule asks for")


def _selector_miss(choices: tuple[Selector, ...], found: Mapping[str, str], path: str, *, noun: str) -> Miss | None:
    """Say why none of several selectors holds: of the one of which most holds."""
    nearest: Miss | None = None
    for index, selector in enumerate(choices):
        failing = [wanted for wanted in selector.requirements if not wanted.matches(found)]
        if not failing:
            return None
        held = len(selector.requirements) - len(failing)
        if nearest is None or held > nearest.held:
            nearest = Miss(f"{path}[{index}]", _requirement_words(failing[0], found, noun=noun), held)
    return nearest


def _requirement_words(wanted: Requirement, found: Mapping[str, str], *, noun: str) -> str:
    value = found.get(wanted.key)
    has = f"{noun} {wanted.key} is missing" if value is None else f'{noun} {wanted.key} is "{value}"'
    if noun != "label" and value is not None:
        has = f"{noun} {wanted.key} has another value"
    match wanted.operator:
        case Operator.IN:
            return f"{has}, the rule asks for {_spell(sorted(wanted.values))}"
        case Operator.NOT_IN:
            return f"{noun} {wanted.key} is one of {_spell(sorted(wanted.values))}, which the rule leaves out"
        case Operator.EXISTS:
            return f"{has}, the rule asks for objects that have it"
        case Operator.DOES_NOT_EXIST:
            return f"{noun} {wanted.key} is there, the rule asks for objects without it"


def _spell(values: tuple[str, ...] | list[str]) -> str:
    return " or ".join(f'"{value}"' for value in values)
