"""Which objects of a kind one list or watch asks a server for."""

from __future__ import annotations

from typing import Final, NamedTuple


class Selection(NamedTuple):
    """A namespace (empty: all), a label selector and a field selector, as they go into the query."""

    namespace: str = ""
    labels: str = ""
    fields: str = ""

    def __str__(self) -> str:
        parts = (self.namespace and f"namespace {self.namespace}", self.labels, self.fields)
        return ", ".join(part for part in parts if part) or "all"


EVERYTHING: Final = Selection()
