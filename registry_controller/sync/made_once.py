"""Keeps the sources of copies that act when they are made, so that one that was deleted here is not made again (A9).

Laws: nothing outlives the daemon · a copy that the daemon itself deleted may be made again, however long that takes.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from registry_controller.api.meta import Target
from registry_controller.core.decision.marks import Marks

_MOST: Final = 10_000
RUN_WHEN_MADE: Final = frozenset((("", "Pod"), ("cert-manager.io", "CertificateRequest")))
"""The kinds of which a second object does its work a second time."""
_UNREAD: Final = ""


class _Last(NamedTuple):
    """The object that was here last: its uid, `_UNREAD` before it was read, and the uid of its source.

    `may_be_ours` is for its deletion: this daemon deletes it, or saw it first when it was going already.
    """

    uid: str
    source: str
    may_be_ours: bool = False


class MadeOnce:
    """The last copy at each place of such a kind."""

    def __init__(self) -> None:
        self._last: dict[Target, _Last] = {}

    def record_creation(self, target: Target, marks: Marks) -> None:
        """Record that we created a copy."""
        self._put(target, marks, uid=_UNREAD)

    def note(self, target: Target, uid: str, marks: Marks, *, is_going: bool) -> None:
        """Record that a copy is here; `is_going` means that it waits for the end of its deletion."""
        last = self._last.get(target)
        is_known = last is not None and last.uid in (uid, _UNREAD)
        self._put(target, marks, uid=uid, may_be_ours=last.may_be_ours if last is not None and is_known else is_going)

    def record_deletion(self, target: Target, uid: str) -> None:
        """Record that we delete an object."""
        self._set(target, uid, may_be_ours=True)

    def withdraw_deletion(self, target: Target, uid: str) -> None:
        """Record that the API server refused to delete an object."""
        self._set(target, uid, may_be_ours=False)

    def forget(self, target: Target) -> None:
        """Record that a copy goes with its namespace."""
        self._last.pop(target, None)

    def source_of(self, target: Target) -> str:
        """Return the uid of the source whose copy was here last, and that another client deleted; empty for none."""
        last = self._last.get(target)
        return last.source if last is not None and not last.may_be_ours else ""

    def _put(self, target: Target, marks: Marks, *, uid: str, may_be_ours: bool = False) -> None:
        if target[:2] in RUN_WHEN_MADE and marks.provenance is not None:
            self._last.pop(target, None)
            self._last[target] = _Last(uid, marks.provenance.uid, may_be_ours)
            if len(self._last) > _MOST:
                del self._last[next(iter(self._last))]

    def _set(self, target: Target, uid: str, *, may_be_ours: bool) -> None:
        last = self._last.get(target)
        if last is not None and last.uid == uid:
            self._last[target] = last._replace(may_be_ours=may_be_ours)
