"""Observers of caches whose methods a test chooses; the others do nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from registry_controller.cache.source_index import SourceIndex
from registry_controller.watch.body_cache import BodyCache


def _ignore(*_: Any) -> None:
    pass


class Observer:
    """Calls the functions that it was made with: `Observer(on_claims_changed=...)`."""

    def __init__(self, **methods: Callable[..., None]) -> None:
        known = {
            "on_claims_changed", "on_source_synced",
            "on_copy_changed", "on_copy_made", "on_copy_gone",
            "on_local_synced", "on_local_uncertain", "on_local_status_changed",
        }  # fmt: skip
        assert methods.keys() <= known, methods
        for name in known:
            setattr(self, name, methods.get(name, _ignore))

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


def no_offers() -> SourceIndex:
    """Make the index of no peer."""
    return SourceIndex(bodies=BodyCache(), observer=Observer())
