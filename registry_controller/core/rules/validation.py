"""Whether a rule can be carried out as it stands: refused whole, with the fields' paths, or accepted.

Laws: nothing that a rule asks for is silently left undone · what a rule may cost is bounded by its size, and that here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from registry_controller.api import meta, validation
from registry_controller.api.errors import InvalidObject
from registry_controller.api.fields import Field
from registry_controller.api.meta import GVK
from registry_controller.api.syncrule import MapMutation, Override, SyncRule, read_rule
from registry_controller.core.mutation.overrides import Operation, OverrideAction
from registry_controller.core.mutation.templates import check_override, is_template, read_operation
from registry_controller.core.rules.content import compile_path
from registry_controller.core.rules.findings import Finding, find_warnings
from registry_controller.gotemplate import DEFAULT

_MAX_VALUES: Final = 20_000
"""Of JSON, in a rule's spec: 5,000 objects by name and namespace. To read and to compare them takes milliseconds."""
_MAX_OVERRIDES: Final = 256
_MAX_FEATURES: Final = 16
_MAX_TEMPLATE_CHARACTERS: Final = DEFAULT.source
_MAX_FINDINGS: Final = 50
"""Errors, and warnings, that are kept of a rule: a condition has room for fewer, and a rule may have thousands."""

ACCEPTED: Final = "Accepted"
INVALID_SPEC: Final = "InvalidSpec"


@dataclass(frozen=True, slots=True)
class RuleVerdict:
    """What is said of a rule. The message names the fields' paths; warnings are whole sentences that begin with one."""

    accepted: bool
    reason: str
    message: str
    warnings: tuple[str, ...] = ()


def read_and_validate(manifest: meta.Manifest) -> tuple[SyncRule | None, RuleVerdict]:
    """Read and judge a rule; the rule is None when it cannot be read at all."""
    rule, findings = find_problems(manifest)
    errors = "; ".join([str(finding) for finding in findings if finding.is_error][:_MAX_FINDINGS])
    warnings = tuple([str(finding) for finding in findings if not finding.is_error][:_MAX_FINDINGS])
    verdict = (
        RuleVerdict(False, INVALID_SPEC, errors, warnings) if errors else RuleVerdict(True, ACCEPTED, "", warnings)
    )
    return rule, verdict


def find_problems(manifest: meta.Manifest) -> tuple[SyncRule | None, list[Finding]]:
    """Read a rule and find what is wrong with it, and what may not be meant."""
    if has_too_many_values(manifest.get("spec")):
        return None, [Finding("spec", f"holds more than {_MAX_VALUES} values; make several rules of it")]
    try:
        rule = read_rule(manifest)
    except InvalidObject as error:
        return None, [Finding(error.path, error.message)]
    excesses = [*_check_limits(rule)]
    mistakes = excesses or [*_check_rule(rule), *_check_selectors(Field(manifest, "")["spec"])]
    return rule, [*mistakes, *find_warnings(rule, manifest)]


def has_too_many_values(spec: object) -> bool:
    """Say whether there are too many values, without looking at all of them."""
    left = _MAX_VALUES
    waiting = [spec]
    while waiting and left >= 0:
        found = waiting.pop()
        below = found.values() if isinstance(found, Mapping) else found if isinstance(found, list) else ()
        left -= len(below)
        waiting.extend(below)
    return left < 0


def _check_limits(rule: SyncRule) -> Iterator[Finding]:
    """Find what is too much together: an object may match every entry, and a member hold every feature."""
    overrides = [override for entry in rule.entries for override in entry.mutations.overrides]
    if len(overrides) > _MAX_OVERRIDES:
        words = f"have more than {_MAX_OVERRIDES} overrides together; make several rules of it"
        yield Finding("spec.rules", words)
    elif sum(len(override.value) for override in overrides if is_template(override)) > _MAX_TEMPLATE_CHARACTERS:
        words = f"have templates of more than {_MAX_TEMPLATE_CHARACTERS} characters together"
        yield Finding("spec.rules", words)
    if len(rule.features) > _MAX_FEATURES:
        yield Finding("spec.clusterFeatureMatch", f"has more than {_MAX_FEATURES} entries")


def _check_rule(rule: SyncRule) -> Iterator[Finding]:
    for part in ("version", "kind"):
        if not getattr(rule.kind, part):
            yield Finding(f"spec.groupVersionKind.{part}", "is required")
    yield from _check_kind(rule.kind, "spec.groupVersionKind")
    for entry in rule.entries:
        if not entry.matches and len(rule.entries) > 1:
            words = "is missing, beside other rules: write `match: [{}]` if everything is meant"
            yield Finding(f"{entry.path}.match", words)
        for content in (content for match in entry.matches for content in match.content):
            yield from _run_check(compile_path, content.key, path=f"{content.path}.key")
        where = f"{entry.path}.mutations"
        yield from _check_kind(entry.mutations.kind, f"{where}.groupVersionKind")
        yield from _check_map(entry.mutations.labels, f"{where}.labels", are_labels=True)
        yield from _check_map(entry.mutations.annotations, f"{where}.annotations", are_labels=False)
        for override in entry.mutations.overrides:
            yield from _run_check(check_override, override)
    yield from _check_identity_overrides(rule)


