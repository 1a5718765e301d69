"""The messages for the reasons of Decisions: the finding, and the change that ends it.

Law: every Reason has a message, and no message holds data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from registry_controller.api import meta
from registry_controller.api.errors import ApiError, Forbidden, NotServed, NotWatchable, RegistryError
from registry_controller.api.meta import GVK, Target
from registry_controller.api.names import RIGHTS_COMMAND
from registry_controller.core.decision.decision import Halt, Reason

_MOST_NAMES: Final = 20

MESSAGES: Final[Mapping[Reason, str]] = {
    Reason.CREATE: "it is wanted and not here",
    Reason.UPDATE: "it follows its source",
    Reason.ADOPT: "it is taken over unchanged, from a time before provenance annotations",
    Reason.TAKE_OVER: "the source of another owner has this place now",
    Reason.HISTORY_RESTORED: "its owner went back to an older state, as after a restored backup",
    Reason.RELAYED: "another member has a newer record, and its own cluster does not answer",
    Reason.REBUILT: "the cluster of that name was built again and has another ID now",
    Reason.SOURCE_DELETED: "its source was deleted",
    Reason.MOVED: "its rule gives it another name now, and the copy of that name is here",
    Reason.OWNER_LEFT: "its owner has left the group",
    Reason.IN_SYNC: "it is as it should be",
    Reason.LOCAL_OBJECT_EXISTS: "an object of that name was made here; it is never overwritten: delete or rename one",
    Reason.OUR_OWN: "it belongs to this cluster, and no other cluster may change it",
    Reason.NOT_WANTED: "no rule that acts here asks for it",
    Reason.NO_LONGER_WANTED: "no rule that acts here asks for it any more; the copy stays",
    Reason.NO_LONGER_MATCHES: "its rule does not match the source any more",
    Reason.RULE_GONE: "its rule was deleted",
    Reason.NOT_SELECTED: "its rule does not read from its owner any more",
    Reason.NOT_FOR_THIS_CLUSTER: "its rule is for other clusters than this one",
    Reason.OTHER_KIND: "its rule reads another kind now",
    Reason.SYNC_DISABLED: "resource-sync-disabled is on the source: no new copy is made",
    Reason.COPY_FROZEN: "resource-sync-disabled is on the copy: it is left alone until that is removed",
    Reason.DELETED_HERE: "it was deleted here, and would run again: it is made again for a new source, or when the "
    "daemon is restarted",
    Reason.UNKNOWN_OWNER: "no Cluster here has the ID of its owner; the copy stays",
    Reason.HAND_CARRIED: "a person carried it here, and it becomes a copy when its own cluster offers it",
    Reason.OWNER_DECIDES: "only its own cluster may offer it: that answers without it, or has another Cluster here",
    Reason.NOT_NEWER: "its own cluster deleted it after that record was made",
    Reason.DISPUTED: "Clusters of several members name this Secret: each needs one of its own",
    Reason.NOT_NAMED: "no Cluster names this registry Secret",
    Reason.ADDRESS_CHANGED: "another member may bring news of a cluster, but no other address and no other Secret",
    Reason.NOT_PROVEN: "credentials from another member are tried, and stored once their own cluster publishes them",
    Reason.TOO_MANY: "members offer more Clusters, of one ID or in all, than are accepted: delete the unused ones",
    Reason.CONFLICT: "an older source or rule has this place",
    Reason.RESERVED: (
        "a rule from another cluster never writes the registry's own objects, nor tokens of this cluster; no copy "
        "takes the name of an object that the daemon makes, or of a Secret that a Cluster here names"
    ),
    Reason.NOT_ALLOWED: "the rule came from another cluster, and SYNCED_RULES_ENABLED, SYNCED_RULES_KINDS or "
    "SYNCED_RULES_NAMESPACES does not let it write this here",
    Reason.CLOSED: "CLOSED_KINDS or CLOSED_NAMESPACES does not let any rule write this here",
    Reason.OWNER_SILENT: "the owner does not answer; the copy stays until it does",
    Reason.OWNER_CLONED: "two API servers have its owner's ID, and it stays until one of their Clusters is deleted",
    Reason.OWNER_NOT_HEARD: "the owner's objects are not all listed yet, or another rule may want the copy; it stays "
    "until that is known",
    Reason.NEEDS_PROOF: "the owner is to be asked by name whether the source is gone; the copy stays until it answers",
    Reason.NOT_EVALUATED: "the rule cannot be evaluated on the source any more; the copy stays until it can",
    Reason.TARGETS_UNREADABLE: "the annotations by which the source names the clusters that copy it cannot be read; no "
    "cluster copies it, and the copy stays as it is",
    Reason.STALE_SOURCE: "the source that was read is older than the copy; the owner is asked again",
    Reason.LOCAL_NOT_HEARD: "objects of this kind are not listed here yet",
    Reason.RULE_NOT_HEARD: "it was written by a later state of its rule than is known here",
    Reason.NAMESPACE_MISSING: "the namespace is missing here: create it, or set createNamespaces on the rule",
    Reason.NAMESPACE_TERMINATING: "the namespace is being deleted here",
    Reason.CONTENT_REMAINS: "objects that live in it would be deleted with it; it stays until it is empty, or until "
    "you delete it",
    Reason.NEW_COPY_MISSING: "its rule gives it another name now; it stays as it is until the copy of that name is "
    "here",
    Reason.MAY_MATCH_AGAIN: "its rule does not ask for the source now; unless that changes in a moment, it is deleted",
    Reason.OWNER_LEAVES: "its owner has left, and its Cluster goes once nothing else is to be removed",
    Reason.MISSING_AT_OWNER: "its own cluster lacks it now, which does not prove that the cluster has left; it stays",
    Reason.DELETION_JUDGED: "it is to be deleted, once all deletions that go with it are counted",
    Reason.RULE_MISSING: "its rule is missing where it was created, and nothing shows that it was deleted there",
    Reason.LATER_FORMAT: "a later version of the daemon wrote its marks; it stays as it is: upgrade the daemon here",
    Reason.DELETION_HALTED: "too many copies would go at once; they stay until an annotation allows it",
    Reason.BEING_DELETED: "it is being deleted here, and waits until its finalizers are removed",
}

REFUSALS: Final[Mapping[str, str]] = {
    "RightsEscalation": "the daemon may not give rights that it lacks: give it these rights, or the verb escalate on "
    "roles and bind on the role of a binding",
    "QuotaExceeded": "the ResourceQuota leaves no room in the namespace, or none there covers the object: raise it or "
    "create one, delete something there, or leave the object out of the rule",
    "PodSecurityViolation": "the Pod Security level of the namespace refuses it: change the label "
    "pod-security.kubernetes.io/enforce of the namespace, or the object, as by an override",
    "LimitRangeViolation": "a LimitRange of the namespace refuses it: change that, or the object, as by an override",
    "RoleMissing": "the role that it binds is not here: create it, or copy it with a rule, too",
    "ServiceAccountMissing": "its ServiceAccount is not here: create it, or copy it with a rule, too",
}
"""The next step after a write that an API server refuses, by the reason of the error."""

MESSAGES_FOR_FALSE: Final[Mapping[Reason, str]] = {
    Reason.SYNC_DISABLED: 'resource-sync-disabled is on the source, and counts with any value, "false" too: remove it '
    "to have a copy made",
    Reason.COPY_FROZEN: 'resource-sync-disabled is on the copy, and counts with any value, "false" too: remove it to '
    "have the copy follow its source",
}
"""The messages where the annotation's value is `false`."""


