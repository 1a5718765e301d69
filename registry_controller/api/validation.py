"""Checks for valid names, label keys and label values, before a string becomes part of a request."""

from __future__ import annotations

import re
from typing import Final

_DNS_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_DNS_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_DNS_LABEL_NAMES: Final = frozenset({("", "Namespace"), ("", "Service")})
_DNS_SUBDOMAIN_NAMES: Final = frozenset({"", "apps", "batch"})
"""Groups in which all names are DNS subdomains. Other groups have kinds with other names (`system:x`, `a:b`, `::1`)."""
_QUALIFIED: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_FIELD_VALUE: Final = re.compile(r"[A-Za-z0-9./:_-]+")
_FIELD: Final = r"[^\s=!,\\]+(?:==|!=|=)(?:[^\\,=]|\\[\\,=])*"
_FIELD_SELECTOR: Final = re.compile(rf"{_FIELD}(?:,{_FIELD})*")


def is_namespace(text: str) -> bool:
    """Return whether a string is a valid name of a namespace."""
    return _DNS_LABEL.fullmatch(text) is not None


def is_api_group(text: str) -> bool:
    """Return whether a string is a valid API group; the core group is the empty string."""
    return not text or is_own_kinds_name(text)


def is_api_version(text: str) -> bool:
    """Return whether a string is a valid version of an API group, without the group."""
    return _DNS_LABEL.fullmatch(text) is not None


def is_object_name(text: str) -> bool:
    """Return whether a string is a valid name of an object of some kind. Many kinds have stricter rules."""
    plain = text.isascii() and text.isprintable() and not set(text) & {"/", "%"}
    return plain and text not in ("", ".", "..") and len(text) <= 253


def is_name_of(group: str, kind: str, text: str) -> bool:
    """Return whether a string is a valid name of an object of a kind, by the rules that are known without a request."""
    if (group, kind) in _DNS_LABEL_NAMES:
        return is_namespace(text)
    return is_own_kinds_name(text) if group in _DNS_SUBDOMAIN_NAMES and kind != "Event" else is_object_name(text)


def is_own_kinds_name(text: str) -> bool:
    """Return whether a string is a valid name of a custom resource: a DNS subdomain."""
    return len(text) <= 253 and _DNS_SUBDOMAIN.fullmatch(text) is not None


def is_label_key(text: str) -> bool:
    """Return whether a string is a valid label key: `name` or `prefix/name`."""
    prefix, slash, name = text.rpartition("/")
    if slash and (len(prefix) > 253 or _DNS_SUBDOMAIN.fullmatch(prefix) is None):
        return False
    return _QUALIFIED.fullmatch(name) is not None


def is_annotation_key(text: str) -> bool:
    """Return whether a string is a valid annotation key, in which Kubernetes also accepts capitals in the prefix."""
    return is_label_key(text.lower())


def is_label_value(text: str) -> bool:
    """Return whether a string is a valid label value; the empty string is valid."""
    return not text or _QUALIFIED.fullmatch(text) is not None


def is_plain_field_value(text: str) -> bool:
    """Return whether a string can be part of a field selector without escapes."""
    return _FIELD_VALUE.fullmatch(text) is not None


def is_field_selector(text: str) -> bool:
    """Return whether a string is a field selector: `field=value,field!=value`, with `\\` before a `,`, `=` or `\\`."""
    return _FIELD_SELECTOR.fullmatch(text) is not None
