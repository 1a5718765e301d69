"""The laws of what we remember: sources, copies, our own kinds. R1, R6, O2, O3, O4, O7."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from registry_controller.api import meta
from registry_controller.api.meta import GVK, ClusterUID, ObjectKey, Target
from registry_controller.api.provenance import Provenance, decode, encode
from registry_controller.api.selection import EVERYTHING, Selection
from registry_controller.cache.copy_index import CopyIndex
from registry_controller.cache.members import MemberRecord, Members, secret_target
from registry_controller.cache.peer_objects import PeerFeatures, PeerObjects
from registry_controller.cache.registry import Registry
from registry_controller.cache.source_cache import SourceCache
from registry_controller.cache.source_index import SourceIndex
from registry_controller.cache.write_results import Stored
from registry_controller.core.decision.marks import Marks
from registry_controller.core.rules.active import activate
from registry_controller.core.rules.validation import read_and_validate
from registry_controller.kube.object import decode_object
from registry_controller.watch.body_cache import BodyCache, BodyKey
from tests.unit.cache.observers import Observer, no_offers

PEER = ClusterUID("peer")
KIND = GVK("", "v1", "ConfigMap")
KEY = ObjectKey("ns", "x")
TARGET = Target("", "ConfigMap", "ns", "x")


def _heard(revision: int, *, uid: str = "u", labels: dict[str, str] | None = None) -> Any:
    body = {
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "x", "namespace": "ns", "uid": uid, "resourceVersion": str(revision),
                     "labels": labels or {"a": "1", "b": "1"}},
    }  # fmt: skip
    return decode_object(json.dumps(body).encode())


def _rule(*labels: str) -> Any:
    matches = [{"labels": [{"matchLabels": {label: "1"}}]} for label in labels]
    manifest = {
        "metadata": {"name": "r", "uid": "r", "generation": 1},
        "spec": {"groupVersionKind": {"version": "v1", "kind": "ConfigMap"}, "rules": [{"match": matches}]},
    }
    rule, verdict = read_and_validate(manifest)
    assert rule is not None
    assert verdict.accepted
    return activate(rule, created_at="", owner=PEER)


def _feed(*labels: str, tap: PeerObjects | None = None) -> tuple[SourceCache, SourceIndex, list[Target]]:
    changed: list[Target] = []
    sources = SourceIndex(
        bodies=BodyCache(),
        observer=Observer(on_claims_changed=lambda targets, *_: changed.extend(targets)),
    )
    cache = SourceCache(peer=PEER, kind=KIND, rules=(_rule(*labels),), sources=sources, tap=tap)
    sources.open(cache)
    return cache, sources, changed


def test_a_late_stream_never_brings_an_older_state_back() -> None:
    """O3, R1: one object on two streams."""
    cache, _, _ = _feed("a", "b")
    first, second = cache.streams.values()
    first.on_object(_heard(20, uid="new"))
    second.on_object(_heard(10, uid="old"))
    assert (cache.records[KEY].uid, cache.records[KEY].revision) == ("new", 20)
    second.on_delete(KEY, _heard(11, uid="old"))
    assert cache.records[KEY].uid == "new"


def test_a_server_that_was_put_back_is_believed_once_all_streams_say_so() -> None:
    """O3."""
    cache, _, _ = _feed("a", "b")
    first, second = cache.streams.values()
    for stream in (first, second):
        stream.on_object(_heard(20))
    first.on_object(_heard(5))
    assert cache.records[KEY].revision == 20
    second.on_object(_heard(5))
    assert cache.records[KEY].revision == 5


def test_a_tap_is_complete_only_when_everything_was_heard() -> None:
    """P9, O7."""
    tap = PeerFeatures(changed=lambda: None)
    cache, _, _ = _feed("a", tap=tap)
    cache.streams[Selection(labels="a=1")].on_synced(1)
    assert tap.held is None
    cache.streams[Selection()].on_synced(1)
    assert tap.held == ()


@given(st.lists(st.tuples(st.sampled_from(["upsert", "lose", "remove"]), st.integers(0, 1)), max_size=12))
def test_a_claim_stands_exactly_while_a_stream_has_the_object(events: list[tuple[str, int]]) -> None:
    """R1, R6: and no body outlives its claim."""
    cache, sources, changed = _feed("a", "b")
    streams = list(cache.streams.values())
    held: set[int] = set()
    revision = 1
    for event, index in events:
        revision += 1
        if event == "upsert":
            streams[index].on_object(_heard(revision))
            held.add(index)
        elif event == "lose":
            streams[index].on_object(_heard(revision, labels={"c": "1"}))
            held.clear()
        else:
            streams[index].on_delete(KEY, None)
            held.discard(index)
        assert bool(list(sources.claiming(TARGET))) == bool(held)
        assert (sources.bodies.peek(BodyKey(PEER, KIND, KEY)) is not None) == bool(held)
    assert set(changed) <= {TARGET}


class _Store:
    """One name at an API server, of which we hear by events, by lists, and by the answers to our own writes.

    A write is asked for, stored and answered, or not, and one is under way at a time.

    `seen` is what we had when we were last told to look, or had the answer to our own write.
    """

    def __init__(self) -> None:
        self.copies = CopyIndex(
            bodies=BodyCache(),
            offers=no_offers(),
            local=ClusterUID("local"),
            observer=Observer(on_copy_changed=lambda *_: self._look()),
        )
        self.cache = self.copies.open(KIND)
        self.cache.set_places([EVERYTHING])
        (self.stream,) = self.cache.streams.values()
        self.revision, self.serial = 1, 0
        self.there: Any = None
        self.backup: Any = None
        self.events: list[tuple[str, Any]] = []
        self.is_listed = False
        self.asked: str | None = None
        self.written: Any = None
        self.scope = contextlib.ExitStack()
        self.seen: Any = None
        self.looks = 0

    def do(self, deed: str) -> None:
        """Write, or let something arrive."""
        self.revision += 1
        if deed == "backup":
            self.backup = self.there
        elif deed == "restore":
            self._restore()
        else:
            self._do(deed)

    def _do(self, deed: str) -> None:
        if deed in ("we create", "we change") and self.asked is None:
            self.asked = deed
            self.scope.enter_context(self.cache.writing(KEY))
        elif deed == "stored" and self.written is None and self.asked is not None:
            if (self.asked == "we create") == (self.there is None):
                self.written = self._put({meta.OWNER: PEER})
        elif deed in ("people create", "people change") and (deed == "people create") == (self.there is None):
            self._put({})
        elif deed == "delete" and self.there is not None:
            self.events.append(("gone", self._object(marks=self.there.annotations, uid=self.there.uid)))
            self.there = None
        elif deed == "event" and self.events:
            self._tell()
        elif deed == "answer" and self.written is not None:
            marks = Marks(PEER, None, sync_disabled=False, go_written=False)
            self.cache.record_write(KEY, Stored(self.written, marks, b"d", b"b", is_plain=True))
            self.seen = self._held()
            written = self.written
            self._end_write()
            assert self.there is not written or self._held() == (written.uid, written.revision)
        elif deed == "no answer":
            self._end_write()
        elif deed == "list":
            self._list()

    def _restore(self) -> None:
        """Put back what there was, and raise the revision: every watch is refused, and a list follows."""
        self._end_write()
        self.there, self.revision = self.backup, self.revision + 1000
        self._list()

    def _tell(self) -> None:
        what, obj = self.events.pop(0)
        self.is_listed = what == "there"
        self.stream.on_object(obj) if self.is_listed else self.stream.on_delete(KEY, obj)

    def _list(self) -> None:
        """Tell what there is; only what was told of before can be missed."""
        self.events.clear()
        self.stream.on_list()
        was, self.is_listed = self.is_listed, self.there is not None
        if self.is_listed:
            self.stream.on_object(self.there)
        self.stream.on_list_end(self.revision)
        if was and not self.is_listed:
            self.stream.on_delete(KEY, None)
        self.stream.on_synced(self.revision)

    def _put(self, marks: Mapping[str, str]) -> Any:
        if self.there is None:
            self.serial += 1
        self.there = self._object(marks=marks, uid=f"u{self.serial}")
        self.events.append(("there", self.there))
        return self.there

    def _end_write(self) -> None:
        self.scope.close()
        self.asked = self.written = None

    def _look(self) -> None:
        self.looks += 1
        self.seen = self._held()

    def _held(self) -> Any:
        record = self.cache.records.get(KEY)
        return (record.uid, record.revision) if record is not None else KEY in self.cache.natives

    def assert_true(self) -> None:
        """What is known is what is there, and we were told."""
        record, there = self.cache.records.get(KEY), self.there
        is_ours = there is not None and meta.OWNER in there.annotations
        known = (record.uid, record.revision) if record is not None else None
        assert known == ((there.uid, there.revision) if is_ours else None)
        assert (KEY in self.cache.natives) == (there is not None and not is_ours)
        assert self.copies.counts.total() == len(self.cache.records)
        assert list(self.cache.find(lambda group: group.owner == PEER)) == list(self.cache.records)
        assert self.cache.namespaces.total() == len(self.cache.records)
        assert [key for _, key, _ in self.copies.awaiting_proof()] == list(self.cache.records)
        assert (self.seen or False) == self._held()

    def _object(self, *, marks: Mapping[str, str], uid: str) -> Any:
        info = {"name": "x", "namespace": "ns", "uid": uid, "resourceVersion": str(self.revision)}
        marked = {"annotations": dict(marks)} if marks else {}
        return decode_object(json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": info | marked}).encode())


_DEEDS = (
    "we create", "we change", "stored", "answer", "no answer",
    "people create", "people change", "delete", "event", "list", "backup", "restore",
)  # fmt: skip


@settings(max_examples=400)
@given(st.lists(st.sampled_from(_DEEDS), max_size=24), st.permutations(["event", "answer"]))
def test_what_is_here_is_known_in_the_end_however_late_our_writes_are_answered(
    deeds: list[str], order: list[str]
) -> None:
    """R1, O1: an answer never brings back what events have taken away since, and an echo hides nothing else.

    R4: that holds over a restore that raises the revision, too.
    """
    store = _Store()
    for deed in deeds:
        store.do(deed)
    for last in order:
        for _ in range(len(deeds)):
            store.do(last)
    store.do("no answer")
    store.assert_true()


def test_a_copy_that_came_and_went_between_two_lists_is_forgotten() -> None:
    """R1, O6: no stream ever had it, so none can say that it is gone; the list that lacks it says so."""
    for before in ((), ("list",)):
        store = _Store()
        for deed in (*before, "we create", "stored", "answer", "delete", "list"):
            store.do(deed)
        assert store.looks == 1
        store.assert_true()


def test_a_restored_copy_is_known_as_it_is_and_looked_at() -> None:
    """R4: an older state of a later list, of an object that was known to be newer."""
    store = _Store()
    for deed in ("we create", "stored", "answer", "event", "backup", "we change", "stored", "answer", "event"):
        store.do(deed)
    looks = store.looks
    store.do("restore")
    assert store.looks == looks + 1
    assert store.cache.records[KEY].desired is None, "it is compared again"
    store.assert_true()


def test_our_own_echo_wants_no_look() -> None:
    """R6: neither before the answer nor after it."""
    for order in (("event", "answer"), ("answer", "event")):
        store = _Store()
        for deed in ("we create", "stored", *order, "we change", "stored", *order):
            store.do(deed)
        assert not store.looks
        assert store.cache.records[KEY].revision == store.there.revision


@given(st.binary(max_size=64) | st.text(max_size=64))
def test_a_provenance_that_is_garbage_is_none(text: bytes | str) -> None:
    """O3, A6."""
    assert decode(text if isinstance(text, str) else text.decode("latin-1"), of=TARGET) is None


@given(st.text(min_size=1, max_size=8), st.integers(0, 2**60), st.booleans())
def test_a_provenance_survives_its_spelling_and_counts_only_where_it_belongs(
    owner: str, revision: int, inherited: bool
) -> None:
    """O3, O10."""
    provenance = Provenance(
        ClusterUID(owner), "r", ClusterUID("a"), "Orphan", KIND, KEY, "u", "c", revision, TARGET, inherited
    )
    try:
        text = encode(provenance)
    except TypeError:  # a lone surrogate, which no API server stores
        return
    assert decode(text, of=TARGET) == provenance
    assert decode(text, of=TARGET._replace(name="other")) is None


def _cluster(name: str, revision: int) -> dict[str, Any]:
    return {"metadata": {"name": name, "resourceVersion": str(revision)}, "spec": {"clusterID": f"id-{revision}"}}


def test_an_event_newer_than_a_list_is_not_lost() -> None:
    """P1, O6: nor is an object that it changed put back."""
    registry = Registry(local=ClusterUID("local"), on_change=lambda *_: None)
    registry.replace("clusters", [_cluster("old", 5)], revision=5)
    known = registry.begin_list("clusters")
    registry.apply("clusters", "ADDED", _cluster("new", 11))
    registry.apply("clusters", "MODIFIED", _cluster("old", 12))
    registry.replace("clusters", [_cluster("old", 5)], revision=10, known=known)
    assert {"old", "new"} == set(registry.clusters)
    held = registry.clusters["old"].cluster
    assert held is not None
    assert held.cluster_id == "id-12"


@given(
    st.dictionaries(st.sampled_from("abc"), st.integers(1, 20)),
    st.dictionaries(st.sampled_from("abc"), st.integers(1, 20)),
    st.sampled_from("abc"),
    st.integers(0, 30),
)
def test_a_complete_list_replaces_what_was_known_when_it_began(
    before: dict[str, int], listed: dict[str, int], late: str, revision: int
) -> None:
    """R4: object by object, with any revisions; what came since it began stays."""
    registry = Registry(local=ClusterUID("local"), on_change=lambda *_: None)
    for name, at in before.items():
        registry.apply("clusters", "ADDED", _cluster(name, at))
    known = registry.begin_list("clusters")
    registry.apply("clusters", "MODIFIED", _cluster(late, 50))
    manifests = [_cluster(name, at) for name, at in listed.items()]
    registry.replace("clusters", manifests, revision=revision, known=known)
    found = {name: held.cluster.cluster_id for name, held in registry.clusters.items() if held.cluster is not None}
    assert found == {name: f"id-{at}" for name, at in {**listed, late: 50}.items()}


def test_what_a_complete_list_does_not_have_is_gone() -> None:
    """O6, P1: also when our own etcd was put back."""
    registry = Registry(local=ClusterUID("local"), on_change=lambda *_: None)
    registry.replace("clusters", [_cluster("a", 5), _cluster("b", 6)], revision=9)
    registry.replace("clusters", [_cluster("a", 5)], revision=10)
    assert set(registry.clusters) == {"a"}
    registry.replace("clusters", [_cluster("c", 2)], revision=3)
    assert set(registry.clusters) == {"c"}


def test_a_secret_belongs_to_whom_its_cluster_names() -> None:
    """O4, O7: a relay's Clusters decide nothing; and one that two members' Clusters name belongs to nobody."""
    changed: list[Target] = []
    members = Members(on_change=changed.append)
    secret = ObjectKey("ns", "s")
    view = MemberRecord("a", ClusterUID("a"), secret, "Ready", "Peer", False, "uid")
    own = ClusterUID("a")
    assert members.set_there(own, "a", view)
    assert not members.set_there(own, "a", view)
    members.set_there(PEER, "a", view)
    assert members.natural_of_secret(secret, peer=own) == {"a"}
    assert members.natural_of_secret(secret, peer=PEER) == set()
    members.set_there(own, "b", view._replace(name="b", cluster_id=ClusterUID("b")))
    assert members.natural_of_secret(secret, peer=own) == set()
    members.drop_peer(own)
    assert members.natural_of_secret(secret, peer=own) == set()
    assert secret_target(secret) in changed


def test_the_core_label_is_the_contracts() -> None:
    """W7."""
    assert meta.CORE_RESOURCE == "cluster-registry-controller.k8s.cisco.com/core-sync-resource"
