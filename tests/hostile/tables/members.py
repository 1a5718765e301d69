"""Members, features and rules that a server claims to hold."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any, Final

import yaml

from registry_controller.api import meta
from registry_controller.api.names import CORE_RULES
from tests.e2e.group import NAMESPACE
from tests.hostile.cases import GOOD, Case
from tests.hostile.server.asking import Ask
from tests.hostile.server.deeds import lists, no_stream_of_lists
from tests.hostile.server.stranger import Stranger
from tests.hostile.server.world import BY_KIND, Manifest, Place, objects

_EVIL: Final = "evil-{}"
_RULE: Final = "rule-{}"
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
    names = [f"c{number}" for number in range(10_000)]
    return lambda server: list(
        objects("Cluster", names, spec={"clusterID": cluster_id.format(server.victims)}, status={"type": "Local"})
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


def _rule(server: Stranger, name: str, kind: dict[str, str], **mutations: Any) -> None:
    entry = {"match": [{}], **({"mutations": mutations} if mutations else {})}
    spec = {"groupVersionKind": kind, "rules": [entry]}
    server.put({"kind": "ResourceSyncRule", "metadata": {"name": name}, "spec": spec})


def _writes_clusters(server: Stranger) -> None:
    _rule(server, _RULE.format(server.name), {"group": meta.GROUP, "version": meta.VERSION, "kind": "Cluster"})


def _makes_rules_of_maps(server: Stranger) -> None:
    kind = {"group": meta.GROUP, "version": meta.VERSION, "kind": "ResourceSyncRule"}
    _rule(server, _RULE.format(server.name), _MAPS, groupVersionKind=kind)


def _makes_secrets_of_maps(server: Stranger) -> None:
    """A registry Secret in the daemon's own namespace, out of a ConfigMap."""
    overrides = [
        {"type": "replace", "path": "/metadata/namespace", "value": NAMESPACE},
        {"type": "replace", "path": "/type?", "value": meta.REGISTRY_SECRET_TYPE},
        {"type": "remove", "path": "/data?"},
    ]
    kind = {"version": "v1", "kind": "Secret"}
    _rule(server, _RULE.format(server.name), _MAPS, groupVersionKind=kind, overrides=overrides)


def _asks_for_too_much(server: Stranger) -> None:
    entry = {"match": [{"namespaces": [f"n{number}" for number in range(20_000)]}]}
    name = _RULE.format(server.name)
    server.put({
        "kind": "ResourceSyncRule", "metadata": {"name": name}, "spec": {"groupVersionKind": _MAPS, "rules": [entry]},
    })  # fmt: skip


def _has_dear_rules(server: Stranger) -> None:
    """Each gives every ConfigMap the name that it has, after a third of the steps that one rule may take."""
    value = "{{ range until 25000 }}{{ end }}{{ .Object.GetName }}"
    for number in range(50):
        override = {"type": "replace", "path": "/metadata/name", "value": value}
        _rule(server, f"{_RULE.format(server.name)}-{number}", _MAPS, overrides=[override])


def _has_dear_rivals(server: Stranger) -> None:
    """Each writes something else at the place of every ConfigMap, as dear as that of `_has_dear_rules`."""
    value = "{{ range until 25000 }}{{ end }}x"
    for number in range(60):
        override = {"type": "replace", "path": f"/data/x{number}?", "value": value}
        _rule(server, f"{_RULE.format(server.name)}-{number}", _MAPS, overrides=[override])


def _has_heavy_rules(server: Stranger) -> None:
    """A hundred of 1 MiB, which are accepted: the value of an override may be long, where it is no template."""
    override = {"type": "replace", "path": "/data/none?", "value": "x" * 1_000_000}
    entry = {"match": [{"objectKey": {"name": "none"}}], "mutations": {"overrides": [override]}}
    spec = {"groupVersionKind": _MAPS, "rules": [entry]}
    for number in range(100):
        name = f"{_RULE.format(server.name)}-{number}"
        server.put({"kind": "ResourceSyncRule", "metadata": {"name": name}, "spec": spec})


def _takes_a_core_rules_name(server: Stranger) -> None:
    _rule(server, sorted(CORE_RULES)[0], {"version": "v1", "kind": "Secret"})


