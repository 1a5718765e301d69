"""A mark that was passed on is no mark: it binds to the object, and to the cluster, that it names. O8, O9, O11, A5."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from registry_controller.api.meta import GO_LAST_APPLIED, OWNER, PROVENANCE, SYNC_DISABLED
from tests.original_marks import last_applied
from tests.sim.cluster.group import CONFIG_MAP, SimGroup, config_map, rule, simulate
from tests.sim.cluster.member import Member
from tests.sim.cluster.refusal import Refusal
from tests.sim.cluster.store import Change

LABELS = {"sync": "yes"}
STRANGER = "99999999-9999-4999-8999-999999999999"
ALL = {"match": [{"labels": [{"matchLabels": LABELS}]}]}
_NEVER = {"match": [{"content": [{"key": "data.a", "value": "another"}]}]}


def _rule(**spec: Any) -> dict[str, Any]:
    """Write a rule that stays in its cluster."""
    made = rule("maps", CONFIG_MAP, ALL, **spec)
    made["metadata"]["annotations"] = {SYNC_DISABLED: "true"}
    return made


async def _copied(group: SimGroup, *, policy: str = "Delete", at: str = "a") -> dict[str, Any]:
    """Let a hold a copy `base` of b's object, by a's own rule."""
    await group.join()
    group[at].create(_rule(deletionPolicy=policy))
    group["b"].create(config_map("base", {"a": "1"}, labels=LABELS))
    await group.settle()
    copy = _find(group[at], "base")
    assert copy is not None
    return copy


def _find(member: Member, name: str) -> dict[str, Any] | None:
    return member.find("ConfigMap", name, namespace="default")


def _again(manifest: dict[str, Any], name: str, **marks: str | None) -> dict[str, Any]:
    """Write an object as a person does who has read another one: without what belongs to that one alone."""
    info = manifest["metadata"]
    annotations = {key: text for key, text in ((info.get("annotations") or {}) | marks).items() if text is not None}
    kept = {"name": name, "namespace": info["namespace"], "labels": info["labels"], "annotations": annotations}
    return {**{key: value for key, value in manifest.items() if key != "metadata"}, "metadata": kept}


def _by_sed(manifest: dict[str, Any], old: str, new: str) -> dict[str, Any]:
    """Rename an object in its text, as sed does: the first on each line, its annotations among them."""
    texts = {key: text.replace(old, new, 1) for key, text in manifest["metadata"]["annotations"].items()}
    return _again(manifest, new, **texts)


RENAMED: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "in a field": lambda copy: _again(copy, "mine"),
    "in the text": lambda copy: _by_sed(copy, "base", "mine"),
    "in the whole text": lambda copy: json.loads(json.dumps(_again(copy, "base")).replace("base", "mine")),
}


@pytest.mark.parametrize("where", ["a", "c"])
@pytest.mark.parametrize("how", RENAMED)
def test_a_copy_that_is_read_renamed_and_created_is_that_persons_own(how: str, where: str) -> None:
    """O1, O11: here and elsewhere it stays, whatever happens to the source, and it is that cluster's for all others."""

    async def scenario(group: SimGroup) -> None:
        copy = await _copied(group)
        mine = group[where].create(RENAMED[how](copy))
        await group.settle()
        group["b"].apply(config_map("base", {"a": "2"}, labels=LABELS))
        await group.settle()
        for member in (group["a"], group["c"]):
            await member.restart()
        group["b"].delete("ConfigMap", "base", namespace="default")
        await group.settle()
        assert _find(group["a"], "base") is None
        found = _find(group[where], "mine")
        assert found is not None
        assert (found["metadata"]["uid"], found["data"]) == (mine["metadata"]["uid"], {"a": "1"})
        assert not [write for write in group[where].writes if write.key.name == "mine"]
        if where == "c":
            taken = _find(group["a"], "mine")
            assert taken is not None
            assert taken["metadata"]["annotations"][OWNER] == group["c"].id

    simulate(scenario, n=3)