def _check_identity_overrides(rule: SyncRule) -> Iterator[Finding]:
    """Find overrides of apiVersion and kind: errors where every override of the field changes it, else warnings."""
    kinds = [rule.kind, *(entry.mutations.kind for entry in rule.entries)]
    found: list[tuple[Override, Operation]] = []
    for override in (override for entry in rule.entries for override in entry.mutations.overrides):
        with contextlib.suppress(InvalidObject):  # reported where the override itself is checked
            found.append((override, read_operation(override)))
    for name in ("apiVersion", "kind"):
        own = [(override, operation) for override, operation in found if operation.field == name]
        # An override that writes the former value may undo another one.
        is_error = not any(_may_keep(name, override, operation, kinds) for override, operation in own)
        message = f"{'changes' if is_error else 'must not change'} {name}: use mutations.groupVersionKind instead"
        yield from (Finding(operation.path, message, is_error=is_error) for _, operation in own)


def _may_keep(name: str, override: Override, operation: Operation, kinds: Sequence[GVK]) -> bool:
    """Return whether apiVersion or kind may have the value that one of these kinds asks for after an override."""
    if operation.action is OverrideAction.REMOVE or len(operation.pointer.tokens) > 1:
        return False
    if is_template(override) or override.parse_value:
        return True
    if name == "kind":
        return any(override.value == kind.kind for kind in kinds)
    group, version = meta.group_version(override.value)
    return any(group == kind.group for kind in kinds) and any(version == kind.version for kind in kinds)


def _check_kind(kind: GVK, path: str) -> Iterator[Finding]:
    """Find what no API server can serve; an empty part is another matter."""
    if not validation.is_api_group(kind.group):
        yield Finding(f"{path}.group", f"is no API group{_advise_split(kind.group)}")
    if kind.version and not validation.is_api_version(kind.version):
        yield Finding(f"{path}.version", f"is no version of an API{_advise_split(kind.version)}")


def _advise_split(text: str) -> str:
    """Advise how to write a group and a version that stand in one field."""
    group, version = meta.group_version(text)
    is_both = group and validation.is_api_group(group) and validation.is_api_version(version)
    return f": write `group: {group}` and `version: {version}`" if is_both else ""


def _check_selectors(spec: Field) -> Iterator[Finding]:
    """Find selectors that Kubernetes does not parse: what they select is not said."""
    for entry in spec["rules"].items():
        for match in entry["match"].items():
            for selector in match["labels"].items():
                yield from _check_selector(selector)
            for selector in match["annotations"].items():
                yield from _check_selector(selector, are_labels=False)
    for asked in spec["clusterFeatureMatch"].items():
        yield from _check_selector(asked)
    yield from _check_selector(spec["targetClusters"])


def _check_selector(selector: Field, *, are_labels: bool = True) -> Iterator[Finding]:
    same = selector["matchLabels" if are_labels else "matchAnnotations"]
    for name in same.mapping():
        field = same.entry(name)
        yield from _check_pair(name, field.text(), field.path, are_labels=are_labels)
    for expression in selector["matchExpressions"].items():
        key = expression["key"]
        if not _is_valid_key(key.text(), are_labels=are_labels):
            yield Finding(key.path, f"is no {_get_noun(are_labels=are_labels)} key")
        for value in expression["values"].items():
            if are_labels and not validation.is_label_value(value.text()):
                yield Finding(value.path, "is no label value")


def _run_check(check: Callable[..., object], *arguments: object, **named: object) -> Iterator[Finding]:
    try:
        check(*arguments, **named)
    except InvalidObject as error:
        yield Finding(error.path, error.message)


def _check_map(mutation: MapMutation, path: str, *, are_labels: bool) -> Iterator[Finding]:
    for key, value in sorted(mutation.add.items()):
        yield from _check_pair(key, value, f"{path}.add[{key}]", are_labels=are_labels)
    for index, key in enumerate(mutation.remove):
        if not _is_valid_key(key, are_labels=are_labels):
            yield Finding(f"{path}.remove[{index}]", f"is no {_get_noun(are_labels=are_labels)} key")


def _check_pair(key: str, value: str, path: str, *, are_labels: bool) -> Iterator[Finding]:
    if not _is_valid_key(key, are_labels=are_labels):
        yield Finding(path, f"is no {_get_noun(are_labels=are_labels)} key")
    elif are_labels and not validation.is_label_value(value):
        yield Finding(path, "the value is no label value")


def _is_valid_key(text: str, *, are_labels: bool) -> bool:
    return validation.is_label_key(text) if are_labels else validation.is_annotation_key(text)


def _get_noun(*, are_labels: bool) -> str:
    return "label" if are_labels else "annotation"
