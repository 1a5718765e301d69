"""Whether a rule can be carried out as it stands: refused whole, with the field's path, or accepted.

Law: nothing that a rule asks for is silently left undone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from registry_controller.api import meta
from registry_controller.api.errors import InvalidObject
from registry_controller.api.syncrule import MapMutation, RuleEntry, SyncRule, read_rule
from registry_controller.core import syntax
from registry_controller.core.content import compile_path

ACCEPTED: Final = "Accepted"
INVALID_SPEC: Final = "InvalidSpec"
NOT_SUPPORTED_YET: Final = "NotSupportedYet"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is said of a rule. The message names the fields' paths; warnings are whole sentences."""

    accepted: bool
    reason: str
    message: str
    warnings: tuple[str, ...] = ()


def accept(rule: SyncRule) -> Verdict:
    """Judge a rule that was read."""
    warnings = tuple(_warnings(rule))
    for reason, problems in ((INVALID_SPEC, _mistakes(rule)), (NOT_SUPPORTED_YET, _unsupported(rule))):
        message = "; ".join(problems)
        if message:
            return Verdict(False, reason, message, warnings)
    return Verdict(True, ACCEPTED, "", warnings)


def read_and_accept(manifest: meta.Manifest) -> tuple[SyncRule | None, Verdict]:
    """Read and judge a rule; the rule is None when it cannot be read at all."""
    try:
        rule = read_rule(manifest)
    except InvalidObject as error:
        return None, Verdict(False, INVALID_SPEC, str(error))
    verdict = accept(rule)
    if rule.sync_disabled and meta.annotations_of(manifest).get(meta.SYNC_DISABLED) == "false":
        said = f'metadata.annotations[{meta.SYNC_DISABLED}]: any value counts, "false" too; remove it to sync this rule'
        verdict = replace(verdict, warnings=(*verdict.warnings, said))
    return rule, verdict


def _mistakes(rule: SyncRule) -> Iterator[str]:
    for part in ("version", "kind"):
        if not getattr(rule.kind, part):
            yield f"spec.groupVersionKind.{part}: is required"
    for entry in rule.entries:
        if not entry.matches and len(rule.entries) > 1:
            yield f"{entry.path}.match: is missing, beside other rules: write `match: [{{}}]` if everything is meant"
        yield from _content_mistakes(entry)
        where = f"{entry.path}.mutations"
        yield from _map_mistakes(entry.mutations.labels, f"{where}.labels", are_labels=True)
        yield from _map_mistakes(entry.mutations.annotations, f"{where}.annotations", are_labels=False)


def _content_mistakes(entry: RuleEntry) -> Iterator[str]:
    for content in (content for match in entry.matches for content in match.content):
        try:
            compile_path(content.key, path=f"{content.path}.key")
        except InvalidObject as error:
            yield str(error)


def _map_mistakes(mutation: MapMutation, path: str, *, are_labels: bool) -> Iterator[str]:
    is_key = syntax.is_label_key if are_labels else syntax.is_annotation_key
    noun = "label" if are_labels else "annotation"
    for key, value in sorted(mutation.add.items()):
        if not is_key(key):
            yield f"{path}.add[{key}]: is no {noun} key"
        elif are_labels and not syntax.is_label_value(value):
            yield f"{path}.add[{key}]: the value is no label value"
    for index, key in enumerate(mutation.remove):
        if not is_key(key):
            yield f"{path}.remove[{index}]: is no {noun} key"


def _unsupported(rule: SyncRule) -> Iterator[str]:
    if rule.deletion_policy == "Delete":
        yield "spec.deletionPolicy: Delete is not supported yet"
    if rule.has_target_clusters:
        yield "spec.targetClusters: is not supported yet"
    for entry in rule.entries:
        if entry.mutations.overrides:
            yield f"{entry.path}.mutations.overrides: are not supported yet"
        if entry.mutations.sync_status:
            yield f"{entry.path}.mutations.syncStatus: is not supported yet"


def _warnings(rule: SyncRule) -> Iterator[str]:
    if not rule.entries:
        yield "spec.rules: is empty and matches nothing"
    for match in (match for entry in rule.entries for match in entry.matches):
        if match.is_empty:
            yield f"{match.path}: has no condition and means everything of the kind (a schema may have dropped it)"
        if match.has_sync_status:
            yield f"{match.path}.syncStatus: has no effect here; it belongs under mutations"
