"""Whether a rule can be carried out as it stands: refused whole, with the field's path, or accepted.

Laws: nothing that a rule asks for is silently left undone · what a rule may cost is bounded by its size, and that here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from registry_controller.api import meta
from registry_controller.api.errors import InvalidObject
from registry_controller.api.syncrule import MapMutation, SyncRule, read_rule
from registry_controller.core import syntax
from registry_controller.core.content import compile_path
from registry_controller.core.rendering import check_override, is_template
from registry_controller.gotemplate import DEFAULT

_MOST_VALUES: Final = 20_000
"""Of JSON, in a rule's spec: 5,000 objects by name and namespace. To read and to compare them takes milliseconds."""
_MOST_OVERRIDES: Final = 256
_MOST_TEMPLATE: Final = DEFAULT.source

ACCEPTED: Final = "Accepted"
INVALID_SPEC: Final = "InvalidSpec"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is said of a rule. The message names the fields' paths; warnings are whole sentences that begin with one."""

    accepted: bool
    reason: str
    message: str
    warnings: tuple[str, ...] = ()


class Finding(NamedTuple):
    """Something about one field."""

    path: str
    words: str
    is_error: bool = True

    def __str__(self) -> str:
        return f"{self.path}: {self.words}"


def read_and_accept(manifest: meta.Manifest) -> tuple[SyncRule | None, Verdict]:
    """Read and judge a rule; the rule is None when it cannot be read at all."""
    rule, findings = examine(manifest)
    errors = "; ".join(str(finding) for finding in findings if finding.is_error)
    warnings = tuple(str(finding) for finding in findings if not finding.is_error)
    verdict = Verdict(False, INVALID_SPEC, errors, warnings) if errors else Verdict(True, ACCEPTED, "", warnings)
    return rule, verdict


def examine(manifest: meta.Manifest) -> tuple[SyncRule | None, list[Finding]]:
    """Read a rule and find what is wrong with it, and what may not be meant."""
    if _is_vast(manifest.get("spec")):
        return None, [Finding("spec", f"holds more than {_MOST_VALUES} values; make several rules of it")]
    try:
        rule = read_rule(manifest)
    except InvalidObject as error:
        return None, [Finding(error.path, error.message)]
    excesses = [*_excesses(rule)]
    findings = [*(excesses or _mistakes(rule)), *_doubts(rule)]
    if rule.sync_disabled and meta.annotations_of(manifest).get(meta.SYNC_DISABLED) == "false":
        words = 'any value counts, "false" too; remove it to sync this rule'
        findings.append(Finding(f"metadata.annotations[{meta.SYNC_DISABLED}]", words, is_error=False))
    return rule, findings


def _is_vast(spec: object) -> bool:
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
    """Find what is too much for all overrides together: an object may match every entry."""
    overrides = [override for entry in rule.entries for override in entry.mutations.overrides]
    if len(overrides) > _MOST_OVERRIDES:
        words = f"have more than {_MOST_OVERRIDES} overrides together; make several rules of it"
        yield Finding("spec.rules", words)
    elif sum(len(override.value) for override in overrides if is_template(override)) > _MOST_TEMPLATE:
        words = f"have templates of more than {_MOST_TEMPLATE} characters together"
        yield Finding("spec.rules", words)


def _mistakes(rule: SyncRule) -> Iterator[Finding]:
    for part in ("version", "kind"):
        if not getattr(rule.kind, part):
            yield Finding(f"spec.groupVersionKind.{part}", "is required")
    for entry in rule.entries:
        if not entry.matches and len(rule.entries) > 1:
            words = "is missing, beside other rules: write `match: [{}]` if everything is meant"
            yield Finding(f"{entry.path}.match", words)
        for content in (content for match in entry.matches for content in match.content):
            yield from _mistake_of(compile_path, content.key, path=f"{content.path}.key")
        where = f"{entry.path}.mutations"
        yield from _map_mistakes(entry.mutations.labels, f"{where}.labels", are_labels=True)
        yield from _map_mistakes(entry.mutations.annotations, f"{where}.annotations", are_labels=False)
        for override in entry.mutations.overrides:
            yield from _mistake_of(check_override, override)


def _mistake_of(check: Callable[..., object], *arguments: object, **named: object) -> Iterator[Finding]:
    try:
        check(*arguments, **named)
    except InvalidObject as error:
        yield Finding(error.path, error.message)


def _map_mistakes(mutation: MapMutation, path: str, *, are_labels: bool) -> Iterator[Finding]:
    is_key = syntax.is_label_key if are_labels else syntax.is_annotation_key
    noun = "label" if are_labels else "annotation"
    for key, value in sorted(mutation.add.items()):
        if not is_key(key):
            yield Finding(f"{path}.add[{key}]", f"is no {noun} key")
        elif are_labels and not syntax.is_label_value(value):
            yield Finding(f"{path}.add[{key}]", "the value is no label value")
    for index, key in enumerate(mutation.remove):
        if not is_key(key):
            yield Finding(f"{path}.remove[{index}]", f"is no {noun} key")


def _doubts(rule: SyncRule) -> Iterator[Finding]:
    if not rule.entries:
        yield Finding("spec.rules", "is empty and matches nothing", is_error=False)
    if rule.kind.group == "core":
        yield Finding("spec.groupVersionKind.group", "the core group is the empty text", is_error=False)
    if rule.kind.kind[:1].islower():
        words = "kinds begin with a capital and are no plurals: `Secret`, not `secrets`"
        yield Finding("spec.groupVersionKind.kind", words, is_error=False)
    for match in (match for entry in rule.entries for match in entry.matches):
        if match.is_empty:
            yield Finding(match.path, "has no condition: it means everything of the kind", is_error=False)
        if match.has_sync_status:
            words = "has no effect here; it belongs under mutations"
            yield Finding(f"{match.path}.syncStatus", words, is_error=False)
