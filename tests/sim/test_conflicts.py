"""Two owners of one name, two rules for one object: who wins, what the loser says, and who takes over. O8, W2."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from registry_controller.api.meta import OWNER, SYNC_DISABLED
from tests.sim.cluster.group import CONFIG_MAP, SimGroup, config_map, rule, simulate
from tests.sim.cluster.transport import Fault

LABELS = {"sync": "yes"}


def _entry(group: SimGroup, owner: str) -> dict[str, Any]:
    clusters = group["a"].get("ResourceSyncRule", "rivals").get("status", {}).get("clusters", [])
    return next((entry for entry in clusters if entry["clusterID"] == group[owner].id), {})


@pytest.mark.parametrize("first", ["b", "c"], ids=["the older comes first", "the younger comes first"])
@pytest.mark.parametrize("restarted", [False, True], ids=["up", "restarted"])
def test_the_older_source_wins_and_the_loser_is_said_and_takes_over(first: str, restarted: bool) -> None:
    """O8: whoever came first, and without a restart when the winner goes."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        rivals = rule("rivals", CONFIG_MAP, {"match": [{"labels": [{"matchLabels": LABELS}]}]})
        rivals["metadata"]["annotations"] = {SYNC_DISABLED: "true"}
        group["a"].create(rivals)
        for owner in (first, "c" if first == "b" else "b"):
            made = config_map("one", {"from": owner}, labels=LABELS)
            group[owner].create(made, born=f"2025-01-0{1 if owner == 'b' else 2}T00:00:00Z")
            await group.settle()
        if restarted:
            await group["a"].restart()
            await group.settle()
        copy = group["a"].get("ConfigMap", "one", namespace="default")
        assert copy["data"] == {"from": "b"}
        assert copy["metadata"]["annotations"][OWNER] == group["b"].id
        assert (_entry(group, "b")["synced"], _entry(group, "b")["conflicting"]) == (1, 0)
        assert (_entry(group, "c")["synced"], _entry(group, "c")["conflicting"]) == (0, 1)
        assert "of cluster b, has this place" in _entry(group, "c")["failures"][0]["message"]
        assert group["a"].condition("ResourceSyncRule", "rivals", "Synced")["reason"] == "Conflict"
        group["b"].delete("ConfigMap", "one", namespace="default")
        await group.settle()
        assert group["a"].get("ConfigMap", "one", namespace="default")["data"] == {"from": "c"}
        assert _entry(group, "c")["conflicting"] == 0
        assert group["a"].condition("ResourceSyncRule", "rivals", "Synced")["status"] == "True"

    simulate(scenario, n=3)


@pytest.mark.parametrize("restarted", [False, True], ids=["up", "restarted"])
def test_the_older_rule_wins_and_the_younger_says_so_until_it_goes(restarted: bool) -> None:
    """W2: two rules that want one source differently at one place; what they agree on is no conflict."""

    def wants(name: str, born: str, label: str) -> tuple[dict[str, Any], str]:
        entry = {"match": [{"labels": [{"matchLabels": LABELS}]}], "mutations": {"labels": {"add": {"by": label}}}}
        made = rule(name, CONFIG_MAP, entry)
        made["metadata"]["annotations"] = {SYNC_DISABLED: "true"}
        return made, born

    async def scenario(group: SimGroup) -> None:
        here = group["a"]
        await group.join()
        for made, born in (
            wants("younger", "2025-01-02T00:00:00Z", "younger"),
            wants("older", "2025-01-01T00:00:00Z", "older"),
            wants("agrees", "2025-01-03T00:00:00Z", "older"),
        ):
            here.create(made, born=born)
        group["b"].create(config_map("one", {"a": "1"}, labels=LABELS))
        await group.settle()
        if restarted:
            await here.restart()
            await group.settle()
        assert here.get("ConfigMap", "one", namespace="default")["metadata"]["labels"]["by"] == "older"
        synced = {name: here.condition("ResourceSyncRule", name, "Synced") for name in ("older", "younger", "agrees")}
        assert {name: found["status"] for name, found in synced.items()} == {
            "older": "True", "younger": "False", "agrees": "True"
        }  # fmt: skip
        assert "rule older, which is older, wants it otherwise" in synced["younger"]["message"]
        here.delete("ResourceSyncRule", "older")
        await group.settle()
        assert here.get("ConfigMap", "one", namespace="default")["metadata"]["labels"]["by"] == "younger"
        assert here.condition("ResourceSyncRule", "younger", "Synced")["status"] == "True"
        assert here.condition("ResourceSyncRule", "agrees", "Synced")["status"] == "False"

    simulate(scenario, n=2)


