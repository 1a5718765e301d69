"""All functions that a template may call. A name that is not here is refused when the template is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from registry_controller.gotemplate.builtins import BUILTINS
from registry_controller.gotemplate.sprig_text import TEXT
from registry_controller.gotemplate.sprig_values import VALUES

FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {**BUILTINS, **TEXT, **VALUES}
