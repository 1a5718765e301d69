"""Findings about fields of a rule, and the checks that give warnings.

Law: a rule with warnings is accepted and applied.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from registry_controller.api import meta, validation
from registry_controller.api.syncrule import ContentMatch, Match, SyncRule

_EVERYTHING: Final = "has no condition: it matches every object of the kind"
_PLAIN_PATH: Final = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")


class Finding(NamedTuple):
    """A message about one field: an error when the field can never work, a warning when it may be a mistake."""

    path: str
    message: str
    is_error: bool = True

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


def find_warnings(rule: SyncRule, manifest: meta.Manifest) -> Iterator[Finding]:
    """Find fields that are valid and may be mistakes."""
    for path, message in _check_rule(rule, manifest):
        yield Finding(path, message, is_error=False)


def _check_rule(rule: SyncRule, manifest: meta.Manifest) -> Iterator[tuple[str, str]]:
    if not rule.entries:
        yield "spec.rules", "is empty and matches nothing"
    if rule.kind.group == "core":
        yield "spec.groupVersionKind.group", "the core group is written as the empty string"
    if rule.kind.kind[:1].islower():
        written = f"`{rule.kind.kind}` is not written as a kind"
        message = f"{written}: kinds are in the singular and begin with a capital letter, as `Secret`"
        yield "spec.groupVersionKind.kind", message
    if rule.kind.kind and not (rule.kind.kind.isascii() and rule.kind.kind.replace("-", "").isalnum()):
        message = "no API server serves such a kind: a rule names one kind, as `Secret`, and there are no wildcards"
        yield "spec.groupVersionKind.kind", message
    is_core_rule = meta.labels_of(manifest).get(meta.CORE_RESOURCE) == "true"  # the daemon created it as intended
    if len(rule.entries) == 1 and not rule.entries[0].matches and not is_core_rule:
        yield f"{rule.entries[0].path}.match", _EVERYTHING
    for match in (match for entry in rule.entries for match in entry.matches):
        yield from _check_match(match)
    for index, feature in enumerate(rule.features):
        if not feature.feature_name and not feature.selector.requirements:
            yield f"spec.clusterFeatureMatch[{index}]", "has no condition: every ClusterFeature matches"
    if rule.sync_disabled and meta.annotations_of(manifest).get(meta.SYNC_DISABLED) == "false":
        message = 'every value disables the sync, also "false"; remove the annotation to sync this rule'
        yield f"metadata.annotations[{meta.SYNC_DISABLED}]", message


def _check_match(match: Match) -> Iterator[tuple[str, str]]:
    if match.is_empty:
        yield match.path, _EVERYTHING
    if match.has_sync_status:
        yield f"{match.path}.syncStatus", "has no effect here; move it to mutations"
    for part in match.misplaced:
        yield f"{match.path}.{part}", f"is read as objectKey.{part}, where it belongs: an API server refuses it"
    key = f"{match.path}.objectKey"
    if match.name and _looks_like_pattern(match.name):
        yield f"{key}.name", "is compared exactly: patterns are not supported"
    elif match.name and not validation.is_object_name(match.name):
        yield f"{key}.name", "no object can have this name"
    namespaces = [(f"{match.path}.namespaces[{index}]", name) for index, name in enumerate(match.namespaces)]
    for path, name in [*([(f"{key}.namespace", match.namespace)] if match.namespace else []), *namespaces]:
        if not validation.is_namespace(name):
            advice = ": it is compared exactly, patterns are not supported" if _looks_like_pattern(name) else ""
            yield path, f"no namespace can have this name{advice}"
    if match.namespace and match.namespaces and match.namespace not in match.namespaces:
        yield f"{key}.namespace", "is not in the list `namespaces` of the same match: no object matches both"
    for content in match.content:
        yield from _check_content(content)


def _looks_like_pattern(name: str) -> bool:
    return "*" in name or "?" in name


def _check_content(content: ContentMatch) -> Iterator[tuple[str, str]]:
    if content.key.startswith(("$", "/")):
        path = content.key.lstrip("$./").replace("/", ".")
        advice = f": write `{path}`" if _PLAIN_PATH.fullmatch(path) else ""
        yield f"{content.path}.key", f"is read as a gjson path, which begins with the name of a field{advice}"
