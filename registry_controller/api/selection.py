"""The selection of objects of a kind in a list or watch."""

from __future__ import annotations

from typing import Final, NamedTuple


class Selection(NamedTuple):
    """A namespace (empty: all), a label selector and a field selector, as in the query of the request."""

    namespace: str = ""
    labels: str = ""
    fields: str = ""

    def includes(self, namespace: str) -> bool:
        """Return whether objects of a namespace may be selected; it is empty where their kind has no namespaces."""
        return not self.namespace or namespace in ("", self.namespace)

    def __str__(self) -> str:
        parts = (self.namespace and f"namespace {self.namespace}", self.labels, self.fields)
        return ", ".join(part for part in parts if part) or "all"


EVERYTHING: Final = Selection()
