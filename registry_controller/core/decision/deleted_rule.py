"""Decides whether a rule is at its owner, and whether anything shows that it was deleted there (W3).

The owner of a rule is the cluster in which the rule was created. A rule was deleted if its owner's record names it, if
its deletion was an event of a watch that was not interrupted since, or, in the owner itself, if the definition of rules
that was there together with the rule, as a copy shows, is still there. A rule that is lost with the definition, or by
the restore of an etcd, was not deleted. Neither was one that its owner keeps to itself, and whose copy here went.

Laws: while the owner is silent, nothing is known · a rule that was deleted a moment ago may be created again · the rule
of another cluster that has its name shows nothing · a cluster records its own deletions, and no report of its members.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from registry_controller.core.decision.rule_state import RulePresence


class StoredAs(enum.Enum):
    """The rule that has the name of a rule, at the owner of that rule."""

    ITSELF = "a rule of the owner, which is copied"
    NOT_COPIED = "a rule of the owner, which makes no new copy, and has none here"
    ANOTHER = "a rule of another cluster"
    NONE = "no rule"


class SeenDeletion(NamedTuple):
    """A deletion that an uninterrupted watch showed: the rule's UID, the revision, and for how long it is known.

    A deletion at a peer is known for 0 s until the definition of rules was seen there after it.
    """

    uid: str
    revision: int
    known_s: float


class RuleTraces(NamedTuple):
    """The facts about a rule at its owner.

    `uid` is that of the rule; a provenance of an earlier version does not have it. `is_heard` means that the owner
    answers and its rules are listed, and that this daemon runs for long enough to miss rules. `seen` are the deletions
    of rules of this name. `recorded` are the UIDs of rules of this name in the owner's record, without those that
    appeared there a moment ago. `is_allowed` means that a person here let the copies of missing rules go.

    The rest counts for a rule of the local cluster (`is_local`). There, `seen` has only the deletions after which the
    definition of rules was read from the quorum, and was there. `defined_since` is a revision since which the
    definition is there; None while it is missing, unknown or being deleted. `was_in_definition` means that the rule was
    here together with this definition, which was read in this way after the last rule went; it is True, too, for a rule
    without a UID.
    """

    uid: str
    is_local: bool
    is_heard: bool
    stored: StoredAs = StoredAs.NONE
    seen: Sequence[SeenDeletion] = ()
    recorded: frozenset[str] = frozenset()
    is_allowed: bool = False
    defined_since: int | None = None
    was_in_definition: bool = False


def evaluate_traces(traces: RuleTraces, *, window_s: float) -> tuple[RulePresence, bool]:
    """Return whether a rule is at its owner, and whether anything shows that it was deleted there."""
    presence = _find(traces, window_s=window_s)
    return presence, presence is RulePresence.MISSING and _was_deleted(traces)


def _find(traces: RuleTraces, *, window_s: float) -> RulePresence:
    if not traces.is_heard:
        return RulePresence.UNKNOWN
    if traces.stored is StoredAs.ITSELF:
        return RulePresence.THERE
    is_settled = all(deletion.known_s >= window_s for deletion in traces.seen)
    return RulePresence.MISSING if is_settled else RulePresence.UNKNOWN


def _was_deleted(traces: RuleTraces) -> bool:
    if any(_names(uid, traces.uid) for uid in traces.recorded) or traces.is_allowed:
        return True
    if traces.is_local:  # what only its copies show is recorded before they go
        return _was_seen_here(traces) or (not traces.uid and _is_proven_by_its_copies(traces))
    return any(_names(deletion.uid, traces.uid) for deletion in traces.seen)


def _was_seen_here(traces: RuleTraces) -> bool:
    """Return whether an event deleted a rule of this cluster while its definition stayed."""
    since = traces.defined_since
    return since is not None and any(
        _names(deletion.uid, traces.uid) and since < deletion.revision for deletion in traces.seen
    )


def _is_proven_by_its_copies(traces: RuleTraces) -> bool:
    """Return whether a rule of this cluster that a copy here names was in this store, and is not any more."""
    return traces.defined_since is not None and traces.was_in_definition


def is_to_record(traces: RuleTraces) -> bool:
    """Return whether a rule of this cluster was deleted here, so that it belongs into the record.

    An event is recorded before the window is over, so that a daemon that ends meanwhile forgets none: a rule that is
    created again has another UID. The copies here show a deletion while no daemon ran.
    """
    if not traces.uid:
        return False
    if _was_seen_here(traces):
        return True
    is_missing = traces.is_local and traces.is_heard and traces.stored is not StoredAs.ITSELF
    return is_missing and _is_proven_by_its_copies(traces)


def deletes_copies(policy: str, *, last: Iterable[str]) -> bool:
    """Return whether the copies of a deleted rule go with it; `policy` is that in the copy.

    `last` are the last policies of the rule, as far as its owner shows them. A copy may lack the last edit.
    """
    return policy == "Delete" and "Orphan" not in last


def _names(deleted: str, uid: str) -> bool:
    return uid in ("", deleted)
