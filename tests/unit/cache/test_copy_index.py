"""What is here, by kind, by origin and by source. R1, W4."""

from __future__ import annotations

from registry_controller.api.meta import GVK, ClusterUID, ObjectKey, Target
from registry_controller.api.provenance import Provenance
from registry_controller.api.selection import EVERYTHING
from registry_controller.cache.copy_index import CopyIndex
from registry_controller.cache.local_cache import CopyRecord
from registry_controller.core.decision.ownership import Marks
from registry_controller.watch.body_cache import BodyCache
from tests.unit.cache.observers import Observer, no_offers

OWNER = ClusterUID("owner")
MAP = GVK("", "v1", "ConfigMap")
SOURCE = ObjectKey("ns", "source")


def index() -> CopyIndex:
    return CopyIndex(bodies=BodyCache(), observer=Observer(), offers=no_offers())


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
        copies.add(target, copy(target))
    assert copies.counts["rule", OWNER] == 2
    assert list(copies.copies_of(OWNER, MAP, SOURCE)) == [here, moved]
    assert list(copies.copies_of(ClusterUID("other"), MAP, SOURCE)) == [here]
    for target in (here, moved):
        copies.discard(target, copy(target))
    assert copies.counts.total() == 0
    assert list(copies.copies_of(OWNER, MAP, SOURCE)) == [here]
