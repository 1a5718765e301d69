"""Evaluates the local rules on an object: which rules match it, and which clause of each other rule fails first.

Law: the functions that decide evaluate the rules.
"""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from registry_controller.api.errors import InvalidObject
from registry_controller.api.feature import Feature, read_feature
from registry_controller.api.meta import GVK, Target
from registry_controller.api.names import CORE_RULES
from registry_controller.api.syncrule import SyncRule
from registry_controller.cache.stored_objects import StoredRule
from registry_controller.core.decision.marks import is_made_by_controller, is_membership, read_marks
from registry_controller.core.decision.state import SourceRef
from registry_controller.core.rules.mismatch import (
    describe_ignored_names,
    find_destination_mismatch,
    find_feature_mismatch,
    find_mismatch,
)
from registry_controller.engine import Engine
from registry_controller.kube.object import PartialObject, decode_body
from registry_controller.planner.plan import find_idle_reason, get_rule_name

_MADE_FROM_COPY: Final = "a controller made it from a copy, and copied the annotations of the copy to it"


class Fit(enum.Enum):
    """The result of evaluating a rule on a source; the values are the words of `explain`."""

    MATCHES = "matches"
    MISSES = "does not match"
    UNCLEAR = "cannot be evaluated"
    UNREAD = "acts here; it cannot be evaluated without reading the object"
    IDLE = "does nothing here"


@dataclass(frozen=True, slots=True)
class RuleFit:
    """One rule's result for a source; `path` and `message` describe the clause that fails, unless the rule matches.

    `notes` name the parts of the object's annotations that have no effect.
    """

    rule: str
    fit: Fit
    path: str = ""
    message: str = ""
    notes: tuple[str, ...] = ()


def evaluate_rules(
    engine: Engine, ref: SourceRef, found: dict[GVK, PartialObject], *, features: tuple[Feature, ...]
) -> Sequence[RuleFit]:
    """Return how each rule for the kind fits a source, rules that match first.

    `found` holds the object in each version in which it was read, `features` the features of its cluster.
    """
    return _sort_fits(
        _evaluate_rule(engine, stored, ref, found, features) for stored in list_rules_for(engine, ref.kind)
    )


def evaluate_rules_without_object(engine: Engine, kind: GVK) -> Sequence[RuleFit]:
    """Return which rules for a kind act here, those that act first; for an object that could not be read."""
    return _sort_fits(
        _get_idle_fit(engine, stored) or RuleFit(get_rule_name(stored), Fit.UNREAD)
        for stored in list_rules_for(engine, kind)
    )


def _sort_fits(fits: Iterable[RuleFit]) -> Sequence[RuleFit]:
    """Sort fits by `Fit` and rule; leave out core rules that do not match, because the daemon itself created them."""
    shown = [fit for fit in fits if fit.rule not in CORE_RULES or fit.fit is Fit.MATCHES]
    order = list(Fit)
    return sorted(shown, key=lambda fit: (order.index(fit.fit), fit.rule))


def _evaluate_rule(
    engine: Engine, stored: StoredRule, ref: SourceRef, found: dict[GVK, PartialObject], features: tuple[Feature, ...]
) -> RuleFit:
    rule, idle = stored.rule, _get_idle_fit(engine, stored)
    if rule is None or idle is not None:
        return idle or RuleFit(get_rule_name(stored), Fit.IDLE)
    obj = found.get(rule.kind)
    if obj is None:
        return RuleFit(rule.name, Fit.MISSES, "spec.groupVersionKind", f"its cluster does not serve it as {rule.kind}")
    if _is_made_by_controller(obj, rule.kind, ref):
        return RuleFit(rule.name, Fit.MISSES, "metadata.ownerReferences", _MADE_FROM_COPY)
    lacking = find_feature_mismatch(rule.features, features)
    cache = engine.sources.cache_of(ref.owner, rule.kind)
    try:
        if cache is not None and (unclear := cache.unclear.get(rule.name, {}).get(ref.key)):
            raise unclear
        miss = lacking or find_mismatch(rule, obj, lambda: decode_body(obj))
        if miss is not None:
            return RuleFit(rule.name, Fit.MISSES, miss.path, miss.message)
        # An object of this cluster goes to other clusters, which compare it with their own Clusters.
        miss = find_destination_mismatch(rule, obj, engine.selection.own if ref.owner != engine.local else None)
        notes = tuple(_list_ignored_names(engine, rule, obj, ref))
    except InvalidObject as error:
        return RuleFit(rule.name, Fit.UNCLEAR, error.path, error.message)
    fit = RuleFit(rule.name, Fit.MATCHES) if miss is None else RuleFit(rule.name, Fit.MISSES, miss.path, miss.message)
    return replace(fit, notes=notes)


def _list_ignored_names(engine: Engine, rule: SyncRule, obj: PartialObject, ref: SourceRef) -> Iterator[str]:
    """List the names in the annotations of an object that have no effect (W9)."""
    known, owner = engine.registry.clusters.keys(), engine.clusters.name_of(ref.owner)
    for path, message in describe_ignored_names(rule, obj, owner=owner, known=known):
        yield f"{path}: {message}"


def _is_made_by_controller(obj: PartialObject, kind: GVK, ref: SourceRef) -> bool:
    """Return whether an object is no source for any rule, because a controller made it from a copy."""
    if is_membership(kind, obj.kind_type):
        return False
    marks = read_marks(obj.annotations, of=Target(kind.group, kind.kind, *ref.key))
    return is_made_by_controller(marks, lambda: decode_body(obj), peer=ref.owner)


def _get_idle_fit(engine: Engine, stored: StoredRule) -> RuleFit | None:
    reason = find_idle_reason(engine, stored)
    return RuleFit(get_rule_name(stored), Fit.IDLE, reason.path, reason.message) if reason is not None else None


def list_rules_for(engine: Engine, kind: GVK) -> Sequence[StoredRule]:
    """List the rules for a kind in any of its versions, including rules that are not accepted."""
    return [
        stored for _, stored in sorted(engine.registry.rules.items()) if _read_kind(stored) == (kind.group, kind.kind)
    ]


def _read_kind(stored: StoredRule) -> tuple[object, object]:
    if stored.rule is not None:
        return stored.rule.kind.group, stored.rule.kind.kind
    spec = stored.manifest.get("spec")
    kind = spec.get("groupVersionKind") if isinstance(spec, Mapping) else None
    return (kind.get("group") or "", kind.get("kind")) if isinstance(kind, Mapping) else ("", "")


def list_local_features(engine: Engine) -> tuple[Feature, ...]:
    """List the local cluster's features; features that cannot be read are left out."""
    features = []
    for manifest in engine.registry.features.values():
        with contextlib.suppress(InvalidObject):
            features.append(read_feature(manifest))
    return tuple(features)
