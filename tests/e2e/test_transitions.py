"""What becomes of copies that a rule no longer wants, on two real clusters: each shape with each transition.

The simulated group runs the whole matrix (tests/sim/test_rule_changes.py). Here each shape meets each transition once,
under policies and with daemons up or down such that every pair of values occurs; all in one group, a rule each.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from hack.controlplane import Group
from tests.e2e.group import (
    API,
    NAMESPACE,
    Member,
    crd,
    eventually,
    grant,
    hand_over,
    holding_invariants,
    in_sync,
    rule,
    start_members,
    steadily,
    swap,
)

pytestmark = pytest.mark.nightly

WIDGET = {"group": "test.example.com", "version": "v1", "kind": "Widget"}
PLURALS = ("widgets", "gadgets", "gizmos")
STAYS = {"cluster-registry.k8s.cisco.com/resource-sync-disabled": "true"}
DISABLED = "cluster-registry.k8s.cisco.com/cluster-disabled"

OF_ANOTHER_KIND, PLAIN, RENAMED, MOVED, LONG = SHAPES = (
    "of another kind", "plain", "renamed", "in another namespace", "with a name of 253 characters"
)  # fmt: skip
SOURCE_DELETED, UNMATCHED, EDITED, RULE_DELETED, SUSPENDED, FEATURE, TARGETS, LEFT, OFF, NAME = TRANSITIONS = (
    "source deleted", "source no longer matches", "rule edited", "rule deleted", "rule suspended", "feature removed",
    "target selection changed", "peer's Cluster deleted", "peer disabled", "name template edited",
)  # fmt: skip
POLICIES = ("Orphan", "Delete")
UP, DOWN = ("up", "down")

GOES_ALWAYS = (SOURCE_DELETED, NAME)
STAYS_ALWAYS = (SUSPENDED, LEFT, OFF)

Place = tuple[str, str, str]
"""Kind, namespace and name."""


@dataclass(frozen=True, slots=True)
class Row:
    """One rule with one source."""

    shape: str
    transition: str
    policy: str
    daemon: str
    number: int

    @property
    def label(self) -> dict[str, str]:
        return {"row": str(self.number)}

    @property
    def source(self) -> str:
        name = f"row-{self.number}-"
        return name.ljust(253, "n") if self.shape == LONG else f"{name}source"

    @property
    def copy(self) -> Place:
        kind = "Gadget" if self.shape == OF_ANOTHER_KIND else "Widget"
        if kind == "Gadget" and self.transition == RULE_DELETED:
            kind = "Gizmo"  # no other rule writes it: when the rule goes, only the owner's label finds the copy
        namespace = "elsewhere" if self.shape == MOVED else "default"
        return kind, namespace, f"{self.source}-copied" if self.shape == RENAMED else self.source

    @property
    def renamed_copy(self) -> Place:
        return (*self.copy[:2], f"row-{self.number}-anew")

    def after(self) -> set[Place]:
        """Say what must be there once the transition has had its effect."""
        if self.transition == NAME:
            return {self.renamed_copy}
        stays = self.transition in STAYS_ALWAYS or (self.policy == "Orphan" and self.transition not in GOES_ALWAYS)
        return {self.copy} if stays else set()

    def manifest(self) -> dict[str, Any]:
        return self._rule(self._mutations(self.copy))

    def edited(self) -> dict[str, Any]:
        """Write the rule as its own transition leaves it."""
        if self.transition == NAME:
            return self._rule(self._mutations(self.renamed_copy))
        if self.transition == EDITED:
            return self._rule(self._mutations(self.copy), match={"other": "yes"})
        more = {SUSPENDED: {"suspend": True}, TARGETS: {"targetClusters": {"names": ["somebody-else"]}}}
        return self._rule(self._mutations(self.copy), **more[self.transition])

    def _mutations(self, target: Place) -> dict[str, Any]:
        kind, namespace, name = target
        overrides = []
        if name != self.source:
            template = '{{ printf "%s-copied" .Object.GetName }}' if name.endswith("-copied") else name
            overrides.append({"type": "replace", "path": "/metadata/name", "value": template})
        if namespace != "default":
            overrides.append({"type": "replace", "path": "/metadata/namespace", "value": namespace})
        mutations: dict[str, Any] = {"overrides": overrides} if overrides else {}
        return mutations | ({"groupVersionKind": {"kind": kind}} if kind != "Widget" else {})

    def _rule(self, mutations: dict[str, Any], match: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
        entry = {"match": [{"labels": [{"matchLabels": match or self.label}]}], "mutations": mutations}
        if self.transition == FEATURE:
            spec["clusterFeatureMatch"] = [{"featureName": f"row-{self.number}"}]
        made = rule(f"row-{self.number}", WIDGET, entry, deletionPolicy=self.policy, **spec)
        made["metadata"]["annotations"] = STAYS
        return made


ROWS = [
    Row(shape, transition, POLICIES[(s + t) % 2], (UP, DOWN)[(s // 2 + t) % 2], number)
    for number, ((s, shape), (t, transition)) in enumerate(
        itertools.product(enumerate(SHAPES), enumerate(TRANSITIONS)), start=1
    )
]


def rows(*transitions: str, daemon: str = "") -> list[Row]:
    return [row for row in ROWS if row.transition in transitions and daemon in ("", row.daemon)]


def test_every_pair_of_values_is_chosen() -> None:
    """And each policy of each transition with the daemon up and down."""
    fields = ("shape", "transition", "policy", "daemon")
    values = dict(zip(fields, (SHAPES, TRANSITIONS, POLICIES, (UP, DOWN)), strict=True))
    for chosen in [*itertools.combinations(fields, 2), ("transition", "policy", "daemon")]:
        found = {tuple(getattr(row, field) for field in chosen) for row in ROWS}
        assert found == set(itertools.product(*(values[field] for field in chosen))), chosen


def _widget(name: str, labels: dict[str, str], *, kind: str = "Widget", namespace: str = "default") -> dict[str, Any]:
    info = {"name": name, "namespace": namespace, "labels": labels}
    return {"apiVersion": "test.example.com/v1", "kind": kind, "metadata": info, "spec": {"a": 1}}


NATIVES = [
    *(_widget(f"native-{row.number}", row.label) for row in ROWS),
    _widget("native", {}, namespace="elsewhere"),
    _widget("native", {}, kind="Gadget"),
    _widget("native", {}, kind="Gizmo"),
]


class Stage:
    """The receiving cluster, the owner, and what must be in the first one now."""

    def __init__(self, here: Member, owner: Member) -> None:
        self.here = here
        self.owner = owner
        self.expected = {row: {row.copy} for row in ROWS}
        self.natives: dict[Place, str] = {}

    def versions(self) -> dict[Place, str]:
        """Map what there is to its resourceVersion."""
        found = {}
        for plural in PLURALS:
            for item in self.here.cluster.api.get(f"/apis/test.example.com/v1/{plural}")["items"]:
                info = item["metadata"]
                found[(item["kind"], info["namespace"], info["name"])] = info["resourceVersion"]
        return found

    def wrong(self) -> list[tuple[Row, set[Place]]]:
        """List the rows that are not as expected, with what there is of them."""
        there = set(self.versions()) - set(self.natives)
        found = {row: there & {row.copy, row.renamed_copy} for row in ROWS}
        assert there == set().union(*found.values()), "a copy that no row knows"
        return [(row, found[row]) for row in ROWS if found[row] != self.expected[row]]

    def settles(self) -> None:
        """Hold that everything becomes as it should be and stays so, and that nothing native was touched."""
        eventually(lambda: not (wrong := self.wrong()) or _fail(wrong))
        steadily(lambda: not (wrong := self.wrong()) or _fail(wrong), for_s=1.5)
        now = self.versions()
        assert {place: now.get(place) for place in self.natives} == self.natives

    def act(self, acting: list[Row]) -> None:
        """Do what the rows' transitions say, but for those that are about the whole peer."""
        edits = [row.edited() for row in acting if row.transition in (EDITED, SUSPENDED, TARGETS, NAME)]
        if edits:
            self.here.apply(*edits)
        self._delete(self.here, "/apis/clusterregistry.k8s.cisco.com/v1alpha1/resourcesyncrules", [
            f"row-{row.number}" for row in acting if row.transition == RULE_DELETED])  # fmt: skip
        self._delete(self.owner, "/apis/clusterregistry.k8s.cisco.com/v1alpha1/clusterfeatures", [
            f"row-{row.number}" for row in acting if row.transition == FEATURE])  # fmt: skip
        self.delete_sources([row for row in acting if row.transition == SOURCE_DELETED])
        for row in acting:
            if row.transition == UNMATCHED:
                path = f"/apis/test.example.com/v1/namespaces/default/widgets/{row.source}"
                body = {"metadata": {"labels": {"row": "none"}}}
                self.owner.cluster.api.request("PATCH", path, body=body, content_type="application/merge-patch+json")
        self.expected |= {row: row.after() for row in acting}

    def delete_sources(self, gone: list[Row]) -> None:
        path = "/apis/test.example.com/v1/namespaces/default/widgets"
        self._delete(self.owner, path, [row.source for row in gone])

    def _delete(self, member: Member, path: str, names: list[str]) -> None:
        for name in names:
            member.cluster.api.request("DELETE", f"{path}/{name}")


