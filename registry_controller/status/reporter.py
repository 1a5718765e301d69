"""Reports the status of Clusters and rules again after something changed.

Laws: one component writes status · after a start, the stored status of a rule stays until its caches are complete.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, NoReturn

from registry_controller.api.meta import ClusterUID
from registry_controller.cache.registry import Registry
from registry_controller.status.clusters import ClusterStatusReporter
from registry_controller.status.rules import RuleStatusReporter
from registry_controller.watch.fairness import LoopYielder

INTERVAL_S: Final = 0.1
START_S: Final = 30.0
"""The time after the start in which a rule's stored status stays while caches are incomplete."""


class StatusReporter:
    """Runs the reporters of Clusters and rules. `is_ready` returns whether all caches are complete and decided."""

    def __init__(
        self,
        *,
        registry: Registry,
        local: ClusterUID,
        is_ready: Callable[[], bool],
    ) -> None:
        self._registry = registry
        self._local = local
        self._is_ready = is_ready
        self._has_changed_clusters = False
        self._changed_rules: set[str] = set()
        self._changed = asyncio.Event()

    def clusters_changed(self) -> None:
        """Report all Clusters and all rules again."""
        self._has_changed_clusters = True
        self._changed_rules.update(self._registry.rules)
        self._changed.set()

    def cluster_counts_changed(self) -> None:
        """Report all Clusters again; the status of no rule differs for that."""
        self._has_changed_clusters = True
        self._changed.set()

    def rule_changed(self, name: str) -> None:
        """Report a rule again."""
        self._changed_rules.add(name)
        self._changed.set()

    async def run(self, clusters: ClusterStatusReporter, rules: RuleStatusReporter) -> NoReturn:
        """Report changes, at most ten times a second; the status writer limits the writes further."""
        loop = asyncio.get_running_loop()
        starts_until = loop.time() + START_S
        while True:
            await self._changed.wait()
            await asyncio.sleep(INTERVAL_S)
            self._changed.clear()
            if self._has_changed_clusters:
                self._has_changed_clusters = False
                clusters.report()
            names, self._changed_rules = self._changed_rules, set()
            is_starting = loop.time() < starts_until and not self._is_ready()
            yielder = LoopYielder(loop.time())
            for name in sorted(names):  # there may be a thousand
                await yielder.yield_if_due()
                if is_starting and self._is_reported(name):
                    self.rule_changed(name)
                else:
                    rules.report(name)

    def _is_reported(self, name: str) -> bool:
        """Return whether the stored status describes the rule's present generation, and the rule acts."""
        stored = self._registry.rules.get(name)
        if stored is None or stored.rule is None or not stored.verdict.accepted or stored.rule.suspend:
            return False
        if self._registry.bar(name, local=self._local) is not None:
            return False
        return (stored.manifest.get("status") or {}).get("observedGeneration") == stored.rule.generation
