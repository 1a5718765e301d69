"""O11: what a mark is about."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from registry_controller.api import meta
from registry_controller.api.meta import GVK, ClusterUID, ObjectKey, Target
from registry_controller.api.provenance import Provenance, RuleGeneration, encode
from registry_controller.core.decision.marks import (
    Binding,
    Marks,
    Voice,
    is_at_home,
    is_made_by_controller,
    read_marks,
    remembered,
    voice_of,
)
from tests.original_marks import last_applied

HERE, OWNER, OTHER = ClusterUID("here"), ClusterUID("owner"), ClusterUID("other")
BASE, MINE = Target("", "ConfigMap", "default", "base"), Target("", "ConfigMap", "default", "mine")
KIND, KEY = GVK("", "v1", "ConfigMap"), ObjectKey("default", "base")
MADE = Provenance(OWNER, "rule", OWNER, "Delete", KIND, KEY, "uid", "2026-01-01T00:00:00Z", 7, BASE, cluster=HERE)


def read(of: Target = BASE, **annotations: str) -> Marks:
    return read_marks({name: text for name, text in annotations.items() if text}, of=of)


def by_us(provenance: Provenance | str, *, of: Target = BASE, **more: str) -> Marks:
    text = provenance if isinstance(provenance, str) else encode(provenance)
    return read(of, **{meta.OWNER: OWNER, meta.PROVENANCE: text, **more})


def by_go(written: Any, *, of: Target = BASE, owner: str = OWNER, **more: str) -> Marks:
    text = written if isinstance(written, str) else last_applied(written)
    return read(of, **{meta.OWNER: owner, meta.GO_LAST_APPLIED: text, **more})


def named(name: str = "base", namespace: str | None = "default", **more: Any) -> dict[str, Any]:
    return {**more, "metadata": {"name": name} | ({} if namespace is None else {"namespace": namespace})}


def test_a_provenance_binds_to_the_object_and_the_cluster_that_it_names() -> None:
    assert by_us(MADE) == Marks(OWNER, MADE, sync_disabled=False, go_written=False)
    assert by_us(MADE).is_bound_in(HERE)
    assert not by_us(MADE).is_bound_in(OTHER)
    earlier = replace(MADE, cluster=ClusterUID(""))
    assert "cluster" not in json.loads(encode(earlier))["copy"]
    assert by_us(earlier).is_bound_in(HERE)
    assert by_us(earlier).is_bound_in(OTHER)


@pytest.mark.parametrize(
    "text",
    [
        encode(MADE),
        encode(replace(MADE, cluster=ClusterUID(""))),
        encode(MADE).replace("base", "mine", 1),
        encode(MADE).replace("base", "mine"),
    ],
    ids=["as it was", "of an earlier version", "changed by sed", "changed everywhere"],
)
def test_the_provenance_of_another_object_shows_that_this_one_is_native(text: str) -> None:
    marks = by_us(text, of=MINE)
    assert marks == Marks(None, None, sync_disabled=False, go_written=False, binding=Binding.PASSED_ON)
    assert not marks.is_copy
    assert not marks.is_bound_in(HERE)


@pytest.mark.parametrize("of", [BASE._replace(group="x.y"), BASE._replace(kind="Secret"), BASE._replace(namespace="")])
def test_each_part_of_an_objects_identity_counts(of: Target) -> None:
    assert by_us(MADE, of=of).binding is Binding.PASSED_ON


def test_a_changed_cluster_is_noticed() -> None:
    """A person who replaces one cluster's name by another's in the whole text does not make a copy there."""
    assert by_us(encode(MADE).replace('"here"', '"other"')).binding is Binding.PASSED_ON


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"copy":[]}', '{"copy":{"name":"base"}}', "x" * 5000])
def test_a_provenance_that_cannot_be_read_names_nothing(text: str) -> None:
    assert by_us(text).binding is Binding.UNPROVEN
    assert read(**{meta.PROVENANCE: text}).owner is None


@pytest.mark.parametrize(
    "written",
    [
        named(),
        named(kind="ConfigMap", apiVersion="v1"),
        named(kind="ConfigMap"),
        named(namespace=None),
        named(kind="", apiVersion=""),
        json.dumps(named()),
    ],
)
def test_what_the_original_wrote_binds_to_the_object_that_it_names(written: Any) -> None:
    marks = by_go(written)
    assert (marks.owner, marks.binding, marks.by_go) == (OWNER, Binding.NAMED, True)


@pytest.mark.parametrize(
    "written",
    [
        named("other"),
        named(namespace="team"),
        named(kind="Secret"),
        named(apiVersion="apps/v1"),
        json.dumps(named("other")),
    ],
)
def test_what_the_original_wrote_of_another_object_is_native(written: Any) -> None:
    marks = by_go(written)
    assert (marks.owner, marks.binding) == (None, Binding.PASSED_ON)


@pytest.mark.parametrize(
    "written",
    ["", "UEsDBBQACAAIAAAAAAAA", "?", "{", "[]", {}, {"metadata": {}}, {"metadata": {"name": 5}}, "{" * 10**5],
)
def test_what_cannot_be_read_of_the_original_names_nothing(written: Any) -> None:
    marks = read_marks({meta.OWNER: OWNER, meta.GO_LAST_APPLIED: _text(written)}, of=BASE)
    assert (marks.owner, marks.binding) == (OWNER, Binding.UNPROVEN)


def _text(written: Any) -> str:
    return written if isinstance(written, str) else last_applied(written)


@pytest.mark.parametrize(("size", "is_read"), [(2**20 - 200, True), (2**20, False), (2**28, False)])
def test_at_most_a_mebibyte_of_it_is_unpacked(size: int, is_read: bool) -> None:
    """So that a small annotation costs little."""
    marks = by_go(named(data="x" * size))
    assert marks.binding is (Binding.NAMED if is_read else Binding.UNPROVEN)


def test_a_provenance_beside_it_counts_nothing() -> None:
    """O10: the original copied it along."""
    marks = by_us(replace(MADE, owner=OTHER), **{meta.GO_LAST_APPLIED: last_applied(named())})
    assert (marks.owner, marks.provenance, marks.binding) == (OWNER, None, Binding.NAMED)


def test_the_originals_annotation_without_an_owner_is_of_an_operator() -> None:
    """It is written by others, too: their objects are native, whatever it names."""
    marks = by_go(named("other"), owner="")
    assert (marks.owner, marks.binding) == (None, Binding.NAMED)


def test_a_mark_that_names_nothing_is_bound_nowhere() -> None:
    marks = read(**{meta.OWNER: OWNER})
    assert (marks.owner, marks.binding) == (OWNER, Binding.UNPROVEN)
    assert not marks.is_bound_in(HERE)


@pytest.mark.parametrize(
    ("marks", "voice", "is_home"),
    [
        (read(), Voice.OWNER, True),
        (by_us(MADE), Voice.SILENT, False),
        (by_us(replace(MADE, cluster=OTHER)), Voice.SILENT, True),
        (by_us(MADE, of=MINE), Voice.OWNER, True),
        (read(**{meta.OWNER: OWNER}), Voice.SILENT, True),
        (read(**{meta.OWNER: "local"}), Voice.OURS, True),
    ],
)
def test_only_a_bound_mark_shows_that_a_peers_object_is_not_its_own(marks: Marks, voice: Voice, is_home: bool) -> None:
    """O2, O3, O5: and a mark that was passed on keeps no object from being its cluster's own."""
    kept = remembered(marks, peer=HERE)
    assert voice_of(kept, peer=HERE, local=ClusterUID("local")) is voice
    assert is_at_home(kept, peer=HERE, membership=False) is is_home
    assert kept.is_bound_in(HERE) is marks.is_bound_in(HERE)