def test_a_copy_that_is_restored_in_its_own_cluster_is_a_copy() -> None:
    """O11: it follows its owner, and goes with its source, also when that went before it was restored."""

    async def scenario(group: SimGroup) -> None:
        copy = await _copied(group)
        here, owner = group["a"], group["b"]
        await here.stop()
        here.replace_by_force(_again(copy, "base"))
        here.start()
        owner.apply(config_map("base", {"a": "2"}, labels=LABELS))
        await group.settle()
        found = _find(here, "base")
        assert found is not None
        assert found["data"] == {"a": "2"}
        owner.delete("ConfigMap", "base", namespace="default")
        await group.settle()
        here.create(_again(copy, "base"))
        await group.settle()
        assert _find(here, "base") is None

    simulate(scenario, n=2)


def test_a_copy_that_was_made_in_another_cluster_is_taken_over_when_its_owner_offers_it() -> None:
    """O11: and is left for ever otherwise, for no other source and by no rule either."""

    async def scenario(group: SimGroup) -> None:
        copy = await _copied(group)
        owner, there = group["b"], group["c"]
        brought = there.create(_again(copy, "base"))
        await group.settle()
        assert not [write for write in there.writes if write.key.name == "base"]
        there.create(_rule(deletionPolicy="Delete"))
        await group.settle()
        found = _find(there, "base")
        assert found is not None
        assert found["metadata"]["uid"] == brought["metadata"]["uid"]
        assert json.loads(found["metadata"]["annotations"][PROVENANCE])["copy"]["cluster"] == there.id
        owner.delete("ConfigMap", "base", namespace="default")
        await group.settle()
        assert _find(there, "base") is None
        left = there.create(_again(copy, "base"))
        await group.settle()
        await there.restart()
        await group.settle()
        found = _find(there, "base")
        assert found is not None
        assert found["metadata"]["resourceVersion"] == left["metadata"]["resourceVersion"]

    simulate(scenario, n=3)


@pytest.mark.parametrize("is_known", [True, False])
def test_a_provenance_that_names_no_cluster_is_of_this_one(is_known: bool) -> None:
    """O11: as earlier versions wrote it. No copy is written for that, and each is as much a copy as before."""

    async def scenario(group: SimGroup) -> None:
        copy = await _copied(group)
        here, owner = group["a"], group["b"]
        said = json.loads(copy["metadata"]["annotations"][PROVENANCE])
        for name in ("cluster", "digest"):
            del said["copy"][name]
        text = json.dumps(said, sort_keys=True, separators=(",", ":"))
        await here.stop()
        old = here.replace(_again(copy, "base", **{PROVENANCE: text}))
        here.start()
        await group.settle()
        found = _find(here, "base")
        assert found is not None
        assert found["metadata"]["resourceVersion"] == old["metadata"]["resourceVersion"]
        if is_known:
            owner.apply(config_map("base", {"a": "2"}, labels=LABELS))
            await group.settle()
            found = _find(here, "base")
            assert found is not None
            assert json.loads(found["metadata"]["annotations"][PROVENANCE])["copy"]["cluster"] == here.id
        owner.delete("ConfigMap", "base", namespace="default")
        await group.settle()
        assert _find(here, "base") is None

    simulate(scenario, n=2)


def _marked(owner: str, **more: str) -> dict[str, Any]:
    return config_map("base", {"a": "old"}, labels=LABELS, annotations={OWNER: owner, **more})


NAMES: dict[str, dict[str, Any] | None] = {
    "itself": {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "base", "namespace": "default"}},
    "itself without kind": {"metadata": {"name": "base", "namespace": "default"}},
    "another name": {"metadata": {"name": "other", "namespace": "default"}},
    "another namespace": {"metadata": {"name": "base", "namespace": "team"}},
    "another kind": {"kind": "Secret", "metadata": {"name": "base", "namespace": "default"}},
    "another group": {"apiVersion": "x.y/v1", "metadata": {"name": "base", "namespace": "default"}},
    "too large": {"metadata": {"name": "base", "namespace": "default"}, "data": {"a": "x" * 2**20}},
    "nothing": None,
}


