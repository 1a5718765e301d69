"""Which rules were deleted at their owners, and which are missing there without a trace. W3."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from registry_controller.api import meta, names
from registry_controller.api.deleted_rules import DeletedRule, deleted_rules_manifest
from registry_controller.api.meta import ClusterUID
from registry_controller.cache.crds import Definition, DefinitionRead
from registry_controller.cache.definition_state import DefinitionState
from registry_controller.cache.registry import Registry
from registry_controller.cache.rule_events import RuleEvents
from registry_controller.clusters.rule_deletions import RuleDeletions
from registry_controller.clusters.rule_traces import RuleID
from registry_controller.core.decision.rule_state import RulePresence
from registry_controller.core.status.missing_rules import RulesMissing, spell_missing
from tests.unit.clusters.builders import LOCAL, cluster_manifest, rule_manifest

HOME = ClusterUID("id-b")
WINDOW_S = 30.0
NOW = datetime(2026, 1, 31, tzinfo=UTC)
TODAY = NOW.date()
DEFINITION = Definition("crd", deleting=False, revision=10)
EARLIER = "earlier-crd"


class Stage:
    """A registry, one peer that is the owner of rules, and a clock that the test sets."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        clock: Any = {"window_s": WINDOW_S, "now_s": lambda: self.now_s}
        self.held = Registry(local=LOCAL, on_change=lambda plural, name: None, **clock)
        self.held.replace("clusters", [cluster_manifest("own", cluster_id=LOCAL), cluster_manifest("b")], revision=1)
        self.held.replace("resourcesyncrules", [], revision=1)
        self.rules: Any = SimpleNamespace(is_synced=True, records={}, rule_events=None, streams={})
        features = SimpleNamespace(deleted_rules=dict[DeletedRule, float]())
        self.peer: Any = SimpleNamespace(is_alive=True, features=features, day_there=TODAY)
        sources: Any = SimpleNamespace(cache_of=lambda peer, kind: self.rules if peer == HOME else None)
        self.absent: list[RuleID] = []
        copies: Any = SimpleNamespace(all_caches=list)
        self.deletions = RuleDeletions(
            registry=self.held, sources=sources, copies=copies, local=LOCAL, now=lambda: NOW, **clock
        )
        self.defined: Any = SimpleNamespace(of_rules=DEFINITION, read=DefinitionRead())
        self.deletions.traces.definitions = self.defined
        self.reads_as: str | None = DEFINITION.uid
        self.deletions._list_absent = lambda: ((rule, True) for rule in self.absent)  # type: ignore[method-assign]
        self.after(WINDOW_S)

    def after(self, seconds: float) -> None:
        """Read the definition of rules, unless that is not possible, and plan again after a time."""
        if self.reads_as is not None:
            self.defined.read = DefinitionRead(self.reads_as, self.now_s)
        self.now_s += seconds
        self.held.end_deleted_rules()
        self.deletions.update({HOME: self.peer})

    def delete_here(self, *, revision: int, uid: str = "uid", is_seen: bool = True, **metadata: Any) -> None:
        """Let the watch of this cluster show the deletion of rule r, or, unless `is_seen`, a list lack it."""
        rule = rule_manifest("r")
        info = {"name": "r", "uid": uid, **metadata}
        self.held.apply("resourcesyncrules", "ADDED", {**rule, "metadata": {**info, "resourceVersion": "2"}})
        if is_seen:
            last = {**rule, "metadata": {**info, "resourceVersion": str(revision)}}
            self.held.apply("resourcesyncrules", "DELETED", last)
        else:
            self.held.replace("resourcesyncrules", [], revision=revision)

    def to_record(self) -> frozenset[DeletedRule]:
        return self.deletions.update_record(self.held.deleted_rules) - self.held.deleted_rules

    def record_here(self, *rules: DeletedRule) -> None:
        manifest = deleted_rules_manifest(rules)
        self.held.apply("clusterfeatures", "ADDED", manifest)

    def was_deleted(self, owner: ClusterUID, *, uid: str = "uid", definition: str = EARLIER) -> bool:
        presence, was_deleted = self.deletions.evaluate(RuleID(owner, "r", uid, definition))
        assert presence is RulePresence.MISSING
        return was_deleted

    def state(self, owner: ClusterUID = HOME) -> RulePresence:
        return self.deletions.evaluate(RuleID(owner, "r", "uid", EARLIER))[0]


