"""Faults of credentials and rights: 9, 17."""

from __future__ import annotations

import base64
import time
from collections.abc import Sequence

from tests.chaos.bed import Site, wait
from tests.chaos.catalogue import fault
from tests.chaos.play import CLUSTERS, Play
from tests.chaos.scripts import Expel
from tests.chaos.servers import refused
from tests.e2e.group import NAMESPACE, grant

_SECRETS = f"/api/v1/namespaces/{NAMESPACE}/secrets"
TOKEN = f"{_SECRETS}/cluster-registry-controller-reader-token"


def published(site: Site, name: str) -> str:
    """The kubeconfig of a member, as one site holds it."""
    return str(site.cluster.api.get(f"{_SECRETS}/{name}")["data"]["kubeconfig"])


def all_have_credentials(sites: Sequence[Site]) -> bool:
    """Say whether all hold of each other the tokens that are good now: whoever says Ready may not have noticed."""
    for site in sites:
        kubeconfig = published(site, site.name)
        if base64.b64decode(site.cluster.api.get(TOKEN)["data"]["token"]) not in base64.b64decode(kubeconfig):
            return False
        if any(published(other, site.name) != kubeconfig for other in sites):
            return False
    return True


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
            site.write("DELETE", TOKEN)
            time.sleep(4)
            site.daemon.rotate_token()
        for site in play.sites:
            site.write("DELETE", TOKEN)
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
    9,
    "refused-for-a-moment",
    what="one peer refuses whoever asks (401) until another member says so, while people work; a stream that ends then "
    "makes that member ask, the other streams go on and are never silent",
    undone="the peer's answers pass, and the member finds it well again while people still work",
)
def refused_for_a_moment(play: Play) -> None:
    reader, owner, _ = play.sites
    edge, script = play.bed.way(reader, owner), Expel("secrets")

    def state() -> str:
        return str(reader.cluster.api.get(f"{CLUSTERS}/{owner.name}").get("status", {}).get("state"))

    with play.bed.scripted(edge, owner, script):
        edge.reset_all()  # what was open before passes the script by
        play.rest()
        with play.working():
            script.is_shut = True
            wait(lambda: play.work.put(owner, f"{owner.name}-0", "secret") and state() == "Failed", what="a refusal")
            script.is_shut = False
            play.say(f"{reader.name} was refused by {owner.name}")
            wait(lambda: state() == "Ready", within_s=30, what=f"{owner.name} is well again at {reader.name}")
            play.say(f"{owner.name} is well again at {reader.name}")
    play.bite("requests that were refused", script.count)


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