@pytest.mark.parametrize("what", NAMES)
def test_what_the_original_marked_is_bound_by_the_object_that_it_wrote(what: str) -> None:
    """O10, O11: its owner does not have it any more. What names another object, or nothing, is native."""

    async def scenario(group: SimGroup) -> None:
        here, named = group["a"], NAMES[what]
        more = {GO_LAST_APPLIED: last_applied(named)} if named is not None else {}
        here.create(_marked(group["b"].id, **more))
        here.create(rule("maps", CONFIG_MAP, {}))
        await group.join()
        await group.settle()
        assert (_find(here, "base") is None) is what.startswith("itself")

    simulate(scenario, n=2)


@pytest.mark.parametrize("what", NAMES)
def test_what_the_original_marked_is_bound_by_its_owners_object(what: str) -> None:
    """O10, O11: unless it names another object. Then it is native, and its owner's object does not replace it."""

    async def scenario(group: SimGroup) -> None:
        here, owner, named = group["a"], group["b"], NAMES[what]
        more = {GO_LAST_APPLIED: last_applied(named)} if named is not None else {}
        before = here.create(_marked(owner.id, **more))
        owner.create(config_map("base", {"a": "new"}, labels=LABELS))
        here.create(_rule())
        await group.join()
        await group.settle()
        found = _find(here, "base")
        assert found is not None
        assert found["metadata"]["uid"] == before["metadata"]["uid"]
        assert (found["data"] == {"a": "new"}) is not what.startswith("another")
        assert (PROVENANCE in found["metadata"]["annotations"]) is not what.startswith("another")
        owner.delete("ConfigMap", "base", namespace="default")
        await group.settle()
        assert (_find(here, "base") is None) is not what.startswith("another")

    simulate(scenario, n=2)


_UNMET: dict[str, dict[str, Any]] = {"its writes are refused": ALL, "its rule does not match": _NEVER}
"""What the rule asks for where an object with a bare mark cannot be taken over."""


