"""Cuts strings by bytes, as Go does.

Law: a cut inside a character is an error, because no Kubernetes object can contain such a string.
"""

from __future__ import annotations

from registry_controller.gotemplate.limits import TemplateError


def cut(value: str, start: int, end: int) -> str:
    """Return the bytes from `start` to `end`, both within the string."""
    try:
        return value.encode()[start:end].decode()
    except UnicodeDecodeError:
        raise TemplateError("a cut inside a character") from None
