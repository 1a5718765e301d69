"""What the API server refuses, `lint` refuses, and nothing that it stores: the rows are those of tests/e2e."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from click.testing import CliRunner

from registry_controller.api import meta
from registry_controller.cache.crds import read_bundled
from registry_controller.cli import program
from registry_controller.core.rules import schema
from tests.e2e.test_crds import ACCEPTED, REFUSED, UNKNOWN, WRONG_TYPES

CHECKED = frozenset(
    (
        "type", "properties", "required", "items", "additionalProperties", "enum", "format", "minimum", "maximum",
        "minLength", "maxItems", "x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields",
    )
)  # fmt: skip
DESCRIPTIVE = frozenset(("description", "x-kubernetes-validations"))
FORMATS = frozenset(("byte",))


def _definition(manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    return next(found for found in read_bundled().values() if found["spec"]["names"]["kind"] == manifest["kind"])


@pytest.mark.parametrize("manifest", ACCEPTED.values(), ids=ACCEPTED)
def test_what_the_api_server_stores_fits_the_schema(manifest: Mapping[str, Any]) -> None:
    assert [*schema.find_schema_errors(manifest, definition=_definition(manifest), version=meta.VERSION)] == []


PATHS = {
    **{row: (manifest, words[0].partition(": ")[0]) for row, (manifest, words) in REFUSED.items()},
    **WRONG_TYPES, **UNKNOWN,
}  # fmt: skip


@pytest.mark.parametrize(("manifest", "path"), PATHS.values(), ids=PATHS)
def test_what_the_api_server_refuses_is_an_error(manifest: Mapping[str, Any], path: str) -> None:
    found = CliRunner().invoke(program, ["lint", "-"], input=json.dumps(manifest))
    lines = found.output.splitlines()
    assert found.exit_code == 1
    said = [line.split(" error: ")[1] for line in lines if " error: " in line]
    assert any(words.replace("[a]: ", ".a: ").startswith(path) for words in said), lines


def _schemas(found: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """List a schema and all below it, without those of the status."""
    yield path, found
    for name, below in (found.get("properties") or {}).items():
        if path or name == "spec":
            yield from _schemas(below, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if key in found:
            yield from _schemas(found[key], f"{path}[]")


@pytest.mark.parametrize("name", read_bundled())
def test_nothing_that_a_schema_says_is_unknown_to_lint(name: str) -> None:
    [version] = read_bundled()[name]["spec"]["versions"]
    found = dict(_schemas(version["schema"]["openAPIV3Schema"]))
    assert {keyword for one in found.values() for keyword in one} <= CHECKED | DESCRIPTIVE
    assert {one["type"] for one in found.values() if "type" in one} <= set(schema.READERS)
    assert {one["format"] for one in found.values() if "format" in one} <= FORMATS
    cel = "x-kubernetes-validations"
    ours = {".spec.rules": 1, ".spec.rules[].match[]": 6} if name.startswith("resourcesyncrules") else {}
    said = {path: len(one[cel]) for path, one in found.items() if cel in one}
    assert said == ours, "rules in CEL are checked by core.rules.validation, too"


def test_fields_that_the_server_did_not_store_are_pruned() -> None:
    sent = {"spec": {"kept": 1, "lost": {"a": 1}, "null": None, "list": [{"a": 1, "b": 2}, {"a": 1}]}}
    stored = {"spec": {"kept": 1, "list": [{"a": 1}, {"a": 1}], "default": True}}
    assert schema.find_pruned_fields(sent, stored=stored) == ("spec.lost", "spec.list[0].b")
    assert schema.find_pruned_fields(sent, stored={}) == ("spec.kept", "spec.lost", "spec.list")
    assert schema.find_pruned_fields({}, stored=stored) == ()


def _crd(version: str, properties: Mapping[str, Any]) -> Mapping[str, Any]:
    root = {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}, "metadata": {}}}
    return {"spec": {"versions": [{"name": version, "schema": {"openAPIV3Schema": root}}]}}


def test_fields_that_an_installed_definition_lacks_are_found() -> None:
    item = {"type": "object", "properties": {"a": {}, "b": {}}}
    ours = _crd("v1", {"same": {}, "new": {"properties": {"below": {}}}, "list": {"items": item}})
    theirs = _crd("v1", {"same": {}, "list": {"items": {"properties": {"a": {}}}}, "theirs": {}})
    assert schema.find_unknown_properties(ours, installed=theirs, version="v1") == ("spec.new", "spec.list[].b")
    assert schema.find_unknown_properties(ours, installed=_crd("v2", {}), version="v1") == ("spec",)
    assert schema.find_unknown_properties(ours, installed=ours, version="v1") == ()


def test_a_field_that_preserves_unknown_fields_loses_none() -> None:
    ours = _crd("v1", {"free": {"properties": {"a": {}}}})
    theirs = _crd("v1", {"free": {"x-kubernetes-preserve-unknown-fields": True}})
    assert schema.find_unknown_properties(ours, installed=theirs, version="v1") == ()