@pytest.mark.parametrize("policy", ["Orphan", "Delete"])
@pytest.mark.parametrize("why", _UNMET)
@pytest.mark.parametrize("had_it", [True, False])
def test_a_bare_mark_is_bound_for_good_once_its_owner_was_seen_to_have_the_object(
    had_it: bool, why: str, policy: str
) -> None:
    """O11, W3: it was never taken over, and goes with its source; where its owner never had one, it stays for ever."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        here, owner = group["a"], group["b"]
        before = here.create(_marked(owner.id))
        if why == "its writes are refused":
            here.server.refused["ConfigMap base"] = Refusal(403, "Forbidden", "denied by a policy of this cluster")
        if had_it:
            owner.create(config_map("base", {"a": "new"}, labels=LABELS))
        owner.create(config_map("other", {"a": "new"}, labels=LABELS))
        here.create(rule("maps", CONFIG_MAP, _UNMET[why], deletionPolicy=policy))
        await asyncio.sleep(120.0)
        assert _find(here, "base") == before
        owner.delete("ConfigMap", "other", namespace="default")
        await asyncio.sleep(120.0)
        assert _find(here, "base") == before
        if had_it:
            owner.delete("ConfigMap", "base", namespace="default")
        if had_it and why == "its writes are refused":
            await asyncio.sleep(30.0)
        else:
            await asyncio.sleep(4000.0)  # everything is looked at again once an hour
        if not had_it:
            await here.restart()
            await group.settle()
        assert _find(here, "base") == (None if had_it else before)
        touched = [write.verb for write in here.writes if write.key.name == "base" and write.changed]
        assert touched == (["delete"] if had_it else [])

    simulate(scenario, n=2)


def test_a_provenance_beside_the_originals_annotation_counts_nothing() -> None:
    """O10, O11: the original copied it with the object that it took from here."""

    async def scenario(group: SimGroup) -> None:
        copy = await _copied(group)
        here = group["a"]
        await here.stop()
        named = last_applied({"metadata": {"name": "kept", "namespace": "default"}})
        here.create(_again(copy, "kept", **{GO_LAST_APPLIED: named}))
        here.start()
        await group.settle()
        assert _find(here, "kept") is None

    simulate(scenario, n=2)


@pytest.mark.parametrize("is_bound", [True, False])
def test_the_copy_of_an_unknown_cluster_is_replaced_where_its_mark_is_bound(is_bound: bool) -> None:
    """O1, O9, O11: an object with a mark that names nothing stays, and is no copy."""

    async def scenario(group: SimGroup) -> None:
        here, owner = group["a"], group["b"]
        named = last_applied({"metadata": {"name": "base", "namespace": "default"}})
        before = here.create(_marked(STRANGER, **({GO_LAST_APPLIED: named} if is_bound else {})))
        owner.create(config_map("base", {"a": "b"}, labels=LABELS))
        here.create(_rule())
        group["c"].create(_rule())
        await group.join()
        await group.settle()
        found = _find(here, "base")
        assert found is not None
        assert found["metadata"]["uid"] == before["metadata"]["uid"]
        assert found["data"] == {"a": "b" if is_bound else "old"}

    simulate(scenario, n=3)


def test_what_carries_a_mark_that_nothing_binds_is_no_source_until_the_mark_is_taken_off() -> None:
    """O3, O11: only a person can say whose it is."""

    async def scenario(group: SimGroup) -> None:
        there = group["b"]
        for name, owner in (("of-nobody", STRANGER), ("of-c", group["c"].id)):
            there.create({**_marked(owner), "metadata": {**_marked(owner)["metadata"], "name": name}})
        group["a"].create(_rule())
        await group.join()
        await group.settle()
        for name in ("of-nobody", "of-c"):
            assert _find(group["a"], name) is None
            there.replace(config_map(name, {"a": "old"}, labels=LABELS))
        await group.settle()
        for name in ("of-nobody", "of-c"):
            found = _find(group["a"], name)
            assert found is not None, name
            assert found["metadata"]["annotations"][OWNER] == there.id

    simulate(scenario, n=3)


def _mirror(member: Member) -> None:
    """Keep, as a controller does, an object made from `base`, with its annotations and labels."""

    def make() -> None:
        base = _find(member, "base")
        if base is not None and _find(member, "base-mirror") is None:
            made = _again(base, "base-mirror")
            by = {"apiVersion": "v1", "kind": "ConfigMap", "name": "base", "uid": base["metadata"]["uid"]}
            made["metadata"]["ownerReferences"] = [{**by, "controller": True}]
            member.create(made)

    def hear(change: Change) -> None:
        if change.kind.kind == "ConfigMap" and change.key.name.startswith("base"):
            asyncio.get_running_loop().call_later(0.05, make)

    member.server.store.listeners.append(hear)


def _renaming(suffix: str) -> dict[str, Any]:
    """Write a rule whose copies get other names: no object of this cluster is in their places."""
    override = {"type": "replace", "path": "/metadata/name", "value": f"{{{{ .Object.GetName }}}}{suffix}"}
    made = rule("renaming", CONFIG_MAP, {**ALL, "mutations": {"overrides": [override]}})
    made["metadata"]["annotations"] = {SYNC_DISABLED: "true"}
    return made


def test_what_a_controller_makes_from_a_copy_is_neither_deleted_nor_copied() -> None:
    """O1, O11, W7: each cluster's own controller makes it. It goes with the copy, by Kubernetes' own doing."""

    async def scenario(group: SimGroup) -> None:
        for name in ("a", "c"):
            _mirror(group[name])
        group["c"].create(_rule(deletionPolicy="Delete"))
        group["d"].create(_renaming("-seen"))
        await _copied(group)
        group["a"].create(config_map("own-mirror", {"a": "1"}, labels=LABELS))
        await group.settle()
        assert _find(group["b"], "base-mirror") is None
        seen = {found["metadata"]["name"] for found in group["d"].list("ConfigMap", namespace="default")}
        assert seen == {"base-seen", "own-mirror-seen"}
        for name in ("a", "c"):
            found = _find(group[name], "base-mirror")
            assert found is not None
            assert found["metadata"]["annotations"][OWNER] == group["b"].id
            assert not [write for write in group[name].writes if write.key.name == "base-mirror"]
        group["b"].delete("ConfigMap", "base", namespace="default")
        await group.settle()
        for name in ("a", "c"):
            assert _find(group[name], "base-mirror") is None
            assert not [write for write in group[name].writes if write.key.name == "base-mirror"]

    simulate(scenario, n=4)


@pytest.mark.clause("O11")
def test_a_copy_that_is_applied_over_its_own_source_leaves_that_a_source() -> None:
    """A controller owns the source, as cert-manager does its Secrets; the marks name the cluster that has it."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        here, owner = group["a"], group["b"]
        here.create(_rule(deletionPolicy="Delete"))
        root = owner.create(config_map("root", {}))
        by = {"apiVersion": "v1", "kind": "ConfigMap", "name": "root", "uid": root["metadata"]["uid"]}
        owned = {"labels": LABELS, "ownerReferences": [{**by, "controller": True}]}
        owner.create(config_map("base", {"a": "1"}, **owned))
        await group.settle()
        copy = _find(here, "base")
        assert copy is not None
        owner.apply(_again(copy, "base"))
        await group.settle()
        assert _find(here, "base") is not None
        owner.apply(config_map("base", {"a": "2"}, labels=LABELS))
        await group.settle()
        assert here.get("ConfigMap", "base", namespace="default")["data"] == {"a": "2"}
        owner.delete("ConfigMap", "base", namespace="default")
        await group.settle()
        assert _find(here, "base") is None

    simulate(scenario, n=2)


