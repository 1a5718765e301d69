"""What a rule says and may not mean: warnings, with which it is accepted.

Law: a rule that says what it means is accepted without a word, and no warning keeps one from being applied.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from registry_controller.api import meta, validation
from registry_controller.api.syncrule import ContentMatch, Match, SyncRule

_EVERYTHING: Final = "has no condition: it means everything of the kind"
_PLAIN_PATH: Final = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")


class Finding(NamedTuple):
    """Something about one field: an error, which can never work, or else a warning, which may not be meant."""

    path: str
    message: str
    is_error: bool = True

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


def find_warnings(rule: SyncRule, manifest: meta.Manifest) -> Iterator[Finding]:
    """Find what may be meant otherwise."""
    for path, words in _check_rule(rule, manifest):
        yield Finding(path, words, is_error=False)


def _check_rule(rule: SyncRule, manifest: meta.Manifest) -> Iterator[tuple[str, str]]:
    if not rule.entries:
        yield "spec.rules", "is empty and matches nothing"
    if rule.kind.group == "core":
        yield "spec.groupVersionKind.group", "the core group is the empty text"
    if rule.kind.kind[:1].islower():
        yield "spec.groupVersionKind.kind", "kinds begin with a capital and are no plurals: `Secret`, not `secrets`"
    is_our_own = meta.labels_of(manifest).get(meta.CORE_RESOURCE) == "true"  # which means what it says
    if len(rule.entries) == 1 and not rule.entries[0].matches and not is_our_own:
        yield f"{rule.entries[0].path}.match", _EVERYTHING
    for match in (match for entry in rule.entries for match in entry.matches):
        yield from _check_match(match)
    for index, asked in enumerate(rule.features):
        if not asked.feature_name and not asked.selector.requirements:
            yield f"spec.clusterFeatureMatch[{index}]", "asks for nothing: any ClusterFeature will do"
    if rule.sync_disabled and meta.annotations_of(manifest).get(meta.SYNC_DISABLED) == "false":
        words = 'any value counts, "false" too; remove it to sync this rule'
        yield f"metadata.annotations[{meta.SYNC_DISABLED}]", words


def _check_match(match: Match) -> Iterator[tuple[str, str]]:
    if match.is_empty:
        yield match.path, _EVERYTHING
    if match.has_sync_status:
        yield f"{match.path}.syncStatus", "has no effect here; it belongs under mutations"
    key = f"{match.path}.objectKey"
    if match.name and _looks_like_pattern(match.name):
        yield f"{key}.name", "is no pattern: names compare exactly"
    elif match.name and not validation.is_object_name(match.name):
        yield f"{key}.name", "no object can have this name"
    spaces = [(f"{match.path}.namespaces[{index}]", name) for index, name in enumerate(match.namespaces)]
    for path, name in [*([(f"{key}.namespace", match.namespace)] if match.namespace else []), *spaces]:
        if not validation.is_namespace(name):
            advice = ": names compare exactly, and are no patterns" if _looks_like_pattern(name) else ""
            yield path, f"no namespace can have this name{advice}"
    if match.namespace and match.namespaces and match.namespace not in match.namespaces:
        yield f"{key}.namespace", "is none of `namespaces` beside it: nothing is in both"
    for content in match.content:
        yield from _check_content(content)


def _looks_like_pattern(name: str) -> bool:
    return "*" in name or "?" in name


def _check_content(content: ContentMatch) -> Iterator[tuple[str, str]]:
    if content.key.startswith(("$", "/")):
        meant = content.key.lstrip("$./").replace("/", ".")
        advice = f": write `{meant}`" if _PLAIN_PATH.fullmatch(meant) else ""
        yield f"{content.path}.key", f"is read as a path of gjson, which begins with the name of a field{advice}"
