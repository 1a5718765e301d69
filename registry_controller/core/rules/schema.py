"""What the schema of a CustomResourceDefinition refuses: all of it, each with its path, as the API server would say.

Law: every keyword under `spec` is obeyed here, or stands in `SILENT`. What is there in CEL is core.accept's.
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

CHECKED: Final = frozenset(
    (
        "type", "properties", "required", "items", "additionalProperties", "enum", "format", "minimum", "maximum",
        "minLength", "maxItems", "x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields",
    )
)  # fmt: skip
SILENT: Final = frozenset(("description", "x-kubernetes-validations"))
READERS: Final[Mapping[str, Callable[[Field], object]]] = {
    "object": Field.mapping, "array": Field.items, "string": Field.text, "boolean": Field.flag,
}  # fmt: skip
FORMATS: Final = frozenset(("byte",))

_TEXTS: Final = {"type": "object", "additionalProperties": {"type": "string"}}
_METADATA: Final = {
    "type": "object",
    "properties": {"labels": _TEXTS, "annotations": _TEXTS},
    "x-kubernetes-preserve-unknown-fields": True,
}
"""Its other fields are the API server's own matter."""
_MAX_NAME_LENGTH: Final = 64


def find_schema_errors(manifest: Manifest, *, definition: Manifest, version: str) -> Iterator[Finding]:
    """Find what does not fit the definition of an object's kind; its status is not looked at."""
    described = get_schema(definition, version)
    schema = described if isinstance(described, Mapping) else {}
    schema = {**schema, "properties": {**(schema.get("properties") or {}), "metadata": _METADATA}}
    looked_at = {name: value for name, value in manifest.items() if name not in ("apiVersion", "kind", "status")}
    yield from _check_field(Field(looked_at, ""), schema)


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
        words = _check_scalar(field.value, schema)
        if words:
            yield Finding(field.path, words)


def _check_type(field: Field, schema: Schema) -> None:
    """Raise InvalidObject for a value of another type. Null is no value: of a field it is as if it were not there."""
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
            below, found = properties[name], field[name]
        elif other:
            below, found = other, field.entry(name)
        elif schema.get("x-kubernetes-preserve-unknown-fields"):
            continue
        else:
            yield Finding(field[name].path, f"is no field of this kind{suggest_name(name, properties)}")
            continue
        if value is not None:
            yield from _check_field(found, below)


def suggest_name(name: str, known: Iterable[str]) -> str:
    """Guess which of the names that there are is meant; empty for none."""
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
        return f"must be from {schema['minimum']} to {schema['maximum']}; write it as a text"
    return ""


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def find_pruned_fields(sent: Manifest, *, stored: Manifest) -> tuple[str, ...]:
    """List the paths under `spec` that were sent and are not stored."""
    return tuple(_find_missing(sent.get("spec"), stored.get("spec"), "spec"))


def describe_pruned(paths: Iterable[str]) -> str:
    """Return the message about fields that the installed CustomResourceDefinition prunes."""
    return f"the installed CRD has no field {', '.join(paths)}: apply the CRDs of this release"


def _find_missing(sent: object, stored: object, path: str) -> Iterator[str]:
    if isinstance(sent, Mapping):
        held = stored if isinstance(stored, Mapping) else {}
        for key, value in sent.items():
            if value is None:
                continue
            if key in held:
                yield from _find_missing(value, held[key], f"{path}.{key}")
            else:
                yield f"{path}.{key}"
    elif isinstance(sent, list) and isinstance(stored, list):
        for index, (value, held_value) in enumerate(zip(sent, stored, strict=False)):
            yield from _find_missing(value, held_value, f"{path}[{index}]")


def find_unknown_properties(ours: Manifest, *, installed: Manifest, version: str) -> tuple[str, ...]:
    """List the fields that our CustomResourceDefinition describes and an installed one does not: it prunes them.

    A field that keeps unknown fields loses nothing. What lies below a listed field is not listed.
    """
    found = _find_unknown(get_schema(ours, version), get_schema(installed, version), "")
    return tuple(path for path in found if path not in ("apiVersion", "kind", "metadata"))


def get_schema(definition: Manifest, version: str) -> object:
    """Find the schema of a version in a definition; None where there is none."""
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
    held = installed if isinstance(installed, Mapping) else {}
    if held.get("x-kubernetes-preserve-unknown-fields"):
        return
    known = held.get("properties") or {}
    for name, schema in (ours.get("properties") or {}).items():
        below = f"{path}.{name}" if path else name
        if name in known:
            yield from _find_unknown(schema, known[name], below)
        else:
            yield below
    yield from _find_unknown(ours.get("items"), held.get("items"), f"{path}[]")
