"""Keeps the sources of copies that act when they are made, so that one that was deleted here is not made again (A9).

Law: nothing outlives the daemon · a copy that the daemon itself deleted may be made again.
"""

from __future__ import annotations

from typing import Final

from registry_controller.api.meta import Target
from registry_controller.core.decision.marks import Marks

_MOST: Final = 10_000
RUN_WHEN_MADE: Final = frozenset((("", "Pod"), ("cert-manager.io", "CertificateRequest")))
"""The kinds of which a second object does its work a second time."""


class MadeOnce:
    """The uid of the source of each copy of such a kind that is, or was, here."""

    def __init__(self) -> None:
        self._sources: dict[Target, str] = {}

    def note(self, target: Target, marks: Marks) -> None:
        """Record that a copy is here."""
        if target[:2] in RUN_WHEN_MADE and marks.provenance is not None:
            self._sources.pop(target, None)
            self._sources[target] = marks.provenance.uid
            if len(self._sources) > _MOST:
                del self._sources[next(iter(self._sources))]

    def forget(self, target: Target) -> None:
        """Record that a copy goes for a reason of ours, or with its namespace."""
        self._sources.pop(target, None)

    def source_of(self, target: Target) -> str:
        """Return the uid of the source whose copy was here last; empty for none."""
        return self._sources.get(target, "")