def _fail(wrong: list[tuple[Row, set[Place]]]) -> bool:
    raise AssertionError("\n".join(f"{row}: {found}" for row, found in wrong))


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Group(2, prefix="wishes") as group, holding_invariants() as members:
        for cluster in group:
            definitions = [crd(kind) for kind in ("Widget", "Gadget", "Gizmo")]
            cluster.kubectl("create", "-f", "-", stdin="\n---\n".join(json.dumps(item) for item in definitions))
            cluster.kubectl("create", "namespace", "elsewhere")
        members += start_members(group)
        here, owner = members
        for member in members:
            grant(member, "tests", ["test.example.com"], list(PLURALS))
        swap(here, owner)
        in_sync(members)
        found = Stage(here, owner)
        here.create(*NATIVES)
        found.natives = found.versions()
        features = [
            {"apiVersion": API, "kind": "ClusterFeature", "metadata": {"name": f"row-{row.number}"},
             "spec": {"featureName": f"row-{row.number}"}}
            for row in rows(FEATURE)
        ]  # fmt: skip
        owner.create(*features, *(_widget(row.source, row.label) for row in ROWS))
        here.create(*(row.manifest() for row in ROWS))
        found.settles()
        yield found


LOCAL = tuple(transition for transition in TRANSITIONS if transition not in (LEFT, OFF))


