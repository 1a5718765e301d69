"""Decides whether a client deleted a tombstone here, which withdraws it, or it went with the definition of features.

Laws: nothing is decided before a read of the definition that began after the deletion · while the watch of definitions
is behind that read, it is waited for.
"""

from __future__ import annotations

import enum
from typing import NamedTuple


class Withdrawal(enum.Enum):
    """The cause of the deletion of a tombstone."""

    UNKNOWN = "not known yet"
    BY_CLIENT = "a client deleted it"
    BY_DEFINITION = "it went with the definition of features"


class DeletionFacts(NamedTuple):
    """The facts about a deletion, at a revision, and about the definition of features.

    `read_later` means that the last quorum read of the definition began after the deletion, `read_uid` is its UID by
    that read, and `watched_uid` by the watch; both are empty while it is missing. The definition is there since the
    revision `defined_since`.
    """

    revision: int
    read_later: bool
    read_uid: str
    watched_uid: str
    defined_since: int


def evaluate_withdrawal(facts: DeletionFacts) -> Withdrawal:
    """Return the cause of the deletion of a tombstone."""
    is_behind = bool(facts.read_uid) and facts.watched_uid != facts.read_uid
    if not facts.read_later or is_behind:
        return Withdrawal.UNKNOWN
    is_by_client = bool(facts.read_uid) and facts.revision > facts.defined_since
    return Withdrawal.BY_CLIENT if is_by_client else Withdrawal.BY_DEFINITION
