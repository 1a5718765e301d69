"""Computes the status of a Cluster object: its state, its conditions and its metadata.

Laws: the same facts give the same status · a field that is not known yet keeps its stored value, so that a restart
changes nothing · a cluster that does not answer changes the conditions of its own Cluster only.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from registry_controller.api.cluster import ClusterType, State
from registry_controller.api.meta import CLUSTER, ClusterUID, spell_allowance
from registry_controller.core.status.merge import list_conditions
from registry_controller.core.status.missing_rules import RulesMissing, read_missing, spell_missing

OWN_CLUSTER_MISSING: Final = "OwnClusterMissing"
"""The condition of a peer that has no Cluster of itself; its time is when that began."""
AUTH_INFO_NOT_USED: Final = "AuthInfoNotUsed"
"""The condition of a peer that is read with other credentials than those that its Cluster names."""
MISSING_FOR_LONG: Final = "MissingForLong"
"""The reason of the condition once `leave NAME` may remove the peer."""

LATER_FORMAT: Final = "LaterFormat"
"""The condition of a cluster in which a later version of the daemon wrote, in a format that is unknown here."""

DELETION_HALTED: Final = "DeletionHalted"
"""The condition that stores the limit on deletions of a peer's copies over all rules."""

CONDITIONS: Final = (
    "LocalCluster", "LocalConflict", "ClusterMetadataSet", "Ready", "ClustersSynced", "RulesMissing",
    OWN_CLUSTER_MISSING, AUTH_INFO_NOT_USED, LATER_FORMAT, DELETION_HALTED,
)  # fmt: skip
"""The condition types that the daemon writes."""

WARNINGS: Final = ("RulesMissing", OWN_CLUSTER_MISSING, AUTH_INFO_NOT_USED, LATER_FORMAT, DELETION_HALTED)
"""The condition types that a person is to look at while they are `True`, also where the state is `Ready`."""

METADATA_FIELDS: Final = ("provider", "distribution", "version", "kubeletVersions", "kubeProxyVersions", "locality")

_DISABLED: Final = "disabled by the annotation cluster-disabled"
_MAX_PROBLEMS: Final = 20
_COUNTS: Final = "counts:"
_NUMBER: Final = re.compile(r"[0-9]{1,9}$")
_NO_RULES: Final = RulesMissing()


@dataclass(frozen=True, slots=True)
class KnownCluster:
    """One Cluster object in one member.

    `ready` is true for `status.state == Ready` there. `compared` is False for Clusters that `ClustersSynced` ignores:
    aliases, and clusters that are disabled here.
    """

    cluster_id: ClusterUID
    name: str
    ready: bool
    compared: bool = True


class OwnCluster(enum.Enum):
    """The Cluster that a peer has of itself."""

    UNKNOWN = "not known"
    PRESENT = "is there"
    MISSING = "is missing"
    MISSING_FOR_LONG = "is missing for so long that the peer may be removed"
    ALL_MISSING = "is missing, with all other Clusters"
    ALL_MISSING_FOR_LONG = "is missing for long, with all other Clusters"


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """The facts that determine a Cluster's status. Texts are for people, and empty when there is nothing to report.

    `failure` is why the peer is not read (unreachable, another cluster, 401). `connected` is true while the peer is
    read and its identity is proven. Before the first answer, there is neither. `unused_auth` is why the credentials and
    the endpoint that the Cluster names are not used, while the peer is read over another way. `reported_left_by` has
    the names of members that report the departure of a silent peer, `reported_rebuilt_by` of members that have another
    cluster of its name at another address. `missing_rules` are the rules that are missing there without a trace, while
    copies here wait for them, None while that is not known after a start; `name` is the name of the Cluster.
    `own_cluster` is about the Cluster of a peer at the peer; an absence of `absence_s` seconds is a departure, 0 for
    never.
    `deletions` is the stored form of the limit on deletions of the peer's copies, None without one; `deletions_waiting`
    is how many its halt keeps back, and `deletions_known` is false until that is known after a start. `metadata` and
    `known_there` (the Clusters in the peer) are None until they were read. `later` names the objects of a later version
    of the daemon in the cluster that have a format which the daemon here cannot read; None until they were read.
    `generation` is the metadata.generation of the Cluster, 0 where its status is to have none.
    """

    is_local: bool
    disabled: bool = False
    missing_auth: bool = False
    auth_problem: str = ""
    failure: str = ""
    connected: bool = False
    unused_auth: str = ""
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
    missing_rules: RulesMissing | None = _NO_RULES
    name: str = ""
    own_cluster: OwnCluster = OwnCluster.PRESENT
    absence_s: int = 0
    later: Sequence[str] | None = ()
    deletions: Mapping[str, Any] | None = None
    deletions_waiting: int = 0
    deletions_known: bool = True
    generation: int = 0