def test_copies_go_and_stay_as_their_policy_says(stage: Stage) -> None:
    """W3, O5: while the daemon is up."""
    stage.act(rows(*LOCAL, daemon=UP))
    stage.settles()


def test_what_happened_while_no_daemon_ran_is_caught_up(stage: Stage) -> None:
    """W3, O5: found again in the cluster, not in memory."""
    stage.here.daemon.stop()
    stage.act(rows(*LOCAL, daemon=DOWN))
    stage.here.daemon.start()
    stage.here.daemon.wait_ready(timeout_s=180)
    stage.settles()


def test_a_suspended_rule_keeps_copies_whose_source_goes(stage: Stage) -> None:
    """W3: nothing is deleted for it, until it is taken up again."""
    stage.delete_sources(rows(SUSPENDED))
    stage.settles()
    stage.here.apply(*(row.manifest() | {"spec": row.manifest()["spec"] | {"suspend": False}}
                       for row in rows(SUSPENDED)))  # fmt: skip
    stage.expected |= {row: set() for row in rows(SUSPENDED)}
    stage.settles()


@pytest.mark.parametrize("daemon", [UP, DOWN])
def test_a_disabled_peer_proves_nothing(stage: Stage, daemon: str) -> None:
    """W3, P8: its copies stay, even where their source goes meanwhile, and it is caught up when it is read again."""
    here, name = stage.here, stage.owner.name
    if daemon == DOWN:
        here.daemon.stop()
    here.kubectl("annotate", "cluster", name, f"{DISABLED}=yes")
    if daemon == UP:
        eventually(lambda: here.get("cluster", name)["status"]["state"] == "Disabled")
    stage.delete_sources(rows(OFF, daemon=daemon))
    if daemon == DOWN:
        here.daemon.start()
        here.daemon.wait_ready(timeout_s=180)
    stage.settles()
    here.kubectl("annotate", "cluster", name, f"{DISABLED}-")
    stage.expected |= {row: set() for row in rows(OFF, daemon=daemon)}
    stage.settles()


