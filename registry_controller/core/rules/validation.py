"""Validates rules: a rule is accepted, or refused as a whole with the paths of its invalid fields.

Laws: no part of an accepted rule is silently ignored · the size of a rule is limited here, and so is its cost.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from registry_controller.api import meta, validation
from registry_controller.api.errors import InvalidObject
from registry_controller.api.fields import Field
from registry_controller.api.meta import GVK
from registry_controller.api.syncrule import MapMutation, Override, SyncRule, read_rule
from registry_controller.core.mutation.overrides import Operation, OverrideAction, advise_element
from registry_controller.core.mutation.templates import check_override, is_template, read_operation
from registry_controller.core.rules.findings import Finding, find_warnings
from registry_controller.core.rules.gjson import compile_path
from registry_controller.core.rules.matching import asks_for_secret_type
from registry_controller.core.rules.schema import find_unknown_fields
from registry_controller.gotemplate import DEFAULT

_MAX_VALUES: Final = 20_000
"""JSON values in a rule's spec, enough for 5,000 objects by name and namespace; reading them takes milliseconds."""
_MAX_OVERRIDES: Final = 256
_MAX_FEATURES: Final = 16
_MAX_SHOWN: Final = 80
_MAX_TEMPLATE_CHARACTERS: Final = DEFAULT.source
_MAX_FINDINGS: Final = 50
"""Errors, and warnings, that are kept for a rule: a rule may have thousands, and a condition has room for fewer."""

ACCEPTED: Final = "Accepted"
INVALID_SPEC: Final = "InvalidSpec"
UNKNOWN_FIELDS: Final = "UnknownFields"


@dataclass(frozen=True, slots=True)
class RuleVerdict:
    """The result of validating a rule. The message and each warning begin with the path of a field."""

    accepted: bool
    reason: str
    message: str
    warnings: tuple[str, ...] = ()


def read_and_validate(
    manifest: meta.Manifest, *, definition: meta.Manifest | None = None
) -> tuple[SyncRule | None, RuleVerdict]:
    """Read and validate a rule; the rule is None when it cannot be read.

    `definition` is this release's definition of rules. A rule with other fields was written for a later release: what
    it asks for is not known, and it is not accepted.
    """
    rule, findings = find_problems(manifest)
    if definition is not None and not has_too_many_values(manifest.get("spec")):
        unknown = find_unknown_fields(manifest, definition=definition, version=meta.VERSION)
        if paths := [*itertools.islice(unknown, _MAX_FINDINGS)]:
            return rule, RuleVerdict(False, UNKNOWN_FIELDS, _describe_unknown(paths))
    errors = "; ".join([str(finding) for finding in findings if finding.is_error][:_MAX_FINDINGS])
    warnings = tuple([str(finding) for finding in findings if not finding.is_error][:_MAX_FINDINGS])
    verdict = (
        RuleVerdict(False, INVALID_SPEC, errors, warnings) if errors else RuleVerdict(True, ACCEPTED, "", warnings)
    )
    return rule, verdict


def _describe_unknown(paths: Sequence[str]) -> str:
    return (
        f"{', '.join(paths)}: not known to this daemon, which is older than the CRDs here: upgrade it; until then the "
        "rule does nothing, and its copies stay"
    )


def find_problems(manifest: meta.Manifest) -> tuple[SyncRule | None, list[Finding]]:
    """Read a rule and find errors and warnings; the rule is None when it cannot be read."""
    if has_too_many_values(manifest.get("spec")):
        return None, [Finding("spec", f"holds more than {_MAX_VALUES} values; split it into several rules")]
    try:
        rule = read_rule(manifest)
    except InvalidObject as error:
        return None, [Finding(error.path, error.message)]
    return rule, check_rule(rule, manifest)


def check_rule(rule: SyncRule, manifest: meta.Manifest) -> list[Finding]:
    """Find errors and warnings in a rule that was read. One that is too large is not checked any further."""
    errors = [*_check_limits(rule)] or [*_check_rule(rule), *_check_selectors(Field(manifest, "")["spec"])]
    return [*errors, *find_warnings(rule, manifest)]


def has_too_many_values(spec: object) -> bool:
    """Return whether a spec has too many values; stop counting at the limit."""
    remaining = _MAX_VALUES
    unread = [spec]
    while unread and remaining >= 0:
        value = unread.pop()
        children = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
        remaining -= len(children)
        unread.extend(children)
    return remaining < 0


def _check_limits(rule: SyncRule) -> Iterator[Finding]:
    """Check the sums over all entries: an object may match every entry, and a member may have every feature."""
    overrides = [override for entry in rule.entries for override in entry.mutations.overrides]
    if len(overrides) > _MAX_OVERRIDES:
        message = f"have more than {_MAX_OVERRIDES} overrides together; split them into several rules"
        yield Finding("spec.rules", message)
    elif sum(len(override.value) for override in overrides if is_template(override)) > _MAX_TEMPLATE_CHARACTERS:
        message = f"have templates of more than {_MAX_TEMPLATE_CHARACTERS} characters together"
        yield Finding("spec.rules", message)
    if len(rule.features) > _MAX_FEATURES:
        yield Finding("spec.clusterFeatureMatch", f"has more than {_MAX_FEATURES} entries")


