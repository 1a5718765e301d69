"""Whether a rule can be carried out as it stands: refused whole, with the field's path, or accepted.

Law: nothing that a rule asks for is silently left undone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from registry_controller.api import meta
from registry_controller.api.errors import InvalidObject
from registry_controller.api.syncrule import MapMutation, SyncRule, read_rule
from registry_controller.core import syntax
from registry_controller.core.content import compile_path
from registry_controller.core.rendering import check_override

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
    try:
        rule = read_rule(manifest)
    except InvalidObject as error:
        return None, [Finding(error.path, error.message)]
    findings = [*_mistakes(rule), *_doubts(rule)]
    if rule.sync_disabled and meta.annotations_of(manifest).get(meta.SYNC_DISABLED) == "false":
        words = 'any value counts, "false" too; remove it to sync this rule'
        findings.append(Finding(f"metadata.annotations[{meta.SYNC_DISABLED}]", words, is_error=False))
    return rule, findings


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
