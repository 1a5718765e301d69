"""Fields: who set which (managedFields), merge patches, and what selectors select."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import orjson

Path = tuple[str, ...]
Manifest = Mapping[str, Any]

_SERVERS = frozenset(
    {
        "name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "managedFields",
        "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "generateName",
    }
)  # fmt: skip


def leaves(manifest: Manifest) -> dict[Path, Any]:
    """List the fields that a manager can own, with their values; lists are one field each."""
    info = {name: value for name, value in (manifest.get("metadata") or {}).items() if name not in _SERVERS}
    content = {name: value for name, value in manifest.items() if name not in ("apiVersion", "kind", "metadata")}
    return dict(_walk({**content, "metadata": info} if info else content, ()))


def _walk(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, dict) and value:
        for name, below in value.items():
            yield from _walk(below, (*path, name))
    elif path:
        yield path, value


def managed(
    old: Manifest | None, new: Manifest, *, manager: str, subresource: str, api_version: str, now: str
) -> list[dict[str, Any]]:
    """Make the managedFields of an object after an update: what it changed is its manager's, what went is nobody's."""
    before, after = leaves(old) if old else {}, leaves(new)
    changed = {path for path, value in after.items() if path not in before or before[path] != value}
    held = (old or {}).get("metadata", {}).get("managedFields") or []
    entries, found = [], False
    for entry in held:
        ours = (entry["manager"], entry.get("subresource", "")) == (manager, subresource)
        found = found or ours
        paths = {path for path in _paths(entry["fieldsV1"], ()) if path in after}
        kept = paths | changed if ours else paths - changed
        if kept == paths:
            entries.append({**entry, "fieldsV1": _spell(kept)})
        elif kept:
            entries.append({**entry, "time": now, "fieldsV1": _spell(kept)})
    if changed and not found:
        entry = {"manager": manager, "operation": "Update", "apiVersion": api_version, "time": now}
        entry |= {"fieldsType": "FieldsV1", "fieldsV1": _spell(changed)}
        entries.append(entry | ({"subresource": subresource} if subresource else {}))
    return [entry for entry in entries if entry["fieldsV1"]]


def _spell(paths: set[Path]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for path in sorted(paths):
        below = tree
        for step in path:
            below = below.setdefault(f"f:{step}", {})
    return tree


def _paths(tree: Mapping[str, Any], path: Path) -> Iterator[Path]:
    if not tree and path:
        yield path
    for step, below in tree.items():
        yield from _paths(below, (*path, step.removeprefix("f:")))


def merged(target: Any, patch: Any) -> Any:
    """Apply a JSON merge patch (RFC 7396)."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result


Matcher = Callable[[Manifest], bool]


def selector(labels: str, fields: str, *, known: frozenset[str]) -> Matcher:
    """Read a label and a field selector; ValueError for what the server refuses."""
    tests = [*_label_tests(labels), *_field_tests(fields, known=known)]
    return lambda manifest: all(test(manifest) for test in tests)


_SET = re.compile(r"(\S+)\s+(in|notin)\s*\(([^)]*)\)\Z")


def _label_tests(text: str) -> Iterator[Matcher]:
    for part in filter(None, (part.strip() for part in re.split(r",(?![^(]*\))", text))):
        one_of = _SET.match(part)
        if one_of:
            key, wanted, negated = one_of[1], {value.strip() for value in one_of[3].split(",")}, one_of[2] == "notin"
        elif "=" in part:
            negated = "!=" in part
            key, _, value = part.replace("!=", "=").replace("==", "=").partition("=")
            wanted = {value.strip()}
        else:
            key, wanted, negated = part.lstrip("!"), None, part.startswith("!")
        yield _label_test(key.strip(), wanted, negated=negated)


def _label_test(key: str, wanted: set[str] | None, *, negated: bool) -> Matcher:
    def test(manifest: Manifest) -> bool:
        labels = manifest["metadata"].get("labels") or {}
        has = key in labels and (wanted is None or labels[key] in wanted)
        return has is not negated

    return test


def _field_tests(text: str, *, known: frozenset[str]) -> Iterator[Matcher]:
    for part in filter(None, text.split(",")):
        name, _, value = part.partition("=")
        if name not in known | {"metadata.name", "metadata.namespace"}:
            raise ValueError(f"field label not supported: {name}")
        yield lambda manifest, name=name, value=value: _field(manifest, name) == value


def _field(manifest: Manifest, name: str) -> str:
    found: Any = manifest
    for step in name.split("."):
        found = found.get(step) or {}
    return found if isinstance(found, str) else ""


def copied(manifest: Manifest) -> dict[str, Any]:
    """Copy an object, so that no two hands hold the same one."""
    found: dict[str, Any] = orjson.loads(orjson.dumps(manifest))
    return found
