"""Finds names and namespaces that are directly under a match: one level too high, they belong under `objectKey`.

The first versions of the original's README wrote them there, and its API server dropped them. Ours refuses them. A
stored rule that kept them is read as it was meant.

Law: a name beside another one in `objectKey` means nothing: it is refused.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from registry_controller.api.errors import InvalidObject
from registry_controller.api.fields import Field
from registry_controller.api.meta import Manifest
from registry_controller.api.syncrule import KEY_PARTS, is_contradicted
from registry_controller.core.rules.findings import Finding


class MisplacedKey(NamedTuple):
    """A match with misplaced parts: the path of the match, the `parts`, and the `objectKey` to write in their place.

    The values come from the rule as they are, and may have any type.
    """

    path: str
    parts: tuple[str, ...]
    object_key: Mapping[str, Any]


def find_misplaced(manifest: Manifest) -> Iterator[MisplacedKey]:
    """List the matches of a rule with misplaced parts that can be moved."""
    try:
        entries = Field(manifest, "")["spec"]["rules"].items()
    except InvalidObject:
        return
    for entry in entries:
        try:
            matches = entry["match"].items()
        except InvalidObject:
            continue
        for match in matches:
            with contextlib.suppress(InvalidObject):  # reported where the rule is read
                parts = tuple(part for part in KEY_PARTS if match[part].value is not None)
                if parts and not any(is_contradicted(match, part) for part in parts):
                    moved = {part: match[part].value for part in parts}
                    yield MisplacedKey(match.path, parts, {**match["objectKey"].mapping(), **moved})


def list_errors(manifest: Manifest) -> Iterator[Finding]:
    """List the misplaced parts as errors, each with the whole `objectKey` to write."""
    for misplaced in find_misplaced(manifest):
        for part in misplaced.parts:
            yield Finding(f"{misplaced.path}.{part}", f"belongs under objectKey: write {spell(misplaced.object_key)}")


def spell(object_key: Mapping[str, Any]) -> str:
    """Return an `objectKey` as YAML in one line; `name` comes first."""
    parts = ", ".join(f"{part}: {json.dumps(value)}" for part, value in sorted(object_key.items()))
    return f"objectKey: {{{parts}}}"
