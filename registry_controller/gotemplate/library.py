"""All functions that a template can call. The parser refuses every other name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from registry_controller.gotemplate.builtins import BUILTINS
from registry_controller.gotemplate.sprig_codes import CODES
from registry_controller.gotemplate.sprig_dicts import DICTS
from registry_controller.gotemplate.sprig_lists import LISTS
from registry_controller.gotemplate.sprig_numbers import NUMBERS
from registry_controller.gotemplate.sprig_regex import REGEX
from registry_controller.gotemplate.sprig_text import TEXT
from registry_controller.gotemplate.sprig_values import VALUES
from registry_controller.gotemplate.sprig_words import WORDS

FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    **BUILTINS, **TEXT, **WORDS, **REGEX, **CODES, **NUMBERS, **LISTS, **DICTS, **VALUES
}  # fmt: skip