def test_a_rule_that_comes_later_says_at_once_that_it_loses() -> None:
    """W2, A1: also of copies that have nothing to be written; so a restart has nothing to say."""

    async def scenario(group: SimGroup) -> None:
        here = group["a"]
        await group.join()
        entry = {"match": [{"labels": [{"matchLabels": LABELS}]}]}
        here.create(rule("older", CONFIG_MAP, entry), born="2025-01-01T00:00:00Z")
        group["b"].create(config_map("one", {"a": "1"}, labels=LABELS))
        await group.settle()
        younger = rule("younger", CONFIG_MAP, {**entry, "mutations": {"labels": {"add": {"by": "younger"}}}})
        here.create(younger, born="2025-01-02T00:00:00Z")
        await group.settle()
        assert here.condition("ResourceSyncRule", "younger", "Synced")["reason"] == "Conflict"
        await here.restart()
        assert not await group.writes_within(60.0)

    simulate(scenario, n=2)


@pytest.mark.clause("W2")
@pytest.mark.parametrize("is_for_us", [True, False], ids=["it is", "it is not"])
@pytest.mark.parametrize("asks_for", ["clusters", "features"])
def test_no_younger_rule_takes_a_copy_while_its_own_rule_may_be_for_this_cluster(
    asks_for: str, is_for_us: bool
) -> None:
    """W2: `targetClusters` cannot be evaluated, or the features of the owner are not read after a restart."""

    def wants(label: str, by: str, **spec: Any) -> dict[str, Any]:
        entry = {"match": [{"labels": [{"matchLabels": {label: "1"}}]}], "mutations": {"labels": {"add": {"by": by}}}}
        made = rule(by, CONFIG_MAP, entry, **spec)
        made["metadata"]["annotations"] = {SYNC_DISABLED: "true"}
        return made

    async def scenario(group: SimGroup) -> None:
        here, owner = group["a"], group["b"]
        await group.join()
        owner.create({"kind": "ClusterFeature", "metadata": {"name": "f"}, "spec": {"featureName": "f"}})
        owner.create(config_map("one", {"a": "1"}, labels={"for-older": "1", "for-younger": "1"}))
        chosen: dict[str, Any] = {"clusters": {"targetClusters": {"names": ["a"]}},
                                  "features": {"clusterFeatureMatch": [{"featureName": "f"}]}}[asks_for]  # fmt: skip
        here.create(wants("for-older", "older", **chosen), born="2025-01-01T00:00:00Z")
        await group.settle()
        here.create(wants("for-younger", "younger"), born="2025-01-02T00:00:00Z")
        await group.settle()
        copies: list[str] = []
        here.server.store.listeners.append(
            lambda change: (
                copies.append(change.new["metadata"]["labels"]["by"])
                if change.kind.kind == "ConfigMap" and change.new is not None
                else None
            )
        )
        if asks_for == "features":
            owner.server.unreadable.add("ClusterFeature")
            await here.restart()
        else:
            here.create({**here.get("Cluster", "a"), "metadata": {"name": "again"}})
        await asyncio.sleep(100.0)
        assert copies == []
        if not is_for_us and asks_for == "features":
            owner.delete("ClusterFeature", "f")
        elif not is_for_us:
            held = here.get("ResourceSyncRule", "older")
            here.apply({**held, "spec": {**held["spec"], "targetClusters": {"names": ["b"]}}})
        owner.server.unreadable.clear()
        if asks_for == "clusters":
            here.delete("Cluster", "again")
        await group.settle()
        assert copies == ([] if is_for_us else ["younger"])

    simulate(scenario, n=2)


