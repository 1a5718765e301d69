"""A stream of the library: which states of an object are news, and the reason of one that a member does not show."""

from __future__ import annotations

import json

import msgspec
import pytest

from registry_controller.api import meta
from registry_controller.api.errors import Forbidden, RegistryError, Unreachable
from registry_controller.api.meta import GVK, ClusterUID, Target
from registry_controller.api.selection import EVERYTHING, Selection
from registry_controller.group.objects import EventType, Object
from registry_controller.group.owned_objects import OwnedChange, OwnedHandler, OwnedObjects
from registry_controller.group.ownership import Owner, OwnerMark, encode_mark
from registry_controller.group.streams import MemberStream, StreamRequest
from registry_controller.kube.object import PartialObject, decode_object

KIND = GVK("sim.example", "v1", "Widget")
REQUEST = StreamRequest("pods", EVERYTHING, metadata_only=True)


class _Consumer:
    """Keeps the labels of the objects, and the states, that it is given."""

    reads_caches = False

    def __init__(self) -> None:
        self.labels: list[dict[str, str]] = []
        self.states: list[EventType] = []

    def on_change(self, member: str, old: Object | None, new: Object | None, *, is_relisted: bool) -> None:
        self.labels.append(dict(new.labels) if new is not None else {})

    def on_state(self, member: str, state: EventType, *, reason: str = "", is_relisted: bool = False) -> None:
        self.states.append(state)


def _make(member: str, request: StreamRequest, *, by_context: bool) -> MemberStream:
    return MemberStream(member, request, by_context=by_context, others=lambda _: (), refused=lambda _: None)


def _widget(*, revision: int | str, value: str, **fields: str) -> PartialObject:
    info = {"name": "x", "namespace": "n", "uid": "u", "resourceVersion": str(revision), "labels": {"value": value}}
    manifest = {"apiVersion": KIND.api_version, "kind": KIND.kind, "metadata": info, **fields}
    return decode_object(json.dumps(manifest).encode())


def _stream() -> tuple[MemberStream, _Consumer]:
    stream, consumer = (
        _make("a", StreamRequest("widgets", EVERYTHING, metadata_only=False), by_context=False),
        _Consumer(),
    )
    stream.kind = KIND
    stream.attach(consumer, stream.request)
    stream.on_object(_widget(revision=5, value="1"))
    stream.on_synced(5)
    return stream, consumer


def test_a_known_revision_is_no_news() -> None:
    stream, consumer = _stream()
    stream.on_object(_widget(revision=5, value="2"))
    assert consumer.labels == [{"value": "1"}]


def test_a_known_revision_is_news_after_a_reset_until_the_next_list_is_complete() -> None:
    stream, consumer = _stream()
    stream.on_reset()
    stream.on_object(_widget(revision=5, value="2"))
    stream.on_synced(5)
    stream.on_object(_widget(revision=5, value="3"))
    assert consumer.labels == [{"value": "1"}, {"value": "2"}]


def test_a_known_revision_that_may_lack_fields_is_news_in_the_next_list() -> None:
    stream, consumer = _stream()
    stream.on_doubt(5)
    stream.on_object(_widget(revision=5, value="2"))
    assert consumer.labels == [{"value": "1"}]
    stream.on_doubt(4)
    stream.on_object(_widget(revision=5, value="2"))
    assert consumer.labels == [{"value": "1"}, {"value": "2"}]


def test_an_object_in_another_version_is_news() -> None:
    stream, consumer = _stream()
    stream.kind = KIND._replace(version="v2")
    stream.on_object(_widget(revision=5, value="1"))
    assert consumer.labels == [{"value": "1"}, {"value": "1"}]