@pytest.mark.parametrize(
    ("marks", "references", "is_made"),
    [
        (by_us(MADE, of=MINE), [{"controller": True}], True),
        (by_us(MADE, of=MINE), [{"controller": False}, {}], False),
        (by_us(MADE, of=MINE), None, False),
        (by_us(MADE, of=MINE), ["x"], False),
        (read(**{meta.OWNER: OWNER}), [{}, {"controller": True}], True),
        (by_us(MADE), [{"controller": True}], False),
        (read(**{meta.OWNER: HERE}), [{"controller": True}], False),
        (by_us(replace(MADE, owner=HERE, cluster=OTHER)), [{"controller": True}], False),
        (read(), [{"controller": True}], False),
    ],
)
def test_a_controller_passed_the_marks_on_where_it_owns_the_object(
    marks: Marks, references: Any, is_made: bool
) -> None:
    """W7: what has no marks of ours may have a controller, and is copied."""
    manifest = {"metadata": {"name": "mine", "ownerReferences": references}}
    assert is_made_by_controller(marks, lambda: manifest, peer=HERE) is is_made


def test_only_an_object_with_such_marks_is_decoded_for_it() -> None:
    def body() -> Any:
        raise AssertionError

    assert not is_made_by_controller(by_us(MADE), body, peer=HERE)
    assert not is_made_by_controller(read(), body, peer=HERE)


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [("here", "", True), ("", "here", True), ("here", "here", True), ("here", "other", False)],
)
def test_only_another_clusters_name_in_it_makes_a_provenance_another_one(one: str, other: str, is_same: bool) -> None:
    """A1: a copy of an earlier version is not written for it."""
    found = replace(MADE, cluster=ClusterUID(one))
    written = replace(MADE, cluster=ClusterUID(other), revision=9, rule_generation=RuleGeneration("u", 8))
    assert found.same_origin(replace(written, rule_revision=7)) is is_same
