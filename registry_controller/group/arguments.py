"""Checks the arguments of users.

Law: a wrong argument raises InvalidObject where it is given, and the error names the argument and the values that
are taken.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from registry_controller.api import validation
from registry_controller.api.errors import InvalidObject
from registry_controller.api.selection import Selection
from registry_controller.api.selectors import Selector, parse_selector

_WORD: Final = re.compile(r"[A-Za-z0-9-]+(\.[A-Za-z0-9.-]+)?")
_MANAGER_LENGTH: Final = 128
"""Kubernetes takes no longer name of a field manager."""


def check_resource(resource: object) -> None:
    """Check a word that names a kind."""
    if not isinstance(resource, str) or not _WORD.fullmatch(resource):
        raise InvalidObject("resource", "must be a word that kubectl takes, as pods or deployments.v1.apps")


def check_selection(selection: Selection) -> Selector:
    """Check a namespace and selectors; return the label selector."""
    namespace, labels, fields = selection
    if namespace:
        check_namespace(namespace)
    for path, text in (("label_selector", labels), ("field_selector", fields)):
        if not isinstance(text, str):
            raise InvalidObject(path, "must be a text")
    if fields and not validation.is_field_selector(fields):
        raise InvalidObject("field_selector", "must be requirements such as status.phase=Running,spec.nodeName!=a")
    return parse_selector(labels)


def check_namespace(namespace: object, *, path: str = "namespace") -> None:
    """Check the name of a namespace."""
    if not isinstance(namespace, str) or not validation.is_namespace(namespace):
        raise InvalidObject(path, "must be the name of one namespace: small letters, digits and -, up to 63 of them")


def check_scope(namespace: str, *, is_namespaced: bool, kind: object) -> None:
    """Check that the name of an object has a namespace where its kind has them, and none otherwise."""
    if is_namespaced != bool(namespace):
        raise InvalidObject(
            "metadata.namespace", f"{'is missing for' if is_namespaced else 'must be empty for'} {kind}"
        )


def check_context_names(contexts: object) -> None:
    """Check the names of contexts."""
    names = contexts if isinstance(contexts, Sequence) and not isinstance(contexts, str) else ()
    if not names or not all(isinstance(name, str) for name in names):
        raise InvalidObject("contexts", "must be a list of one or more names")


def check_operator(name: object) -> None:
    """Check the name of an operator, which is a part of the name of a ConfigMap."""
    if not isinstance(name, str) or len(name) > _MANAGER_LENGTH or not validation.is_own_kinds_name(name):
        raise InvalidObject(
            "operator", f"must be a name such as fan-out-job: small letters, digits, - and ., up to {_MANAGER_LENGTH}"
        )


def check_async(function: object, *, path: str) -> None:
    """Check a function, a method, or an object that is called as one: it must be async."""
    called = inspect.unwrap(function) if callable(function) else function, getattr(function, "__call__", None)  # noqa: B004
    if not any(inspect.iscoroutinefunction(one) for one in called):
        raise InvalidObject(path, "must be an async function: async def")


def check_workers(count: object) -> None:
    """Check a number of calls at once."""
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise InvalidObject("workers", "must be a whole number, 1 or more")


def read_delay(value: object, *, path: str) -> float:
    """Return a delay in seconds, which is a number, 0 or more, or a timedelta."""
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds < math.inf:
        shown = str(value) if isinstance(value, int | float | timedelta) else f"a {type(value).__name__}"
        raise InvalidObject(path, f"must be seconds, a number of 0 or more, or a timedelta, and is {shown}")
    return float(seconds)
