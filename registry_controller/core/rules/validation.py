"""Whether a rule can be carried out as it stands: refused whole, with the fields' paths, or accepted.

Laws: nothing that a rule asks for is silently left undone · what a rule may cost is bounded by its size, and that here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from registry_controller.api import meta, validation
from registry_controller.api.errors import InvalidObject
from registry_controller.api.fields import Field
from registry_controller.api.meta import GVK
from registry_controller.api.syncrule import MapMutation, SyncRule, read_rule
from registry_controller.core.mutation.templates import check_override, is_template
from registry_controller.core.rules.content import compile_path
from registry_controller.core.rules.finding import Finding
from registry_controller.core.rules.kind_overrides import kind_overrides
from registry_controller.core.rules.warnings import doubts
from registry_controller.gotemplate import DEFAULT

_MOST_VALUES: Final = 20_000
"""Of JSON, in a rule's spec: 5,000 objects by name and namespace. To read and to compare them takes milliseconds."""
_MOST_OVERRIDES: Final = 256
_MOST_FEATURES: Final = 16
_MOST_TEMPLATE: Final = DEFAULT.source
_MOST_SAID: Final = 50
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


def read_and_accept(manifest: meta.Manifest) -> tuple[SyncRule | None, RuleVerdict]:
    """Read and judge a rule; the rule is None when it cannot be read at all."""
    rule, findings = examine(manifest)
    errors = "; ".join([str(finding) for finding in findings if finding.is_error][:_MOST_SAID])
    warnings = tuple([str(finding) for finding in findings if not finding.is_error][:_MOST_SAID])
    verdict = (
        RuleVerdict(False, INVALID_SPEC, errors, warnings) if errors else RuleVerdict(True, ACCEPTED, "", warnings)
    )
    return rule, verdict


def examine(manifest: meta.Manifest) -> tuple[SyncRule | None, list[Finding]]:
    """Read a rule and find what is wrong with it, and what may not be meant."""
    if is_vast(manifest.get("spec")):
        return None, [Finding("spec", f"holds more than {_MOST_VALUES} values; make several rules of it")]
    try:
        rule = read_rule(manifest)
    except InvalidObject as error:
        return None, [Finding(error.path, error.message)]
    excesses = [*_excesses(rule)]
    mistakes = excesses or [*_mistakes(rule), *_selector_mistakes(Field(manifest, "")["spec"])]
    return rule, [*mistakes, *doubts(rule, manifest)]


def is_vast(spec: object) -> bool:
    """Say whether there are too many values, without looking at all of them."""
    left = _MOST_VALUES
    waiting = [spec]
    while waiting and left >= 0:
        found = waiting.pop()
        below = found.values() if isinstance(found, Mapping) else found if isinstance(found, list) else ()
        left -= len(below)
        waiting.extend(below)
    return left < 0


def _excesses(rule: SyncRule) -> Iterator[Finding]:
    """Find what is too much together: an object may match every entry, and a member hold every feature."""
    overrides = [override for entry in rule.entries for override in entry.mutations.overrides]
    if len(overrides) > _MOST_OVERRIDES:
        words = f"have more than {_MOST_OVERRIDES} overrides together; make several rules of it"
        yield Finding("spec.rules", words)
    elif sum(len(override.value) for override in overrides if is_template(override)) > _MOST_TEMPLATE:
        words = f"have templates of more than {_MOST_TEMPLATE} characters together"
        yield Finding("spec.rules", words)
    if len(rule.features) > _MOST_FEATURES:
        yield Finding("spec.clusterFeatureMatch", f"has more than {_MOST_FEATURES} entries")