def test_a_cluster_that_is_deleted_while_its_owner_is_alive_is_put_back(stage: Stage) -> None:
    """W3, A1: it is a copy like any other, and no copy of that owner goes meanwhile."""
    here, owner = stage.here, stage.owner
    uid = here.get("cluster", owner.name)["metadata"]["uid"]
    here.kubectl("delete", "cluster", owner.name)
    eventually(lambda: here.get("cluster", owner.name)["metadata"]["uid"] != uid)
    in_sync([here, owner])
    stage.settles()


def test_copies_of_a_cluster_that_nobody_knows_any_more_stay(stage: Stage) -> None:
    """W3, O5: a Cluster that is merely missing proves nothing; when it is back, what happened is caught up."""
    here, owner = stage.here, stage.owner
    here.daemon.stop()
    for kind in ("cluster", f"-n={NAMESPACE} secret"):
        here.kubectl("delete", *kind.split(), owner.name)
    stage.delete_sources(rows(LEFT))
    here.daemon.start()
    here.daemon.wait_ready(timeout_s=180)
    stage.settles()
    assert here.find("cluster", owner.name) is None
    hand_over(owner, here)
    in_sync([here, owner])
    stage.expected |= {row: set() for row in rows(LEFT)}
    stage.settles()


def test_a_restart_changes_nothing(stage: Stage) -> None:
    """A1, W3: what came to rest stays at rest."""
    before = stage.versions()
    stage.here.daemon.restart()
    stage.here.daemon.wait_ready(timeout_s=180)
    stage.settles()
    assert stage.versions() == before


def test_a_mirrored_rule_that_renames_never_feeds_on_its_own_copies(stage: Stage) -> None:
    """W7, O3: both clusters have the rule, and each other's copies match it; there is no x-x-a, ever."""
    members = [stage.here, stage.owner]
    labels = {"mirrored": "yes"}
    rename = {"type": "replace", "path": "/metadata/name", "value": "x-{{ .Object.GetName }}"}
    entry = {"match": [{"labels": [{"matchLabels": labels}]}], "mutations": {"overrides": [rename]}}

    def names() -> list[set[str]]:
        path = "/apis/test.example.com/v1/widgets?labelSelector=mirrored"
        return [{item["metadata"]["name"] for item in member.cluster.api.get(path)["items"]} for member in members]

    stage.here.create(_widget("mine", labels))
    stage.owner.create(_widget("theirs", labels))
    stage.here.create(rule("mirrored", WIDGET, entry))
    expected = [{"mine", "x-theirs"}, {"theirs", "x-mine"}]
    eventually(lambda: names() == expected)
    steadily(lambda: names() == expected, for_s=2)
    for member in members:
        member.daemon.restart()
        member.daemon.wait_ready(timeout_s=180)
    in_sync(members)
    steadily(lambda: names() == expected, for_s=2)
