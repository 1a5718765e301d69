"""The local policy: which rules of other clusters act here, and which kinds and namespaces are closed to all rules.

Laws: only the closed kinds and namespaces limit a rule that was created here · a rule of another cluster never writes
the registry's kinds, nor Secrets that grant access to this cluster · only the daemon creates objects with the names of
core objects · a rule that is barred neither writes nor deletes.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final, NamedTuple

from registry_controller.api import meta
from registry_controller.api.meta import GVK, GroupKind, Target
from registry_controller.api.syncrule import SyncRule
from registry_controller.core.mutation.mutate import get_copy_kind
from registry_controller.core.rules.matching import CREDENTIAL_TYPES
from registry_controller.core.rules.reserved import CORE_OBJECTS


class Barrier(enum.Enum):
    """The cause for which a rule may not write here."""

    RESERVED = "only this cluster may create it"
    NOT_ALLOWED = "the options do not let a rule of another cluster do this here"
    CLOSED = "no copies are written there"


class BarredRule(NamedTuple):
    """The cause for which a whole rule does nothing here; `path` is the option or the rule's field that bars it."""

    barrier: Barrier
    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


@dataclass(frozen=True, slots=True)
class RulePolicy:
    """The options of the local administrator. Empty `kinds` and `namespaces` allow all.

    `enabled`, `kinds` and `namespaces` apply to rules of other clusters, `closed_kinds` and `closed_namespaces` to all
    rules.
    """

    enabled: bool = True
    kinds: frozenset[GroupKind] = frozenset()
    namespaces: frozenset[str] = frozenset()
    closed_kinds: frozenset[GroupKind] = frozenset()
    closed_namespaces: frozenset[str] = frozenset()

    def find_bar(self, rule: SyncRule, *, synced: bool) -> BarredRule | None:
        """Return why a whole rule does nothing here; None for a rule that acts.

        `synced` is true for a rule of another cluster.
        """
        written = {(kind.group, kind.kind): kind for kind in (get_copy_kind(rule.kind, (e,)) for e in rule.entries)}
        return (self._find_synced_bar(rule, written) if synced else None) or self._find_closed_bar(written)

    def find_barrier(self, target: Target, *, source: GVK, secret_type: str, synced: bool) -> Barrier | None:
        """Return why a rule may not write one target from an object of kind `source`; None when it may.

        `secret_type` is the wanted type of a Secret; empty for another kind.
        """
        if target in CORE_OBJECTS:
            return Barrier.RESERVED
        is_own_kind = target.group == meta.GROUP
        is_registry_secret = _is_secret(target.group, target.kind) and secret_type == meta.REGISTRY_SECRET_TYPE
        if synced:
            if is_own_kind or is_registry_secret or (_is_secret(*target[:2]) and secret_type in CREDENTIAL_TYPES):
                return Barrier.RESERVED
            if not self._allows(target, source):
                return Barrier.NOT_ALLOWED
        # The registry needs its own kinds and its members' credentials; closing their namespaces closes them as well.
        closes_kind = not (is_own_kind or is_registry_secret) and _is_listed(target, self.closed_kinds)
        return Barrier.CLOSED if closes_kind or _get_namespace(target) in self.closed_namespaces else None

    def may_bar(self, kind: GVK, *, synced: bool) -> bool:
        """Return whether `find_barrier` may return a barrier for a target of this kind."""
        if synced or kind.group == meta.GROUP or self.closed_namespaces:
            return True
        return any(listed.covers(kind.group, kind.kind) for listed in self.closed_kinds)

    def _find_synced_bar(self, rule: SyncRule, written: dict[tuple[str, str], GVK]) -> BarredRule | None:
        if not self.enabled:
            message = "is false: a rule of another cluster does nothing here"
            return BarredRule(Barrier.NOT_ALLOWED, "SYNCED_RULES_ENABLED", message)
        for group, kind in sorted(written):
            if group == meta.GROUP:
                message = f"a rule of another cluster never writes {GroupKind(group, kind)}"
                return BarredRule(Barrier.RESERVED, "spec.groupVersionKind", message)
        for verb, kinds in (("reads", [(rule.kind.group, rule.kind.kind)]), ("writes", sorted(written))):
            for group, kind in kinds if self.kinds else ():
                if not any(listed.covers(group, kind) for listed in self.kinds):
                    message = (
                        f"does not list {GroupKind(group, kind)}, which the rule {verb}: it belongs to another cluster"
                    )
                    return BarredRule(Barrier.NOT_ALLOWED, "SYNCED_RULES_KINDS", message)
        return None

    def _find_closed_bar(self, written: dict[tuple[str, str], GVK]) -> BarredRule | None:
        for group, kind in sorted(written):
            # The type of each Secret decides whether it is the registry's, so Secrets are checked one by one.
            is_checked_alone = group == meta.GROUP or _is_secret(group, kind)
            if not is_checked_alone and any(listed.covers(group, kind) for listed in self.closed_kinds):
                message = f"covers {GroupKind(group, kind)}, which the rule writes: its copies are not written here"
                return BarredRule(Barrier.CLOSED, "CLOSED_KINDS", message)
        return None

    def _allows(self, target: Target, source: GVK) -> bool:
        if not self.enabled:
            return False
        needed = [(source.group, source.kind), (target.group, target.kind)]
        if self.kinds and not all(any(kind.covers(*group_kind) for kind in self.kinds) for group_kind in needed):
            return False
        namespace = _get_namespace(target)
        # A list of namespaces excludes objects without a namespace, unless their kind is listed.
        return not self.namespaces or namespace in self.namespaces or (not namespace and bool(self.kinds))


def _get_namespace(target: Target) -> str:
    """Return the namespace that a target is in, or is; empty for other objects without a namespace."""
    is_namespace = (target.group, target.kind) == ("", meta.NAMESPACE.kind)
    return target.name if is_namespace else target.namespace


@dataclass(frozen=True, slots=True)
class TargetPolicy:
    """The local policy for one rule; `is_synced` is true for a rule of another cluster."""

    policy: RulePolicy = RulePolicy()
    is_synced: bool = False

    def find_barrier(self, target: Target, *, source: GVK, secret_type: str) -> Barrier | None:
        """Return why the rule may not write a target; see `RulePolicy.find_barrier`."""
        return self.policy.find_barrier(target, source=source, secret_type=secret_type, synced=self.is_synced)

    def may_bar(self, kind: GVK) -> bool:
        """Return whether the rule may be barred from a target of this kind."""
        return self.policy.may_bar(kind, synced=self.is_synced)


UNRESTRICTED: Final = TargetPolicy()


def _is_secret(group: str, kind: str) -> bool:
    return (group, kind) == ("", meta.SECRET.kind)


def _is_listed(target: Target, kinds: frozenset[GroupKind]) -> bool:
    return any(listed.covers(target.group, target.kind) for listed in kinds)
