"""What is here, by kind, by origin and by source. R1, W4."""

from __future__ import annotations

import json
from typing import Any

from registry_controller.api import meta
from registry_controller.api.meta import GVK, ClusterUID, ObjectKey, Target
from registry_controller.api.provenance import Provenance, encode
from registry_controller.api.selection import EVERYTHING
from registry_controller.cache.copy_index import CopyIndex, Offers
from registry_controller.cache.copy_record import CopyRecord
from registry_controller.core.decision.ownership import Marks
from registry_controller.kube.object import decode_object
from registry_controller.watch.body_cache import BodyCache
from tests.unit.cache.observers import Observer, no_offers

OWNER = ClusterUID("owner")
MAP = GVK("", "v1", "ConfigMap")
SOURCE = ObjectKey("ns", "source")


def index(offers: Offers | None = None) -> CopyIndex:
    return CopyIndex(bodies=BodyCache(), observer=Observer(), offers=offers or no_offers())


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


class _Offered:
    """Targets that are offered. `asked` are those that were asked about."""

    def __init__(self, *targets: Target) -> None:
        self.targets = set(targets)
        self.asked: list[Target] = []

    def is_offered(self, target: Target, *, owner: ClusterUID, kind: GVK, key: ObjectKey) -> bool:
        assert (owner, kind, key) == (OWNER, MAP, SOURCE)
        self.asked.append(target)
        return target in self.targets


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