@pytest.mark.parametrize("goes", ["deleted", "for others"])
def test_a_copy_that_another_rule_wants_stays_the_same_object_when_its_rule_goes(goes: str) -> None:
    """W3, W2: whoever is asked afresh what it offers has not said yet that it offers nothing."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        here = group["a"]
        for name, born in (("older", "2025-01-01T00:00:00Z"), ("younger", "2025-01-02T00:00:00Z")):
            made = rule(name, CONFIG_MAP, {"match": [{"labels": [{"matchLabels": LABELS}]}]}, deletionPolicy="Delete")
            made["metadata"]["annotations"] = {SYNC_DISABLED: "true"}
            here.create(made, born=born)
        group["b"].create(config_map("one", {"a": "1"}, labels=LABELS))
        await group.settle()
        before = here.get("ConfigMap", "one", namespace="default")["metadata"]
        if goes == "deleted":
            here.delete("ResourceSyncRule", "older")
        else:
            held = here.get("ResourceSyncRule", "older")
            here.apply({**held, "spec": {**held["spec"], "targetClusters": {"names": ["somebody-else"]}}})
        await group.settle()
        assert here.get("ConfigMap", "one", namespace="default")["metadata"]["uid"] == before["uid"]
        assert "delete" not in [write.verb for write in here.writes if write.kind == "ConfigMap"]

    simulate(scenario, n=2)


@pytest.mark.parametrize("restarted", [False, True], ids=["up", "restarted"])
def test_a_rule_is_gone_where_another_ones_of_its_name_took_its_place(restarted: bool) -> None:
    """W3, O3: what its owner holds under its name is a copy by now, which says that its own is deleted."""

    def wants(label: str) -> dict[str, Any]:
        made = rule("many", CONFIG_MAP, {"match": [{"labels": [{"matchLabels": {"for": label}}]}]})
        made["spec"]["deletionPolicy"] = "Delete"
        return made

    async def scenario(group: SimGroup) -> None:
        here, owner, heir = group["a"], group["b"], group["c"]
        await group.join()
        owner.create(wants("b"), born="2025-01-01T00:00:00Z")
        owner.create(config_map("one", {}, labels={"for": "b"}))
        await group.settle()
        assert here.find("ConfigMap", "one", namespace="default") is not None
        group.wire("a", "c").set(Fault.REFUSED)
        if restarted:
            await here.stop()
        heir.delete("ResourceSyncRule", "many")
        heir.create(wants("c"), born="2025-01-02T00:00:00Z")
        await group.settle()
        owner.delete("ResourceSyncRule", "many")
        await group.settle()
        assert owner.get("ResourceSyncRule", "many")["metadata"]["annotations"][OWNER] == heir.id
        if restarted:
            here.start()
            await group.settle()
        assert here.find("ResourceSyncRule", "many") is None
        assert here.find("ConfigMap", "one", namespace="default") is None

    simulate(scenario, n=3)


@pytest.mark.parametrize("restarted", [False, True], ids=["up", "restarted"])
def test_anothers_copy_in_the_place_of_a_source_is_none_even_if_no_rule_can_read_it(restarted: bool) -> None:
    """O3, O5, W1: that it is there proves that the owner's own object is gone, and nobody complains about it."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        a, b, c = group.members
        wanted = {"match": [{"labels": [{"matchLabels": LABELS}]}]}
        value = "{{ .Object.metadata.name }}-{{ .Object.metadata.labels.suffix }}"
        renamed = {
            **wanted,
            "mutations": {"overrides": [{"type": "replace", "path": "/metadata/name", "value": value}]},
        }
        for member, entry in ((a, renamed), (b, wanted)):
            made = rule("ours", CONFIG_MAP, entry, deletionPolicy="Delete")
            made["metadata"]["annotations"] = {SYNC_DISABLED: "true"}
            member.create(made)
        b.create(config_map("x", {"at": "b"}, labels={**LABELS, "suffix": "s"}))
        await group.settle()
        c.create(config_map("x", {"at": "c"}, labels=LABELS))
        await group.settle()
        assert a.get("ConfigMap", "x-s", namespace="default")["data"] == {"at": "b"}
        if restarted:
            await a.stop()
        b.delete("ConfigMap", "x", namespace="default")
        if restarted:
            await group.settle()
            a.start()
        await group.settle()
        assert b.get("ConfigMap", "x", namespace="default")["data"] == {"at": "c"}
        assert a.find("ConfigMap", "x-s", namespace="default") is None
        said = a.condition("ResourceSyncRule", "ours", "Synced")["message"]
        assert ("peer c: ConfigMap default/x:" in said, "peer b" in said) == (True, False), said

    simulate(scenario, n=3)


