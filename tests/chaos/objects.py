"""Faults of what is copied and of where it goes: 13, 14, 15, 16, 20, 26."""

from __future__ import annotations

import contextlib
import random
import time
from typing import Any

from tests.chaos.bed import Site, wait
from tests.chaos.catalogue import fault
from tests.chaos.making import OWNER, PROVENANCE
from tests.chaos.play import Play
from tests.chaos.servers import refused
from tests.chaos.workload import MERGE, WANTED, path_of, work_rule

_RULES = "/apis/clusterregistry.k8s.cisco.com/v1alpha1/resourcesyncrules"


def moving_rule(name: str, *, namespace: str, label: str) -> dict[str, Any]:
    """A rule that puts ConfigMaps with a label of their own into another namespace."""
    rule = work_rule(name, "ConfigMap")
    rule["spec"]["rules"] = [
        {
            "match": [{"labels": [{"matchLabels": {"move": label}}]}],
            "mutations": {"overrides": [{"type": "replace", "path": "/metadata/namespace", "value": namespace}]},
        }
    ]
    return rule


def put_labelled(play: Play, site: Site, name: str, label: str) -> None:
    """Make a ConfigMap for a moving rule, or change it."""
    data = {"n": play.work.number()}
    if site.write("PATCH", path_of("cm", name), {"data": data}, content_type=MERGE) is None:
        info = {"name": name, "labels": {"move": label}}
        site.write("POST", path_of("cm"), {"apiVersion": "v1", "kind": "ConfigMap", "metadata": info, "data": data})


def holds(site: Site, name: str, namespace: str = "default") -> bool:
    """Whether a ConfigMap is there."""
    return site.cluster.api.missing(path_of("cm", name, namespace)) is None


@fault(
    13,
    "large-objects",
    what="objects of 1 MB, with 250 KB of annotations, with 10,000 keys, and all of them changed and "
    "deleted; one is so full that its copy's marks do not fit any more",
    undone="they are deleted",
)
def large_objects(play: Play) -> None:
    site, others = play.sites[1], [play.sites[0], play.sites[2]]
    manifests: dict[str, dict[str, Any]] = {
        "big-data": {"data": {"n": play.work.number(), "big": "x" * 1_000_000}},
        "big-notes": {"data": {"n": play.work.number()}, "notes": {f"note-{i}": "x" * 2000 for i in range(125)}},
        "big-keys": {"data": {"n": play.work.number()} | {f"key-{i}": str(i) for i in range(10_000)}},
        "too-big": {"data": {"n": play.work.number()}, "notes": {f"note-{i}": "x" * 2005 for i in range(130)}},
    }
    for name, content in manifests.items():
        info = {"name": name, "labels": WANTED, "annotations": content.pop("notes", {})}
        made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": info, **content}
        assert site.write("POST", path_of("cm"), made, timeout_s=20) is not None, name
    fitting = [name for name in manifests if name != "too-big"]
    wait(lambda: all(holds(one, name) for one in others for name in fitting), within_s=60, what="large copies")
    play.bite("large copies that arrived", len(others) * len(fitting))
    for name in fitting:
        play.work.put(site, name, "cm")
    with play.working():
        time.sleep(5)
    assert not any(holds(one, "too-big") for one in others), "its marks cannot have fitted"
    play.work.delete(site, "too-big", "cm")
    play.rest()
    for name in fitting:
        play.work.delete(site, name, "cm")


@fault(
    14,
    "three-owners",
    what="three owners offer one name to a fourth cluster, and to each other in another namespace; the "
    "winner deletes and makes it again, in turn",
    undone="all delete it",
    size=4,
)
def three_owners(play: Play) -> None:
    target, *owners = play.sites
    target.apply(moving_rule("merged", namespace="merged", label="merged"))
    for site in play.sites:
        site.kubectl("create", "namespace", "merged")
    changes = 0
    for owner in owners:
        put_labelled(play, owner, "one", "merged")
        time.sleep(1.1)  # the older object wins, by seconds
    play.rest()
    for _ in range(2):
        for owner in owners:
            before = owner_at(target)
            owner.write("DELETE", path_of("cm", "one"))
            wait(lambda before=before: owner_at(target) not in ("", before), within_s=30)
            changes += 1
            put_labelled(play, owner, "one", "merged")
            for other in owners:
                put_labelled(play, other, "one", "merged")
            time.sleep(1.1)
            play.rest(steady_s=0.5)
    play.bite("times that another owner took over", changes)
    for owner in owners:
        owner.write("DELETE", path_of("cm", "one"))
    play.rest()
    target.write("DELETE", f"{_RULES}/merged")


def owner_at(site: Site) -> str:
    """Whose copy lies in the namespace where all owners meet; empty for none."""
    with contextlib.suppress(Exception):
        found = site.cluster.api.get(path_of("cm", "one", "merged"))
        return str((found["metadata"].get("annotations") or {}).get(OWNER, ""))
    return ""


@fault(
    15,
    "flapping-rules",
    what="120 objects come while their rule is edited, loses its match and gets it back, is deleted and "
    "made again, every 0.4 s for 30 s, at two clusters at once",
    undone="the rule is as before",
)
def flapping_rules(play: Play) -> None:
    chance = random.Random(15)
    owner = play.sites[1]
    flaps = 0
    with play.working(pause_s=0.05, gentle=True):
        until = time.monotonic() + 30
        number = 0
        while time.monotonic() < until:
            for _ in range(3):
                play.work.put(owner, f"bulk-{number % 120}", "cm")
                number += 1
            deed = chance.randrange(4)
            if deed == 0:
                play.work.edit_rule(label="nothing")
            elif deed == 1:
                play.sites[0].write("DELETE", f"{_RULES}/work")
                play.sites[0].write("POST", _RULES, work_rule("work", "ConfigMap"))
            elif deed == 2:
                rule = work_rule("work", "ConfigMap", text="elsewhere")["spec"]
                play.sites[2].write("PATCH", f"{_RULES}/work", {"spec": rule}, content_type=MERGE)
            else:
                play.work.edit_rule()
            flaps += 1
            time.sleep(0.4)
        play.work.edit_rule(text="settled")
    play.bite("edits of the rule", flaps)
    play.rest()
    for number in range(120):
        play.work.delete(owner, f"bulk-{number}", "cm")


