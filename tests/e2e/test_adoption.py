"""A cluster as the Go original left it, full of its copies, is taken over by our daemon where it stands. O10."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from hack.controlplane import Group
from tests.e2e.group import (
    API,
    CONFIG_MAP,
    NAMESPACE,
    OWNER,
    PROVENANCE,
    ROOT,
    SECRET,
    Member,
    config_map,
    crd,
    eventually,
    grant,
    hand_over,
    holding_invariants,
    in_sync,
    rule,
    secret,
    steadily,
)
from tests.original_marks import last_applied

OLD_CRDS = ROOT / "tests" / "fixtures" / "original" / "crds"
DEFINITIONS = ("clusters", "clusterfeatures", "resourcesyncrules")
LAST_APPLIED = "banzaicloud.com/last-applied"
REGISTRY = "cluster-registry.k8s.cisco.com"
WIDGET = {"group": "test.example.com", "version": "v1", "kind": "Widget"}
LABELS = {"sync": "yes"}
CANARY = "canary-3a7be190"
MANY = [f"plain-{number}" for number in range(20)]
WRITES = ("create", "update", "patch", "delete", "deletecollection")

Key = tuple[str, str, str]
"""Resource, namespace and name, as the audit log has them."""


@dataclass(frozen=True)
class Taken:
    """Both clusters, the copies as they were before, and where the audit log was."""

    here: Member
    owner: Member
    before: dict[Key, str]
    rules: dict[str, Any]
    definitions: dict[str, Any]
    offset: int


def _widget(name: str, *, kind: str = "Widget") -> dict[str, Any]:
    info = {"name": name, "namespace": "default", "labels": LABELS}
    return {"apiVersion": "test.example.com/v1", "kind": kind, "metadata": info, "spec": {"a": 1}}


SOURCES = [
    *(config_map(name, {"a": name}, labels=LABELS) for name in MANY),
    config_map("changed", {"a": "new"}, labels=LABELS),
    config_map("to-rename", {"a": "1"}, labels={"rename": "yes"}),
    config_map("to-move", {"a": "1"}, labels={"move": "yes"}),
    secret("password", {"password": CANARY}, labels=LABELS),
    _widget("to-mutate"),
]

RENAME = {"type": "replace", "path": "/metadata/name", "value": '{{ printf "%s-%s" .Object.GetName .Cluster.GetName }}'}
MOVE = {"type": "replace", "path": "/metadata/namespace", "value": "elsewhere"}


def _labelled(labels: dict[str, str], **mutations: Any) -> dict[str, Any]:
    return {"match": [{"labels": [{"matchLabels": labels}], "objectKey": {}}], "mutations": mutations}


RULES = [
    rule("maps", CONFIG_MAP, _labelled(LABELS)),
    rule("renaming", CONFIG_MAP, _labelled({"rename": "yes"}, overrides=[RENAME])),
    rule("moving", CONFIG_MAP, _labelled({"move": "yes"}, overrides=[MOVE])),
    rule("secrets", SECRET, _labelled(LABELS)),
    rule("kinds", WIDGET, _labelled(LABELS, groupVersionKind={"kind": "Gadget"})),
]


def _as_go_left_it(source: dict[str, Any], owner: str, **changes: Any) -> dict[str, Any]:
    """Write a copy with the original's marks: owner, where it was mutated from, and a zip of the whole object."""
    info = source["metadata"]
    annotations = {OWNER: owner}
    labels = {**info.get("labels", {}), OWNER: owner}
    for field in ("name", "namespace"):
        if field in changes:
            labels[f"{REGISTRY}/original-{field}"] = info[field]
    if "kind" in changes:
        annotations[f"{REGISTRY}/original-group-version-kind"] = "Widget.test.example.com/v1"
    place = {field: changes.get(field, info[field]) for field in ("name", "namespace") if field in info}
    body = {**source, "kind": changes.get("kind", source["kind"])}
    body |= {"data": changes["data"]} if "data" in changes else {}
    body["metadata"] = {**place, "labels": labels, "annotations": dict(annotations)}
    body["metadata"]["annotations"][LAST_APPLIED] = last_applied(
        {**body, "metadata": {**place, "labels": labels, "annotations": annotations}}
    )
    return body