def test_after_a_start_nothing_is_missing_for_the_window() -> None:
    stage = Stage()
    stage.held.shows_missing_rules = False
    assert stage.state(LOCAL) is RulePresence.UNKNOWN


@pytest.mark.parametrize(
    ("uid", "named", "definition", "deleted"),
    [
        ("uid", DEFINITION.uid, DEFINITION, True),
        ("uid", EARLIER, DEFINITION, False),
        ("uid", "", DEFINITION, False),
        ("uid", DEFINITION.uid, DEFINITION._replace(deleting=True), False),
        ("uid", DEFINITION.uid, None, False),
        ("", "", DEFINITION, True),
    ],
    ids=[
        "it was here with the present definition",
        "it was here with another definition",
        "no definition is known with which it was here",
        "the definition is going",
        "there is no definition",
        "a provenance of an earlier version",
    ],
)
def test_a_rule_that_a_copy_at_its_home_names_was_deleted_under_its_definition(
    uid: str, named: str, definition: Definition | None, deleted: bool
) -> None:
    stage = Stage()
    stage.defined.of_rules = definition
    stage.absent = [RuleID(LOCAL, "r", uid, named)]
    stage.after(1.0)
    assert bool(stage.deletions.missing) != deleted
    if uid:  # it is recorded first: members obey the record
        assert not stage.was_deleted(LOCAL, uid=uid, definition=named)
        stage.record_here(*stage.to_record())
    assert stage.was_deleted(LOCAL, uid=uid, definition=named) == deleted


@pytest.mark.parametrize(
    ("revision", "uid", "definition", "deleted"),
    [
        (11, "uid", DEFINITION, True),
        (9, "uid", DEFINITION, False),
        (11, "other", DEFINITION, False),
        (11, "uid", DEFINITION._replace(deleting=True), False),
    ],
    ids=["under its definition", "before the present definition", "another rule of its name", "with its definition"],
)
def test_a_deletion_that_this_cluster_saw(revision: int, uid: str, definition: Definition, deleted: bool) -> None:
    stage = Stage()
    stage.delete_here(revision=revision, uid=uid)
    assert stage.state(LOCAL) is RulePresence.THERE, "it may be created again"
    assert stage.held.due_s == stage.now_s + WINDOW_S
    stage.defined.of_rules = definition
    stage.after(WINDOW_S)
    assert stage.was_deleted(LOCAL) == deleted


@pytest.mark.parametrize("reads_as", ["", "another", None], ids=["it went", "it is another one", "no read succeeds"])
@pytest.mark.parametrize("is_seen", [True, False], ids=["an event", "copies"])
def test_what_went_with_a_definition_whose_watch_is_behind_was_not_deleted(is_seen: bool, reads_as: str | None) -> None:
    """W3: the watch still shows the definition, for any time."""
    stage = Stage()
    stage.reads_as = reads_as
    stage.after(1.0)
    stage.delete_here(revision=11, is_seen=is_seen)
    stage.absent = [] if is_seen else [RuleID(LOCAL, "r", "uid", DEFINITION.uid)]
    for _ in range(3):
        stage.after(WINDOW_S)
        assert not stage.deletions.has_new_records
        assert not stage.was_deleted(LOCAL, definition=EARLIER if is_seen else DEFINITION.uid)
        assert (LOCAL, "r") not in stage.deletions.shown()


@pytest.mark.parametrize("is_seen", [True, False], ids=["an event", "copies"])
def test_a_read_that_began_before_a_rule_went_shows_nothing(is_seen: bool) -> None:
    stage = Stage()
    stage.reads_as = None
    stage.after(1.0)
    stage.delete_here(revision=11, is_seen=is_seen)
    stage.absent = [] if is_seen else [RuleID(LOCAL, "r", "uid", DEFINITION.uid)]
    stage.after(WINDOW_S)
    assert not stage.deletions.has_new_records
    stage.reads_as = DEFINITION.uid
    stage.after(1.0)
    assert stage.to_record() == {DeletedRule("r", "uid", TODAY, "Orphan" if is_seen else "")}
    assert ((LOCAL, "r") in stage.deletions.shown()) is is_seen


