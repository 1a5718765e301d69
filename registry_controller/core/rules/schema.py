"""Checks objects against the schema of a CustomResourceDefinition, and finds the fields that a definition prunes (A8).

Law: every keyword of our definitions under `spec` is checked here; `core.rules.validation` checks what CEL rules do.
"""

from __future__ import annotations

import base64
import binascii
import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from registry_controller.api.errors import InvalidObject
from registry_controller.api.fields import Field
from registry_controller.api.meta import Manifest
from registry_controller.core.rules.findings import Finding

Schema = Mapping[str, Any]

READERS: Final[Mapping[str, Callable[[Field], object]]] = {
    "object": Field.mapping, "array": Field.items, "string": Field.text, "boolean": Field.flag,
}  # fmt: skip

_TEXTS: Final = {"type": "object", "additionalProperties": {"type": "string"}}
_METADATA: Final = {
    "type": "object",
    "properties": {"labels": _TEXTS, "annotations": _TEXTS},
    "x-kubernetes-preserve-unknown-fields": True,
}
"""The API server itself checks the other fields of metadata."""
_MAX_NAME_LENGTH: Final = 64


def find_schema_errors(manifest: Manifest, *, definition: Manifest, version: str) -> Iterator[Finding]:
    """Find the fields that do not fit the definition of the object's kind; its status is not checked."""
    found = get_schema(definition, version)
    schema = found if isinstance(found, Mapping) else {}
    schema = {**schema, "properties": {**(schema.get("properties") or {}), "metadata": _METADATA}}
    checked = {name: value for name, value in manifest.items() if name not in ("apiVersion", "kind", "status")}
    yield from _check_field(Field(checked, ""), schema)


def _check_field(field: Field, schema: Schema) -> Iterator[Finding]:
    try:
        _check_type(field, schema)
    except InvalidObject as error:
        yield Finding(error.path, error.message)
        return
    if isinstance(field.value, Mapping):
        yield from _check_object(field, schema)
    elif isinstance(field.value, list):
        if len(field.value) > schema.get("maxItems", len(field.value)):
            yield Finding(field.path, f"has more than {schema['maxItems']} items")
        for item in field.items():
            yield from _check_field(item, schema["items"])
    else:
        message = _check_scalar(field.value, schema)
        if message:
            yield Finding(field.path, message)


def _check_type(field: Field, schema: Schema) -> None:
    """Raise InvalidObject for null, and for a value of another type."""
    if field.value is None:
        raise InvalidObject(field.path, "must not be null")
    if schema.get("x-kubernetes-int-or-string"):
        field.int_or_text()
    else:
        READERS[schema["type"]](field)


def _check_object(field: Field, schema: Schema) -> Iterator[Finding]:
    properties, other = schema.get("properties") or {}, schema.get("additionalProperties")
    for name in schema.get("required") or ():
        if field[name].value is None:
            yield Finding(field[name].path, "is required")
    for name, value in field.mapping().items():
        if name in properties:
            child_schema, child = properties[name], field[name]
        elif other:
            child_schema, child = other, field.entry(name)
        elif schema.get("x-kubernetes-preserve-unknown-fields"):
            continue
        else:
            yield Finding(field[name].path, f"is not a field of this kind{suggest_name(name, properties)}")
            continue
        if value is not None:
            yield from _check_field(child, child_schema)


def suggest_name(name: str, known: Iterable[str]) -> str:
    """Return advice that suggests the known name that is most similar; empty without one."""
    lowered = {field.lower(): field for field in known}
    found = difflib.get_close_matches(name[:_MAX_NAME_LENGTH].lower(), lowered, n=1)
    return f"; did you mean `{lowered[found[0]]}`?" if found else ""


