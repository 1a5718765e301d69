"""Laws of mutations: the input stays as it is, the copy says whose it is and carries nothing that must stay behind."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from registry_controller.api import meta
from registry_controller.api.meta import GVK, ClusterUID, ObjectKey
from registry_controller.api.syncrule import RuleEntry, read_rule
from registry_controller.core.mutation.mutate import SERVER_SET_METADATA, build_copy, get_copy_kind

OWNER = ClusterUID("owner-1")
NAMES = st.sampled_from(
    ["a", "b", "argocd.argoproj.io/tracking-id", "app.kubernetes.io/instance", "olm.owner",
     meta.OWNER, meta.PROVENANCE, meta.GO_LAST_APPLIED, meta.SYNC_DISABLED, meta.CLUSTER_DISABLED]
)  # fmt: skip
TRACKING = {"argocd.argoproj.io/tracking-id", "app.kubernetes.io/instance", "olm.owner"}
TEXTS = st.dictionaries(NAMES, st.text(max_size=3), max_size=4)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)
PORT = st.fixed_dictionaries(
    {"port": st.integers(1, 9)}, optional={"nodePort": st.integers(1, 9), "name": st.just("x")}
)
SPEC = JSON | st.fixed_dictionaries(
    {}, optional={"clusterIP": st.sampled_from(["None", "10.0.0.1"]), "ports": st.lists(PORT), "volumeName": JSON}
)
METADATA = st.fixed_dictionaries(
    {"name": st.just("one")},
    optional={"namespace": st.just("apps"), "labels": TEXTS, "annotations": TEXTS}
    | {name: st.just("x") for name in SERVER_SET_METADATA},
)
SOURCES = st.fixed_dictionaries({"metadata": METADATA}, optional={"spec": SPEC, "data": JSON, "status": JSON})
MAP = st.fixed_dictionaries({}, optional={"add": TEXTS, "remove": st.lists(NAMES, max_size=3)})
GVKS = st.fixed_dictionaries({}, optional={"group": st.just("g"), "version": st.just("v2"), "kind": st.just("Peer")})
MUTATIONS = st.fixed_dictionaries({}, optional={"labels": MAP, "annotations": MAP, "groupVersionKind": GVKS})
KINDS = st.sampled_from(["ConfigMap", "Service", "Pod", "PersistentVolumeClaim", "Namespace"]).map(
    lambda kind: GVK("", "v1", kind)
)


def read(mutations: list[dict[str, Any]]) -> tuple[RuleEntry, ...]:
    spec = {"groupVersionKind": {"version": "v1", "kind": "x"}, "rules": [{"mutations": m} for m in mutations]}
    return read_rule({"metadata": {}, "spec": spec}).entries


ENTRIES = st.lists(MUTATIONS, min_size=1, max_size=3).map(read)


@given(SOURCES, KINDS, ENTRIES)
def test_the_input_is_never_changed_and_gives_the_same_copy_again(
    source: dict[str, Any], kind: GVK, entries: tuple[RuleEntry, ...]
) -> None:
    before = copy.deepcopy(source)
    first = build_copy(source, kind, entries, owner=OWNER)
    assert source == before
    assert build_copy(before, kind, entries, owner=OWNER) == first


@given(SOURCES, KINDS, ENTRIES)
def test_a_copy_says_whose_it_is_and_nothing_of_its_sources_cluster(
    source: dict[str, Any], kind: GVK, entries: tuple[RuleEntry, ...]
) -> None:
    result = build_copy(source, kind, entries, owner=OWNER)
    info = meta.metadata_of(result.manifest)
    assert info["annotations"][meta.OWNER] == info["labels"][meta.OWNER] == OWNER
    assert not SERVER_SET_METADATA & set(info)
    assert "status" not in result.manifest
    for name in (meta.PROVENANCE, meta.GO_LAST_APPLIED, meta.CLUSTER_DISABLED):
        assert name not in info["annotations"]
    assert result.target.key == ObjectKey(info.get("namespace", ""), info["name"])
    assert get_copy_kind(kind, entries) == result.gvk


@given(SOURCES, KINDS, ENTRIES)
def test_a_tracking_mark_is_on_a_copy_only_if_a_rule_adds_it(
    source: dict[str, Any], kind: GVK, entries: tuple[RuleEntry, ...]
) -> None:
    """W6: but for the instance of a Pod; as an annotation that is none."""
    result = build_copy(source, kind, entries, owner=OWNER)
    own = {"labels": {"app.kubernetes.io/instance"} if result.gvk.kind == "Pod" else set()}
    own["annotations"] = {"app.kubernetes.io/instance"}
    for field in ("labels", "annotations"):
        mutations = [entry.mutations.labels if field == "labels" else entry.mutations.annotations for entry in entries]
        added = {name for mutation in mutations for name in mutation.add}
        removed = {name for mutation in mutations for name in mutation.remove}
        found = TRACKING & set(meta.metadata_of(result.manifest)[field])
        assert found <= added | own[field]
        assert TRACKING & added - removed <= found


@given(SOURCES, KINDS, ENTRIES)
def test_a_copy_of_a_copy_is_the_same(source: dict[str, Any], kind: GVK, entries: tuple[RuleEntry, ...]) -> None:
    once = build_copy(source, kind, read([{}]), owner=OWNER)
    assert build_copy(once.manifest, once.gvk, read([{}]), owner=OWNER) == once
