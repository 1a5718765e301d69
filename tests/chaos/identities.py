"""Faults of who is who: 11, 12. Clusters with IDs, names and kubeconfigs that are not theirs."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Sequence
from typing import Any

from hack.controlplane import ApiError
from tests.chaos.bed import Site, wait
from tests.chaos.catalogue import fault
from tests.chaos.credentials import published
from tests.chaos.history import PATHS
from tests.chaos.links import count_copies
from tests.chaos.making import owner_of
from tests.chaos.play import CLUSTERS, Play
from tests.chaos.workload import MERGE
from tests.e2e.group import API, NAMESPACE
from tests.hostile.kubeconfigs import ROWS, Refused

_SECRETS = f"/api/v1/namespaces/{NAMESPACE}/secrets"
_REGISTRY_SECRET = "k8s.cisco.com/cluster-registry-secret"
_STAYS = {"cluster-registry.k8s.cisco.com/resource-sync-disabled": "true"}
_MOST_BYTES = 700_000  # a Secret holds no more than 1 MiB, and its value is spelled in base64


def _introduce(site: Site, name: str, *, cluster_id: str, data: dict[str, str], type_: str = _REGISTRY_SECRET) -> None:
    """Carry a Cluster and its Secret to a site; other members are not to learn of it."""
    secret = {"apiVersion": "v1", "kind": "Secret", "type": type_,
                  "metadata": {"name": name, "annotations": _STAYS}, "data": data}  # fmt: skip
    site.cluster.api.request("POST", _SECRETS, body=secret)
    reference = {"name": name, "namespace": NAMESPACE}
    made = {"apiVersion": API, "kind": "Cluster", "metadata": {"name": name, "annotations": _STAYS},
            "spec": {"clusterID": cluster_id, "authInfo": {"secretRef": reference}}}  # fmt: skip
    site.cluster.api.request("POST", CLUSTERS, body=made)


def _forget(site: Site, name: str) -> None:
    """Take back what was introduced."""
    for path in (f"{CLUSTERS}/{name}", f"{_SECRETS}/{name}"):
        site.write("DELETE", path)


@fault(
    11,
    "same-ids",
    what="a second Cluster with the ID of a peer, one with our own ID, and one with the name and Secret of a peer "
    "and another ID, each with a restart of the daemon and until something is said about it",
    undone="the false Clusters are deleted",
)
def same_ids(play: Play) -> None:
    one, other, third = play.sites
    with play.working():
        for name, cluster_id in (
            ("double", other.id),
            ("ourselves", one.id),
            ("mistaken", "00000000-aaaa-bbbb-cccc-0"),
        ):
            _introduce(one, name, cluster_id=cluster_id, data={"kubeconfig": published(one, third.name)})
            play.say(f"{one.name} has a Cluster {name} with ID {cluster_id}")
            time.sleep(3)
            play.kill(one)
            time.sleep(3)
            wait(lambda name=name: state_of(one, name), within_s=30, what=f"something is said about {name}")
            play.bite(f"words about the false Cluster {name}", 1)
            _forget(one, name)
            time.sleep(1)


def carry(giver: Site, taker: Site, *, called: str = "") -> bool:
    """Hand a Cluster and its Secret over, as a person does who makes them or, where they are, puts them right."""
    name = called or giver.name
    for path, parts in ((CLUSTERS, ("spec",)), (_SECRETS, ("type", "data"))):
        found = giver.cluster.api.get(f"{path}/{name}")
        body = {part: found[part] for part in parts}
        if taker.write("PATCH", f"{path}/{name}", body, content_type=MERGE) is None:
            made = {"apiVersion": found["apiVersion"], "kind": found["kind"], "metadata": {"name": name}, **body}
            taker.cluster.api.request("POST", path, body=made)
    return True


def asks_for(taker: Site, giver: Site) -> bool:
    """Say whether a Cluster tells people to carry credentials over: they were replaced while nobody listened."""
    return "carry the Secret over" in state_of(taker, giver.name)


def carry_where_asked(sites: Sequence[Site]) -> int:
    """Do what Clusters tell people to do; return how many told them."""
    asked = [(giver, taker) for taker in sites for giver in sites if giver is not taker and asks_for(taker, giver)]
    return sum(carry(giver, taker) for giver, taker in asked)


@fault(
    11,
    "same-names",
    what="a fourth cluster bears the name of a member, and a person puts its Cluster and Secret in that member's "
    "place at another one, which the fourth is told of, for 15 s with a restart of the daemon: all keep whom they know",
    undone="the member's own are put back, and the fourth's daemon ends",
)
def same_names(play: Play) -> None:
    one, other, third = play.sites
    with play.working(gentle=True):
        twin = play.bed.stranger(called=other.name)
        play.watch(twin)
        wait(lambda: carry(twin, third, called=other.name), within_s=60, what="credentials to carry")
        wait(lambda: carry(third, twin), within_s=60)
        play.say(f"{third.name} takes {twin.name} for {other.name}")
        path = f"{CLUSTERS}/{other.name}"
        wait(lambda: "True" in _condition(third.cluster.api.get(path), "Ready"), within_s=60, what="it is read")
        before = count_copies(play, third)
        time.sleep(5)
        play.kill(third)
        time.sleep(10)
        ids = [site.cluster.api.get(path)["spec"]["clusterID"] for site in play.sites]
        assert ids == [other.id, other.id, twin.id], f"Cluster {other.name} stands for {ids}"
        play.bite("members that said so", sum(_misses(site, third.name, other.name) for site in (one, other)))
        play.bite("copies that stayed", min(before, count_copies(play, third)))
        carry(other, third)
    play.rest()
    twin.daemon.stop()


@fault(
    11,
    "one-id",
    what="a fourth API server has the clusterID of a member, as a cloned etcd makes it, and is swapped with another "
    "member, for 15 s with a restart of the daemon: of that ID nothing is written or deleted there meanwhile",
    undone="its Cluster and Secret are deleted, and its daemon ends",
)
def one_id(play: Play) -> None:
    one, other, _ = play.sites
    with play.working(gentle=True):
        twin = play.bed.stranger(cluster_id=other.id)
        for giver, taker in ((twin, one), (one, twin)):
            wait(lambda giver=giver, taker=taker: carry(giver, taker), within_s=60, what="credentials to carry")
        play.say(f"{twin.name} has the ID of {other.name}, and was swapped with {one.name}")
        for name in (other.name, twin.name):
            wait(lambda name=name: _conflicts(one, name), within_s=60, what=f"{name} is in conflict")
        before = _copies_of(one, other)
        written = play.work.done.total()
        time.sleep(7)
        play.kill(one)
        time.sleep(8)
        touched = dict(_copies_of(one, other).items() ^ before.items())
        assert not touched, f"what is of two clusters was touched: {touched}"
        assert all(_conflicts(one, name) for name in (other.name, twin.name)), "the conflict was forgotten"
        play.bite("copies that were left as they are", len(before))
        play.bite("deeds that were done meanwhile", play.work.done.total() - written)
        for site in play.sites:
            _forget(site, twin.name)
    play.rest()
    twin.daemon.stop()


def _conflicts(site: Site, name: str) -> bool:
    """Say whether a site says that a Cluster has an ID which another one has."""
    return "True" in _condition(site.cluster.api.get(f"{CLUSTERS}/{name}"), "LocalConflict")


def _copies_of(site: Site, owner: Site) -> dict[tuple[str, str], str]:
    """The resourceVersion of each copy that a site holds of an owner, under names that nobody else uses."""
    return {
        (kind, item["metadata"]["name"]): item["metadata"]["resourceVersion"]
        for kind in ("ConfigMap", "Secret")
        for item in site.cluster.api.get(PATHS[kind])["items"]
        if owner_of(item) == owner.id and item["metadata"]["name"].startswith(f"{owner.name}-")
    }


def _misses(site: Site, peer: str, name: str) -> bool:
    """Say whether a site says that a peer does not know a cluster."""
    said = _condition(site.cluster.api.get(f"{CLUSTERS}/{peer}"), "ClustersSynced")
    return "False" in said and name in said


def _condition(cluster: dict[str, Any], name: str) -> str:
    found = [one for one in cluster.get("status", {}).get("conditions", []) if one["type"] == name]
    return " ".join(f"{one['status']} {one.get('message', '')}" for one in found)


def state_of(site: Site, name: str) -> str:
    """What the daemon says about a Cluster, as text."""
    try:
        status: dict[str, Any] = site.cluster.api.get(f"{CLUSTERS}/{name}").get("status", {})
    except ApiError:
        return ""
    return json.dumps(status) if status.get("state") or status.get("conditions") else ""


@fault(
    12,
    "bad-kubeconfigs",
    what="every kubeconfig of the table in tests/hostile, which an API server would store, as a Cluster and "
    "its Secret, ten at a time; that nothing is run, opened or dialled is shown in tests/hostile/test_kubeconfigs.py, "
    "and so is one of 10 MiB; a wrong CA is in tests/e2e/test_hostile_servers.py, another cluster's server in same-ids",
    undone="they are deleted",
)
def bad_kubeconfigs(play: Play) -> None:
    site = play.sites[0]
    table = [row for row in ROWS if isinstance(row.expected, Refused) and row.expected.in_secret]
    table = [row for row in table if sum(map(len, row.data.values())) < _MOST_BYTES]
    refusals = 0
    with play.working():
        for start in range(0, len(table), 10):
            names = []
            for number, row in enumerate(table[start : start + 10], start=start):
                names.append(f"bad-{number}")
                data = {key: base64.b64encode(value).decode() for key, value in row.data.items()}
                cluster_id = f"00000000-0000-4000-8000-{number:012}"
                try:
                    _introduce(site, names[-1], cluster_id=cluster_id, data=data, type_=row.secret_type)
                except ApiError:
                    names.pop()  # the API server itself does not take it
            for name in names:
                wait(lambda name=name: "InvalidAuthInfo" in state_of(site, name), within_s=30, what=name)
                refusals += 1
            for name in names:
                _forget(site, name)
    play.bite("kubeconfigs that were refused", refusals)
