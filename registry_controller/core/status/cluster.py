"""What is said on a Cluster object: its state, its conditions and what kind of cluster it is.

Laws: the same facts give the same status. What is not known yet is left as it was said last, so that a restart
changes nothing. A cluster that is dead makes only the conditions that concern it False.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from registry_controller.api.cluster import ClusterType, State
from registry_controller.api.meta import ClusterUID

CONDITIONS: Final = ("LocalCluster", "LocalConflict", "ClusterMetadataSet", "Ready", "ClustersSynced")
"""The condition types that are ours."""

METADATA_FIELDS: Final = ("provider", "distribution", "version", "kubeletVersions", "kubeProxyVersions", "locality")

_MAX_PROBLEMS: Final = 20


@dataclass(frozen=True, slots=True)
class KnownCluster:
    """One Cluster object as some member holds it.

    `ready` is that member's `status.state == Ready`. `compared` is False for what `ClustersSynced` leaves out: our
    aliases and the clusters that are disabled here.
    """

    cluster_id: ClusterUID
    name: str
    ready: bool
    compared: bool = True


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """Everything that a Cluster's status is made of. Texts are words for people, empty when there is nothing to say.

    `failure` is why the peer is not read (unreachable, another cluster, 401); `connected` says that it is read and
    proven. Neither of both is the time before the first answer. `reported_left_by` names those who say that a silent
    peer has left, `reported_rebuilt_by` those who hold another cluster of its name, at another address. `metadata` and
    `known_there` (the Clusters that the peer holds) are None until they were heard.
    """

    is_local: bool
    disabled: bool = False
    missing_auth: bool = False
    auth_problem: str = ""
    failure: str = ""
    connected: bool = False
    reported_left_by: Sequence[str] = ()
    reported_rebuilt_by: Sequence[str] = ()
    conflict: str = ""
    alias_of: str = ""
    metadata: Mapping[str, Any] | None = None
    metadata_problem: str = ""
    local_problem: str = ""
    known_here: Sequence[KnownCluster] = ()
    known_there: Sequence[KnownCluster] | None = None
    known_problem: str = ""
    generation: int = 0


def build_cluster_status(facts: ClusterFacts, *, current: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
    """Compute the status of one Cluster: every field of ours, None for those that must not be there.

    `current` is the stored status. `conditions` are ours, without times; one with the status None must not be there,
    one that is missing is not known yet and stays as it is. The state of a new peer that was not heard is None.
    """
    current = current or {}
    if facts.disabled:
        return {
            "state": State.DISABLED.value,
            "type": ClusterType.PEER.value,
            "message": "disabled by the annotation cluster-disabled",
            **dict.fromkeys(METADATA_FIELDS),
            # A clone stays one, also for the next daemon.
            "conditions": [
                _build_local_conflict(facts)
                if kind == "LocalConflict" and not facts.is_local
                else {"type": kind, "status": None}
                for kind in CONDITIONS
            ],
        }
    verdict = _decide_state(facts)
    state, message = verdict or (current.get("state"), current.get("message"))
    status: dict[str, Any] = {
        "state": state,
        "type": (ClusterType.LOCAL if facts.is_local else ClusterType.PEER).value,
        "message": message or None,
        **_build_metadata(facts, current=current),
    }
    found = (
        _build_local_cluster(facts),
        _build_local_conflict(facts),
        _build_metadata_set(facts),
        _build_ready(verdict, facts=facts),
        _build_clusters_synced(facts, verdict),
    )
    status["conditions"] = [condition for condition in found if condition]
    return status


def find_sync_problems(here: Sequence[KnownCluster], *, there: Sequence[KnownCluster]) -> Sequence[str]:
    """Say in what a peer disagrees with us: a cluster that it lacks, names otherwise, or does not find Ready."""
    problems = []
    for view in sorted(here, key=lambda view: (view.name, view.cluster_id)):
        if not view.compared:
            continue
        theirs = [other for other in there if other.cluster_id == view.cluster_id]
        same_name = [other for other in theirs if other.name == view.name]
        if not theirs:
            problems.append(f"does not know cluster {view.name}")
        elif not same_name:
            known_as = ", ".join(sorted(other.name for other in theirs))
            problems.append(f"knows cluster {view.name} by the name {known_as}")
        elif view.ready and not any(other.ready for other in same_name):
            problems.append(f"does not find cluster {view.name} Ready")
    return problems


def _decide_state(facts: ClusterFacts) -> tuple[str, str] | None:
    """Decide state and message; None before the first answer. Only a peer is read, so only its credentials count."""
    if facts.conflict:
        return State.FAILED.value, facts.conflict
    if not facts.is_local:
        if facts.alias_of:
            return State.FAILED.value, f"is another name of cluster {facts.alias_of}, which is read instead"
        if facts.missing_auth:
            return State.MISSING_AUTH_INFO.value, "spec.authInfo.secretRef needs a name and a namespace"
        if facts.auth_problem:
            return State.INVALID_AUTH_INFO.value, facts.auth_problem
    problem = facts.failure or facts.local_problem
    if problem:
        sayers = " and ".join(facts.reported_left_by[:_MAX_PROBLEMS])
        holders = " and ".join(facts.reported_rebuilt_by[:_MAX_PROBLEMS])
        left = f"; {sayers} said that it has left" if sayers else ""
        rebuilt = f"; {holders} said that another cluster, at another address, has its name now" if holders else ""
        return State.FAILED.value, f"{problem}{left}{rebuilt}"
    if not (facts.connected or facts.is_local):
        return None
    if facts.metadata_problem:
        return State.FAILED.value, facts.metadata_problem
    return State.READY.value, ""


def _build_metadata(facts: ClusterFacts, *, current: Mapping[str, Any]) -> Mapping[str, Any]:
    if facts.metadata_problem:
        return dict.fromkeys(METADATA_FIELDS)
    source = current if facts.metadata is None else facts.metadata
    return {field: source.get(field) or None for field in METADATA_FIELDS}


def _build_local_cluster(facts: ClusterFacts) -> Mapping[str, Any]:
    reason = "ClusterIsLocal" if facts.is_local else "ClusterIsNotLocal"
    return _build_condition("LocalCluster", facts.is_local, reason=reason, facts=facts)


def _build_local_conflict(facts: ClusterFacts) -> Mapping[str, Any]:
    if not (facts.is_local or facts.conflict):
        return {"type": "LocalConflict", "status": None}
    whose = "LocalCluster" if facts.is_local else "Cluster"
    reason = f"{whose}IsConflicting" if facts.conflict else f"{whose}IsNotConflicting"
    return _build_condition("LocalConflict", bool(facts.conflict), reason=reason, message=facts.conflict, facts=facts)


def _build_metadata_set(facts: ClusterFacts) -> Mapping[str, Any] | None:
    if facts.metadata_problem:
        reason, message = "ClusterMetadataIsNotSet", facts.metadata_problem
        return _build_condition("ClusterMetadataSet", False, reason=reason, message=message, facts=facts)
    if facts.metadata is None:
        return None
    return _build_condition("ClusterMetadataSet", True, reason="ClusterMetadataSet", facts=facts)


def _build_ready(verdict: tuple[str, str] | None, *, facts: ClusterFacts) -> Mapping[str, Any] | None:
    if verdict is None:
        return None
    state, message = verdict
    is_ready = state == State.READY.value
    reason = "ClusterIsReady" if is_ready else "ClusterIsNotReady"
    return _build_condition("Ready", is_ready, reason=reason, message=message, facts=facts)


def _build_clusters_synced(facts: ClusterFacts, verdict: tuple[str, str] | None) -> Mapping[str, Any] | None:
    if facts.is_local:
        return {"type": "ClustersSynced", "status": None}
    if verdict is None:
        return None
    state, message = verdict
    problems: Sequence[str]
    if state != State.READY.value and not facts.connected:
        problems = [message]
    elif facts.known_problem:
        problems = [facts.known_problem]
    elif facts.known_there is None:
        return None
    else:
        problems = find_sync_problems(facts.known_here, there=facts.known_there)
    reason = "ClustersAreNotSynced" if problems else "ClustersAreSynced"
    return _build_condition(
        "ClustersSynced", not problems, reason=reason, message=_join_problems(problems), facts=facts
    )


def _join_problems(problems: Sequence[str]) -> str:
    more = len(problems) - _MAX_PROBLEMS
    shown = [*problems[:_MAX_PROBLEMS], f"and {more} more"] if more > 0 else problems
    return "; ".join(shown)


def _build_condition(
    kind: str, holds: bool, *, reason: str, facts: ClusterFacts, message: str = ""
) -> Mapping[str, Any]:
    observed = {"observedGeneration": facts.generation} if facts.generation else {}
    return {"type": kind, "status": "True" if holds else "False", "reason": reason, "message": message, **observed}
