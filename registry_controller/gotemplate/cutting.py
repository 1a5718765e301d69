"""Texts cut by bytes, as Go cuts them.

Law: a cut that would leave half a character is an error, for no object can hold such a text.
"""

from __future__ import annotations

from registry_controller.gotemplate.limits import TemplateError


def cut(value: str, start: int, end: int) -> str:
    """Give the bytes from `start` to `end`, which lie within the text."""
    try:
        return value.encode()[start:end].decode()
    except UnicodeDecodeError:
        raise TemplateError("a character is cut in two") from None