@fault(
    16,
    "namespaces",
    what="copies go to a namespace that is missing, comes, is deleted, hangs while it goes for 6 s, and comes again",
    undone="the namespace is there, then the rule goes",
    within_s=120,
)
def namespaces(play: Play) -> None:
    taker, owner, _ = play.sites
    since = taker.cluster.audit_offset()
    taker.apply(moving_rule("later", namespace="later", label="later"))
    for number in range(4):
        put_labelled(play, owner, f"later-{number}", "later")
    time.sleep(3)
    waiting = sum(not holds(taker, f"later-{number}", "later") for number in range(4))
    play.bite("copies that waited for their namespace", waiting)
    for site in play.sites:
        site.kubectl("create", "namespace", "later")
    wait(lambda: all(holds(taker, f"later-{number}", "later") for number in range(4)), within_s=30)
    stays = {"name": "stays", "finalizers": ["example.test/stays"]}
    taker.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {**stays, "namespace": "later"}})
    with play.working():
        taker.kubectl("delete", "namespace", "later", "--wait=false")
        time.sleep(1)
        put_labelled(play, owner, "later-0", "later")
        put_labelled(play, owner, "later-9", "later")
        time.sleep(5)
        body = {"metadata": {"finalizers": None}}
        taker.write("PATCH", path_of("cm", "stays", "later"), body, content_type=MERGE)
        path = "/api/v1/namespaces/later"
        wait(lambda: taker.cluster.api.missing(path) is not None, within_s=40, what="the end of the namespace")
        time.sleep(1)
        taker.kubectl("create", "namespace", "later")
    play.rest(within_s=100)
    assert holds(taker, "later-9", "later")
    play.say(f"{refused(taker, since, 403, 404)} requests were refused")
    for number in (0, 1, 2, 3, 9):
        owner.write("DELETE", path_of("cm", f"later-{number}"))
    play.rest()
    taker.write("DELETE", f"{_RULES}/later")


@fault(
    20,
    "quota",
    what="a quota of the namespace lets no ConfigMap in for 15 s, in one cluster",
    undone="the quota is deleted",
)
def quota(play: Play) -> None:
    taker, owner, _ = play.sites
    since = taker.cluster.audit_offset()
    path = "/api/v1/namespaces/default/resourcequotas"
    hard = {"count/configmaps": "1"}
    made = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"}, "spec": {"hard": hard}}
    taker.write("POST", path, made)
    # No controller counts here: what it would have counted is written by hand.
    taker.write("PATCH", f"{path}/none/status", {"status": {"hard": hard, "used": {"count/configmaps": "1"}}},
                content_type=MERGE)  # fmt: skip
    with play.working():
        for number in range(5):
            play.work.put(owner, f"beyond-{number}", "cm")
        time.sleep(15)
        assert not holds(taker, "beyond-0")
        taker.write("DELETE", f"{path}/none")
    play.bite("writes that the quota refused", refused(taker, since, 403, words="quota"))
    play.rest()
    for number in range(5):
        play.work.delete(owner, f"beyond-{number}", "cm")


@fault(
    26,
    "people",
    what="people edit, relabel, strip of one mark or both, seal, hold by finalizers, delete and replace copies for "
    "30 s",
    undone="what they hold or took over is deleted by hand",
)
def people(play: Play) -> None:
    chance = random.Random(26)
    taker, owner, _ = play.sites
    names = [f"touched-{number}" for number in range(8)]
    for name in names:
        play.work.put(owner, name, "cm")
    wait(lambda: all(holds(taker, name) for name in names), within_s=30)
    touched = 0
    deeds: list[dict[str, Any]] = [
        {"data": {"n": "edited"}}, {"data": {"n": None}}, {"data": {"more": "x"}},
        {"metadata": {"labels": {"sync": None}}}, {"metadata": {"labels": None}},
        {"metadata": {"annotations": {OWNER: None}}}, {"metadata": {"annotations": {PROVENANCE: None}}},
        {"metadata": {"annotations": {OWNER: "nobody"}}}, {"metadata": {"annotations": None}},
        {"metadata": {"finalizers": ["example.test/held"]}}, {"immutable": True},
    ]  # fmt: skip
    with play.working():
        until = time.monotonic() + 30
        while time.monotonic() < until:
            name = chance.choice(names)
            if chance.random() < 0.2:
                touched += taker.write("DELETE", path_of("cm", name)) is not None
            else:
                body = chance.choice(deeds)
                touched += taker.write("PATCH", path_of("cm", name), body, content_type=MERGE) is not None
            if chance.random() < 0.4:
                play.work.put(owner, chance.choice(names), "cm")
            time.sleep(0.15)
    play.bite("deeds on copies", touched)
    for name in names:  # what lost both its marks is the people's now, and stays so until they delete it
        taker.write("PATCH", path_of("cm", name), {"metadata": {"finalizers": None}}, content_type=MERGE)
        taker.write("DELETE", path_of("cm", name))
    play.rest()
    for name in names:
        play.work.delete(owner, name, "cm")