def test_what_a_copy_showed_is_known_also_after_another_had_it() -> None:
    """O3, O8: a server that answers from the past gives back no older state when the rival that took over goes."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        rivals = rule("rivals", CONFIG_MAP, {"match": [{"labels": [{"matchLabels": LABELS}]}]})
        rivals["metadata"]["annotations"] = {SYNC_DISABLED: "true"}
        group["a"].create(rivals)
        for state in ("old", "older", "new"):
            group["c"].apply(config_map("one", {"from": state}, labels=LABELS), born="2025-01-02T00:00:00Z")
            await group.settle()
            assert group["a"].get("ConfigMap", "one", namespace="default")["data"] == {"from": state}
        wire = group.wire("a", "c")
        wire.lag, wire.behind_s = 1, 120.0
        await group["a"].restart()
        await asyncio.sleep(20.0)
        group["b"].create(config_map("one", {"from": "b"}, labels=LABELS), born="2025-01-01T00:00:00Z")
        await asyncio.sleep(20.0)
        assert group["a"].get("ConfigMap", "one", namespace="default")["data"] == {"from": "b"}
        seen = []
        group["a"].server.store.listeners.append(lambda change: seen.append((change.new or {}).get("data")))
        group["b"].delete("ConfigMap", "one", namespace="default")
        await asyncio.sleep(20.0)
        assert group["a"].get("ConfigMap", "one", namespace="default")["data"] in ({"from": "b"}, {"from": "new"})
        wire.lag = 0
        wire.cut()
        await group.settle()
        assert group["a"].get("ConfigMap", "one", namespace="default")["data"] == {"from": "new"}
        assert {"from": "old"} not in seen
        assert {"from": "older"} not in seen

    simulate(scenario, n=3)


@pytest.mark.parametrize("restarted", [False, True], ids=["up", "restarted"])
def test_an_older_source_that_stays_at_home_leaves_its_place_to_the_next_of_its_owner(restarted: bool) -> None:
    """W5, O8: two sources of one owner meet at one place; the one that is not to be synced has no say in it."""
    entry = {"match": [{"labels": [{"matchLabels": LABELS}]}]}
    entry["mutations"] = {"overrides": [{"type": "replace", "path": "/metadata/namespace", "value": "default"}]}

    def source(namespace: str, *, disabled: bool) -> dict[str, Any]:
        marks = {"annotations": {SYNC_DISABLED: "true"}} if disabled else {}
        return config_map("one", {"from": namespace}, namespace=namespace, labels=LABELS, **marks)

    async def scenario(group: SimGroup) -> None:
        here, owner = group["a"], group["b"]
        await group.join()
        here.create(rule("gather", CONFIG_MAP, entry))
        owner.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
        owner.create(source("team", disabled=True), born="2025-01-01T00:00:00Z")
        await group.settle()
        assert here.find("ConfigMap", "one", namespace="default") is None
        owner.create(source("default", disabled=False), born="2025-01-02T00:00:00Z")
        await group.settle()
        if restarted:
            await here.restart()
            await group.settle()
        assert here.get("ConfigMap", "one", namespace="default")["data"] == {"from": "default"}
        owner.delete("ConfigMap", "one", namespace="default")
        await group.settle()
        assert here.find("ConfigMap", "one", namespace="default") is None

    simulate(scenario, n=3)


def test_two_objects_of_one_owner_at_one_place_are_a_conflict_of_their_rule() -> None:
    """O8, S1: the older one comes, the rule says which other one does not, and that one comes when the first goes."""
    entry = {"match": [{"labels": [{"matchLabels": LABELS}]}]}
    entry["mutations"] = {"overrides": [{"type": "replace", "path": "/metadata/namespace", "value": "default"}]}

    async def scenario(group: SimGroup) -> None:
        here, owner = group["a"], group["b"]
        await group.join()
        here.create(rule("rivals", CONFIG_MAP, entry))
        owner.create({"kind": "Namespace", "metadata": {"name": "team"}})
        for number, namespace in ((2, "default"), (1, "team")):
            made = config_map("one", {"from": namespace}, namespace=namespace, labels=LABELS)
            owner.create(made, born=f"2025-01-0{number}T00:00:00Z")
            await group.settle()
        assert here.get("ConfigMap", "one", namespace="default")["data"] == {"from": "team"}
        found = _entry(group, "b")
        assert (found["matched"], found["synced"], found["conflicting"]) == (2, 1, 1)
        assert found["failures"][0]["message"].startswith("ConfigMap team/one, of cluster")
        assert here.condition("ResourceSyncRule", "rivals", "Synced")["reason"] == "Conflict"
        owner.delete("ConfigMap", "one", namespace="team")
        await group.settle()
        assert here.get("ConfigMap", "one", namespace="default")["data"] == {"from": "default"}
        assert (_entry(group, "b")["synced"], _entry(group, "b")["conflicting"]) == (1, 0)

    simulate(scenario, n=2)
