"""What Kubernetes accepts as names, label keys and label values: asked before a string goes into a query."""

from __future__ import annotations

import re
from typing import Final

_DNS_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_DNS_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_DNS_LABEL_NAMES: Final = frozenset({("", "Namespace"), ("", "Service")})
_DNS_SUBDOMAIN_NAMES: Final = frozenset({"", "apps", "batch"})
"""Groups whose kinds are all named so; others have kinds with names of their own (`system:x`, `a:b`, `::1`)."""
_QUALIFIED: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_FIELD_VALUE: Final = re.compile(r"[A-Za-z0-9./:_-]+")


def is_namespace(text: str) -> bool:
    """Say whether this can be the name of a namespace."""
    return _DNS_LABEL.fullmatch(text) is not None


def is_api_group(text: str) -> bool:
    """Say whether this can be an API group; the core group is the empty text."""
    return not text or is_own_kinds_name(text)


def is_api_version(text: str) -> bool:
    """Say whether this can be the version of an API group, without the group."""
    return _DNS_LABEL.fullmatch(text) is not None


def is_object_name(text: str) -> bool:
    """Say whether an object can have this name; kinds are stricter in many ways, their servers say so."""
    plain = text.isascii() and text.isprintable() and not set(text) & {"/", "%"}
    return plain and text not in ("", ".", "..") and len(text) <= 253


def is_name_of(group: str, kind: str, text: str) -> bool:
    """Say whether an object of a kind can have this name, as far as that is known without asking its server."""
    if (group, kind) in _DNS_LABEL_NAMES:
        return is_namespace(text)
    return is_own_kinds_name(text) if group in _DNS_SUBDOMAIN_NAMES and kind != "Event" else is_object_name(text)


def is_own_kinds_name(text: str) -> bool:
    """Say whether a custom resource may have that name: a DNS subdomain."""
    return len(text) <= 253 and _DNS_SUBDOMAIN.fullmatch(text) is not None


def is_label_key(text: str) -> bool:
    """Say whether this can be a label's key: `name` or `prefix/name`."""
    prefix, slash, name = text.rpartition("/")
    if slash and (len(prefix) > 253 or _DNS_SUBDOMAIN.fullmatch(prefix) is None):
        return False
    return _QUALIFIED.fullmatch(name) is not None


def is_annotation_key(text: str) -> bool:
    """Say whether this can be an annotation's key; Kubernetes lets the prefix have capitals there."""
    return is_label_key(text.lower())


def is_label_value(text: str) -> bool:
    """Say whether this can be a label's value; the empty string can."""
    return not text or _QUALIFIED.fullmatch(text) is not None


def is_plain_field_value(text: str) -> bool:
    """Say whether this can stand in a field selector as it is, without escapes."""
    return _FIELD_VALUE.fullmatch(text) is not None
