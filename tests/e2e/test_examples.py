"""The page of examples, all of it at once in one group of two real clusters: the copies are what the page shows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from hack.controlplane import Group
from tests.docs.examples import LOCAL_NAME, OWNER_NAME, Example, key_of, read_examples, shown
from tests.e2e.group import NAMESPACE, OWNER, Member, eventually, grant, holding_invariants, in_sync, steadily, swap

GROUP = "example.com"
EXAMPLES = read_examples()
BUILT_IN = {
    "Deployment": ("apps", "deployments"),
    "MutatingWebhookConfiguration": ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
    "ClusterRole": ("rbac.authorization.k8s.io", "clusterroles"),
}
"""The kinds in which the API server sets defaults, which the page does not show."""


ESCALATING = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "escalating", "labels": {"cluster-registry.k8s.cisco.com/controller-aggregated": "true"}},
    "rules": [{"apiGroups": [BUILT_IN["ClusterRole"][0]], "resources": ["clusterroles"], "verbs": ["escalate"]}],
}


def _definition(kind: str) -> dict[str, Any]:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema, "subresources": {"status": {}}}
    names = {"kind": kind, "plural": f"{kind.lower()}s", "singular": kind.lower(), "listKind": f"{kind}List"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{names['plural']}.{GROUP}"},
        "spec": {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [version]},
    }


def _all(part: str) -> list[dict[str, Any]]:
    return [manifest for example in EXAMPLES for manifest in getattr(example, part)]


def _kinds(part: str) -> set[str]:
    return {manifest["kind"] for manifest in _all(part)}


def _namespaces(example: Example, part: str) -> set[str]:
    makes_its_own = part == "copies" and any(rule["spec"].get("createNamespaces") for rule in example.rules)
    found = {key_of(manifest)[1] for manifest in getattr(example, part)} - {""}
    return set() if makes_its_own else found


def _prepare(member: Member, part: str) -> None:
    """Make what the examples take for granted in a cluster: kinds, rights, namespaces."""
    known = {"ConfigMap", "Secret", *BUILT_IN}
    kinds = [kind for kind in sorted(_kinds("sources") | _kinds("copies")) if kind not in known]
    member.apply(*map(_definition, kinds))
    plurals = [f"{kind.lower()}s" for kind in kinds]
    grant(member, "examples", ["", GROUP], ["configmaps", *plurals, *(f"{plural}/status" for plural in plurals)])
    for kind, (group, plural) in BUILT_IN.items():
        grant(member, kind.lower(), [group], [plural])
    member.apply(ESCALATING, *(_all("own") if part == "copies" else ()))
    needed = set().union(*(_namespaces(example, part) for example in EXAMPLES)) - {"default"}
    member.apply(*({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in sorted(needed)))


@pytest.fixture(scope="module")
def members() -> Iterator[tuple[Member, Member]]:
    with Group(2, prefix="examples") as group, holding_invariants() as found:
        for cluster, name in zip(group, (OWNER_NAME, LOCAL_NAME), strict=True):
            found.append(Member(cluster, "controller.createNamespaces=true", name=name).install())
        north, south = found
        for member, part in ((north, "sources"), (south, "copies")):
            member.daemon.wait_ready(timeout_s=180)
            _prepare(member, part)
        swap(north, south)
        in_sync(found)
        yield north, south


def _copies(south: Member) -> dict[tuple[str, str, str], dict[str, Any]]:
    """Find every copy in south that rules of the page may have made."""
    kinds = ",".join(sorted({kind.lower() for kind in _kinds("sources") | _kinds("copies")}))
    items = south.get(kinds, "-A")["items"]
    made = (item for item in items if OWNER in item["metadata"].get("annotations", {}))
    return {key_of(item): shown(item) for item in made if key_of(item)[1] != NAMESPACE}


def test_the_copies_are_those_that_the_page_shows(members: tuple[Member, Member]) -> None:
    """W1, W2, W3, W5, W6, A1, A3: every example at once, so none may disturb another."""
    north, south = members
    north.create(*_all("features"), *_all("sources"))  # `apply` would write the Secret into an annotation
    for manifest in _all("sources"):
        if "status" in manifest:
            north.cluster.kubectl("replace", "--subresource=status", "-f", "-", stdin=_with_version(north, manifest))
    south.apply(*_all("rules"))
    for writer in _all("writers"):
        kind, namespace, name = key_of(writer)
        place = (kind.lower(), name, *(("-n", namespace) if namespace else ()))
        eventually(lambda place=place: south.find(*place), what=f"{kind} {name}")
        south.kubectl("patch", *place, "--type=merge", "--field-manager=another", "-p", json.dumps(writer))
    expected = {key_of(manifest): manifest for manifest in _all("copies")}
    eventually(lambda: _is_there(south, expected), what="the copies of the page")
    steadily(lambda: _copies(south).keys() == expected.keys(), for_s=2, what="nothing else is copied")


def test_what_is_left_without_its_rule_is_what_the_page_says(members: tuple[Member, Member]) -> None:
    """W3."""
    _, south = members
    shown_so = [example for example in EXAMPLES if example.left is not None]
    assert shown_so
    for name in (rule["metadata"]["name"] for example in shown_so for rule in example.rules):
        south.kubectl("delete", "rsr", name)
    for example in shown_so:
        left = {key_of(manifest): manifest for manifest in example.left or []}
        gone = {key_of(manifest) for manifest in example.copies} - left.keys()
        eventually(lambda gone=gone: not gone & _copies(south).keys(), what=example.title)
        assert {key: _copies(south).get(key) for key in left} == left


def _is_there(south: Member, expected: dict[tuple[str, str, str], dict[str, Any]]) -> bool:
    found = _copies(south)
    differing = {key: found.get(key) for key, manifest in expected.items() if not _is_shown(manifest, found.get(key))}
    assert differing == {}
    return True


def _is_shown(expected: dict[str, Any], found: dict[str, Any] | None) -> bool:
    return found == expected or (expected["kind"] in BUILT_IN and _contains(found, expected))


def _contains(found: Any, expected: Any) -> bool:
    """Return whether a value has all that is expected; a server may add fields to objects."""
    if isinstance(expected, dict) and isinstance(found, dict):
        return all(name in found and _contains(found[name], value) for name, value in expected.items())
    if isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        return all(_contains(one, other) for one, other in zip(found, expected, strict=True))
    return bool(found == expected)


def _with_version(member: Member, manifest: dict[str, Any]) -> str:
    kind, namespace, name = key_of(manifest)
    held = member.get("-n", namespace, kind.lower(), name)
    return json.dumps({**held, "status": manifest["status"]})
