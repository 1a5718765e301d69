"""What is here, by kind, by origin and by source. R1, W4."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import msgspec

from registry_controller.api import meta
from registry_controller.api.meta import GVK, ClusterUID, ObjectKey, Target
from registry_controller.api.provenance import Provenance, encode
from registry_controller.api.selection import EVERYTHING
from registry_controller.cache.copy_index import CopyIndex, Offers
from registry_controller.cache.copy_record import CopyRecord
from registry_controller.core.decision.marks import Binding, Marks
from registry_controller.kube.object import decode_object
from registry_controller.watch.body_cache import BodyCache
from tests.unit.cache.observers import Observer, no_offers

OWNER, LOCAL = ClusterUID("owner"), ClusterUID("local")
MAP, WIDGET = GVK("", "v1", "ConfigMap"), GVK("example", "v1", "Widget")
SOURCE = ObjectKey("ns", "source")


def index(offers: Offers | None = None) -> CopyIndex:
    return CopyIndex(bodies=BodyCache(), observer=Observer(), offers=offers or no_offers(), local=LOCAL)


def copy(target: Target) -> CopyRecord:
    provenance = Provenance(OWNER, "rule", OWNER, "Delete", MAP, SOURCE, "u", "2026", 5, target)
    return CopyRecord("uid", 5, False, Marks(OWNER, provenance, sync_disabled=False, go_written=False), None, None, 1)


def test_a_kind_has_one_cache_in_whatever_version_and_only_while_it_is_watched() -> None:
    copies = index()
    cache = copies.open(MAP)
    assert copies.open(MAP._replace(version="v2")) is cache
    assert copies.cache_of("", "ConfigMap") is None
    cache.set_places((EVERYTHING,))
    assert copies.cache_of("", "ConfigMap") is cache
    assert list(copies.all_caches()) == [cache]
    target = Target("", "ConfigMap", "ns", "x")
    cache.records[target.key] = copy(target)
    assert copies.has(target)
    assert not copies.has(Target("", "Secret", "ns", "x"))


def test_copies_are_counted_by_origin_and_found_by_their_source() -> None:
    copies = index()
    here, moved = Target("", "ConfigMap", *SOURCE), Target("", "Secret", "ns", "moved")
    for target in (here, moved):
        copies.add(target, copy(target), is_new=True)
    assert copies.counts["rule", OWNER] == 2
    assert list(copies.copies_of(OWNER, MAP, SOURCE)) == [here, moved]
    assert list(copies.copies_of(ClusterUID("other"), MAP, SOURCE)) == [here]
    for target in (here, moved):
        copies.discard(target, copy(target))
    assert copies.counts.total() == 0
    assert list(copies.copies_of(OWNER, MAP, SOURCE)) == [here]


class _Rules:
    """The rules that read from the owner, one for a kind."""

    def is_offered(self, *_: Any, **__: Any) -> bool:
        return False

    def first_rule(self, owner: ClusterUID, kind: GVK) -> str:
        return {MAP: "maps", WIDGET: "widgets"}[kind] if owner == OWNER else ""


def without_provenance(kind: GVK, binding: Binding) -> CopyRecord:
    marks = Marks(OWNER, None, sync_disabled=False, go_written=True, binding=binding)
    return CopyRecord("uid", 5, False, marks, (kind, SOURCE), None, 1)


def test_a_copy_without_provenance_counts_for_the_one_rule_for_which_its_deletion_would() -> None:
    """W4, O10: the number of the copies of all other rules is as if it were not there."""
    copies, target = index(_Rules()), Target("", "ConfigMap", *SOURCE)
    record = without_provenance(WIDGET, Binding.NAMED)
    copies.add(target, record, is_new=True)
    assert [copies.count((rule, OWNER)) for rule in ("widgets", "maps", "")] == [1, 0, 1]
    assert (copies.count(("widgets", LOCAL)), copies.by_owner[OWNER]) == (0, 1)
    copies.discard(target, record)
    assert [copies.count((rule, OWNER)) for rule in ("widgets", "maps", "")] == [0, 0, 0]


def test_an_object_whose_marks_nothing_binds_counts_for_nobody_until_its_owner_has_the_source() -> None:
    """W4, O11: it is never deleted, and must not let other copies go."""
    copies, target = index(_Rules()), Target("", "ConfigMap", *SOURCE)
    record = without_provenance(MAP, Binding.UNPROVEN)
    copies.add(target, record, is_new=True)
    assert (copies.count(("maps", OWNER)), copies.by_owner[OWNER], copies.counts.total()) == (0, 0, 1)
    for _ in range(2):
        copies.note_source(record)
        assert record.owner_had_it
        assert (copies.count(("maps", OWNER)), copies.by_owner[OWNER], copies.counts.total()) == (1, 1, 1)
    copies.discard(target, record)
    assert (copies.count(("maps", OWNER)), copies.by_owner[OWNER], copies.counts.total()) == (0, 0, 0)


def test_a_copy_that_another_cluster_made_counts_for_nobody() -> None:
    """W4, O11: a backup of another cluster brought it here."""
    copies, target = index(), Target("", "ConfigMap", *SOURCE)
    for cluster, number in (("another", 0), (LOCAL, 1)):
        record = copy(target)
        assert record.marks.provenance is not None
        record.marks = replace(
            record.marks, provenance=msgspec.structs.replace(record.marks.provenance, cluster=ClusterUID(cluster))
        )
        copies.add(target, record, is_new=True)
        assert (copies.count(("rule", OWNER)), copies.by_owner[OWNER]) == (number, number)


def test_a_copy_of_a_later_format_counts_for_its_owner_and_for_no_rule() -> None:
    """W4, A11: its rule cannot be read, and this daemon does not delete it."""
    copies, target = index(_Rules()), Target("", "ConfigMap", *SOURCE)
    copies.add(target, without_provenance(MAP, Binding.UNREADABLE), is_new=True)
    assert (copies.count(("maps", OWNER)), copies.by_owner[OWNER]) == (0, 1)


class _Offered:
    """Targets that are offered. `asked` are those that were asked about."""

    def __init__(self, *targets: Target) -> None:
        self.targets = set(targets)
        self.asked: list[Target] = []

    def is_offered(self, target: Target, *, owner: ClusterUID, kind: GVK, key: ObjectKey, rule: str) -> bool:
        assert (owner, kind, key, rule) == (OWNER, MAP, SOURCE, "rule")
        self.asked.append(target)
        return target in self.targets

    def first_rule(self, *_: Any) -> str:
        raise AssertionError


def test_copies_await_proof_while_their_source_is_not_offered() -> None:
    """O5: and no other copy is asked about when a claim or a copy changes."""
    offered, lost = (Target("", "ConfigMap", "ns", name) for name in ("offered", "lost"))
    offers = _Offered(offered)
    copies = index(offers)
    cache = copies.open(MAP)
    cache.set_places((EVERYTHING,))

    def waiting() -> list[str]:
        return [key.name for found, key, record in copies.awaiting_proof() if found is cache and record.revision]

    for target in (offered, lost):
        provenance = copy(target).marks.provenance
        assert provenance is not None
        info: dict[str, Any] = {"name": target.name, "namespace": "ns", "uid": "u", "resourceVersion": "5"}
        info |= {"annotations": {meta.OWNER: OWNER, meta.PROVENANCE: encode(provenance)}}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": info}
        cache.streams[EVERYTHING].on_object(decode_object(json.dumps(body).encode()))
    assert waiting() == ["lost"]
    offers.targets = {lost}
    offers.asked.clear()
    copies.on_claim_changed(lost)
    assert waiting() == []
    assert offers.asked == [lost]
    copies.on_claim_changed(offered)
    copies.on_claim_changed(Target("", "ConfigMap", "ns", "none"))
    assert waiting() == ["offered"]
    cache.streams[EVERYTHING].on_delete(offered.key, None)
    assert waiting() == []
    assert offers.asked == [lost, offered]
