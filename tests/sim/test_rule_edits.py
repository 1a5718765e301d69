"""What an edit of one rule costs beside another that holds many objects. R1, R6, S1."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

import pytest

from registry_controller.api import meta
from registry_controller.api.meta import GVK, ObjectKey
from registry_controller.cache.source_records import SourceRecord
from tests.sim.cluster.group import CONFIG_MAP, SimGroup, config_map, rule, simulate
from tests.sim.cluster.member import Member

MANY = 200
WINDOW_S = 30.0
MAP = GVK("", "v1", "ConfigMap")


class Read(NamedTuple):
    """A list, or a watch that begins with one, of ConfigMaps at the peer."""

    namespace: str
    labels: str


class Cost(NamedTuple):
    """What one change took."""

    lists: Sequence[Read]
    adds: int
    decisions: int
    writes: int


def _match(**labels: str) -> dict[str, Any]:
    return {"match": [{"labels": [{"matchLabels": labels}]}]}


def _within(namespace: str) -> dict[str, Any]:
    return {"match": [{"namespaces": [namespace]}]}


def _kept(name: str, *entries: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """Write a rule that stays in its cluster."""
    made = rule(name, CONFIG_MAP, *entries, **spec)
    made["metadata"]["annotations"] = {meta.SYNC_DISABLED: "true"}
    return made


def _labelled(entry: Mapping[str, Any], **labels: str) -> dict[str, Any]:
    """Let an entry give its copies labels."""
    return {**entry, "mutations": {"labels": {"add": labels}}}


async def _joined(group: SimGroup, *, many: int = MANY) -> tuple[Member, Member]:
    """Form a group of two: 200 objects of a rule, or so many, and one of another."""
    await group.join()
    here, peer = group.members
    peer.create({"kind": "Namespace", "metadata": {"name": "other"}})
    here.create({"kind": "Namespace", "metadata": {"name": "other"}})
    for number in range(many):
        peer.create(config_map(f"many-{number}", {"a": "1"}, labels={"of": "many"}))
    peer.create(config_map("one", {"a": "1"}, labels={"of": "few"}, namespace="other"))
    return here, peer


def _adds(here: Member) -> int:
    assert here.daemon is not None
    return here.daemon.queue.added


def _decisions(here: Member) -> int:
    assert here.daemon is not None
    return int(sum(sample.value for sample in next(iter(here.daemon._metrics.decisions_total.collect())).samples))


def _records(group: SimGroup) -> dict[ObjectKey, SourceRecord]:
    daemon = group["a"].daemon
    assert daemon is not None
    cache = daemon.engine.sources.cache_of(group["b"].id, MAP)
    return {} if cache is None else dict(cache.records)


def _lists(paths: Sequence[str]) -> list[Read]:
    found = []
    for parts in map(urlsplit, paths):
        query = dict(parse_qsl(parts.query))
        is_list = "watch" not in query or query.get("sendInitialEvents") == "true"
        places = parts.path.split("/")
        if places[-1] == "configmaps" and is_list and not query.get("continue"):
            namespace = places[places.index("namespaces") + 1] if "namespaces" in places else ""
            found.append(Read(namespace, query.get("labelSelector", "")))
    return found


def _watched(group: SimGroup) -> list[Read]:
    paths = [path for path in group.wire("a", "b").open_watches if "configmaps" in path]
    return [
        Read(
            path.split("/namespaces/")[1].split("/")[0] if "/namespaces/" in path else "",
            dict(parse_qsl(urlsplit(path).query)).get("labelSelector", ""),
        )
        for path in paths
    ]


async def _cost(group: SimGroup, deed: Any) -> Cost:
    """Do something, and count what it takes until everything rests; no record of the rule for many may change."""
    here, wire = group["a"], group.wire("a", "b")
    wire.reads.clear()
    adds, decisions, writes = _adds(here), _decisions(here), len(here.server.journal)
    before = {key: record for key, record in _records(group).items() if key.name.startswith("many")}
    assert len(before) == MANY
    hits = {key: record.hits for key, record in before.items()}
    deed()
    await group.settle()
    now = _records(group)
    assert all(now[key] is record and now[key].hits == hits[key] for key, record in before.items())
    written = [write for write in here.server.journal[writes:] if write.kind == "ConfigMap"]
    return Cost(_lists(list(wire.reads)), _adds(here) - adds, _decisions(here) - decisions, len(written))


def _assert_cheap(cost: Cost, *, lists: Sequence[Read], writes: int) -> None:
    assert list(cost.lists) == list(lists), cost
    assert cost.writes == writes, cost
    assert cost.adds <= 10, cost
    assert cost.decisions <= 5, cost


@pytest.mark.clause("R1")
def test_an_edit_lists_what_its_own_rule_asks_for_and_touches_no_other_record() -> None:
    async def scenario(group: SimGroup) -> None:
        here, _ = await _joined(group)
        here.create(_kept("many", _match(of="many"), deletionPolicy="Delete"))
        here.create(_kept("few", _match(of="few"), deletionPolicy="Delete"))
        await group.settle()
        assert len(here.list("ConfigMap")) == MANY + 1
        edited = _kept("few", _labelled(_match(of="few"), edited="yes"), deletionPolicy="Delete")
        cost = await _cost(group, lambda: here.apply(edited))
        assert here.get("ConfigMap", "one", namespace="other")["metadata"]["labels"]["edited"] == "yes"
        _assert_cheap(cost, lists=[Read("", "of=few")], writes=1)
        cost = await _cost(group, lambda: here.apply(_kept("few", _match(of="none"), deletionPolicy="Delete")))
        assert here.find("ConfigMap", "one", namespace="other") is None
        _assert_cheap(cost, lists=[Read("", "of=none")], writes=1)
        assert _watched(group) == [Read("", "of=many"), Read("", "of=none")]

    simulate(scenario, n=2)


@pytest.mark.clause("R1")
@pytest.mark.parametrize("entry", [_match(of="few"), _within("other")], ids=["labels", "namespace"])
def test_a_rule_that_comes_or_goes_costs_what_is_its_own(entry: dict[str, Any]) -> None:
    async def scenario(group: SimGroup) -> None:
        here, _ = await _joined(group)
        here.create(_kept("many", _match(of="many"), deletionPolicy="Delete"))
        await group.settle()
        asked = Read("other", "") if "namespaces" in entry["match"][0] else Read("", "of=few")
        cost = await _cost(group, lambda: here.create(_kept("few", entry, deletionPolicy="Delete")))
        assert here.find("ConfigMap", "one", namespace="other")
        _assert_cheap(cost, lists=[asked], writes=1)
        assert sorted(_watched(group)) == sorted([Read("", "of=many"), asked])
        cost = await _cost(group, lambda: here.delete("ResourceSyncRule", "few"))
        assert here.find("ConfigMap", "one", namespace="other") is None
        _assert_cheap(cost, lists=[], writes=1)
        assert _watched(group) == [Read("", "of=many")]

    simulate(scenario, n=2)


@pytest.mark.clause("R1")
def test_a_rule_whose_selection_is_part_of_anothers_shares_its_watch() -> None:
    """And lists its own part alone when it comes or changes; with the wide rule, the wide watch goes."""

    async def scenario(group: SimGroup) -> None:
        here, _ = await _joined(group)
        wide = {"match": [{"annotations": [{"matchAnnotations": {"wide": "yes"}}]}, *_match(of="many")["match"]]}
        here.create(_kept("wide", wide, deletionPolicy="Delete"))
        await group.settle()
        assert _watched(group) == [Read("", "")]
        cost = await _cost(group, lambda: here.create(_kept("few", _within("other"), deletionPolicy="Delete")))
        assert here.find("ConfigMap", "one", namespace="other")
        _assert_cheap(cost, lists=[Read("other", "")], writes=1)
        edited = _kept("few", _labelled(_within("other"), edited="yes"), deletionPolicy="Delete")
        cost = await _cost(group, lambda: here.apply(edited))
        _assert_cheap(cost, lists=[Read("other", "")], writes=1)
        assert _watched(group) == [Read("", "")]
        cost = await _cost(group, lambda: here.create(_kept("many", _match(of="more"), deletionPolicy="Delete")))
        _assert_cheap(cost, lists=[Read("", "of=more")], writes=0)
        assert _watched(group) == [Read("", "")]

    simulate(scenario, n=2)


@pytest.mark.clause("R1")
def test_a_narrow_watch_ends_once_the_wide_one_has_heard_everything_and_comes_back_without_it() -> None:
    async def scenario(group: SimGroup) -> None:
        here, peer = await _joined(group)
        here.create(_kept("few", _within("other"), deletionPolicy="Delete"))
        here.create(_kept("many", _match(of="many"), deletionPolicy="Delete"))
        await group.settle()
        wide = {"match": [{"annotations": [{"matchAnnotations": {"wide": "yes"}}]}]}
        cost = await _cost(group, lambda: here.create(_kept("wide", wide, deletionPolicy="Delete")))
        _assert_cheap(cost, lists=[Read("", "")], writes=0)
        assert _watched(group) == [Read("", "")]
        peer.apply(config_map("one", {"a": "2"}, labels={"of": "few"}, namespace="other"))
        await group.settle()
        assert here.get("ConfigMap", "one", namespace="other")["data"] == {"a": "2"}
        cost = await _cost(group, lambda: here.delete("ResourceSyncRule", "wide"))
        assert (cost.writes, sorted(cost.lists)) == (0, [Read("", "of=many"), Read("other", "")])
        assert sorted(_watched(group)) == [Read("", "of=many"), Read("other", "")]
        peer.delete("ConfigMap", "one", namespace="other")
        await group.settle()
        assert here.find("ConfigMap", "one", namespace="other") is None

    simulate(scenario, n=2)


@pytest.mark.clause("R1")
def test_the_watch_of_a_rule_that_is_removed_ends_a_second_after_the_window_at_most() -> None:
    async def scenario(group: SimGroup) -> None:
        here, _ = await _joined(group)
        here.create(_kept("few", _match(of="few"), deletionPolicy="Delete"))
        here.create(_kept("many", _match(of="many"), deletionPolicy="Delete"))
        await group.settle()
        here.delete("ResourceSyncRule", "few")
        await asyncio.sleep(WINDOW_S - 1.0)
        assert sorted(_watched(group)) == [Read("", "of=few"), Read("", "of=many")]
        await asyncio.sleep(2.0)
        assert _watched(group) == [Read("", "of=many")]
        here.delete("ResourceSyncRule", "many")
        await asyncio.sleep(WINDOW_S + 1.0)
        assert not _watched(group)

    simulate(scenario, n=2)


class _Lines:
    """How often each line of the packages that hold records and copies ran."""

    _PACKAGES = tuple(f"/registry_controller/{name}/" for name in ("cache", "clusters", "membership", "sync", "watch"))

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    @contextmanager
    def counted(self) -> Iterator[None]:
        before = sys.gettrace()
        sys.settrace(self._enter)
        try:
            yield
        finally:
            sys.settrace(before)

    def _enter(self, frame: FrameType, event: str, arg: object) -> Any:
        return self._run if any(package in frame.f_code.co_filename for package in self._PACKAGES) else None

    def _run(self, frame: FrameType, event: str, arg: object) -> Any:
        if event == "line":
            self.counts[f"{frame.f_code.co_filename}:{frame.f_lineno}"] += 1
        return self._run


def _few(entry: dict[str, Any], **labels: str) -> dict[str, Any]:
    return _kept("few", _labelled(entry, **labels), deletionPolicy="Delete")


_CHANGES: Mapping[str, tuple[dict[str, Any], dict[str, Any], Callable[[Member, Member], object]]] = {
    "edited": (_match(of="many"), _match(of="few"), lambda here, _: here.apply(_few(_match(of="few"), edited="yes"))),
    "selects another": (_match(of="many"), _match(of="few"), lambda here, _: here.apply(_few(_match(of="none")))),
    "removed": (_match(of="many"), _match(of="few"), lambda here, _: here.delete("ResourceSyncRule", "few")),
    "edited beside a namespace": (
        _within("default"),
        _within("other"),
        lambda here, _: here.apply(_few(_within("other"), edited="yes")),
    ),
    "its source changed": (
        _match(of="many"),
        _match(of="few"),
        lambda _, peer: peer.apply(config_map("one", {"a": "2"}, labels={"of": "few"}, namespace="other")),
    ),
}


@pytest.mark.clause("R1", "R6")
@pytest.mark.parametrize("change", _CHANGES)
def test_a_change_of_a_small_rule_costs_the_same_beside_any_number_of_objects(change: str) -> None:
    wide, narrow, deed = _CHANGES[change]

    def count_lines(many: int) -> Counter[str]:
        lines = _Lines()

        async def scenario(group: SimGroup) -> None:
            here, peer = await _joined(group, many=many)
            here.create(_kept("many", wide, deletionPolicy="Delete"))
            here.create(_few(narrow))
            await group.settle()
            assert len(here.list("ConfigMap")) == many + 1
            writes = len(here.server.journal)
            with lines.counted():
                deed(here, peer)
                await group.settle()
            assert [write.key.name for write in here.server.journal[writes:] if write.kind == "ConfigMap"] == ["one"]

        simulate(scenario, n=2)
        return lines.counts

    few, lots = count_lines(20), count_lines(200)
    assert few
    assert not {line: count for line, count in (lots - few).items() if count >= 90}, "a loop over all objects"
