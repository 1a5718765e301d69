"""What rules may do in this cluster: what its administrator allows those that came from other clusters, and has closed.

Laws: a rule that was made here is limited by what is closed alone · a rule that came from another cluster never writes
the registry's own kinds, nor Secrets with which Kubernetes lets somebody in · nobody but the daemon itself makes what
has the name of a core object · where a rule is barred it neither writes nor deletes.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final, NamedTuple

from registry_controller.api import meta, names
from registry_controller.api.meta import GVK, GroupKind, Target
from registry_controller.api.syncrule import SyncRule
from registry_controller.core.mutation.mutate import get_copy_kind
from registry_controller.core.rules.matching import CREDENTIAL_TYPES

_CORE_NAMES: Final = frozenset(
    {(meta.RULE.kind, name) for name in names.CORE_RULES} | {(meta.FEATURE.kind, names.CORE_FEATURE_OBJECT)}
)


class Barrier(enum.Enum):
    """What is in a rule's way here."""

    RESERVED = "it is for this cluster alone to make"
    NOT_ALLOWED = "rules that came from other clusters may not do this here"
    CLOSED = "nobody's copies are written there"


class BarredRule(NamedTuple):
    """Why a whole rule does nothing here: the option or the field of the rule that says so, and words."""

    barrier: Barrier
    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


@dataclass(frozen=True, slots=True)
class RulePolicy:
    """What the administrator of this cluster allows. Empty `kinds` and `namespaces` allow all.

    `enabled`, `kinds` and `namespaces` are about rules that came from other clusters, the closed ones about all rules.
    """

    enabled: bool = True
    kinds: frozenset[GroupKind] = frozenset()
    namespaces: frozenset[str] = frozenset()
    closed_kinds: frozenset[GroupKind] = frozenset()
    closed_namespaces: frozenset[str] = frozenset()

    def find_bar(self, rule: SyncRule, *, synced: bool) -> BarredRule | None:
        """Say why a whole rule does nothing here; None when it acts. `synced` says that it came from elsewhere."""
        written = {(kind.group, kind.kind): kind for kind in (get_copy_kind(rule.kind, (e,)) for e in rule.entries)}
        return (self._find_synced_bar(rule, written) if synced else None) or self._find_closed_bar(written)

    def find_barrier(self, target: Target, *, source: GVK, secret_type: str, synced: bool) -> Barrier | None:
        """Say what keeps a rule from writing one target, made of a `source`; None when nothing does.

        `secret_type` is the type that a Secret is to have; empty for another kind.
        """
        is_own_kind = target.group == meta.GROUP
        if is_own_kind and (target.kind, target.name) in _CORE_NAMES:
            return Barrier.RESERVED
        is_registry_secret = _is_secret(target.group, target.kind) and secret_type == meta.REGISTRY_SECRET_TYPE
        if synced:
            if is_own_kind or is_registry_secret or (_is_secret(*target[:2]) and secret_type in CREDENTIAL_TYPES):
                return Barrier.RESERVED
            if not self._allows(target, source):
                return Barrier.NOT_ALLOWED
        # Without its own kinds and its members' credentials there is no registry: for those it can be switched off.
        closes_kind = not (is_own_kind or is_registry_secret) and _is_listed(target, self.closed_kinds)
        return Barrier.CLOSED if closes_kind or _get_namespace(target) in self.closed_namespaces else None

    def _find_synced_bar(self, rule: SyncRule, written: dict[tuple[str, str], GVK]) -> BarredRule | None:
        if not self.enabled:
            words = "is false: a rule that came from another cluster does nothing here"
            return BarredRule(Barrier.NOT_ALLOWED, "SYNCED_RULES_ENABLED", words)
        for group, kind in sorted(written):
            if group == meta.GROUP:
                words = f"a rule that came from another cluster never writes {GroupKind(group, kind)}"
                return BarredRule(Barrier.RESERVED, "spec.groupVersionKind", words)
        for verb, kinds in (("reads", [(rule.kind.group, rule.kind.kind)]), ("writes", sorted(written))):
            for group, kind in kinds if self.kinds else ():
                if not any(listed.covers(group, kind) for listed in self.kinds):
                    asked = GroupKind(group, kind)
                    words = f"does not list {asked}, which the rule {verb}: it came from another cluster"
                    return BarredRule(Barrier.NOT_ALLOWED, "SYNCED_RULES_KINDS", words)
        return None

    def _find_closed_bar(self, written: dict[tuple[str, str], GVK]) -> BarredRule | None:
        for group, kind in sorted(written):
            # Which Secrets are the registry's own shows each one by itself.
            is_judged_alone = group == meta.GROUP or _is_secret(group, kind)
            if not is_judged_alone and any(listed.covers(group, kind) for listed in self.closed_kinds):
                words = f"covers {GroupKind(group, kind)}, which the rule writes: no copies of it are written here"
                return BarredRule(Barrier.CLOSED, "CLOSED_KINDS", words)
        return None

    def _allows(self, target: Target, source: GVK) -> bool:
        if not self.enabled:
            return False
        listed = [(source.group, source.kind), (target.group, target.kind)]
        if self.kinds and not all(any(kind.covers(*asked) for kind in self.kinds) for asked in listed):
            return False
        place = _get_namespace(target)
        # What is in no namespace is in none of the list: it takes a word of its own.
        return not self.namespaces or place in self.namespaces or (not place and bool(self.kinds))


def _get_namespace(target: Target) -> str:
    """Tell the namespace that a target is in, or is; empty for what is in none."""
    is_namespace = (target.group, target.kind) == ("", meta.NAMESPACE.kind)
    return target.name if is_namespace else target.namespace


@dataclass(frozen=True, slots=True)
class TargetPolicy:
    """What is allowed, for one rule; `synced` says that it came from another cluster."""

    policy: RulePolicy = RulePolicy()
    is_synced: bool = False

    def find_barrier(self, target: Target, *, source: GVK, secret_type: str) -> Barrier | None:
        """Say what keeps the rule from writing a target: see `Allowance.barrier`."""
        return self.policy.find_barrier(target, source=source, secret_type=secret_type, synced=self.is_synced)


UNRESTRICTED: Final = TargetPolicy()


def _is_secret(group: str, kind: str) -> bool:
    return (group, kind) == ("", meta.SECRET.kind)


def _is_listed(target: Target, kinds: frozenset[GroupKind]) -> bool:
    return any(listed.covers(target.group, target.kind) for listed in kinds)