def test_a_deletion_that_only_copies_at_its_home_show_is_recorded() -> None:
    """W3: the daemon of the home did not run."""
    stage = Stage()
    stage.absent = [RuleID(LOCAL, "r", "uid", DEFINITION.uid), RuleID(LOCAL, "older", "u0", EARLIER)]
    stage.after(1.0)
    assert stage.to_record() == {DeletedRule("r", "uid", TODAY)}
    stage.record_here(DeletedRule("r", "uid", TODAY))
    assert not stage.deletions.has_new_records


@pytest.mark.clause("W3")
@pytest.mark.parametrize("is_own", [True, False], ids=["this daemon found it", "it was recorded before the start"])
def test_a_deletion_whose_record_is_lost_is_recorded_again(is_own: bool) -> None:
    stage = Stage()
    if is_own:
        stage.delete_here(revision=11)
        stage.after(0.1)
    recorded = DeletedRule("r", "uid", TODAY - timedelta(days=3), "Orphan")
    stage.record_here(recorded)
    assert not stage.deletions.has_new_records
    stage.held.apply("clusterfeatures", "DELETED", deleted_rules_manifest(()))
    assert stage.deletions.has_new_records
    assert stage.to_record() == {recorded}


def test_a_deletion_is_recorded_soon_and_once() -> None:
    stage = Stage()
    stage.delete_here(revision=11)
    assert not stage.deletions.has_new_records, "the definition of rules is not read yet"
    stage.after(0.1)
    assert stage.to_record() == {DeletedRule("r", "uid", TODAY, "Orphan")}
    assert stage.deletions.has_new_records
    stage.record_here(DeletedRule("r", "uid", TODAY, "Orphan"))
    assert not stage.deletions.has_new_records
    stage.after(WINDOW_S)
    stage.held.deletions.interrupt()  # as after a restart
    assert stage.was_deleted(LOCAL)


@pytest.mark.parametrize("annotations", [{meta.OWNER: HOME}, {}], ids=["a copy", "a rule of the daemon"])
def test_copies_and_core_rules_are_not_recorded(annotations: dict[str, str]) -> None:
    stage = Stage()
    name = "r" if annotations else names.RULES_SINK
    rule = rule_manifest(name)
    info = {"name": name, "uid": "uid", "annotations": annotations, "resourceVersion": "11"}
    stage.held.apply("resourcesyncrules", "DELETED", {**rule, "metadata": info})
    assert not list(stage.held.deletions)


def test_a_silent_home_shows_nothing() -> None:
    stage = Stage()
    assert stage.state() is RulePresence.MISSING
    stage.rules.streams = {"all": SimpleNamespace(error=object())}
    assert stage.state() is RulePresence.UNKNOWN
    stage.rules.streams = {}
    stage.rules.is_synced = False
    assert stage.state() is RulePresence.UNKNOWN
    stage.rules.is_synced, stage.peer.is_alive = True, False
    assert stage.state() is RulePresence.UNKNOWN
    assert stage.deletions.evaluate(RuleID(ClusterUID("unknown"), "r"))[0] is RulePresence.UNKNOWN


def test_a_deletion_at_a_peer_counts_after_the_window_while_the_watch_goes_on() -> None:
    stage = Stage()
    stage.rules.rule_events = events = RuleEvents(now_s=lambda: stage.now_s)
    events.on_delete("r", "earlier", 4)
    events.on_delete("r", "uid", 5)
    deleted_s = stage.now_s
    assert stage.state() is RulePresence.UNKNOWN
    stage.after(WINDOW_S)
    assert stage.state() is RulePresence.UNKNOWN, "the definition of rules may be going"
    assert (HOME, "r") not in stage.deletions.shown()
    events.on_definition(DefinitionState.THERE, deleted_s - 1)
    assert stage.state() is RulePresence.UNKNOWN
    events.on_definition(DefinitionState.THERE, deleted_s)
    assert stage.was_deleted(HOME)
    assert stage.was_deleted(HOME, uid="earlier"), "a copy may lag behind"
    assert not stage.was_deleted(HOME, uid="another")
    assert ((HOME, "r") in stage.deletions.shown()) is True
    events.interrupt()
    assert not stage.was_deleted(HOME)