def build_cluster_status(facts: ClusterFacts, *, current: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
    """Compute the status of one Cluster: every field that the daemon writes, None to remove a field.

    `current` is the stored status. `conditions` have no times; a condition with the status None is removed, a condition
    that is missing is not known yet and stays as it is. The state of a new peer without an answer is None.
    """
    current = current or {}
    if facts.disabled:
        return {
            "state": State.DISABLED.value,
            "type": ClusterType.PEER.value,
            "message": _DISABLED,
            **dict.fromkeys(METADATA_FIELDS),
            **_build_observed(facts),
            # A clone stays a clone after a restart.
            "conditions": [
                _build_disabled(kind, facts)
                for kind in CONDITIONS
                if kind != DELETION_HALTED  # a Cluster that is enabled again goes on to count
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
        _build_ready(verdict, current=current),
        _build_clusters_synced(facts, verdict),
        _build_rules_missing(facts),
        _build_own_cluster_missing(facts),
        _build_auth_info_not_used(facts),
        _build_later_format(facts),
        _build_deletion_halted(facts),
    )
    status["conditions"] = [condition for condition in found if condition]
    return {**status, **_build_observed(facts)}


def _build_disabled(kind: str, facts: ClusterFacts) -> Mapping[str, Any]:
    """Build a condition of a Cluster that is disabled; all but two are removed."""
    if kind == "LocalConflict" and not facts.is_local:
        return _build_local_conflict(facts)
    if kind == "Ready":
        return _build_condition(kind, False, reason="ClusterIsDisabled", message=_DISABLED)
    return {"type": kind, "status": None}


def find_sync_problems(here: Sequence[KnownCluster], *, there: Sequence[KnownCluster]) -> Sequence[str]:
    """List the differences of a peer's Clusters: one that it lacks, has under another name, or does not find Ready."""
    problems = []
    for local in sorted(here, key=lambda cluster: (cluster.name, cluster.cluster_id)):
        if not local.compared:
            continue
        same_id = [remote for remote in there if remote.cluster_id == local.cluster_id]
        same_name = [remote for remote in same_id if remote.name == local.name]
        if not same_id:
            problems.append(f"does not know cluster {local.name}")
        elif not same_name:
            known_as = ", ".join(sorted(remote.name for remote in same_id))
            problems.append(f"knows cluster {local.name} by the name {known_as}")
        elif local.ready and not any(remote.ready for remote in same_name):
            problems.append(f"does not find cluster {local.name} Ready")
    return problems


def _decide_state(facts: ClusterFacts) -> tuple[str, str] | None:
    """Decide state and message; None before the first answer. Only peers need credentials."""
    if facts.conflict:
        return State.FAILED.value, facts.conflict
    if not facts.is_local:
        if facts.alias_of:
            return State.FAILED.value, f"is a second Cluster of cluster {facts.alias_of}, which is read instead"
        if facts.missing_auth:
            return State.MISSING_AUTH_INFO.value, "spec.authInfo.secretRef needs a name and a namespace"
        if facts.auth_problem:
            return State.INVALID_AUTH_INFO.value, facts.auth_problem
    problem = facts.failure or facts.local_problem
    if problem:
        left_by = " and ".join(facts.reported_left_by[:_MAX_PROBLEMS])
        rebuilt_by = " and ".join(facts.reported_rebuilt_by[:_MAX_PROBLEMS])
        left = f"; it has left the group, as reported by {left_by}" if left_by else ""
        rebuilt = "; another cluster, at another address, has its name now, as reported by " if rebuilt_by else ""
        return State.FAILED.value, f"{problem}{left}{rebuilt}{rebuilt_by}"
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
    return _build_condition("LocalCluster", facts.is_local, reason=reason)


def _build_local_conflict(facts: ClusterFacts) -> Mapping[str, Any]:
    if not (facts.is_local or facts.conflict):
        return {"type": "LocalConflict", "status": None}
    subject = "LocalCluster" if facts.is_local else "Cluster"
    reason = f"{subject}IsConflicting" if facts.conflict else f"{subject}IsNotConflicting"
    return _build_condition("LocalConflict", bool(facts.conflict), reason=reason, message=facts.conflict)


def _build_metadata_set(facts: ClusterFacts) -> Mapping[str, Any] | None:
    if facts.metadata_problem:
        reason, message = "ClusterMetadataIsNotSet", facts.metadata_problem
        return _build_condition("ClusterMetadataSet", False, reason=reason, message=message)
    if facts.metadata is None:
        return None
    return _build_condition("ClusterMetadataSet", True, reason="ClusterMetadataSet")


def _build_ready(verdict: tuple[str, str] | None, *, current: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Build Ready; a new Cluster has it at once, because programs take an object without it for one that is ready."""
    if verdict is None:
        stored = current.get("conditions") or ()
        if any(isinstance(condition, Mapping) and condition.get("type") == "Ready" for condition in stored):
            return None
        return _build_condition("Ready", None, reason="Connecting", message="the cluster has not answered yet")
    state, message = verdict
    is_ready = state == State.READY.value
    reason = "ClusterIsReady" if is_ready else "ClusterIsNotReady"
    return _build_condition("Ready", is_ready, reason=reason, message=message)


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
    return _build_condition("ClustersSynced", not problems, reason=reason, message=_join_problems(problems))


def _build_rules_missing(facts: ClusterFacts) -> Mapping[str, Any] | None:
    if facts.missing_rules is None:
        return None
    message = spell_missing(facts.missing_rules, cluster=facts.name)
    if not message:
        return {"type": "RulesMissing", "status": None}
    return _build_condition("RulesMissing", True, reason="RulesMissing", message=message)


def read_rules_missing(status: object) -> RulesMissing:
    """Return the rules that are missing, from the condition `RulesMissing` of a stored status."""
    for condition in list_conditions(status):
        if condition.get("type") == "RulesMissing":
            return read_missing(str(condition.get("message"))) if condition.get("status") == "True" else RulesMissing()
    return RulesMissing()


def _build_own_cluster_missing(facts: ClusterFacts) -> Mapping[str, Any] | None:
    if facts.is_local or facts.own_cluster is OwnCluster.PRESENT:
        return {"type": OWN_CLUSTER_MISSING, "status": None}
    if facts.own_cluster is OwnCluster.UNKNOWN:
        return None
    is_lasting = facts.own_cluster in (OwnCluster.MISSING_FOR_LONG, OwnCluster.ALL_MISSING_FOR_LONG)
    reason = MISSING_FOR_LONG if is_lasting else "Missing"
    if facts.own_cluster in (OwnCluster.ALL_MISSING, OwnCluster.ALL_MISSING_FOR_LONG):
        message = "it has no Cluster at all, so it does not count as having left"
    elif facts.absence_s:
        message = f"it has no Cluster of itself; after {facts.absence_s} s without one it has left the group"
    else:
        message = "it has no Cluster of itself"
    advice = "; if it has left, run `registry-controller leave NAME` here" if is_lasting else ""
    return _build_condition(OWN_CLUSTER_MISSING, True, reason=reason, message=message + advice)


def _build_auth_info_not_used(facts: ClusterFacts) -> Mapping[str, Any]:
    if not (facts.unused_auth and facts.connected):
        return {"type": AUTH_INFO_NOT_USED, "status": None}
    message = f"it is read with other credentials or at its earlier endpoint, because: {facts.unused_auth}"
    return _build_condition(AUTH_INFO_NOT_USED, True, reason="OtherCredentialsUsed", message=message)


def read_other_way(status: object) -> str:
    """Return the message of the condition `AuthInfoNotUsed` of a stored status; empty where it does not hold."""
    conditions = list_conditions(status)
    held = (one for one in conditions if (one.get("type"), one.get("status")) == (AUTH_INFO_NOT_USED, "True"))
    return next((str(one.get("message") or "") for one in held), "")


def _build_later_format(facts: ClusterFacts) -> Mapping[str, Any] | None:
    if facts.later is None:
        return None
    if not facts.later:
        return {"type": LATER_FORMAT, "status": None}
    message = (
        f"a later version of the daemon wrote in this cluster: {_join_problems(facts.later)}; the daemon here leaves "
        "that as it is, and does not act on it: upgrade the daemon here"
    )
    return _build_condition(LATER_FORMAT, True, reason="UpgradeNeeded", message=message)


def _build_deletion_halted(facts: ClusterFacts) -> Mapping[str, Any] | None:
    if not facts.deletions_known:
        return None
    if facts.deletions is None:
        return {"type": DELETION_HALTED, "status": None}
    moment, counts = facts.deletions.get("haltedAt"), " ".join(f"{k}={v}" for k, v in facts.deletions.items())
    if not moment:
        message = f"the deletions of this cluster's copies here are counted; {_COUNTS} {counts}"
        return _build_condition(DELETION_HALTED, False, reason="Counting", message=message)
    message = (
        f"{facts.deletions_waiting} copies of this cluster's objects would be deleted, more than the limit "
        "over all rules allows in five minutes; they are kept; to delete them: "
        f"{spell_allowance(CLUSTER, facts.name, since=str(moment))}; {_COUNTS} {counts}"
    )
    return _build_condition(DELETION_HALTED, True, reason="TooManyDeletions", message=message)


def spell_warning(message: str) -> str:
    """Return the message of such a condition without the counts that the daemon stores in it."""
    return message.partition(f"; {_COUNTS} ")[0]


def read_deletions(status: object) -> Mapping[str, Any] | None:
    """Return the stored form of the limit on deletions from a stored status; None without one."""
    for condition in list_conditions(status):
        if condition.get("type") == DELETION_HALTED:
            found = str(condition.get("message")).rpartition(f"; {_COUNTS} ")[2]
            pairs = (pair.partition("=") for pair in found.split())
            return {name: int(value) if _NUMBER.match(value) else value for name, _, value in pairs}
    return None


def _join_problems(problems: Sequence[str]) -> str:
    more = len(problems) - _MAX_PROBLEMS
    shown = [*problems[:_MAX_PROBLEMS], f"and {more} more"] if more > 0 else problems
    return "; ".join(shown)


def _build_observed(facts: ClusterFacts) -> Mapping[str, Any]:
    return {"observedGeneration": facts.generation} if facts.generation else {}


def _build_condition(kind: str, holds: bool | None, *, reason: str, message: str = "") -> Mapping[str, Any]:
    status = {True: "True", False: "False", None: "Unknown"}[holds]
    return {"type": kind, "status": status, "reason": reason, "message": message}