def message_of(reason: Reason) -> str:
    """Return the message of a reason, a sentence without its full stop."""
    return MESSAGES[reason]


def describe_halt(halt: Halt) -> str:
    """Return what halts a deletion, and how to allow it; a halt that is still to come has no moment (W4)."""
    of_rule = halt.kind == meta.RULE
    subject = f"copies of rule {halt.name}" if of_rule else f"copies of cluster {halt.name}'s objects, over all rules,"
    cause = f"too many {subject} would go at once; they stay until the cause is corrected, or until you allow it"
    if not halt.since:
        return f"{cause} with the command that the condition DeletionHalted of {halt.kind.kind} {halt.name} will have"
    return f"{cause}: {halt.command}"


def describe_grant(label: str, *, place: str) -> str:
    """Return how to grant a missing right, by a ClusterRole with that label; `place` is `here` or `there` (S3)."""
    return f"grant it {describe_labels(label)} {place}"


def describe_rule_grant(label: str, *, place: str) -> str:
    """Return how to grant a right that a rule needs, and the command that prints the ClusterRole (S3)."""
    return f"{describe_grant(label, place=place)}, as `{RIGHTS_COMMAND}` prints it"


def describe_labels(label: str) -> str:
    """Return the ClusterRole that grants a right, by its label."""
    return f'with a ClusterRole labelled {label}: "true"'