def _check_rule(rule: SyncRule) -> Iterator[Finding]:
    for part in ("version", "kind"):
        if not getattr(rule.kind, part):
            yield Finding(f"spec.groupVersionKind.{part}", "is required")
    yield from _check_kind(rule.kind, "spec.groupVersionKind")
    for entry in rule.entries:
        if not entry.matches and len(rule.entries) > 1:
            message = "is missing in one of several entries: write `match: [{}]` to match every object"
            yield Finding(f"{entry.path}.match", message)
        for content in (content for match in entry.matches for content in match.content):
            yield from _run_check(compile_path, content.key, path=f"{content.path}.key")
        path = f"{entry.path}.mutations"
        yield from _check_kind(entry.mutations.kind, f"{path}.groupVersionKind")
        yield from _check_map(entry.mutations.labels, f"{path}.labels", are_labels=True)
        yield from _check_map(entry.mutations.annotations, f"{path}.annotations", are_labels=False)
        for override in entry.mutations.overrides:
            yield from _run_check(check_override, override)
            yield from _check_elements(override)
    yield from _check_identity_overrides(rule)
    yield from _check_object_targets(rule)


def _check_object_targets(rule: SyncRule) -> Iterator[Finding]:
    """Find a rule for the registry's own objects that asks whether they name this cluster."""
    if not rule.requires_targets:
        return
    kinds = [rule.kind, *(entry.mutations.kind for entry in rule.entries)]
    own = next((kind for kind in kinds if kind.group == meta.GROUP), None)
    content = (content for entry in rule.entries for match in entry.matches for content in match.content)
    is_secret = any(asks_for_secret_type(one, rule.kind) and one.value == meta.REGISTRY_SECRET_TYPE for one in content)
    if own is not None or is_secret:
        noun = f"{own.kind}s" if own is not None and own.kind else "the registry's own objects"
        message = f"is not for {noun}: every member needs them; remove it, or write `Ignore`"
        yield Finding("spec.objectTargets", message)


def _check_elements(override: Override) -> Iterator[Finding]:
    """Warn of a path that has an index in brackets: it is read as a part of the key."""
    for part in override.pointer.split("/"):
        if advice := advise_element(part.removesuffix("?")):
            yield Finding(f"{override.path}.path", f"`{part}` is read as a key: {advice}", is_error=False)


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
    """Return whether, after the override, the field may have a value that one of the rule's kinds has."""
    if operation.action is OverrideAction.REMOVE or len(operation.pointer.tokens) > 1:
        return False
    if is_template(override) or override.parse_value:
        return True
    if name == "kind":
        return any(override.value == kind.kind for kind in kinds)
    group, version = meta.group_version(override.value)
    return any(group == kind.group for kind in kinds) and any(version == kind.version for kind in kinds)


def _check_kind(kind: GVK, path: str) -> Iterator[Finding]:
    """Check that an API server can serve the group and the version; an empty version is checked elsewhere."""
    if not validation.is_api_group(kind.group):
        yield Finding(f"{path}.group", f"is not a valid API group{_advise_split(kind.group)}")
    if kind.version and not validation.is_api_version(kind.version):
        yield Finding(f"{path}.version", f"is not a valid API version{_advise_split(kind.version)}")


def _advise_split(text: str) -> str:
    """Return advice for a group and a version in one field; empty for any other text."""
    group, version = meta.group_version(text)
    is_both = group and validation.is_api_group(group) and validation.is_api_version(version)
    return f": write `group: {group}` and `version: {version}`" if is_both else ""


def _check_selectors(spec: Field) -> Iterator[Finding]:
    """Check that Kubernetes accepts the selectors."""
    for entry in spec["rules"].items():
        for match in entry["match"].items():
            for selector in match["labels"].items():
                yield from _check_selector(selector)
            for selector in match["annotations"].items():
                yield from _check_selector(selector, are_labels=False)
    for feature in spec["clusterFeatureMatch"].items():
        yield from _check_selector(feature)
    yield from _check_selector(spec["targetClusters"])


def _check_selector(selector: Field, *, are_labels: bool = True) -> Iterator[Finding]:
    pairs = selector["matchLabels" if are_labels else "matchAnnotations"]
    for name in pairs.mapping():
        field = pairs.entry(name)
        yield from _check_pair(name, field.text(), field.path, are_labels=are_labels)
    for expression in selector["matchExpressions"].items():
        key = expression["key"]
        if not _is_valid_key(key.text(), are_labels=are_labels):
            yield Finding(key.path, f"is not a valid {_get_noun(are_labels=are_labels)} key")
        for value in expression["values"].items():
            if are_labels and not validation.is_label_value(value.text()):
                yield Finding(value.path, _describe_label_value(value.text()))


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
            yield Finding(f"{path}.remove[{index}]", f"is not a valid {_get_noun(are_labels=are_labels)} key")


def _check_pair(key: str, value: str, path: str, *, are_labels: bool) -> Iterator[Finding]:
    if not _is_valid_key(key, are_labels=are_labels):
        yield Finding(path, f"is not a valid {_get_noun(are_labels=are_labels)} key")
    elif are_labels and not validation.is_label_value(value):
        yield Finding(path, _describe_label_value(value))


def _describe_label_value(value: str) -> str:
    shown = value if len(value) <= _MAX_SHOWN else f"{value[:_MAX_SHOWN]}..."
    return (
        f"the value `{shown}` is not a valid label value: at most 63 letters, digits, `-`, `_` and `.`, with a "
        "letter or digit at both ends"
    )


def _is_valid_key(text: str, *, are_labels: bool) -> bool:
    return validation.is_label_key(text) if are_labels else validation.is_annotation_key(text)


def _get_noun(*, are_labels: bool) -> str:
    return "label" if are_labels else "annotation"