def _check_scalar(value: object, schema: Schema) -> str:
    allowed = schema.get("enum")
    if allowed and value not in allowed:
        *others, last = allowed
        return f"must be {', '.join(others)}{' or ' if others else ''}{last}"
    if isinstance(value, str):
        if len(value) < schema.get("minLength", 0):
            return "must not be empty"
        if schema.get("format") == "byte" and not _is_base64(value):
            return "must be base64"
    elif isinstance(value, int) and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        return f"must be from {schema['minimum']} to {schema['maximum']}; write it as a string"
    return ""


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def find_pruned_fields(sent: Manifest, *, stored: Manifest) -> tuple[str, ...]:
    """List the paths under `spec` that were sent and were not stored."""
    return tuple(_find_missing(sent.get("spec"), stored.get("spec"), "spec"))


def describe_pruned(paths: Iterable[str]) -> str:
    """Return the message about fields that the installed CustomResourceDefinition prunes."""
    return f"the installed CRD has no field {', '.join(paths)}: apply the CRDs of this release"


def _find_missing(sent: object, stored: object, path: str) -> Iterator[str]:
    if isinstance(sent, Mapping):
        kept = stored if isinstance(stored, Mapping) else {}
        for key, value in sent.items():
            if value is None:
                continue
            if key in kept:
                yield from _find_missing(value, kept[key], f"{path}.{key}")
            else:
                yield f"{path}.{key}"
    elif isinstance(sent, list) and isinstance(stored, list):
        for index, (value, kept_value) in enumerate(zip(sent, stored, strict=False)):
            yield from _find_missing(value, kept_value, f"{path}[{index}]")


def find_unknown_properties(ours: Manifest, *, installed: Manifest, version: str) -> tuple[str, ...]:
    """List the fields of our CustomResourceDefinition that an installed one lacks: the API server prunes them.

    A field that preserves unknown fields loses none. Fields below a listed field are not listed.
    """
    found = _find_unknown(get_schema(ours, version), get_schema(installed, version), "")
    return tuple(path for path in found if path not in ("apiVersion", "kind", "metadata"))


def find_unknown_fields(manifest: Manifest, *, definition: Manifest, version: str) -> Iterator[str]:
    """List the paths under `spec` that a definition does not know; a null counts as no value.

    Fields below a listed field are not listed.
    """
    found = get_schema(definition, version)
    properties = found.get("properties") if isinstance(found, Mapping) else None
    yield from _find_unknown_values(manifest.get("spec"), (properties or {}).get("spec"), "spec")


def _find_unknown_values(value: object, schema: object, path: str) -> Iterator[str]:
    if not isinstance(schema, Mapping) or schema.get("x-kubernetes-preserve-unknown-fields"):
        return
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _find_unknown_values(item, schema.get("items"), f"{path}[{index}]")
    elif isinstance(value, Mapping) and "additionalProperties" not in schema:
        known = schema.get("properties") or {}
        for name, item in value.items():
            if name in known:
                yield from _find_unknown_values(item, known[name], f"{path}.{name}")
            elif item is not None:
                yield f"{path}.{name}"


def get_schema(definition: Manifest, version: str) -> object:
    """Return the schema of a version of a definition; None without one."""
    spec = definition.get("spec")
    versions = spec.get("versions") if isinstance(spec, Mapping) else None
    for served in versions if isinstance(versions, list) else ():
        if isinstance(served, Mapping) and served.get("name") == version:
            schema = served.get("schema")
            return schema.get("openAPIV3Schema") if isinstance(schema, Mapping) else None
    return None


def _find_unknown(ours: object, installed: object, path: str) -> Iterator[str]:
    if not isinstance(ours, Mapping):
        return
    theirs = installed if isinstance(installed, Mapping) else {}
    if theirs.get("x-kubernetes-preserve-unknown-fields"):
        return
    known = theirs.get("properties") or {}
    for name, schema in (ours.get("properties") or {}).items():
        child = f"{path}.{name}" if path else name
        if name in known:
            yield from _find_unknown(schema, known[name], child)
        else:
            yield child
    yield from _find_unknown(ours.get("items"), theirs.get("items"), f"{path}[]")
