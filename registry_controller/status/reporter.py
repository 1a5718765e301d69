"""Say how things stand: the status of every Cluster and rule here, made anew when something changed.

Laws: one writer of status · of a rule that was said before nothing is said while only our own start is the news.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, NoReturn

from registry_controller.engine import Engine
from registry_controller.status.clusters import ClusterStatusReporter
from registry_controller.status.readiness import list_pending
from registry_controller.status.rules import RuleStatusReporter
from registry_controller.watch.fairness import LoopYielder

PERIOD_S: Final = 0.1
START_S: Final = 30.0


class StatusReporter:
    """Statuses of Clusters and rules."""

    def __init__(
        self, *, engine: Engine, clusters: ClusterStatusReporter, rules: RuleStatusReporter, is_idle: Callable[[], bool]
    ) -> None:
        self._engine = engine
        self._registry = engine.registry
        self._clusters = clusters
        self._rules = rules
        self._is_idle = is_idle
        self._clusters_changed = asyncio.Event()
        self._changed_rules: set[str] = set()
        self._has_changes = asyncio.Event()

    def clusters_changed(self) -> None:
        """Hear that a Cluster's, or every rule's, standing may have changed."""
        self._clusters_changed.set()
        self._changed_rules.update(self._registry.rules)
        self._has_changes.set()

    def rule_changed(self, name: str) -> None:
        """Hear that a rule's standing may have changed."""
        self._changed_rules.add(name)
        self._has_changes.set()

    async def run(self) -> NoReturn:
        """Say what changed, at most ten times a second; the writer slows down further."""
        loop = asyncio.get_running_loop()
        settles_until = loop.time() + START_S
        while True:
            await self._has_changes.wait()
            await asyncio.sleep(PERIOD_S)
            self._has_changes.clear()
            if self._clusters_changed.is_set():
                self._clusters_changed.clear()
                self._clusters.report()
            names, self._changed_rules = self._changed_rules, set()
            settles = loop.time() < settles_until and (not self._is_idle() or bool(list_pending(self._engine)))
            stint = LoopYielder(loop.time())
            for name in sorted(names):  # there may be a thousand
                await stint.interrupt()
                if settles and self._is_already_reported(name):
                    self.rule_changed(name)
                else:
                    self._rules.report(name)

    def _is_already_reported(self, name: str) -> bool:
        """Say whether what is stored was said of the rule as it is: it stays until there is news of the rule."""
        held = self._registry.rules.get(name)
        if held is None or held.rule is None or not held.verdict.accepted or held.rule.suspend:
            return False
        if self._registry.bar(name, local=self._engine.local) is not None:
            return False
        return (held.manifest.get("status") or {}).get("observedGeneration") == held.rule.generation