def _copies(owner: Member) -> list[dict[str, Any]]:
    by_name = {source["metadata"]["name"]: source for source in SOURCES}
    changes: dict[str, dict[str, Any]] = {
        "changed": {"data": {"a": "old"}},
        "to-rename": {"name": f"to-rename-{owner.name}"},
        "to-move": {"namespace": "elsewhere"},
        "to-mutate": {"kind": "Gadget"},
    }
    return [_as_go_left_it(source, owner.id, **changes.get(name, {})) for name, source in by_name.items()]


def _membership(owner: Member) -> list[dict[str, Any]]:
    """What the original had copied of the other cluster: its Cluster and the Secret with the credentials."""
    cluster = owner.get("cluster", owner.name)
    credentials = owner.get("-n", NAMESPACE, "secret", owner.name)
    found = []
    for item in (cluster, credentials):
        info = {field: item["metadata"][field] for field in ("name", "namespace") if field in item["metadata"]}
        kept = {field: item[field] for field in ("apiVersion", "kind", "type", "spec", "data") if field in item}
        found.append(_as_go_left_it({**kept, "metadata": info}, owner.id))
    return found


def _key(manifest: dict[str, Any]) -> Key:
    info = manifest["metadata"]
    return f"{manifest['kind'].lower()}s", info.get("namespace", ""), info["name"]


def _find(member: Member, key: Key) -> dict[str, Any]:
    resource, namespace, name = key
    return member.get(*(("-n", namespace) if namespace else ()), resource, name)


def _specs(member: Member) -> dict[str, Any]:
    found = member.get("resourcesyncrules")["items"]
    names = {wanted["metadata"]["name"] for wanted in RULES}
    return {
        item["metadata"]["name"]: (item["metadata"]["uid"], item["metadata"]["generation"], item["spec"])
        for item in found if item["metadata"]["name"] in names
    }  # fmt: skip


def _definitions(member: Member) -> dict[str, Any]:
    found = [member.get("crd", f"{plural}.clusterregistry.k8s.cisco.com") for plural in DEFINITIONS]
    return {item["metadata"]["name"]: (item["metadata"]["generation"], item["spec"]) for item in found}


@pytest.fixture(scope="module")
def taken() -> Iterator[Taken]:
    with Group(2, prefix="adopt") as group, holding_invariants(CANARY) as members:
        for cluster in group:
            for namespace in (NAMESPACE, "elsewhere"):
                cluster.kubectl("create", "namespace", namespace)
            for kind in ("Widget", "Gadget"):
                cluster.kubectl("create", "-f", "-", stdin=json.dumps(crd(kind)))
        here, owner = Member(group[0]), Member(group[1])
        for member in (here, owner):
            grant(member, "tests", ["", "test.example.com"], ["configmaps", "widgets", "gadgets"])
        members.append(owner.install())
        owner.create(*SOURCES)
        owner.daemon.wait_ready(timeout_s=180)
        eventually(lambda: owner.find("-n", NAMESPACE, "secret", owner.name))

        here.kubectl("apply", "-f", str(OLD_CRDS))
        for plural in DEFINITIONS:
            here.kubectl("wait", "--for=condition=Established", f"crd/{plural}.clusterregistry.k8s.cisco.com")
        authored = {"clusterID": here.id, "authInfo": {"secretRef": {"name": here.name, "namespace": NAMESPACE}}}
        local = {"apiVersion": API, "kind": "Cluster", "metadata": {"name": here.name},
                 "spec": {**authored, "kubernetesApiEndpoints": [{}]}}  # fmt: skip
        left = [*_copies(owner), *_membership(owner)]
        here.create(local, *RULES, *left)
        before = {_key(item): _find(here, _key(item))["metadata"]["uid"] for item in left}
        found = Taken(here, owner, before, _specs(here), _definitions(here), here.cluster.audit_offset())
        members.append(here.install("--skip-crds"))
        here.daemon.wait_ready(timeout_s=180)
        yield found


def _writes(taken: Taken) -> list[tuple[str, Key]]:
    """List what our daemon has written, but for what it only says: status, Events and its Lease."""
    account = f"system:serviceaccount:{NAMESPACE}:cluster-registry-controller"
    found = []
    for line in taken.here.cluster.audit(since=taken.offset):
        subject = line.get("objectRef") or {}
        is_write = line["verb"] in WRITES and line["user"].get("username") == account
        is_said = "subresource" in subject or subject.get("resource") in ("events", "leases")
        if is_write and not is_said and line["responseStatus"]["code"] < 400:
            key = subject.get("resource", ""), subject.get("namespace", ""), subject.get("name", "")
            found.append((line["verb"], key))
    return found


