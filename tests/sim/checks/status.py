"""Is what a group at rest holds of itself, and says of its rules, so? Membership, and the counts in status."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from registry_controller.api import meta
from registry_controller.api.meta import ObjectKey
from tests.sim.checks.convergence import Wrong
from tests.sim.checks.expected_copies import (
    Place,
    asks_for_all,
    content_of,
    is_of_later_version,
    marks_of,
    stays_at_home,
)
from tests.sim.checks.oracle import Oracle, says_it_acts
from tests.sim.cluster.fields import Manifest
from tests.sim.cluster.member import NAMESPACE
from tests.sim.schedule.tally import Tally
from tests.sim.schedule.vocabulary import WRITTEN


def check_standing(oracle: Oracle, tally: Tally) -> Iterator[Wrong]:
    """Compare the membership of all clusters, and what their rules say, with what is there."""
    for cluster in oracle.world.names:
        yield from _check_own(oracle, cluster, tally)
        for peer in oracle.world.names:
            yield from _check_later(oracle, cluster, peer, tally)
            if peer != cluster:
                yield from _check_peer(oracle, cluster, peer, tally)
                yield from _check_left_out(oracle, cluster, peer, tally)
        yield from _check_altered(oracle, cluster)
        yield from _check_words(oracle, cluster, tally)
        yield from _check_ready(oracle, cluster, tally)


def _check_own(oracle: Oracle, cluster: str, tally: Tally) -> Iterator[Wrong]:
    """O2: nothing of ours came back to us as the copy of something that others hold."""
    world = oracle.world
    for kind in (*WRITTEN, "Cluster"):
        for key, found in world.all(cluster, kind).items():
            held = (world.all(peer, kind).get(key) for peer in world.names if peer != cluster)
            offered = [one for one in held if one is not None and marks_of(one).owner == world.id_of(cluster)]
            tally.clauses["O2"] += bool(offered)
            marks, own = marks_of(found), world.id_of(cluster)
            if marks.provenance and marks.owner == own and marks.is_bound_in(own):  # else a person brought it
                yield Wrong("O2", f"{kind} {key} at {cluster}", "is a copy of our own object")


def _check_peer(oracle: Oracle, cluster: str, peer: str, tally: Tally) -> Iterator[Wrong]:
    """O7: what is held of a member is what that member says, adopted where people had carried it here."""
    world = oracle.world
    own = world.all(peer, "Cluster").get(ObjectKey("", peer)) or {"spec": {}}
    secret = ((own["spec"].get("authInfo") or {}).get("secretRef") or {}).get("name") or peer
    for kind, key in (("Cluster", ObjectKey("", peer)), ("Secret", ObjectKey(NAMESPACE, secret))):
        here, there = world.all(cluster, kind).get(key), world.all(peer, kind).get(key)
        where = f"{kind} {key} at {cluster}"
        if here is None or there is None or marks_of(here).frozen:
            continue
        tally.clause("O7")
        if marks_of(here).owner != world.id_of(peer):
            yield Wrong(
                "O7", where, f"is not {peer}'s, whose it is by nature, but {marks_of(here).owner or 'nobody'}'s"
            )
        elif content_of(here) != content_of(there):
            yield Wrong("O7", where, f"is not what {peer} says")


def _check_later(oracle: Oracle, cluster: str, peer: str, tally: Tally) -> Iterator[Wrong]:
    """A11: what a later daemon wrote in a cluster, and the daemon here leaves alone, is said here on its Cluster."""
    found = oracle.world.all(cluster, "Cluster").get(ObjectKey("", peer)) or {}
    status = found.get("status") or {}
    if status.get("state") != "Ready":
        return
    is_there = any(map(is_of_later_version, oracle.world.all(peer, "ClusterFeature").values()))
    tally.clauses["A11"] += is_there
    said = [one["message"] for one in status.get("conditions") or () if one["type"] == "LaterFormat"]
    if is_there != any("upgrade the daemon here" in words for words in said):
        yield Wrong("A11", f"Cluster {peer} at {cluster}", f"says of what a later version wrote there: {said}")


def _check_left_out(oracle: Oracle, cluster: str, peer: str, tally: Tally) -> Iterator[Wrong]:
    """W7: a rule that asks for nothing does not get what belongs to a cluster itself."""
    wide = {rule.kind for rule in oracle.rules(cluster) if asks_for_all(rule) and oracle.reads(rule, peer)}
    for kind in sorted(wide):
        for key, source in oracle.natives(peer, kind).items():
            if not stays_at_home(source):
                continue
            tally.clause("W7")
            here = oracle.world.all(cluster, kind).get(key)
            if here is not None and marks_of(here).owner == oracle.world.id_of(peer):
                yield Wrong("W7", f"{kind} {key} at {cluster}", f"is a copy of what {peer} has for itself alone")


def _check_altered(oracle: Oracle, cluster: str) -> Iterator[Wrong]:
    """A8: a rule that is altered here acts only where its daemon can know what its owner wrote."""
    for rule in oracle.rules(cluster)[:-1]:  # the last one is of the oracle alone
        if rule.is_altered and _speaks(rule.manifest) and says_it_acts(rule.manifest):
            yield Wrong("A8", f"rule {rule.name} at {cluster}", "acts, and its daemon cannot know what its owner wrote")


def _check_words(oracle: Oracle, cluster: str, tally: Tally) -> Iterator[Wrong]:
    """S1: a rule counts as in sync exactly the copies that are."""
    world = oracle.world
    places = oracle.claims(cluster)
    counts: Counter[tuple[str, str]] = Counter()
    for place, claims in places.items():
        found = world.all(cluster, place.kind).get(place.key)
        marks = marks_of(found) if found is not None else None
        if marks is None or marks.frozen or not marks.provenance:
            continue
        made_of = marks.provenance["source"]
        origin = Place(made_of["kind"], ObjectKey(made_of["namespace"], made_of["name"]))
        claim = next((one for one in claims if (world.id_of(one.owner), one.origin) == (marks.owner, origin)), None)
        if claim is not None:  # younger rules that make the same of it count it, too (W2)
            for rule, copy in oracle.made_of(claim.source, owner=claim.owner, local=cluster):
                counts[rule.name, marks.owner] += copy is not None and copy.holds_the_same(claim.copy)
    for rule in oracle.rules(cluster)[:-1]:
        if rule.is_altered or not _speaks(rule.manifest):
            continue
        for one in rule.manifest["status"].get("clusters") or ():
            tally.clause("S1")
            held = counts[rule.name, one["clusterID"]]
            if one.get("synced", 0) != held:
                who = oracle.name_of(one["clusterID"])
                words = f"says that {one.get('synced', 0)} copies of {who} are in sync, and {held} are"
                yield Wrong("S1", f"rule {rule.name} at {cluster}", words)


def _check_ready(oracle: Oracle, cluster: str, tally: Tally) -> Iterator[Wrong]:
    """S4: a rule is Ready exactly if it is Synced, and each object it matches is in sync or left out on purpose."""
    for rule in oracle.rules(cluster)[:-1]:
        status = rule.manifest.get("status") or {}
        conditions = {one["type"]: one["status"] for one in status.get("conditions") or ()}
        if not _speaks(rule.manifest) or "Synced" not in conditions:  # a person may have taken conditions away
            continue
        tally.clause("S4")
        entries = status.get("clusters") or ()
        is_whole = all(
            one.get("matched", 0) == one.get("synced", 0) + one.get("skipped", 0) and not one.get("held", 0)
            for one in entries
        )
        wanted = "True" if conditions.get("Synced") == "True" and is_whole else "False"
        if conditions.get("Ready") != wanted:
            yield Wrong("S4", f"rule {rule.name} at {cluster}", f"is Ready={conditions.get('Ready')}, not {wanted}")


def _speaks(rule: Manifest) -> bool:
    """Say whether a rule works now, and its status is of what it asks for now."""
    if (rule["metadata"].get("labels") or {}).get(meta.CORE_RESOURCE) or rule["spec"].get("suspend"):
        return False
    status = rule.get("status") or {}
    return bool(status.get("observedGeneration") == rule["metadata"]["generation"])
