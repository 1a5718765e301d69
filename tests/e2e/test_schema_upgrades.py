"""A definition gets a field, and an object with that field is written at once: as one `kubectl apply` of both does.

The API server serves the watches that were open before by the former definition for at least a second. They lack the
field, and then they end.
"""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from hack.controlplane.api import MERGE_PATCH
from tests.e2e.group import API, CONFIG_MAP, CRDS, Member, config_map, eventually, grant, rule, steadily

pytestmark = pytest.mark.group(2, prefix="schema")

GROUP = "schema.example.com"
LAMP = {"group": GROUP, "version": "v1", "kind": "Lamp"}
LAMPS = f"/apis/{GROUP}/v1/namespaces/default/lamps"
RULES = f"/apis/{API}/resourcesyncrules"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ANYTHING = {"x-kubernetes-preserve-unknown-fields": True}


def _definition(*fields: str) -> dict[str, Any]:
    spec = {"type": "object", "properties": dict.fromkeys(fields, ANYTHING)}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    names = {"plural": "lamps", "singular": "lamp", "kind": "Lamp", "listKind": "LampList"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": f"lamps.{GROUP}"},
        "spec": {
            "group": GROUP, "scope": "Namespaced", "names": names,
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }  # fmt: skip


def _lamp(name: str, **spec: Any) -> dict[str, Any]:
    info = {"name": name, "namespace": "default"}
    return {"apiVersion": f"{GROUP}/v1", "kind": "Lamp", "metadata": info, "spec": spec}


def _spec(member: Member, name: str) -> dict[str, Any]:
    return dict(member.get("-n", "default", "lamp", name)["spec"])


def _put_with_new_field(member: Member, path: str, body: dict[str, Any]) -> None:
    """Merge an object whose field the definition has got just now: as soon as a dry run shows that it is stored."""
    api = member.cluster.api

    def patch(query: str = "") -> dict[str, Any]:
        return api.request("PATCH", path + query, body=body, content_type=MERGE_PATCH)

    eventually(lambda: patch("?dryRun=All")["spec"].get("newer") is not None, what="the definition is in force")
    assert patch()["spec"]["newer"] == body["spec"]["newer"]


def test_a_copy_gets_a_field_that_its_owner_wrote_right_after_the_definition(members: list[Member]) -> None:
    """R4: each of them, also where the object that changed last has no such field."""
    here, owner = members
    for member in members:
        grant(member, "lamps", [GROUP], ["lamps"])
    here.apply(_definition("power", "newer"))
    owner.apply(_definition("power"))
    owner.kubectl("wait", "--for=condition=Established", f"crd/lamps.{GROUP}")
    owner.create(*(_lamp(name, power=1) for name in ("one", "two", "last")))
    here.apply(rule("lamps", LAMP))
    eventually(lambda: len(here.get("-n", "default", "lamps")["items"]) == 3)
    upgrade = {"spec": _definition("power", "newer")["spec"]}
    owner.cluster.api.request("PATCH", f"{DEFINITIONS}/lamps.{GROUP}", body=upgrade, content_type=MERGE_PATCH)
    for name in ("one", "two"):
        _put_with_new_field(owner, f"{LAMPS}/{name}", {"spec": {"power": 2, "newer": {"of": name}}})
    owner.cluster.api.request("PATCH", f"{LAMPS}/last", body={"spec": {"power": 3}}, content_type=MERGE_PATCH)
    for name in ("one", "two"):
        eventually(lambda name=name: _spec(here, name).get("newer") == {"of": name})
    assert _spec(here, "last") == {"power": 3}


def test_a_rule_with_a_field_of_a_later_release_takes_no_copy_right_after_the_definition(members: list[Member]) -> None:
    """A8: the edit also selects nothing more; without the field it would be an order to delete."""
    here, owner = members
    labels = {"newer": "yes"}
    owner.create(config_map("newer", {"a": "1"}, labels=labels))
    here.apply(rule("newer", CONFIG_MAP, {"match": [{"labels": [{"matchLabels": labels}]}]}, deletionPolicy="Delete"))
    uid = eventually(lambda: here.get("-n", "default", "configmap", "newer")["metadata"]["uid"])
    text = (CRDS / "clusterregistry.k8s.cisco.com_resourcesyncrules.yaml").read_text(encoding="utf-8")
    definition = yaml.safe_load(text)
    (version,) = definition["spec"]["versions"]
    version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["newer"] = ANYTHING
    path, was = f"{DEFINITIONS}/{definition['metadata']['name']}", {"spec": yaml.safe_load(text)["spec"]}
    api = here.cluster.api
    api.request("PATCH", path, body={"spec": definition["spec"]}, content_type=MERGE_PATCH)
    try:
        nothing = {"match": [{"objectKey": {"name": "nothing"}}]}
        _put_with_new_field(here, f"{RULES}/newer", {"spec": {"rules": [nothing], "newer": {"a": "b"}}})
        eventually(lambda: here.condition("rsr", "newer", "Accepted")["reason"] == "UnknownFields")
        steadily(lambda: here.get("-n", "default", "configmap", "newer")["metadata"]["uid"] == uid, for_s=3.0)
    finally:
        api.request("PATCH", path, body=was, content_type=MERGE_PATCH)
