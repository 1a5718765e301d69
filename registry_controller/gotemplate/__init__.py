"""Go's text/template with sprig's functions, evaluated without I/O and within limits.

The language is Go's, with sprig's text functions. Deliberate differences:

- To print a missing key is an error with the key's path; Go prints `<no value>`. The key is nil for `if`, `with`,
  `range`, `and`, `or`, `default`, `coalesce` and `empty`.
- Functions that read the process, the network, the clock or randomness do not exist.
- A field is found by its JSON name, or else by Go's name in any case. A whole object cannot be printed.
- Source, steps, nesting and output are limited.
- Complex numbers, and numbers beyond 64 bits, are errors.
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
from registry_controller.gotemplate.values import TemplateObject, with_go_numbers

__all__ = [
    "DEFAULT",
    "FUNCTIONS",
    "Budget",
    "Limits",
    "Pool",
    "Template",
    "TemplateError",
    "compile_template",
    "with_go_numbers",
]


class Template:
    """A parsed template. `path` is the path of its field in the rule."""

    __slots__ = ("_limits", "_path", "_tree")

    def __init__(self, tree: Tree, *, path: str, limits: Limits) -> None:
        self._tree = tree
        self._path = path
        self._limits = limits

    def render(self, data: Mapping[str, Any], *, budget: Budget | None = None) -> str:
        """Return the output. `data` maps names to objects from `as_decoded`; the value None is an unknown object.

        Templates that are rendered together share a budget. Raises InvalidObject with the path, the position and the
        problem; the message contains nothing of the data.
        """
        objects = {name: TemplateObject(found) for name, found in data.items() if found is not None}
        budget = budget or Budget(self._limits)
        try:
            return evaluate(self._tree, objects, library=FUNCTIONS, budget=budget)
        except TemplateError as error:
            raise InvalidObject(self._path, str(error)) from None
        except Exception as error:  # the template may come from another cluster
            raise Mistake.of(error, path=self._path) from None


def compile_template(source: str, *, path: str, limits: Limits = DEFAULT) -> Template:
    """Parse a template. Raises InvalidObject with `path` and the position if Go refuses the template."""
    try:
        tree = parse(source, functions=FUNCTIONS.keys(), limits=limits)
        return Template(tree, path=path, limits=limits)
    except TemplateError as error:
        raise InvalidObject(path, str(error)) from None
    except RecursionError:
        raise InvalidObject(path, "template is nested too deeply") from None