def describe_read_grant() -> str:
    """Return how to grant the reader of a member the right to a kind that no rule need name (S3)."""
    return f"{describe_rule_grant(meta.READER_AGGREGATED, place='there')} for a rule of that kind"


def describe_chart_grant(label: str, *, place: str) -> str:
    """Return how to grant a right that no rule needs, and every member: only the chart gives it (S3)."""
    return f"{describe_grant(label, place=place)}, as the chart does"


class Unlisted(NamedTuple):
    """A resource, or an API version, whose objects cannot be listed, and why."""

    name: str
    error: RegistryError


def describe_content(found: Target) -> str:
    """Return which object lives in a Namespace, or is of the kind of a definition."""
    return f"{found.kind} {found.key} lives in it"


def describe_coming(copy: Target) -> str:
    """Return which copy may come into a Namespace, or be made of the kind of a definition."""
    return f"{copy.kind} {copy.key} is being created in it"


def describe_unlisted(unlisted: Sequence[Unlisted]) -> str:
    """Return of which kinds objects may live in a Namespace, and what to do: all those that may not be listed first."""
    forbidden = [one.name for one in unlisted if isinstance(one.error, Forbidden)]
    others = [one for one in unlisted if one.name not in forbidden]
    parts = [f"{name}: {error}" for name, error in others[:1]]
    if others[1:]:
        parts[0] += f", and {len(others) - 1} more do not answer"
    if forbidden:
        grant = describe_rule_grant(meta.CONTROLLER_AGGREGATED, place="here")
        if meta.SECRETS.resource in forbidden:
            grant = f"{grant}, {describe_narrowing(place='here')}"
        parts.insert(0, f"cannot list {_shorten(forbidden)} here; {grant}")
    return "; ".join(parts)


def _shorten(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_MOST_NAMES])
    return f"{shown} and {len(names) - _MOST_NAMES} more kinds" if len(names) > _MOST_NAMES else shown


def with_remedy(error: RegistryError, remedy: str) -> str:
    """Return an error's message; for a right that is missing, with what grants it."""
    return f"{error}; {remedy}" if isinstance(error, Forbidden) and error.lacks_right else str(error)


def explain_refusal(error: RegistryError) -> str:
    """Return why a write here was refused, and what to do; of a missing right, what grants it (S3)."""
    if isinstance(error, Forbidden) and error.lacks_right:
        return f"{error}; {describe_rule_grant(meta.CONTROLLER_AGGREGATED, place='here')}"
    advice = REFUSALS.get(error.reason, "") if isinstance(error, ApiError) else ""
    if isinstance(error, Forbidden) and error.reason == "RightsEscalation":
        advice += f", {describe_labels(meta.CONTROLLER_AGGREGATED)}"
    return f"{error}; {advice}" if advice else str(error)


def describe_narrowing(*, place: str) -> str:
    """Return when a missing right on Secrets is intended; only the chart of that cluster has this information."""
    return (
        f"unless rbac.narrowSecrets is set {place}: then it is lacking on purpose, and Secrets are reached in the "
        "release's namespace only"
    )


def explain_unread(kind: GVK, error: RegistryError, *, is_local: bool) -> str:
    """Return why a kind cannot be read here, or at the peer: verb, resource, and what to do (R2, S3)."""
    place = "here" if is_local else "there"
    if isinstance(error, Forbidden):
        label = meta.CONTROLLER_AGGREGATED if is_local else meta.READER_AGGREGATED
        words = f"cannot {error}; {describe_rule_grant(label, place=place)}"
        is_secret = (kind.group, kind.kind) == (meta.SECRET.group, meta.SECRET.kind)
        return f"{words}, {describe_narrowing(place=place)}" if is_secret else words
    if isinstance(error, NotWatchable):
        return f"it is served {place}, and cannot be listed and watched, so no rule can copy it: name another kind"
    if isinstance(error, NotServed):
        group = f"group {kind.group}" if kind.group else "the core group"
        correct = "correct the rule's groupVersionKind"
        if error.similar:
            correct = f"{correct}; did you mean `{error.similar}`?"
        elif kind.group:
            correct = f"install its CustomResourceDefinition, or {correct}"
        return f"it is not served {place} in {group}, version {kind.version}; {correct}"
    return str(error)
