"""Builds the selections with which a rule's kind is listed and watched at peers (R1).

Law: a selection contains every object that the rule matches; the rule is evaluated on each object that is received.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Final

from registry_controller.api import validation
from registry_controller.api.selection import EVERYTHING, Selection
from registry_controller.api.selectors import Operator, Requirement, split_requirements
from registry_controller.api.syncrule import Match, SyncRule

_MAX_NAMESPACES: Final = 16
_MAX_SELECTIONS: Final = 32
"""More lists and watches than this cost a server more than one over all objects."""
_MAX_QUERY_LENGTH: Final = 2048
"""Characters of a selector: it is a part of a URL, whose length servers and proxies limit."""
_MAX_REQUIREMENTS: Final = 4


def build_selections(rule: SyncRule, *, namespaced: bool = True) -> tuple[Selection, ...]:
    """Return a rule's selections, sorted; none when the rule matches nothing.

    `namespaced` is true for a kind whose objects are in namespaces; objects of other kinds ignore `namespaces`.
    """
    return join_selections(
        selection for entry in rule.entries for selection in _list_selections(rule, entry.matches, namespaced)
    )


def join_selections(selections: Iterable[Selection]) -> tuple[Selection, ...]:
    """Join the selections of several rules for one kind; leave out a selection that another one contains."""
    distinct = set(selections)
    kept = [selection for selection in distinct if not any(wider in distinct for wider in list_wider(selection))]
    return tuple(sorted(kept)) if len(kept) <= _MAX_SELECTIONS else (EVERYTHING,)


def list_wider(selection: Selection) -> Iterator[Selection]:
    """Yield selections that contain all objects of this one: the same with parts, or with requirements, left out.

    There are at most 512, so that a set of many selections needs no comparison in pairs. A wider selection with another
    spelling, `a in (1,2)` for `a=1`, is not among them.
    """
    parts = ({selection.namespace, ""}, _list_weaker(selection.labels), _list_weaker(selection.fields))
    for namespace, labels, fields in itertools.product(*parts):
        if (namespace, labels, fields) != selection:
            yield Selection(namespace, labels, fields)


def _list_weaker(selector: str) -> set[str]:
    """Return a selector with any of its requirements left out; for a long one, only itself and the empty selector."""
    requirements = split_requirements(selector)
    if not 1 < len(requirements) <= _MAX_REQUIREMENTS:
        return {selector, ""}
    chosen = itertools.product(*((requirement, "") for requirement in requirements))
    return {",".join(filter(None, kept)) for kept in chosen}


def _list_selections(rule: SyncRule, matches: tuple[Match, ...], namespaced: bool) -> Iterator[Selection]:
    if not matches:
        yield EVERYTHING
    is_secret = rule.kind.group == "" and rule.kind.kind == "Secret"
    for match in matches:
        labels, fields = _build_label_selector(match), _build_field_selector(match, is_secret=is_secret)
        for namespace in _list_namespaces(match) if namespaced else ("",):
            yield Selection(namespace, labels, fields)


def _list_namespaces(match: Match) -> tuple[str, ...]:
    wanted = (match.namespace,) if match.namespace else match.namespaces
    if not wanted or len(wanted) > _MAX_NAMESPACES or not all(validation.is_namespace(name) for name in wanted):
        return ("",)
    return wanted


def _build_field_selector(match: Match, *, is_secret: bool) -> str:
    wanted = [("metadata.name", match.name)] if match.name else []
    if is_secret:
        types = sorted({c.value for c in match.content if c.key == "type" and isinstance(c.value, str)})
        wanted.extend(("type", value) for value in types)
    return ",".join(f"{field}={value}" for field, value in wanted if validation.is_plain_field_value(value))


def _build_label_selector(match: Match) -> str:
    """Return the label selector of a match; empty for several, because a query cannot express alternatives."""
    if len(match.labels) != 1:
        return ""
    text = ",".join(filter(None, map(_format_requirement, match.labels[0].requirements)))
    return text if len(text) <= _MAX_QUERY_LENGTH else ""


def _format_requirement(requirement: Requirement) -> str:
    """Format a requirement as a query does; empty when a query cannot express it."""
    key, values = requirement.key, sorted(requirement.values)
    if not validation.is_label_key(key) or not all(validation.is_label_value(value) for value in values):
        return ""
    if len(values) > 1 and "" in values:
        return ""
    match requirement.operator:
        case Operator.IN:
            return f"{key}={values[0]}" if len(values) == 1 else f"{key} in ({','.join(values)})"
        case Operator.NOT_IN:
            return f"{key}!={values[0]}" if len(values) == 1 else f"{key} notin ({','.join(values)})"
        case Operator.EXISTS:
            return key
        case Operator.DOES_NOT_EXIST:
            return f"!{key}"
