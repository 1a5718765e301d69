"""Computes the status of a ResourceSyncRule: whether it is accepted, synced, or needs an administrator.

Laws: the same facts give the same status, in the same order · the status is bounded · it contains no data of objects.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from registry_controller.api.meta import ClusterUID
from registry_controller.core.status.merge import list_conditions
from registry_controller.core.status.ready import build_readiness

_MAX_PEERS: Final = 100
_MAX_FAILURES: Final = 5
_MAX_SAMPLES: Final = 100
"""Failures of all peers together, so that the status of a large group stays far below an object's limit (1.5 MiB)."""
_MAX_TEXT: Final = 512
_CUT: Final = "..."
_STALLED: Final = "ActionNeeded"
_MAX_MESSAGE: Final = 2048
_NEXT_PROBLEM: Final = re.compile(r"; (?=(?:here|peer \S+|cluster \S+): )")
"""Stands between two problems in the message of `Stalled`: each begins with its place."""


class Acceptance(Protocol):
    """The result of validating a rule. `reason` is one word; an accepted rule may have `warnings`."""

    @property
    def accepted(self) -> bool: ...

    @property
    def reason(self) -> str: ...

    @property
    def message(self) -> str: ...

    @property
    def warnings(self) -> Sequence[str]: ...


@dataclass(frozen=True, slots=True)
class PeerCounts:
    """A rule's results for one source cluster.

    `matched` counts the objects that are `synced`, `failing`, `skipped` or `conflicting`, and those that wait for
    something here. It does not count `held` copies, which wait for proof. `last_sync` is the time of the last write
    (RFC 3339). `last_error` is why not everything is read there at the moment. `deletions` is the deletion limiter's
    stored state, None without one. `failures` have object, reason and message.
    """

    cluster_id: ClusterUID
    name: str
    matched: int = 0
    synced: int = 0
    failing: int = 0
    held: int = 0
    skipped: int = 0
    conflicting: int = 0
    last_sync: str = ""
    last_error: str = ""
    failures: Sequence[tuple[str, str, str]] = ()
    deletions: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class _RuleFacts:
    generation: int
    verdict: Acceptance
    suspended: bool
    barred: tuple[str, str]
    idle: Sequence[str]
    peers: Sequence[PeerCounts]
    problems: Sequence[str]
    pending: Sequence[str]
    halted: str
    halted_by_owner: str


