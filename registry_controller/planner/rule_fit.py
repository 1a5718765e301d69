"""What the rules here say of an object: which match it, and of the others which clause fails first.

Law: an opinion is that of the functions that decide.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from registry_controller.api.errors import InvalidObject
from registry_controller.api.feature import Feature, read_feature
from registry_controller.api.meta import GVK
from registry_controller.api.names import CORE_RULES
from registry_controller.cache.registry import StoredRule
from registry_controller.core.decision.state import SourceRef
from registry_controller.core.rules.mismatch import find_feature_mismatch, find_mismatch
from registry_controller.engine import Engine
from registry_controller.kube.watch import PartialObject
from registry_controller.planner.plan import find_idle_reason, get_rule_name
from registry_controller.watch.body_cache import decode_body


class Fit(enum.Enum):
    """How a rule stands to a source."""

    MATCHES = "matches"
    MISSES = "does not match"
    UNCLEAR = "cannot be evaluated"
    UNREAD = "acts here; whether it matches shows where the object can be read"
    IDLE = "does nothing here"


@dataclass(frozen=True, slots=True)
class RuleFit:
    """What one rule says of a source: how it fits, and, unless it matches, the clause that fails."""

    rule: str
    fit: Fit
    path: str = ""
    message: str = ""


def evaluate_rules(
    engine: Engine, ref: SourceRef, found: dict[GVK, PartialObject], *, features: tuple[Feature, ...]
) -> Sequence[RuleFit]:
    """Let every rule for the kind say how it stands to a source: those that match first."""
    opinions = [_evaluate_rule(engine, held, ref, found, features) for held in list_rules_for(engine, ref.kind)]
    return _sort_fits(opinions)


def evaluate_rules_without_object(engine: Engine, kind: GVK) -> Sequence[RuleFit]:
    """Let every rule for a kind say what it can of an object that could not be read: those that act here first."""
    return _sort_fits(
        _get_idle_fit(engine, held) or RuleFit(get_rule_name(held), Fit.UNREAD) for held in list_rules_for(engine, kind)
    )


def _sort_fits(opinions: Iterable[RuleFit]) -> Sequence[RuleFit]:
    """Put opinions into their order, without those of core rules that do not match: nobody wrote these."""
    shown = [one for one in opinions if one.rule not in CORE_RULES or one.fit is Fit.MATCHES]
    order = list(Fit)
    return sorted(shown, key=lambda opinion: (order.index(opinion.fit), opinion.rule))


def _evaluate_rule(
    engine: Engine, held: StoredRule, ref: SourceRef, found: dict[GVK, PartialObject], features: tuple[Feature, ...]
) -> RuleFit:
    rule, idle = held.rule, _get_idle_fit(engine, held)
    if rule is None or idle is not None:
        return idle or RuleFit(get_rule_name(held), Fit.IDLE)
    obj = found.get(rule.kind)
    if obj is None:
        return RuleFit(rule.name, Fit.MISSES, "spec.groupVersionKind", f"it cannot be read there as {rule.kind}")
    lacking = find_feature_mismatch(rule.features, features)
    cache = engine.sources.cache_of(ref.owner, rule.kind)
    try:
        if cache is not None and (unclear := cache.unclear.get(rule.name, {}).get(ref.key)):
            raise unclear
        miss = lacking or find_mismatch(rule, obj, lambda: decode_body(obj.raw, what=str(ref.key)))
    except InvalidObject as error:
        return RuleFit(rule.name, Fit.UNCLEAR, error.path, error.message)
    return RuleFit(rule.name, Fit.MISSES, miss.path, miss.message) if miss else RuleFit(rule.name, Fit.MATCHES)


def _get_idle_fit(engine: Engine, held: StoredRule) -> RuleFit | None:
    why = find_idle_reason(engine, held)
    return RuleFit(get_rule_name(held), Fit.IDLE, *why[:2]) if why is not None else None


def list_rules_for(engine: Engine, kind: GVK) -> Sequence[StoredRule]:
    """List the rules for a kind, in any version of it; those, too, that cannot be read any further."""
    return [held for _, held in sorted(engine.registry.rules.items()) if _read_kind(held) == (kind.group, kind.kind)]


def _read_kind(held: StoredRule) -> tuple[object, object]:
    if held.rule is not None:
        return held.rule.kind.group, held.rule.kind.kind
    spec = held.manifest.get("spec")
    kind = spec.get("groupVersionKind") if isinstance(spec, Mapping) else None
    return (kind.get("group") or "", kind.get("kind")) if isinstance(kind, Mapping) else ("", "")


def list_local_features(engine: Engine) -> tuple[Feature, ...]:
    found = []
    for manifest in engine.registry.features.values():
        try:
            found.append(read_feature(manifest))
        except InvalidObject:
            continue
    return tuple(found)