def _is_adopted(taken: Taken, key: Key) -> bool:
    annotations = _find(taken.here, key)["metadata"]["annotations"]
    return LAST_APPLIED not in annotations and PROVENANCE in annotations


def test_every_copy_is_taken_over_where_it_is_in_one_write(taken: Taken) -> None:
    """O10: none is deleted or made anew; the annotation that holds the whole object goes, provenance comes."""
    for key in taken.before:
        eventually(lambda key=key: _is_adopted(taken, key), what=str(key))
    steadily(lambda: all(_is_adopted(taken, key) for key in list(taken.before)[-6:]), for_s=2)
    for key, uid in taken.before.items():
        found = _find(taken.here, key)
        assert found["metadata"]["uid"] == uid, key
        assert found["metadata"]["annotations"][OWNER] == taken.owner.id
    writes = _writes(taken)
    assert not [write for write in writes if write[0] in ("delete", "deletecollection")]
    counted = Counter(key for _, key in writes if key in taken.before)
    assert counted == dict.fromkeys(taken.before, 1)


def test_what_the_original_had_not_written_yet_is_caught_up_in_the_same_write(taken: Taken) -> None:
    """O10: and the marks of what was mutated stay."""
    here, owner = taken.here, taken.owner
    assert here.get("cm", "changed")["data"] == {"a": "new"}
    renamed = here.get("cm", f"to-rename-{owner.name}")["metadata"]
    assert renamed["labels"][f"{REGISTRY}/original-name"] == "to-rename"
    moved = here.get("-n", "elsewhere", "cm", "to-move")["metadata"]
    assert moved["labels"][f"{REGISTRY}/original-namespace"] == "default"
    gadget = here.get("gadgets", "to-mutate")["metadata"]
    assert gadget["annotations"][f"{REGISTRY}/original-group-version-kind"] == "Widget.test.example.com/v1"


def test_definitions_and_rules_stay_as_they_are(taken: Taken) -> None:
    """O10, A8: nobody writes them."""
    assert _definitions(taken.here) == taken.definitions
    assert _specs(taken.here) == taken.rules
    kinds = {resource for _, (resource, _, name) in _writes(taken) if name in taken.rules}
    assert "resourcesyncrules" not in kinds


def _membership_at(owner: Member) -> dict[str, str]:
    """Return the resourceVersions of the objects that the owner's daemon may write at any time, by resource."""
    found = {"clusters": owner.get("cluster", owner.name), "secrets": owner.get("-n", NAMESPACE, "secret", owner.name)}
    return {resource: item["metadata"]["resourceVersion"] for resource, item in found.items()}


def test_a_restart_writes_nothing_more(taken: Taken) -> None:
    """A1, O10: but for what the owner has changed since."""
    at_owner, before = _membership_at(taken.owner), _writes(taken)
    taken.here.daemon.restart()
    taken.here.daemon.wait_ready(timeout_s=180)
    in_sync([taken.here])
    time.sleep(3)
    writes, since = _writes(taken)[len(before) :], _membership_at(taken.owner)
    changed = {resource for resource, version in since.items() if version != at_owner[resource]}
    assert [write for write in writes if write[1][2] != taken.owner.name or write[1][0] not in changed] == [], changed


def test_from_then_on_they_are_copies_like_any_other(taken: Taken) -> None:
    """O10, O5: they follow their owner, and go with the source; the group forms without another swap."""
    here, owner = taken.here, taken.owner
    hand_over(here, owner)
    in_sync([here, owner])
    owner.kubectl("patch", "cm", "plain-0", "--type=merge", "-p", '{"data":{"a":"later"}}')
    eventually(lambda: here.get("cm", "plain-0")["data"] == {"a": "later"})
    for arguments in (("cm", "to-rename"), ("widgets", "to-mutate"), ("secret", "password")):
        owner.kubectl("delete", *arguments)
    eventually(lambda: here.find("cm", f"to-rename-{owner.name}") is None)
    eventually(lambda: here.find("gadgets", "to-mutate") is None)
    eventually(lambda: here.find("secret", "password") is None)
