"""Members, features and rules that a server claims to hold."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any, Final

import yaml

from registry_controller.api import meta
from tests.e2e.group import NAMESPACE
from tests.hostile.cases import HONEST, Case
from tests.hostile.home import REGISTRY
from tests.hostile.server.asking import Ask
from tests.hostile.server.deeds import lists, no_stream_of_lists
from tests.hostile.server.stranger import Stranger
from tests.hostile.server.world import BY_KIND, Manifest, Place, objects
from tests.hostile.shown import Claim, Sight, comes, holds, own_stays, told

_EVIL: Final = "evil-{}"
_NAMES: Final = [f"c{number}" for number in range(10_000)]
_MOST: Final = "offers more than"
_MAPS: Final = {"version": "v1", "kind": "ConfigMap"}


def _holds(path: str, make: Callable[[Stranger], list[Manifest]]) -> Callable[[Stranger], None]:
    """Have it list these, in one page."""

    def page(ask: Ask, server: Stranger, place: Place) -> Any:
        return server.world.spell_list(place, make(server))

    def arm(server: Stranger) -> None:
        server.order(no_stream_of_lists, path, when=lambda ask: ask.wants_initial)
        server.order(lists(page), path, when=lambda ask: not ask.is_watch)

    return arm


def _clusters(cluster_id: str) -> Callable[[Stranger], list[Manifest]]:
    return lambda server: list(
        objects("Cluster", _NAMES, spec={"clusterID": cluster_id.format(server.victims)}, status={"type": "Local"})
    )


def _features(server: Stranger) -> list[Manifest]:
    core = server.world.find(Place(BY_KIND["ClusterFeature"], "", ""))
    return [*core, *objects("ClusterFeature", [f"f{number}" for number in range(10_000)], spec={"featureName": "f"})]


def _foreign_rules(server: Stranger) -> list[Manifest]:
    """So many rules, none of which is its own: they would be copied otherwise."""
    spec = {"groupVersionKind": _MAPS, "rules": []}
    found = list(objects("ResourceSyncRule", [f"r{number}" for number in range(5_000)], spec=spec))
    for item in found:
        item["metadata"]["annotations"] = {meta.OWNER: server.victims.honest_uid}
    return found


def introduce(server: Stranger, name: str, *, cluster_id: str, user: dict[str, Any], url: str) -> None:
    """Hold a Cluster of that name, and the Secret with which it would be read."""
    document = {
        "apiVersion": "v1", "kind": "Config", "current-context": "it",
        "clusters": [{"name": "it", "cluster": {"server": url}}], "users": [{"name": "it", "user": user}],
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
    }  # fmt: skip
    server.put({
        "kind": "Secret", "metadata": {"name": name, "namespace": NAMESPACE}, "type": meta.REGISTRY_SECRET_TYPE,
        "data": {"kubeconfig": base64.b64encode(yaml.safe_dump(document).encode()).decode()},
    })  # fmt: skip
    spec = {"clusterID": cluster_id, "authInfo": {"secretRef": {"name": name, "namespace": NAMESPACE}}}
    server.put({"kind": "Cluster", "metadata": {"name": name}, "spec": spec})


def _hands_over_exec(server: Stranger) -> None:
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "/bin/false"}}
    introduce(server, _EVIL.format(server.name), cluster_id=f"evil-{server.uid}", user=user, url="https://127.0.0.1:1")


def _speaks_for_home(server: Stranger) -> None:
    url = f"https://127.0.0.1:{server.victims.port}"
    introduce(server, server.victims.home_name, cluster_id=server.victims.home_uid, user={"token": "x"}, url=url)


def _speaks_for_honest(server: Stranger) -> None:
    url = f"https://127.0.0.1:{server.victims.port}"
    introduce(server, "honest", cluster_id=server.victims.honest_uid, user={"token": "x"}, url=url)


def _speaks_for_honest_by_another_name(server: Stranger) -> None:
    url = f"https://127.0.0.1:{server.victims.port}"
    introduce(server, f"other-{server.name}", cluster_id=server.victims.honest_uid, user={"token": "x"}, url=url)


def _names_honests_secret(server: Stranger) -> None:
    reference = {"name": "honest", "namespace": NAMESPACE}
    spec = {"clusterID": f"evil-{server.uid}", "authInfo": {"secretRef": reference}}
    server.put({"kind": "Cluster", "metadata": {"name": _EVIL.format(server.name)}, "spec": spec})


def _clusters_here(sight: Sight) -> dict[str, Manifest]:
    return {found["metadata"]["name"]: found for found in sight.home.maps(f"{REGISTRY}/clusters")}


def _none_is_taken(sight: Sight) -> None:
    taken = _clusters_here(sight).keys() & set(_NAMES)
    assert not taken, sorted(taken)[:3]


def _other_name_is_absent(sight: Sight) -> None:
    assert f"other-{sight.server.name}" not in _clusters_here(sight)


def _own_cluster_is_absent(sight: Sight) -> None:
    assert _EVIL.format(sight.server.name) not in _clusters_here(sight)


def _nobody_is_dialled(sight: Sight) -> None:
    assert sight.home.elsewhere.visits == 0, "somebody was led elsewhere"


def _cluster_comes(sight: Sight) -> None:
    assert _EVIL.format(sight.server.name) in _clusters_here(sight)


_NOBODY: Final = holds("no server is dialled", _nobody_is_dialled)


def _row(
    does: str,
    claims: tuple[Claim, ...],
    arm: Callable[[Stranger], None],
    *said: str | tuple[str, ...],
    introduces: str = "",
) -> Case:
    return Case(does, claims, arm, said=said, copied=HONEST, introduces=introduces)


MEMBERS: Final = (
    *(
        _row(
            f"holds 10,000 Clusters with {whose} ID",
            (told("256 are read"), holds("none is taken", _none_is_taken)),
            _holds("/clusters", _clusters(victim)),
            f"{_MOST} 256 objects of the kind Cluster",
        )
        for whose, victim in (("the local", "{0.home_uid}"), ("another member's", "{0.honest_uid}"))
    ),
    _row(
        "holds 10,000 ClusterFeatures",
        (told("1,024 are read"),),
        _holds("/clusterfeatures", _features),
        f"{_MOST} 1024 objects of the kind ClusterFeature",
    ),
    _row(
        "holds 5,000 rules",
        (told("1,024 are read"),),
        _holds("/resourcesyncrules", _foreign_rules),
        f"{_MOST} 1024 objects of the kind ResourceSyncRule",
    ),
    _row(
        "holds a Cluster and a Secret for the local cluster",
        (holds("the local ones stay as they are", own_stays), _NOBODY),
        _speaks_for_home,
    ),
    _row(
        "holds a Cluster and a Secret for another member",
        (holds("that member's stay as they are, while it is alive", own_stays), _NOBODY),
        _speaks_for_honest,
    ),
    _row(
        "holds another member's ID under another name",
        (holds("is not taken while that member is alive", _other_name_is_absent), _NOBODY),
        _speaks_for_honest_by_another_name,
    ),
    _row(
        "introduces a member that names the Secret of another one",
        (holds("is not taken: two that name one Secret would both be refused", _own_cluster_is_absent),),
        _names_honests_secret,
    ),
    _row(
        "introduces a member whose Secret would run a program",
        (comes("the Cluster comes", _cluster_comes), told("its Secret is refused")),
        _hands_over_exec,
        "exec: is not allowed",
        introduces=_EVIL,
    ),
)