def build_rule_status(
    *,
    generation: int,
    verdict: Acceptance,
    suspended: bool = False,
    barred: tuple[str, str] = ("", ""),
    idle: Sequence[str] = (),
    peers: Sequence[PeerCounts] = (),
    problems: Sequence[str] = (),
    pending: Sequence[str] = (),
    halted: str = "",
    halted_by_owner: str = "",
    restored: str = "",
    current: Mapping[str, Any] | None = None,
) -> Mapping[str, Any]:
    """Compute the status of one rule; `conditions` have no times, and a condition with the status None is removed.

    `barred` has reason and message when the rule may not act here, or when that is unknown; otherwise both are empty.
    `idle` lists why it reads no peer (no peer has the feature, not selected here), `problems` the errors that need an
    administrator (`peer b: cannot watch secrets.v1: forbidden; ...`), `pending` the errors that end by themselves.
    `halted` and `restored` are the messages of DeletionHalted and HistoryRestored; empty when these do not hold.
    `halted_by_owner` names the Clusters whose limit over all rules keeps copies of this one; empty without any.
    `current` is the stored status: it has the times of the last writes before a restart, so that a restart writes
    nothing.
    """
    facts = _RuleFacts(generation, verdict, suspended, barred, idle, peers, problems, pending, halted, halted_by_owner)
    accepted, synced, stalled = _build_accepted(facts), _build_synced(facts), _build_stalled(facts)
    conditions = [
        accepted,
        synced,
        stalled,
        *build_readiness(accepted, synced, stalled, held=sum(peer.held for peer in peers)),
        _build_flag("DeletionHalted", "TooManyDeletions", message=facts.halted, facts=facts),
        _build_flag(
            "HistoryRestored", "SourceWentBack", message=restored or _get_stored_message(facts, current), facts=facts
        ),
    ]
    # A restart would lose a deletion limiter's state that is not stored: peers with one are shown first.
    kept = sorted(peers, key=lambda peer: (not peer.deletions, peer.name, peer.cluster_id))[:_MAX_PEERS]
    shown = sorted(kept, key=lambda peer: (peer.name, peer.cluster_id))
    samples = max(1, min(_MAX_FAILURES, _MAX_SAMPLES // max(1, len(shown))))
    stored = (current or {}).get("clusters") or ()
    since = {entry.get("clusterID"): entry.get("lastSyncTime") or "" for entry in stored}
    return {
        "observedGeneration": generation,
        "conditions": conditions,
        "clusters": [
            _build_cluster(peer, last_sync=peer.last_sync or since.get(peer.cluster_id, ""), samples=samples)
            for peer in shown
        ],
    }


def list_owners(status: object) -> Sequence[ClusterUID]:
    """List the clusters in a stored status."""
    ids = (entry.get("clusterID") for entry in _list_entries(status))
    return [ClusterUID(found) for found in ids if isinstance(found, str)]


def read_deletions(status: object, owner: ClusterUID) -> Mapping[str, Any] | None:
    """Return the entry of a stored status about the deletions of an owner's copies (W4); None without one."""
    found = (entry.get("deletions") for entry in _list_entries(status) if entry.get("clusterID") == owner)
    return next((limit for limit in found if isinstance(limit, Mapping)), None)


def read_causes(status: object) -> Sequence[str]:
    """List why a rule is not in step, from a stored status: the problems in `Stalled`, and what `clusters` names."""
    held = [one for one in list_conditions(status) if (one.get("type"), one.get("reason")) == ("Stalled", _STALLED)]
    problems = [text for one in held for text in _NEXT_PROBLEM.split(str(one.get("message") or ""))]
    named = [text for entry in _list_entries(status) for text in _list_named(entry)]
    # A refused write is a problem here, too: `failures` has its beginning at least.
    more = [text for text in named if not any(one.startswith(f"here: {uncut(text)}") for one in problems)]
    return list(dict.fromkeys([*problems, *more]))


def _list_named(entry: Mapping[str, Any]) -> Iterator[str]:
    if entry.get("lastError"):
        yield f"peer {entry.get('name') or entry.get('clusterID')}: {entry['lastError']}"
    failures = entry.get("failures")
    for one in failures if isinstance(failures, list) else ():
        if isinstance(one, Mapping):
            yield f"{one.get('object')}: {one.get('message') or one.get('reason')}"


def uncut(text: str) -> str:
    """Return the beginning of a text that may have been cut."""
    return text.removesuffix(_CUT)


def _list_entries(status: object) -> Iterator[Mapping[str, Any]]:
    entries = status.get("clusters") if isinstance(status, Mapping) else None
    return (entry for entry in (entries if isinstance(entries, list) else ()) if isinstance(entry, Mapping))


def _get_stored_message(facts: _RuleFacts, current: Mapping[str, Any] | None) -> str:
    """Return the stored message of HistoryRestored, which stays over a restart until the rule is edited."""
    for condition in (current or {}).get("conditions") or ():
        if condition.get("type") == "HistoryRestored" and condition.get("observedGeneration") == facts.generation:
            return str(condition.get("message") or "")
    return ""


def _build_accepted(facts: _RuleFacts) -> Mapping[str, Any]:
    verdict = facts.verdict
    reason, message = verdict.reason, verdict.message
    if verdict.accepted and facts.suspended:
        reason, message = "Suspended", "spec.suspend: nothing is read, written or deleted"
    warnings = [f"warning: {warning}" for warning in sorted(set(verdict.warnings))]
    return _build_condition(
        "Accepted", verdict.accepted, reason=reason, message=_join_texts([message, *warnings]), facts=facts
    )


def _build_synced(facts: _RuleFacts) -> Mapping[str, Any]:
    verdict, peers = facts.verdict, facts.peers
    if not verdict.accepted:
        return _build_condition(
            "Synced", False, reason="NotAccepted", message=f"the rule is not applied: {verdict.message}", facts=facts
        )
    if facts.suspended:
        return _build_condition("Synced", None, reason="Suspended", message="the rule is suspended", facts=facts)
    if facts.barred[0]:
        return _build_condition("Synced", None, reason=facts.barred[0], message=facts.barred[1], facts=facts)
    if facts.halted or facts.halted_by_owner:
        message = _join_texts([facts.halted, facts.halted_by_owner])
        return _build_condition("Synced", False, reason="DeletionHalted", message=message, facts=facts)
    unread = [peer.name for peer in peers if peer.last_error]
    failing = [
        f"{count} {text}"
        for count, text in (
            (sum(peer.failing for peer in peers), "failing"),
            (sum(peer.conflicting for peer in peers), "conflicting"),
            (_count_pending(peers), "waiting"),
        )
        if count
    ]
    if unread:
        failing.append(f"not read: {', '.join(sorted(unread)[:_MAX_FAILURES])}")
    if failing or facts.problems or facts.pending:
        counts_text = "; ".join(failing) or "not everything can be read"
        message = _join_texts([counts_text, *_list_first_problem(facts)])
        return _build_condition("Synced", False, reason=_get_unsynced_reason(peers), message=message, facts=facts)
    if facts.idle:
        return _build_condition(
            "Synced", True, reason="Idle", message=_join_texts(sorted(set(facts.idle))), facts=facts
        )
    counts = ((sum(peer.skipped for peer in peers), "skipped"), (sum(peer.held for peer in peers), "held"))
    counts_text = "; ".join(f"{count} {text}" for count, text in counts if count)
    warnings = [f"warning: {warning}" for warning in sorted(set(verdict.warnings))[:1]]
    message = _join_texts([counts_text, *_list_first_problem(facts), *warnings])
    return _build_condition("Synced", True, reason="Synced", message=message, facts=facts)


def _list_first_problem(facts: _RuleFacts) -> list[str]:
    """Return the first problem or failure, in a list; `Stalled` and `clusters` have all of them."""
    if facts.problems:
        return sorted(set(facts.problems))[:1]
    failures = sorted({failure for peer in facts.peers for failure in peer.failures})
    return [f"{name}: {message or reason}" for name, reason, message in failures[:1]] or sorted(set(facts.pending))[:1]


def _get_unsynced_reason(peers: Sequence[PeerCounts]) -> str:
    if any(peer.failing for peer in peers):
        return "Failing"
    if any(peer.conflicting for peer in peers):
        return "Conflict"
    return "Waiting"


def _count_pending(peers: Iterable[PeerCounts]) -> int:
    return sum(max(0, peer.matched - peer.synced - peer.failing - peer.skipped - peer.conflicting) for peer in peers)


def _build_stalled(facts: _RuleFacts) -> Mapping[str, Any]:
    if not facts.verdict.accepted:
        reason, message = facts.verdict.reason, facts.verdict.message
        return _build_condition("Stalled", True, reason=reason, message=message, facts=facts)
    problems = sorted(set(facts.problems))
    problems += [facts.halted, facts.halted_by_owner]
    if not any(problems) or facts.suspended:
        return _build_condition("Stalled", False, reason="NotStalled", message="", facts=facts)
    return _build_condition("Stalled", True, reason=_STALLED, message=_join_texts(problems), facts=facts)


def _build_flag(kind: str, reason: str, *, message: str, facts: _RuleFacts) -> Mapping[str, Any]:
    if not message:
        return {"type": kind, "status": None}
    return _build_condition(kind, True, reason=reason, message=message, facts=facts)


def _build_cluster(peer: PeerCounts, *, last_sync: str, samples: int) -> Mapping[str, Any]:
    failures = sorted(set(peer.failures))
    entry: dict[str, Any] = {
        "clusterID": peer.cluster_id,
        "name": peer.name,
        "matched": peer.matched,
        "synced": peer.synced,
        "failing": peer.failing,
        "held": peer.held,
        "skipped": peer.skipped,
        "conflicting": peer.conflicting,
        "lastSyncTime": last_sync,
        "lastError": _cut_text(peer.last_error),
        "failures": [
            {"object": _cut_text(name), "reason": reason, "message": _cut_text(message)}
            for name, reason, message in failures[:samples]
        ],
        "deletions": dict(peer.deletions or {}),
    }
    return {key: value for key, value in entry.items() if isinstance(value, int) or value}


def _build_condition(
    kind: str, holds: bool | None, *, reason: str, message: str, facts: _RuleFacts
) -> Mapping[str, Any]:
    status = {True: "True", False: "False", None: "Unknown"}[holds]
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": _cut_text(message, _MAX_MESSAGE),
        "observedGeneration": facts.generation,
    }


def _join_texts(texts: Iterable[str]) -> str:
    return "; ".join(text for text in texts if text)


def _cut_text(text: str, limit: int = _MAX_TEXT) -> str:
    return text if len(text) <= limit else text[: limit - len(_CUT)] + _CUT
