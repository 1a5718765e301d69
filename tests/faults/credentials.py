"""Faults of identities, credentials and rights: 9, 11, 12, 17."""

from __future__ import annotations

import base64
import json
import time
from typing import Any

from hack.controlplane import ApiError
from tests.e2e.group import API, NAMESPACE, grant
from tests.faults.bed import Site, wait
from tests.faults.catalogue import fault
from tests.faults.play import Play
from tests.faults.servers import refused
from tests.hostile.kubeconfigs import ROWS, Refused

_CLUSTERS = "/apis/clusterregistry.k8s.cisco.com/v1alpha1/clusters"
_SECRETS = f"/api/v1/namespaces/{NAMESPACE}/secrets"
REGISTRY_SECRET = "k8s.cisco.com/cluster-registry-secret"
_STAYS = {"cluster-registry.k8s.cisco.com/resource-sync-disabled": "true"}
_MOST_BYTES = 700_000  # a Secret holds no more than 1 MiB, and its value is spelled in base64


def published(site: Site, name: str) -> str:
    """The kubeconfig of a member, as one site holds it."""
    return str(site.cluster.api.get(f"{_SECRETS}/{name}")["data"]["kubeconfig"])


@fault(
    9,
    "revoked-tokens",
    what="each cluster's token Secret is deleted, one after the other and then all at once, and the "
    "daemons' own tokens are replaced",
    undone="new ones were made and published",
    within_s=120,
)
def revoked_tokens(play: Play) -> None:
    old = {site.name: published(site, site.name) for site in play.sites}
    with play.working():
        for site in play.sites:
            site.write("DELETE", f"{_SECRETS}/cluster-registry-controller-reader-token")
            time.sleep(4)
            site.daemon.rotate_token()
        for site in play.sites:
            site.write("DELETE", f"{_SECRETS}/cluster-registry-controller-reader-token")
        time.sleep(5)
    for site in play.sites:
        wait(lambda site=site: published(site, site.name) != old[site.name], within_s=60)
        for other in play.sites:
            wait(
                lambda site=site, other=other: published(other, site.name) == published(site, site.name),
                within_s=90, what=f"the new credentials of {site.name} at {other.name}",
            )  # fmt: skip
    play.bite("tokens that were replaced", sum(published(site, site.name) != old[site.name] for site in play.sites))


@fault(
    17,
    "lost-rights",
    what="the readers' right to ConfigMaps is taken away at one peer, then the daemon's own at home, then "
    "both everywhere, for 8 s each",
    undone="the ClusterRoles are made again",
    within_s=120,
)
def lost_rights(play: Play) -> None:
    since = [site.cluster.audit_offset() for site in play.sites]
    one, other, _ = play.sites
    roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    with play.working():
        for sites, kinds in (([other], ["reader"]), ([one], ["controller"]), (play.sites, ["reader", "controller"])):
            for site in sites:
                for kind in kinds:
                    site.write("DELETE", f"{roles}/configmaps-{kind}")
            play.say(f"{', '.join(site.name for site in sites)}: no right to ConfigMaps for {' and '.join(kinds)}")
            time.sleep(3)
            play.kill(play.sites[2])  # one that starts without the right
            time.sleep(5)
            for site in sites:
                grant(site, "configmaps", [""], ["configmaps"])
            time.sleep(3)
    pairs = zip(play.sites, since, strict=True)
    play.bite("requests that were forbidden", sum(refused(site, at, 403) for site, at in pairs))


def introduce(site: Site, name: str, *, cluster_id: str, data: dict[str, str], type_: str = REGISTRY_SECRET) -> None:
    """Carry a Cluster and its Secret to a site; other members are not to learn of it."""
    secret = {"apiVersion": "v1", "kind": "Secret", "type": type_,
                  "metadata": {"name": name, "annotations": _STAYS}, "data": data}  # fmt: skip
    site.cluster.api.request("POST", _SECRETS, body=secret)
    reference = {"name": name, "namespace": NAMESPACE}
    made = {"apiVersion": API, "kind": "Cluster", "metadata": {"name": name, "annotations": _STAYS},
            "spec": {"clusterID": cluster_id, "authInfo": {"secretRef": reference}}}  # fmt: skip
    site.cluster.api.request("POST", _CLUSTERS, body=made)


def forget(site: Site, name: str) -> None:
    """Take back what was introduced."""
    for path in (f"{_CLUSTERS}/{name}", f"{_SECRETS}/{name}"):
        site.write("DELETE", path)


@fault(
    11,
    "same-ids",
    what="a second Cluster with the ID of a peer, one with our own ID, and one with the name and Secret of a peer "
    "and another ID, each for 6 s with a restart of the daemon",
    undone="the false Clusters are deleted",
    missing="two live clusters that call themselves by one name (tests/property/test_peer_laws.py); an etcd put back "
    "is restored-backup",
)
def same_ids(play: Play) -> None:
    one, other, third = play.sites
    said = 0
    with play.working():
        for name, cluster_id in (
            ("double", other.id),
            ("ourselves", one.id),
            ("mistaken", "00000000-aaaa-bbbb-cccc-0"),
        ):
            introduce(one, name, cluster_id=cluster_id, data={"kubeconfig": published(one, third.name)})
            play.say(f"{one.name} has a Cluster {name} with ID {cluster_id}")
            time.sleep(3)
            play.kill(one)
            time.sleep(3)
            said += bool(state_of(one, name))
            forget(one, name)
            time.sleep(1)
    play.bite("false Clusters about which something was said", said)


def state_of(site: Site, name: str) -> str:
    """What the daemon says about a Cluster, as text."""
    try:
        status: dict[str, Any] = site.cluster.api.get(f"{_CLUSTERS}/{name}").get("status", {})
    except ApiError:
        return ""
    return json.dumps(status) if status.get("state") or status.get("conditions") else ""


@fault(
    12,
    "bad-kubeconfigs",
    what="every kubeconfig of the table in tests/hostile, which an API server would store, as a Cluster and "
    "its Secret, ten at a time",
    undone="they are deleted",
    missing="that nothing is run, opened or dialled is shown by audit hooks in tests/hostile/test_kubeconfigs.py",
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
                    introduce(site, names[-1], cluster_id=cluster_id, data=data, type_=row.secret_type)
                except ApiError:
                    names.pop()  # the API server itself does not take it
            for name in names:
                wait(lambda name=name: "InvalidAuthInfo" in state_of(site, name), within_s=30, what=name)
                refusals += 1
            for name in names:
                forget(site, name)
    play.bite("kubeconfigs that were refused", refusals)