def test_the_record_of_a_peer_counts_a_window_after_it_was_seen() -> None:
    stage = Stage()
    stage.peer.features.deleted_rules = {DeletedRule("r", "uid", TODAY): stage.now_s}
    stage.after(WINDOW_S - 1)
    assert not stage.was_deleted(HOME)
    assert stage.deletions.traces.due_s == stage.now_s + 1
    stage.after(1)
    assert stage.was_deleted(HOME)
    assert stage.was_deleted(HOME, uid="")
    assert not stage.was_deleted(HOME, uid="another")


def test_what_shows_a_deletion_changes_with_each_event_and_record() -> None:
    """W3: a decision waits for the later of the two, and nothing else would enqueue its copy."""
    stage = Stage()
    stage.peer.features.deleted_rules = {DeletedRule("r", "uid", TODAY): stage.now_s}
    stage.after(1)
    stage.rules.rule_events = events = RuleEvents(now_s=lambda: stage.now_s)
    events.on_delete("r", "uid", 5)
    events.on_definition(DefinitionState.THERE, stage.now_s)
    stage.after(WINDOW_S - 1)
    by_record = stage.deletions.shown()
    assert stage.state() is RulePresence.UNKNOWN
    stage.after(1)
    assert stage.was_deleted(HOME)
    assert stage.deletions.shown() != by_record


def test_missing_rules_are_kept_until_a_person_allows_it() -> None:
    stage = Stage()
    assert not stage.deletions.missing
    stage.absent = [RuleID(HOME, "r", "uid", EARLIER)]
    stage.after(1)
    missing = stage.deletions.missing[HOME]
    assert (set(missing.waiting), missing.going) == ({"r"}, set())
    b = cluster_manifest("b", metadata={"resourceVersion": "5", "annotations": {meta.ALLOW_DELETIONS: "yesterday"}})
    stage.held.apply("clusters", "MODIFIED", b)
    stage.after(1)
    assert not stage.was_deleted(HOME)
    b["metadata"]["annotations"] = {meta.ALLOW_DELETIONS: missing.moment}
    stage.held.apply("clusters", "MODIFIED", {**b, "metadata": {**b["metadata"], "resourceVersion": "6"}})
    stage.after(1)
    assert stage.was_deleted(HOME)
    assert stage.deletions.missing[HOME].going == {"r"}
    stage.absent = []
    stage.after(1)
    assert not stage.deletions.missing
    assert not stage.was_deleted(HOME), "it was allowed for those that were missing then"


def test_the_moment_is_read_from_the_status_after_a_restart() -> None:
    stage = Stage()
    message = spell_missing(RulesMissing(["r"], "2026-01-01T00:00:00Z"), cluster="b")
    condition = {"type": "RulesMissing", "status": "True", "message": message}
    b = cluster_manifest("b", metadata={"resourceVersion": "5"}, status={"conditions": [condition]})
    stage.held.apply("clusters", "MODIFIED", b)
    stage.absent = [RuleID(HOME, "r", "uid", EARLIER)]
    stage.after(1)
    assert stage.deletions.missing[HOME].moment == "2026-01-01T00:00:00Z"
    stage.absent.append(RuleID(HOME, "later", "uid", EARLIER))
    stage.after(1)
    assert stage.deletions.missing[HOME].moment > "2026-01-01T00:00:00Z"


def test_an_allowance_counts_for_the_rules_that_were_missing_then_after_a_restart_too() -> None:
    stage = Stage()
    moment = "2026-01-01T00:00:00Z"
    message = spell_missing(RulesMissing(going=["r"], allowed=moment), cluster="b")
    condition = {"type": "RulesMissing", "status": "True", "message": message}
    info = {"resourceVersion": "5", "annotations": {meta.ALLOW_DELETIONS: moment}}
    stage.held.apply("clusters", "MODIFIED", cluster_manifest("b", metadata=info, status={"conditions": [condition]}))
    stage.absent = [RuleID(HOME, "r", "uid", EARLIER), RuleID(HOME, "later", "uid", EARLIER)]
    stage.after(1)
    missing = stage.deletions.missing[HOME]
    assert (missing.going, set(missing.waiting)) == ({"r"}, {"later"})
    assert stage.was_deleted(HOME)
    assert stage.deletions.evaluate(RuleID(HOME, "later", "uid", EARLIER))[1] is False
