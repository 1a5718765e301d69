"""Go's text/template, evaluated here: for the values of overrides. No I/O, no clock, no chance.

The language is Go's, with sprig's text functions. What differs on purpose:

- a missing key is an error to write, with its name, and not the text `<no value>`; it is nil for `if`, `with`,
  `range`, `and`, `or`, `default`, `coalesce` and `empty`
- functions that read the process, the network, the clock or randomness are not there
- fields are found by their JSON name, else by Go's name, whatever its capitals; a whole object cannot be written
- there are limits on source, steps, nesting and output
- complex numbers are not read; a number beyond 64 bits is refused
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from registry_controller.api.errors import InvalidObject, Mistake
from registry_controller.gotemplate.evaluate import evaluate
from registry_controller.gotemplate.library import FUNCTIONS
from registry_controller.gotemplate.limits import DEFAULT, Budget, Limits, Pool, TemplateError
from registry_controller.gotemplate.nodes import Tree
from registry_controller.gotemplate.parse import parse
from registry_controller.gotemplate.values import TemplateObject, as_decoded

__all__ = [
    "DEFAULT",
    "FUNCTIONS",
    "Budget",
    "Limits",
    "Pool",
    "Template",
    "TemplateError",
    "as_decoded",
    "compile_template",
]


class Template:
    """A template that was read. `path` is where it stands in its rule."""

    __slots__ = ("_limits", "_path", "_tree")

    def __init__(self, tree: Tree, *, path: str, limits: Limits) -> None:
        self._tree = tree
        self._path = path
        self._limits = limits

    def render(self, data: Mapping[str, Any], *, budget: Budget | None = None) -> str:
        """Write it; `data` holds objects as `as_decoded` gives them, None for one that is not known.

        Templates that are rendered together share a budget. Raises InvalidObject with the path, the position and what
        cannot be done; it holds nothing of the data.
        """
        shown = {name: TemplateObject(found) for name, found in data.items() if found is not None}
        budget = budget or Budget(self._limits)
        try:
            return evaluate(self._tree, shown, library=FUNCTIONS, budget=budget)
        except TemplateError as error:
            raise InvalidObject(self._path, str(error)) from None
        except Exception as error:  # who wrote it may be a stranger
            raise Mistake.of(error, path=self._path) from None


def compile_template(source: str, *, path: str, limits: Limits = DEFAULT) -> Template:
    """Read a template; InvalidObject with `path` and the position for one that Go would not read."""
    try:
        tree = parse(source, functions=FUNCTIONS.keys(), limits=limits)
        return Template(tree, path=path, limits=limits)
    except TemplateError as error:
        raise InvalidObject(path, str(error)) from None
    except RecursionError:
        raise InvalidObject(path, "template is nested too deeply") from None