def _mistakes(rule: SyncRule) -> Iterator[Finding]:
    for part in ("version", "kind"):
        if not getattr(rule.kind, part):
            yield Finding(f"spec.groupVersionKind.{part}", "is required")
    yield from _kind_mistakes(rule.kind, "spec.groupVersionKind")
    for entry in rule.entries:
        if not entry.matches and len(rule.entries) > 1:
            words = "is missing, beside other rules: write `match: [{}]` if everything is meant"
            yield Finding(f"{entry.path}.match", words)
        for content in (content for match in entry.matches for content in match.content):
            yield from _mistake_of(compile_path, content.key, path=f"{content.path}.key")
        where = f"{entry.path}.mutations"
        yield from _kind_mistakes(entry.mutations.kind, f"{where}.groupVersionKind")
        yield from _map_mistakes(entry.mutations.labels, f"{where}.labels", are_labels=True)
        yield from _map_mistakes(entry.mutations.annotations, f"{where}.annotations", are_labels=False)
        for override in entry.mutations.overrides:
            yield from _mistake_of(check_override, override)
    yield from kind_overrides(rule)


def _kind_mistakes(kind: GVK, path: str) -> Iterator[Finding]:
    """Find what no API server can serve; an empty part is another matter."""
    if not validation.is_api_group(kind.group):
        yield Finding(f"{path}.group", f"is no API group{_apart(kind.group)}")
    if kind.version and not validation.is_api_version(kind.version):
        yield Finding(f"{path}.version", f"is no version of an API{_apart(kind.version)}")


def _apart(text: str) -> str:
    """Advise how to write a group and a version that stand in one field."""
    group, version = meta.group_version(text)
    is_both = group and validation.is_api_group(group) and validation.is_api_version(version)
    return f": write `group: {group}` and `version: {version}`" if is_both else ""


def _selector_mistakes(spec: Field) -> Iterator[Finding]:
    """Find selectors that Kubernetes does not parse: what they select is not said."""
    for entry in spec["rules"].items():
        for match in entry["match"].items():
            for selector in match["labels"].items():
                yield from _mistakes_in_selector(selector)
            for selector in match["annotations"].items():
                yield from _mistakes_in_selector(selector, are_labels=False)
    for asked in spec["clusterFeatureMatch"].items():
        yield from _mistakes_in_selector(asked)
    yield from _mistakes_in_selector(spec["targetClusters"])


def _mistakes_in_selector(selector: Field, *, are_labels: bool = True) -> Iterator[Finding]:
    same = selector["matchLabels" if are_labels else "matchAnnotations"]
    for name in same.mapping():
        field = same.entry(name)
        yield from _pair_mistakes(name, field.text(), field.path, are_labels=are_labels)
    for expression in selector["matchExpressions"].items():
        key = expression["key"]
        if not _is_key(key.text(), are_labels=are_labels):
            yield Finding(key.path, f"is no {_noun(are_labels=are_labels)} key")
        for value in expression["values"].items():
            if are_labels and not validation.is_label_value(value.text()):
                yield Finding(value.path, "is no label value")


def _mistake_of(check: Callable[..., object], *arguments: object, **named: object) -> Iterator[Finding]:
    try:
        check(*arguments, **named)
    except InvalidObject as error:
        yield Finding(error.path, error.message)


def _map_mistakes(mutation: MapMutation, path: str, *, are_labels: bool) -> Iterator[Finding]:
    for key, value in sorted(mutation.add.items()):
        yield from _pair_mistakes(key, value, f"{path}.add[{key}]", are_labels=are_labels)
    for index, key in enumerate(mutation.remove):
        if not _is_key(key, are_labels=are_labels):
            yield Finding(f"{path}.remove[{index}]", f"is no {_noun(are_labels=are_labels)} key")


def _pair_mistakes(key: str, value: str, path: str, *, are_labels: bool) -> Iterator[Finding]:
    if not _is_key(key, are_labels=are_labels):
        yield Finding(path, f"is no {_noun(are_labels=are_labels)} key")
    elif are_labels and not validation.is_label_value(value):
        yield Finding(path, "the value is no label value")


def _is_key(text: str, *, are_labels: bool) -> bool:
    return validation.is_label_key(text) if are_labels else validation.is_annotation_key(text)


def _noun(*, are_labels: bool) -> str:
    return "label" if are_labels else "annotation"
