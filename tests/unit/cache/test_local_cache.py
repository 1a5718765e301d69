"""Places that come and go in the local cache of a kind, and the one writer of its records. R1, W3, O3."""

from __future__ import annotations

import json
from typing import Any

import pytest

from registry_controller.api import meta
from registry_controller.api.meta import GVK, ClusterUID, ObjectKey, Target
from registry_controller.api.provenance import Provenance, encode
from registry_controller.api.selection import EVERYTHING, Selection
from registry_controller.cache.copy_index import CopyIndex
from registry_controller.cache.copy_record import HERE
from registry_controller.cache.local_cache import LocalCache, PlaceChange
from registry_controller.cache.write_results import Deleted, InSync, Rendered, StatusStored, Stored, Unchanged
from registry_controller.core.decision.marks import Marks
from registry_controller.kube.object import PartialObject, decode_object
from registry_controller.watch.body_cache import BodyCache, BodyKey
from tests.unit.cache.observers import Observer, no_offers

OWNER, LOCAL = ClusterUID("owner"), ClusterUID("local")
MAP = GVK("", "v1", "ConfigMap")
X, Y, COPIES = Selection("x"), Selection("y"), Selection(labels=meta.OWNER)
KEY = ObjectKey("x", "one")
MARKS = Marks(OWNER, None, sync_disabled=False, go_written=False)


