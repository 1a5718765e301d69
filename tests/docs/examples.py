"""docs/rules-by-example.md, taken apart: what stands in which cluster, and what the rules make of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from registry_controller.api import meta
from tests.docs.documents import ROOT, blocks

PAGE = ROOT / "docs" / "rules-by-example.md"
OWNER_NAME, LOCAL_NAME = "north", "south"
_MARKS = (meta.OWNER, meta.PROVENANCE)
_ROLES = {
    "in north: a feature": "features",
    "in north: the source": "sources",
    "the rule": "rules",
    "in south: an object of its own": "own",
    "in south: what another writer sets": "writers",
    "in south: the copy": "copies",
    "in south, when the rule is deleted: the copy": "left",
    "in south, when the rule is deleted: no copy": "left",
}


@dataclass
class Example:
    """One example; `left` is what is there when the rules are deleted, None where that is not shown.

    `own` are objects that south has itself, `writers` what other writers set in copies there.
    """

    title: str
    features: list[dict[str, Any]] = field(default_factory=list)
    sources: list[dict[str, Any]] = field(default_factory=list)
    rules: list[dict[str, Any]] = field(default_factory=list)
    own: list[dict[str, Any]] = field(default_factory=list)
    writers: list[dict[str, Any]] = field(default_factory=list)
    copies: list[dict[str, Any]] = field(default_factory=list)
    left: list[dict[str, Any]] | None = None


def read_examples() -> list[Example]:
    """Read all examples of the page, in its order; a comment that is no role is a mistake of the page."""
    text = PAGE.read_text(encoding="utf-8")
    titles = re.findall(r"^## (.+)$", text, re.MULTILINE)
    found = [block for block in blocks(PAGE) if block.tag == "example"]
    assert len(found) == len(titles), "one example under each heading"
    return [_read(title, block.text) for title, block in zip(titles, found, strict=True)]


def _read(title: str, text: str) -> Example:
    example = Example(title)
    for document in text.split("---\n"):
        role = document.partition("\n")[0].removeprefix("# ")
        manifest = yaml.safe_load(document)
        if _ROLES[role] == "left":
            example.left = example.left or []
        if manifest is not None:
            getattr(example, _ROLES[role]).append(manifest)
    return example


def key_of(manifest: Mapping[str, Any]) -> tuple[str, str, str]:
    """Name an object: kind, namespace, name."""
    info = manifest["metadata"]
    return manifest["kind"], info.get("namespace", ""), info["name"]


def shown(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out of a copy what the page leaves out: the marks, and what the server sets."""
    info = {name: value for name, value in manifest["metadata"].items() if name in ("name", "namespace")}
    for which in ("labels", "annotations"):
        kept = {name: text for name, text in manifest["metadata"].get(which, {}).items() if name not in _MARKS}
        if kept:
            info[which] = kept
    return {**manifest, "metadata": info}
