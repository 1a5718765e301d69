"""Does what a later version of the daemon added, within a format, survive each write of a daemon? A11."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from registry_controller.api import meta, names
from tests.sim.checks.expected_copies import ADDED, is_of_later_version, marks_of
from tests.sim.checks.history import Entry, History
from tests.sim.cluster.fields import Manifest
from tests.sim.schedule.tally import Tally
from tests.sim.schedule.vocabulary import ADDED_ANNOTATION, ADDED_LABEL

Break = Callable[[str, str, str], None]


class LaterVersions:
    """It tells `breaks` of the clause, where, and in words."""

    def __init__(self, history: History, tally: Tally, breaks: Break) -> None:
        self._history = history
        self._tally = tally
        self._break = breaks

    def see(self, entry: Entry, where: str) -> None:
        """Look at one write of a daemon."""
        before, new = entry.change.before, entry.change.new
        if new is None or new["kind"] not in ("ClusterFeature", "Cluster") or marks_of(new).owner:
            return
        if before is None:
            self._see_relay(entry, new, where)
            return
        known = _added_to(new)
        for name, value in _added_to(before).items():
            self._tally.clause("A11")
            if known.get(name) != value and not _is_expired(name, new):
                self._break("A11", where, f"lost what a later version added: {name}")

    def _see_relay(self, entry: Entry, new: Manifest, where: str) -> None:
        """Look whether a tombstone of another cluster has what each state of it had there."""
        labels = new["metadata"].get("labels") or {}
        author = next((name for name, found in self._history.ids.items() if found == _author(new)), "")
        if new["spec"].get("featureName") != names.LEFT_FEATURE or author in ("", entry.cluster):
            return
        states = [state.manifest for state in self._history.states(author, "ClusterFeature", entry.change.key)]
        shown = [_added_to(state).get("label") for state in states if state is not None]
        if shown and all(shown):
            self._tally.clause("A11")
            if labels.get(ADDED_LABEL) not in shown:
                self._break("A11", where, f"lacks what a later version added to the tombstone of {author}")


def _author(stone: Manifest) -> str:
    return str((stone["metadata"].get("labels") or {}).get(meta.LEFT_REPORTED_BY, ""))


def _record(manifest: Manifest) -> Any:
    return orjson.loads((manifest["metadata"].get("annotations") or {}).get(meta.DELETED_RULES, "{}"))


def _is_expired(name: str, new: Manifest) -> bool:
    """Say whether something was added to the entry of a rule, and the record has no entry of that rule any more."""
    kind, _, uid = name.partition(" ")
    return kind == "rule" and uid not in [one["uid"] for one in _record(new)["rules"]]


def _added_to(manifest: Manifest) -> dict[str, Any]:
    """Take what a later version added to a tombstone, a record or the own Cluster, each by a name."""
    info = manifest["metadata"]
    annotations, labels = info.get("annotations") or {}, info.get("labels") or {}
    found = {"label": labels.get(ADDED_LABEL), "annotation": annotations.get(ADDED_ANNOTATION)}
    found["daemon"] = orjson.loads(annotations.get(meta.DAEMON, "{}")).get(ADDED)
    if not is_of_later_version(manifest):
        record = _record(manifest)
        found |= {"record": record.get(ADDED)}
        found |= {f"rule {one['uid']}": one.get(ADDED) for one in record.get("rules", ())}
    return {name: value for name, value in found.items() if value is not None}