def obj(
    name: str = "one", revision: int = 5, *, namespace: str = "x", owner: str = OWNER, uid: str = ""
) -> PartialObject:
    annotations = {meta.OWNER: owner} if owner else {}
    info = {
        "name": name, "namespace": namespace, "uid": uid or f"u-{name}", "resourceVersion": str(revision),
        "annotations": annotations,
    }  # fmt: skip
    return decode_object(json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": info}).encode())


def stored(found: PartialObject) -> Stored:
    return Stored(found, MARKS, b"desired", b"baseline", is_plain=True)


class World:
    """A cache in its index, and everything that it reports."""

    def __init__(self, *places: Selection) -> None:
        self.changed: list[Target] = []
        self.complete: list[Selection] = []
        self.standing = 0
        self.listing = 0
        self.copies = CopyIndex(
            bodies=BodyCache(),
            offers=no_offers(),
            local=LOCAL,
            observer=Observer(
                on_copy_changed=lambda target, _: self.changed.append(target),
                on_local_synced=lambda _, place: self.complete.append(place),
                on_local_uncertain=self._begin_list,
                on_local_status_changed=self._stand,
            ),
        )
        self.cache = self.copies.open(MAP)
        self.cache.set_places(places)

    def _begin_list(self, cache: LocalCache) -> None:
        assert cache is self.cache
        self.listing += 1

    def _stand(self, cache: LocalCache) -> None:
        assert cache is self.cache
        self.standing += 1

    def list(self, place: Selection, *objects: PartialObject, revision: int = 10) -> None:
        stream = self.cache.streams[place]
        for each in objects:
            stream.on_object(each)
        stream.on_synced(revision)

    def names(self) -> list[str]:
        return sorted(key.name for key in self.cache.records)


@pytest.mark.parametrize("closes_first", [True, False], ids=["the old place goes first", "the list comes first"])
def test_the_list_of_a_new_place_shows_that_the_history_of_the_other_one_is_lost(closes_first: bool) -> None:
    """R4, W3: it was requested after those states were known, so what it lacks, or has older, is as it says."""
    world = World(X)
    world.list(X, obj("kept", 4), obj("edited", 13), obj("made", 14), revision=15)
    world.cache.set_places((X, COPIES))
    copies = world.cache.streams[COPIES]
    assert copies.on_list_request() == 14
    if closes_first:
        world.cache.set_places((COPIES,))
    copies.on_reset()  # the reflector, since the list is of revision 9
    copies.on_list()
    copies.on_object(obj("kept", 4))
    copies.on_object(obj("edited", 5))
    copies.on_list_end(9)
    copies.on_synced(9)
    world.cache.set_places((COPIES,))
    assert {key.name: record.revision for key, record in world.cache.records.items()} == {"kept": 4, "edited": 5}
    assert "made" in {target.name for target in world.changed}


def test_a_write_since_the_list_of_a_new_place_was_requested_is_in_no_list() -> None:
    """R4: the list is earlier, and the watch after it shows the write."""
    world = World(X)
    world.list(X, obj("edited", 5), revision=10)
    world.cache.set_places((X, COPIES))
    copies = world.cache.streams[COPIES]
    copies.on_list_request()
    world.cache.streams[X].on_object(obj("edited", 13))
    world.cache.streams[X].on_object(obj("made", 14))
    copies.on_list()
    copies.on_object(obj("edited", 5))
    copies.on_list_end(11)
    copies.on_synced(11)
    world.cache.set_places((COPIES,))
    assert {key.name: record.revision for key, record in world.cache.records.items()} == {"edited": 13, "made": 14}


def test_a_place_that_comes_changes_no_record_and_is_reported_once_everything_in_it_is_known() -> None:
    world = World(X)
    world.list(X, obj())
    record = world.cache.records[KEY]
    assert world.cache.set_places((X, Y)) == PlaceChange(opened=(Y,))
    assert ("x" in world.cache.shown, "y" in world.cache.shown) == (True, False)
    world.list(Y, obj("two", namespace="y"))
    assert world.cache.records[KEY] is record
    assert world.complete == [X, Y]
    assert world.changed == [world.cache.target(KEY), Target("", "ConfigMap", "y", "two")]
    world.list(Y, obj("two", namespace="y"))
    assert world.complete == [X, Y]


def test_records_are_found_by_their_group_as_they_are_now() -> None:
    world = World(X, Y)
    world.list(X, obj())
    world.list(Y, obj("two", namespace="y"))
    found = [obj(revision=7, owner="other")]

    def of(owner: str) -> list[str]:
        return [key.name for key in world.cache.find(lambda group: group.owner == owner)]

    assert (sorted(of(OWNER)), of("other"), dict(world.cache.namespaces)) == (["one", "two"], [], {"x": 1, "y": 1})
    world.list(X, *found)
    assert (of(OWNER), of("other")) == (["two"], ["one"])
    world.cache.set_places((Y,))
    assert (of(OWNER), of("other"), dict(world.cache.namespaces)) == (["two"], [], {"y": 1})


def test_each_list_is_reported_as_it_begins() -> None:
    """W3: rules that are known may have gone with the restore of an etcd, before anything of this kind was read."""
    world = World(X)
    stream = world.cache.streams[X]
    stream.on_list()
    assert world.listing == 1
    stream.on_reset()
    assert world.listing == 2
    stream.on_list()
    assert world.listing == 3


def test_a_place_within_one_that_is_complete_brings_nothing_new() -> None:
    world = World(EVERYTHING)
    world.list(EVERYTHING, obj())
    world.changed.clear()
    world.cache.set_places((EVERYTHING, X))
    world.list(X, obj())
    assert (world.complete, world.changed) == ([EVERYTHING], [])
    assert world.cache.set_places((EVERYTHING,)) == PlaceChange(closed=(X,))
    world.cache.streams[EVERYTHING].on_delete(KEY, obj(revision=7))
    assert world.names() == []


def test_a_place_that_goes_takes_what_no_other_place_shows_and_nobody_is_asked_to_look() -> None:
    world = World(X, Y)
    world.list(X, obj(), obj("native", owner=""))
    world.list(Y, obj("two", namespace="y"))
    world.changed.clear()
    assert world.copies.counts.total() == 2
    late = world.cache.streams[X]
    world.cache.set_places((Y,))
    assert (world.names(), world.changed, world.copies.counts.total()) == (["two"], [], 1)
    assert not world.cache.natives
    assert world.copies.bodies.peek(BodyKey(HERE, MAP, KEY)) is None
    late.on_object(obj())
    late.on_synced(12)
    assert world.names() == ["two"]
    world.cache.set_places(())
    assert world.copies.cache_of("", "ConfigMap") is None
    assert list(world.copies.all_caches()) == []


def test_records_stay_when_another_place_is_about_to_show_them() -> None:
    world = World(X)
    world.list(X, obj(), obj("gone", 7), obj("late", 7))
    record = world.cache.records[KEY]
    world.cache.set_places((COPIES,))
    assert world.names() == ["gone", "late", "one"]
    world.list(COPIES, obj(), revision=6)
    assert world.cache.records[KEY] is record
    assert world.names() == ["gone", "late", "one"]  # that list is from before they were there
    world.changed.clear()
    world.cache.streams[COPIES].on_object(obj("late", 7))
    world.list(COPIES, obj(), obj("late", 7))
    assert (world.names(), world.changed) == (["late", "one"], [world.cache.target(ObjectKey("x", "gone"))])


def test_what_a_complete_place_does_not_have_is_not_expected_of_it() -> None:
    world = World(X, COPIES)
    world.list(COPIES, revision=20)
    world.list(X, obj(), revision=20)
    world.cache.set_places((COPIES,))
    assert world.names() == []


def test_a_write_in_a_place_that_went_meanwhile_is_known_and_its_kind_is_searched() -> None:
    """W3."""
    world = World(X)
    world.list(X)
    with world.cache.writing(KEY):
        world.cache.set_places(())
        world.cache.record_write(KEY, stored(obj()))
    assert world.cache.has_unseen_writes
    assert world.standing
    assert world.names() == ["one"]
    world.cache.set_places((COPIES,))
    world.list(COPIES, revision=4)
    assert world.names() == ["one"]
    world.list(COPIES, revision=5)
    assert world.names() == []


def test_a_write_without_an_answer_in_such_a_place_is_searched_too() -> None:
    world = World(X)
    with world.cache.writing(KEY):
        world.cache.set_places((Y,))
    assert world.cache.has_unseen_writes


def test_a_write_that_nobody_will_see_is_forgotten_when_its_place_stays_away() -> None:
    world = World(X)
    with world.cache.writing(KEY):
        world.cache.set_places((Y,))
        world.cache.record_write(KEY, stored(obj()))
    assert world.names() == ["one"]
    world.cache.set_places((Y,))
    assert (world.names(), world.copies.counts.total()) == ([], 0)


def test_a_kind_in_another_version_is_listed_anew_and_its_copies_are_compared_again() -> None:
    world = World(X)
    world.list(X, obj())
    world.cache.record_write(KEY, stored(obj(revision=6)))
    old = world.cache.streams[X]
    change = world.cache.set_places((X,), kind=MAP._replace(version="v2"))
    assert change == PlaceChange(opened=(X,), closed=(X,))
    assert world.cache.streams[X] is not old
    assert world.copies.cache_of("", "ConfigMap") is world.cache
    record = world.cache.records[KEY]
    assert (record.revision, record.desired, record.verified, record.made_from) == (6, None, 0, None)
    world.list(X, revision=9)
    assert world.names() == []


def test_a_stored_write_is_no_news_when_its_event_comes() -> None:
    world = World(X)
    world.list(X)
    world.cache.record_write(KEY, stored(obj(revision=12)))
    record = world.cache.records[KEY]
    assert (record.desired, record.baseline, record.verified, record.is_plain) == (b"desired", b"baseline", 12, True)
    world.cache.streams[X].on_object(obj(revision=12))
    assert (world.cache.records[KEY], world.changed) == (record, [])


def test_an_object_that_a_list_has_after_our_deletion_was_answered_is_news() -> None:
    """R4: the restore of an etcd may have undone the deletion before its event came; the object is as it was."""
    world = World(X)
    world.list(X, obj())
    world.changed.clear()
    world.cache.record_write(KEY, Deleted("u-another"))
    assert not world.cache.misses_deletion
    world.cache.record_write(KEY, Deleted("u-one"))
    assert world.cache.misses_deletion
    world.list(X, obj())
    assert [target.name for target in world.changed] == [KEY.name]
    assert not world.cache.misses_deletion
    world.cache.record_write(KEY, Deleted("u-one"))
    world.cache.streams[X].on_delete(KEY, obj(revision=12))
    assert not world.cache.misses_deletion


def test_an_interruption_makes_uncertain_what_is_known() -> None:
    """W3: rules may be lost with a restored etcd before the list of copies begins."""
    world = World(X)
    world.cache.streams[X].on_interrupted()
    assert world.listing == 0
    world.list(X)
    world.cache.streams[X].on_interrupted()
    assert world.listing == 1


OURS = {"manager": meta.FIELD_MANAGER, "operation": "Update", "time": "2026-01-02T00:00:00Z"}
WROTE = {"fieldsV1": {"f:metadata": {"f:annotations": {f"f:{meta.PROVENANCE}": {}}}}}


@pytest.mark.clause("W3")
@pytest.mark.parametrize(
    ("entries", "shows_rule"),
    [
        ([{**OURS, **WROTE}], True),
        ([{**OURS, **WROTE, "manager": "velero"}], False),
        ([{**OURS, **WROTE, "time": "2026-01-01T00:00:00Z"}], False),
        ([{**OURS, "fieldsV1": {"f:data": {}}}, {**OURS, **WROTE, "manager": "kubectl"}], False),
        ([{**OURS, **WROTE, "time": "2026-01-01T23:59:30Z"}], True),
        ([{**OURS, **WROTE, "time": "yesterday"}], False),
        ([{**OURS, **WROTE, "subresource": "status"}], False),
        ([], False),
    ],
    ids=["ours", "another's", "earlier", "another field", "before webhooks", "no time", "a status", "unknown"],
)
def test_a_copy_shows_its_rule_only_where_a_daemon_wrote_it(entries: list[dict[str, Any]], shows_rule: bool) -> None:
    """A backup brings back a copy with its annotations, and maybe with the record of who wrote them."""
    source = GVK("", "v1", "ConfigMap")
    provenance = Provenance(
        owner=OWNER, rule="r", rule_owner=LOCAL, policy="Delete", source=source, key=KEY, uid="u", created="",
        revision=1, copy=Target("", "ConfigMap", *KEY), rule_uid="rule", rule_definition="definition",
    )  # fmt: skip
    info = {
        "name": KEY.name, "namespace": KEY.namespace, "uid": "u-one", "resourceVersion": "5",
        "creationTimestamp": "2026-01-02T00:00:00Z", "managedFields": entries,
        "annotations": {meta.OWNER: OWNER, meta.PROVENANCE: encode(provenance)},
    }  # fmt: skip
    world = World(X)
    world.list(X, decode_object(json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": info}).encode()))
    record = world.cache.records[KEY]
    assert record.shows_rule is shows_rule
    assert record.group(MAP).rule_definition == ("definition" if shows_rule else "")


def test_a_comparison_without_a_write_counts_for_the_object_that_was_compared() -> None:
    world = World(X)
    world.list(X, obj())
    slot = BodyKey(HERE, MAP, KEY)
    assert world.copies.bodies.peek(slot) is not None
    world.cache.record_write(KEY, InSync("another", 5, b"d", b"b", is_plain=False))
    assert world.cache.records[KEY].desired is None
    world.cache.record_write(KEY, InSync("u-one", 5, b"d", b"b", is_plain=False))
    record = world.cache.records[KEY]
    assert (record.desired, record.baseline, record.verified) == (b"d", b"b", 5)
    assert world.copies.bodies.peek(slot) is None
    world.cache.streams[X].on_object(obj(revision=6))
    assert world.cache.records[KEY].verified == 5
    world.cache.record_write(KEY, Unchanged())
    assert world.cache.records[KEY].verified == 6


def test_what_a_copy_was_made_from_outlives_its_events_and_not_the_object() -> None:
    world = World(X)
    world.list(X, obj())
    world.cache.record_write(KEY, Rendered("source", ("loser",)))
    world.cache.streams[X].on_object(obj(revision=6))
    assert (world.cache.records[KEY].made_from, world.cache.records[KEY].outranked_rules) == ("source", ("loser",))
    world.cache.streams[X].on_object(obj(revision=7, uid="new"))
    assert world.cache.records[KEY].made_from is None


@pytest.mark.parametrize(("verified", "expected"), [(5, 8), (4, 0)])
def test_a_status_that_we_wrote_changes_nothing_else(verified: int, expected: int) -> None:
    world = World(X)
    world.list(X, obj())
    world.cache.records[KEY].verified = verified
    world.cache.record_write(KEY, StatusStored(b"status", obj(revision=8)))
    record = world.cache.records[KEY]
    assert (record.status_digest, record.revision, record.verified) == (b"status", 8, expected)
    world.cache.record_write(KEY, StatusStored(b"other", obj(revision=9, uid="new")))
    assert world.cache.records[KEY].status_digest == b"status"
    world.cache.record_write(KEY, StatusStored(None))
    assert world.cache.records[KEY].status_digest is None


def test_results_of_a_copy_that_is_gone_are_dropped() -> None:
    world = World(X)
    for result in (
        Unchanged(),
        Rendered("source", ()),
        StatusStored(b"s"),
        InSync("u-one", 5, b"d", b"b", is_plain=True),
    ):
        world.cache.record_write(KEY, result)
    assert not world.cache.records


def test_a_history_that_went_back_forgets_what_its_stream_had() -> None:
    """O3."""
    world = World(X, Y)
    world.list(X, obj())
    world.list(Y, obj("two", namespace="y"))
    world.cache.streams[X].on_reset()
    assert world.names() == ["two"]
    assert world.cache.shown == {"y"}
    world.list(X, obj(revision=2), revision=3)
    assert world.complete == [X, Y, X]
    assert world.cache.records[KEY].revision == 2


@pytest.mark.parametrize("revision", [4, 5, 6])
def test_what_another_place_has_stays_its_own_when_the_history_of_one_went_back(revision: int) -> None:
    """O3, S2: the watch of the other place may go on from before the point at which the histories part."""
    world = World(X, EVERYTHING)
    world.list(X, obj(), revision=6)
    world.list(EVERYTHING, obj(), revision=9)
    world.cache.record_write(KEY, InSync("u-one", 5, b"desired", b"baseline", is_plain=True))
    world.changed.clear()
    wide = world.cache.streams[EVERYTHING]
    wide.on_reset()
    assert world.names() == ["one"]
    wide.on_list_request()
    wide.on_list()
    wide.on_object(obj(revision=revision))
    wide.on_list_end(7)
    wide.on_synced(7)
    assert [target.name for target in world.changed] == ["one"]
    assert world.cache.records[KEY].revision == revision
    assert world.cache.records[KEY].verified != revision
    world.cache.set_places((X,))
    assert world.names() == ["one"]


def test_a_copy_that_may_have_lacked_fields_is_compared_again() -> None:
    """R4: it is the same state, so nothing else shows that somebody has changed a field that came unseen."""
    world = World(X)
    world.list(X, obj("old", 5), obj("late", 12), revision=12)
    for name, revision in (("old", 5), ("late", 12)):
        result = InSync(f"u-{name}", revision, b"desired", b"baseline", is_plain=True)
        world.cache.record_write(ObjectKey("x", name), result)
    world.changed.clear()
    world.cache.streams[X].on_doubt(11)
    world.list(X, obj("old", 5), obj("late", 12), revision=14)
    assert [target.name for target in world.changed] == ["late"]
    assert {key.name: record.verified for key, record in world.cache.records.items()} == {"old": 5, "late": 0}
