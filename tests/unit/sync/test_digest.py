"""R6: the digest of an object's content."""

from __future__ import annotations

from typing import Any

import pytest

from registry_controller.api import meta, provenance
from registry_controller.api.errors import InvalidObject
from registry_controller.api.meta import CLUSTER, ClusterUID, ObjectKey, Target
from registry_controller.api.provenance import Provenance, RuleGeneration
from registry_controller.sync.copy_writer import content_digest

KEY = b"k" * 32


def obj(*, metadata: dict[str, Any] | None = None, **parts: Any) -> dict[str, Any]:
    info = {"name": "one", "namespace": "apps", **(metadata or {})}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": info, **parts}


def origin(**changes: Any) -> str:
    parts = {
        "owner": ClusterUID("o"), "rule": "r", "rule_owner": ClusterUID("o"),
        "policy": "Orphan", "source": CLUSTER, "key": ObjectKey("apps", "one"),
        "uid": "u", "created": "", "revision": 1, "copy": Target("", "ConfigMap", "apps", "one"), **changes,
    }  # fmt: skip
    return provenance.encode(Provenance(**parts))


def test_an_object_that_is_nested_too_deeply_is_an_error() -> None:
    value: dict[str, Any] = {}
    for _ in range(200_000):  # Python 3.13 encodes some thousands
        value = {"a": value}
    with pytest.raises(InvalidObject, match="nested too deeply"):
        content_digest(obj(spec=value), key=KEY)


def test_the_digest_leaves_out_fields_that_the_author_does_not_write() -> None:
    plain = obj(data={"b": "2", "a": "1"}, metadata={"annotations": {meta.PROVENANCE: origin(revision=1)}})
    stored = {
        "metadata": {
            "name": "one",
            "namespace": "apps",
            "annotations": {meta.PROVENANCE: origin(revision=2, cluster=ClusterUID("here"))},
            "labels": {},
            "uid": "u",
            "resourceVersion": "7",
            "finalizers": ["f"],
        },
        "data": {"a": "1", "b": "2"},
        "status": {"x": 1},
    }
    assert content_digest(plain, key=KEY) == content_digest(stored, key=KEY)
    assert len(content_digest(plain, key=KEY)) == 16


@pytest.mark.parametrize(
    "state", [{"rule_generation": RuleGeneration("x", 4)}, {"rule_revision": 9}], ids=["generation", "revision"]
)
def test_the_digest_leaves_out_the_state_of_the_rule(state: dict[str, Any]) -> None:
    """So that a copy is replaced unread after a write by a later state of its rule, too."""
    before = obj(metadata={"annotations": {meta.PROVENANCE: origin(rule_uid="r")}})
    after = obj(metadata={"annotations": {meta.PROVENANCE: origin(rule_uid="r", **state)}})
    assert before != after
    assert content_digest(before, key=KEY) == content_digest(after, key=KEY)
    other = obj(metadata={"annotations": {meta.PROVENANCE: origin(rule_uid="s", **state)}})
    assert content_digest(after, key=KEY) != content_digest(other, key=KEY)


@pytest.mark.parametrize(
    "changed",
    [
        obj(data={"a": "2"}),
        obj(data={"a": "1"}, metadata={"labels": {"a": "1"}}),
        obj(data={"a": "1"}, metadata={"annotations": {"a": "1"}}),
        obj(data={"a": "1"}, metadata={"annotations": {meta.PROVENANCE: "nonsense"}}),
        obj(data={"a": 2**70}),
    ],
)
def test_other_content_and_other_keys_have_other_digests(changed: dict[str, Any]) -> None:
    plain = obj(data={"a": "1"})
    assert content_digest(changed, key=KEY) != content_digest(plain, key=KEY)
    assert content_digest(plain, key=b"other") != content_digest(plain, key=KEY)