_RESERVED: Final = "never writes the registry's own objects"

MEMBERS: Final = (
    Case(
        "holds 10,000 Clusters with home's ID",
        "256 are heard, none is taken",
        _holds("/clusters", _clusters("{0.home_uid}")),
        (f"{_MOST} 256 objects of the kind Cluster",),
        copied=(GOOD,),
    ),
    Case(
        "holds 10,000 Clusters with another member's ID",
        "256 are heard, none is taken",
        _holds("/clusters", _clusters("{0.honest_uid}")),
        (f"{_MOST} 256 objects of the kind Cluster",),
        copied=(GOOD,),
    ),
    Case(
        "holds 10,000 ClusterFeatures",
        "1,024 are heard",
        _holds("/clusterfeatures", _features),
        (f"{_MOST} 1024 objects of the kind ClusterFeature",),
        copied=(GOOD,),
    ),
    Case(
        "holds 5,000 rules",
        "1,024 are heard",
        _holds("/resourcesyncrules", _foreign_rules),
        (f"{_MOST} 1024 objects of the kind ResourceSyncRule",),
        copied=(GOOD,),
    ),
    Case("holds a Cluster and a Secret for home", "home's stay as they are", _speaks_for_home, copied=(GOOD,)),
    Case(
        "holds a Cluster and a Secret for another member",
        "that member's stay, while it is alive; nobody is dialled",
        _speaks_for_honest,
        copied=(GOOD,),
    ),
    Case(
        "holds another member's ID under another name",
        "is not taken while that member is alive; nobody is dialled",
        _speaks_for_honest_by_another_name,
        copied=(GOOD,),
    ),
    Case(
        "introduces a member that names the Secret of another one",
        "is not taken: two that name one Secret would both be refused",
        _names_honests_secret,
        copied=(GOOD,),
    ),
    Case(
        "introduces a member whose Secret would run a program",
        "the Cluster comes, and nothing is run",
        _hands_over_exec,
        ("exec: is not allowed",),
        copied=(GOOD,),
        introduces=_EVIL,
    ),
    Case(
        "has a rule that would write Clusters",
        "the rule comes, and writes nothing",
        _writes_clusters,
        (_RESERVED,),
        copied=(GOOD,),
        brings=_RULE,
    ),
    Case(
        "has a rule that would make rules out of ConfigMaps",
        "the rule comes, and writes nothing",
        _makes_rules_of_maps,
        (_RESERVED,),
        copied=(GOOD,),
        brings=_RULE,
    ),
    Case(
        "has a rule that would make registry Secrets out of ConfigMaps",
        "the rule comes, and writes nothing",
        _makes_secrets_of_maps,
        (_RESERVED,),
        copied=(GOOD,),
        brings=_RULE,
    ),
    Case(
        "has a rule that asks for 20,000 namespaces",
        "the rule comes, and is not accepted",
        _asks_for_too_much,
        ("spec: holds more than 20000 values",),
        copied=(GOOD,),
        brings=_RULE,
    ),
    Case(
        "has 50 rules with templates that take long",
        "what they may take of an object together is limited; the others are served meanwhile",
        _has_dear_rules,
        ("together with what the other rules of its cluster ask of this object",),
        copied=(GOOD,),
        brings=f"{_RULE}-*",
    ),
    Case(
        "has 60 rules that write the same objects, each otherwise, with templates that take long",
        "one writes; what is asked of the others, to say that they would not write the same, is limited",
        _has_dear_rivals,
        ("which is older, wants it otherwise",),
        copied=(GOOD,),
        brings=f"{_RULE}-*",
    ),
    Case(
        "has 100 rules of 1 MiB each",
        "some come, and the others are left",
        _has_heavy_rules,
        # The stream is full first, or the list that is asked for while its peer is slow to open one.
        (("offers more than 8 MiB of the kind ResourceSyncRule", "the answer is larger than 8 MiB"),),
        copied=(GOOD,),
        brings=f"{_RULE}-*",
    ),
    Case("has a rule of a core rule's name", "the core rule stays as it is", _takes_a_core_rules_name, copied=(GOOD,)),
)