def test_what_somebody_keeps_making_again_is_deleted_once_a_minute_and_said() -> None:
    """A5: after its source is gone, a copy comes back again and again, as from a backup or a repository."""

    async def scenario(group: SimGroup) -> None:
        copy = await _copied(group)
        here, owner = group["a"], group["b"]
        is_fighting = True

        def undo(change: Change) -> None:
            if is_fighting and change.new is None and change.key.name == "base":
                asyncio.get_running_loop().call_later(0.01, here.create, _again(copy, "base"))

        here.server.store.listeners.append(undo)
        before = len(here.writes)
        owner.delete("ConfigMap", "base", namespace="default")
        await asyncio.sleep(300)
        deletions = [write for write in here.writes[before:] if write.kind == "ConfigMap" and write.verb == "delete"]
        assert 5 <= len(deletions) <= 12, len(deletions)
        words = here.condition("ResourceSyncRule", "maps", "Synced")
        assert (words["status"], words["reason"]) == ("False", "Failing")
        assert "kubectl keeps making it again here; it is deleted once a minute" in words["message"]
        is_fighting = False
        await asyncio.sleep(150)
        assert _find(here, "base") is None
        assert here.condition("ResourceSyncRule", "maps", "Synced")["status"] == "True"
        owner.create(config_map("base", {"a": "3"}, labels=LABELS))
        await asyncio.sleep(2)
        assert _find(here, "base") is not None
        owner.delete("ConfigMap", "base", namespace="default")
        await asyncio.sleep(5)
        assert _find(here, "base") is None

    simulate(scenario, n=2)


def test_of_two_equally_old_objects_the_one_that_a_daemon_wrote_loses() -> None:
    """O8: somebody takes the marks off a copy. It was made in the same second as its source, in a cluster of any ID."""

    async def scenario(group: SimGroup) -> None:
        low, high = sorted((group["a"], group["b"]), key=lambda member: member.id)
        await group.join()
        low.create(_rule())
        high.create(config_map("base", {"from": "a daemon"}, labels=LABELS))
        await group.settle()
        copy = _find(low, "base")
        assert copy is not None
        native = low.replace({**copy, "metadata": {**copy["metadata"], "annotations": {}, "labels": LABELS}})
        assert "registry-controller" in {entry["manager"] for entry in native["metadata"]["managedFields"]}
        born = native["metadata"]["creationTimestamp"]
        high.replace_by_force(config_map("base", {"from": "its author"}, labels=LABELS), born=born)
        group["c"].create(_rule())
        await group.settle()
        found = _find(group["c"], "base")
        assert found is not None
        assert found["metadata"]["annotations"][OWNER] == high.id

    simulate(scenario, n=3)