@pytest.mark.parametrize("metadata_only", [True, False])
def test_a_state_whose_version_is_no_number_is_news_unless_it_is_known_whole(metadata_only: bool) -> None:
    """An aggregated API server may give such versions; all of them have the revision 0."""
    stream, consumer = _make("a", REQUEST._replace(metadata_only=metadata_only), by_context=False), _Consumer()
    stream.kind = KIND
    stream.attach(consumer, stream.request)
    for version, value, phase in (("v-1", "1", "a"), ("v-2", "2", "a"), ("v-3", "2", "b"), ("v-3", "2", "b")):
        stream.on_object(_widget(revision=version, value=value, phase=phase))
    news = [{"value": value} for value in "1222"]
    assert consumer.labels == (news if metadata_only else news[:3])


def test_a_consumer_that_is_moved_gets_a_state_whose_version_is_no_number() -> None:
    wide, consumer = _stream()
    narrow = _make("a", StreamRequest("widgets", Selection("n"), metadata_only=False), by_context=False)
    narrow.kind = KIND
    wide.on_object(_widget(revision="v-1", value="1", phase="a"))
    narrow.on_object(_widget(revision="v-2", value="1", phase="b"))
    before = len(consumer.labels)
    narrow.take_over(consumer, wide)
    assert len(consumer.labels) == before + 1


def test_an_owned_object_whose_version_is_no_number_is_reported_at_each_event() -> None:
    """Its owner is reconciled after each change of it, also of its status."""
    changes: list[OwnedChange] = []
    owned = OwnedObjects(operator="o", cluster=ClusterUID("here"), changed=changes.append)
    target = Target(KIND.group, KIND.kind, "n", "x")
    mark = OwnerMark(Owner(ClusterUID("b"), "", "ConfigMap", "n", "x", "u"), "Background", "o")
    text = encode_mark(mark, of=target, cluster=owned.cluster)
    handler = OwnedHandler(KIND, owned, synced=lambda: None, reset=lambda: None, report=lambda _: None)
    for version in ("v-1", "v-2", "7", "7"):
        found = _widget(revision=version, value="1")
        handler.on_object(msgspec.structs.replace(found, annotations={meta.GROUP_OWNER: text}))
    assert len(changes) == 3


@pytest.mark.parametrize(
    ("error", "by_context", "end"),
    [
        (
            Forbidden("watch pods.v1: 403 Forbidden", lacks_right=True),
            False,
            "`registry-controller rbac` prints it for a rule of that kind",
        ),
        (
            Forbidden("watch pods.v1: 403 Forbidden", lacks_right=True),
            True,
            "grant it there to the account of this program",
        ),
        (Unreachable("no answer"), False, "no answer"),
    ],
    ids=["of the reader", "of the user", "no right"],
)
def test_a_missing_right_names_the_account_that_lacks_it(error: RegistryError, by_context: bool, end: str) -> None:
    """The chart grants its reader no right on most kinds, so no message refers to the chart."""
    stream = _make("b", REQUEST, by_context=by_context)
    stream.on_error(error)
    assert stream.problem.endswith(end)


def test_what_a_connection_brings_after_its_member_has_left_is_for_nobody() -> None:
    """Its tasks end some turns of the loop later, and a watch may bring an event until then."""
    stream, consumer = _stream()
    stream.drop_objects()
    stream.end("its Cluster is missing")
    stream.on_object(_widget(revision=6, value="2"))
    stream.on_error(Unreachable("no answer"))
    stream.on_synced(6)
    assert consumer.labels == [{"value": "1"}, {}]
    assert consumer.states == [EventType.SYNCED, EventType.LEFT]


@pytest.mark.parametrize("problem", ["", "no answer"])
def test_a_consumer_that_is_moved_hears_the_state_of_the_stream_that_it_gets(problem: str) -> None:
    """The former one was stale, or current, and the other one may not change for long."""
    wide, consumer = _stream()
    narrow = _make("a", StreamRequest("widgets", Selection("n"), metadata_only=False), by_context=False)
    narrow.kind = KIND
    narrow.on_object(_widget(revision=5, value="1"))
    narrow.on_synced(5)
    (narrow if problem else wide).mark_stale("no answer")
    narrow.take_over(consumer, wide)
    assert consumer.states[-1] is (EventType.STALE if problem else EventType.SYNCED)
