"""The laws of a whole group, on simulated clusters with the real engine in each. P1, P6, O1, O5, O8, W2, A1, S2.

What a run must end in is written down here a second time, as plainly as it can be: see `expected`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from registry_controller.api.meta import OWNER
from tests.sim.cluster.group import CONFIG_MAP, SimGroup, config_map, hand_over, rule, simulate
from tests.sim.cluster.member import NAMESPACE, Member
from tests.sim.cluster.transport import Fault

CLONED = "0c10ed00-0000-4000-8000-000000000000"
WIDGET = {"group": "sim.example", "version": "v1", "kind": "Widget"}
WANTED = {"sync": "yes"}
NAMES = ("x", "y", "z")
FAST_S = (0.001, 0.02)
PAUSES_S = (0.0, 0.001, 0.05, 0.7, 3.0, 20.0)


@dataclass(frozen=True)
class Life:
    """One object at one cluster: what it holds, one value after the other, and whether it is deleted in the end.

    `born` orders rivals; it is not when the object came in a run.
    """

    cluster: str
    name: str
    born: int
    values: tuple[str, ...]
    deleted: bool

    @property
    def steps(self) -> int:
        return len(self.values) + self.deleted


@dataclass(frozen=True)
class Rule:
    """A rule, and where and when it was born. The second one wants one name only, and marks its copies."""

    name: str
    cluster: str
    born: int

    def manifest(self) -> dict[str, Any]:
        match: dict[str, Any] = {"labels": [{"matchLabels": WANTED}]}
        if self.name == "plain":
            return rule(self.name, CONFIG_MAP, {"match": [match]})
        entry = {"match": [match | {"objectKey": {"name": "y"}}], "mutations": {"labels": {"add": {"by": self.name}}}}
        return rule(self.name, CONFIG_MAP, entry)


@dataclass(frozen=True)
class Story:
    """What happens, apart from when: lives, and rules. Every life ends as it ends, in whatever order they go on."""

    lives: tuple[Life, ...]
    rules: tuple[Rule, ...]


Step = int | str


@dataclass(frozen=True)
class Telling:
    """The order of a story's steps, with a pause before each. A step is the index of a life or rule, or a deed."""

    steps: Sequence[Step]
    pauses: Sequence[float]


def _date(born: int) -> str:
    return f"2025-01-{born + 1:02}T00:00:00Z"


def _step(group: SimGroup, life: Life, number: int) -> None:
    """Take the next step of a life. Who finds a copy where the own object shall be replaces it by force."""
    member = group[life.cluster]
    if number == len(life.values):
        member.delete("ConfigMap", life.name, namespace="default")
        return
    manifest = config_map(life.name, {"value": life.values[number]}, labels=WANTED)
    if number:
        member.apply(manifest)
        return
    member.replace_by_force(manifest, born=_date(life.born))


async def tell(group: SimGroup, story: Story, telling: Telling) -> None:
    """Let a story happen in one order."""
    done: Counter[Step] = Counter()
    happens: list[Life | Rule] = [*story.lives, *story.rules]
    for step, pause_s in zip(telling.steps, telling.pauses, strict=True):
        await asyncio.sleep(pause_s)
        if isinstance(step, str):
            deed, _, name = step.partition(" ")
            await _do(group[name], group, deed)
            continue
        thing = happens[step]
        if isinstance(thing, Rule):
            group[thing.cluster].create(thing.manifest(), born=_date(thing.born))
        elif isinstance(thing, Life):
            _step(group, thing, done[step])
        done[step] += 1


async def _do(member: Member, group: SimGroup, deed: str) -> None:
    match deed:
        case "restart":
            await member.restart()
        case "stop":
            await member.stop()
        case "start":
            member.start_again()
        case "cut":
            group.cut(member.name)
        case "down":
            group.fail(member.name, Fault.REFUSED)
        case "up":
            member.server.compact()
            group.fail(member.name, Fault.NONE)
        case _:
            raise AssertionError(deed)


def found(group: SimGroup) -> dict[str, Any]:
    """Describe all ConfigMaps: value, owner's name (None for what was born there), and the second rule's mark."""
    names: dict[str | None, str] = {member.id: member.name for member in group.members}
    return {
        f"{item['metadata']['name']} at {member.name}": (
            item["data"]["value"],
            names.get((item["metadata"].get("annotations") or {}).get(OWNER)),
            "by" in item["metadata"]["labels"],
        )
        for member in group.members
        for item in member.list("ConfigMap")
    }


def expected(group: SimGroup, story: Story) -> dict[str, Any]:
    """Say what a story ends in: what was born at a cluster stays; of the others' the oldest comes (O1, O8, W2)."""
    ids = {member.name: member.id for member in group.members}
    ranked = sorted(story.rules, key=lambda r: (r.born, ids[r.cluster], r.name))
    result: dict[str, Any] = {}
    for member in group.members:
        for name in NAMES:
            alive = {life.cluster: life for life in story.lives if life.name == name and not life.deleted}
            rules = [r.name for r in ranked if r.name == "plain" or name == "y"]
            if member.name in alive:
                result[f"{name} at {member.name}"] = (alive[member.name].values[-1], None, False)
            elif alive and rules:
                oldest = min(alive.values(), key=lambda life: (life.born, ids[life.cluster]))
                result[f"{name} at {member.name}"] = (oldest.values[-1], oldest.cluster, rules[0] != "plain")
    return result


@st.composite
def stories(draw: st.DrawFn, *, clusters: str = "abc") -> Story:
    """Draw a story."""
    places = draw(
        st.lists(st.tuples(st.sampled_from(clusters), st.sampled_from(NAMES)), min_size=1, max_size=5, unique=True)
    )
    lives = [
        Life(cluster, name, draw(st.integers(0, 2)), (*"12"[: draw(st.integers(1, 2))],), draw(st.booleans()))
        for cluster, name in places
    ]
    rules = [
        Rule(name, draw(st.sampled_from(clusters)), draw(st.integers(0, 2)))
        for name in draw(st.sampled_from([("plain",), ("marking",), ("plain", "marking")]))
    ]
    return Story(tuple(lives), tuple(rules))


@st.composite
def tellings(draw: st.DrawFn, story: Story, *deeds: str, pauses: Sequence[float] = PAUSES_S) -> Telling:
    """Draw an order for a story, with `deeds` somewhere in it."""
    lives = [index for index, life in enumerate(story.lives) for _ in range(life.steps)]
    rules = [len(story.lives) + index for index in range(len(story.rules))]
    happening: list[Step] = [*lives, *rules, *deeds]
    steps = draw(st.permutations(happening))
    chosen = draw(st.lists(st.sampled_from(pauses), min_size=len(steps), max_size=len(steps)))
    return Telling(steps, chosen)


def few(share: int) -> settings:
    """Try one in `share` of the examples that the profile asks for: each is a group's whole life.

    What fails is shown as it was found: to shrink it would take minutes.
    """
    assert settings.default is not None
    phases = (Phase.explicit, Phase.reuse, Phase.generate)
    return settings(max_examples=settings.default.max_examples // share, phases=phases)


@st.composite
def troubled(draw: st.DrawFn) -> tuple[Story, Telling, tuple[float, float]]:
    """Draw a story, its telling on fast or slow ways, with cut streams and API servers that go for a while."""
    story = draw(stories())
    deeds = draw(st.lists(st.sampled_from(["cut a", "down a", "up a", "down b", "down c"]), max_size=4))
    return story, draw(tellings(story, *deeds)), draw(st.sampled_from([(0.0, 0.0), FAST_S, (0.0, 1.5)]))


DELETED_UNHEARD = (
    Story((Life("a", "x", 0, ("1",), deleted=True),), (Rule("plain", "a", 0),)),
    Telling([1, 0, "down a", 0], [5.0] * 4),
    FAST_S,
)


@few(6)
@example(told=DELETED_UNHEARD, seed=0)
@given(told=troubled(), seed=st.integers(0, 3))
def test_any_order_of_the_same_events_ends_in_the_same_objects(
    told: tuple[Story, Telling, tuple[float, float]], seed: int
) -> None:
    """O1, O5, O8, W2, R4, S2: with history that was compacted meanwhile; and nothing is written from then on."""
    story, telling, delay_s = told

    async def scenario(group: SimGroup) -> None:
        await group.join()
        group.slow_down(delay_s)
        await tell(group, story, telling)
        for member in group.members:
            await _do(member, group, "up")
        await group.settle()
        assert found(group) == expected(group, story)
        assert not await group.writes_within(60.0)

    simulate(scenario, n=3, seed=seed)


@few(7)
@given(st.data())
def test_a_daemon_that_restarts_at_any_moment_ends_in_the_same_objects(data: st.DataObject) -> None:
    """A1, W3, O5: what happened while it was down is caught up from the clusters; at rest a restart writes nothing."""
    story = data.draw(stories())
    deeds = data.draw(
        st.lists(st.sampled_from(["restart a", "restart b", "stop c", "start c"]), min_size=1, max_size=4)
    )
    telling = data.draw(tellings(story, *deeds))

    async def scenario(group: SimGroup) -> None:
        await group.join()
        await tell(group, story, telling)
        group["c"].start_again()
        await group.settle()
        assert found(group) == expected(group, story)
        for member in group.members:
            await member.restart()
            assert not await group.writes_within(45.0)
        assert found(group) == expected(group, story)

    simulate(scenario, n=3, seed=data.draw(st.integers(0, 3)))


def test_an_owner_that_holds_anothers_copy_has_lost_its_own_object() -> None:
    """O3, O5, O8: deleted while we were down, and replaced there by a copy of the rival that comes next here, too."""
    older, younger = Life("a", "y", 0, ("1",), deleted=True), Life("b", "y", 1, ("1",), deleted=False)
    story = Story((older, younger), (Rule("plain", "a", 0),))
    steps: list[Step] = [2, 0, 1, "stop c", 0, "start c"]

    async def scenario(group: SimGroup) -> None:
        await group.join()
        await tell(group, story, Telling(steps, [20.0] * len(steps)))
        await group.settle()
        assert found(group) == expected(group, story)

    simulate(scenario, n=3)


@st.composite
def mutating_rules(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a rule that changes what it copies, and may meet its own copies, or another rule's, in its selector."""
    label = st.sampled_from(["sync", "by", "via"])
    texts = st.dictionaries(label, st.sampled_from(["yes", "no"]), max_size=2)
    mutation = st.fixed_dictionaries({"add": texts, "remove": st.lists(label, max_size=1)})
    match = st.one_of(
        st.just({}),
        st.builds(lambda key: {"labels": [{"matchExpressions": [{"key": key, "operator": "Exists"}]}]}, label),
        st.builds(lambda name: {"objectKey": {"name": name}}, st.sampled_from(NAMES)),
    )
    entry = st.fixed_dictionaries(
        {
            "match": st.lists(match, min_size=1, max_size=2),
            "mutations": st.fixed_dictionaries({"labels": mutation, "annotations": mutation}),
        }
    )
    kind = draw(st.sampled_from([CONFIG_MAP, WIDGET]))
    return rule(draw(st.sampled_from(["r", "s"])), kind, *draw(st.lists(entry, min_size=1, max_size=2)))


@few(5)
@given(st.data())
def test_mirrored_rules_come_to_rest(data: st.DataObject) -> None:
    """S2, O2, O3, W2, A1: whatever two clusters want of each other, and under whatever names, it ends."""
    names = st.sampled_from(NAMES)
    labels = st.dictionaries(st.sampled_from(["sync", "via"]), st.just("yes"), max_size=2)
    things = st.tuples(st.sampled_from("ab"), st.sampled_from(["ConfigMap", "Widget"]), names, labels)
    made = data.draw(st.lists(things, min_size=1, max_size=6, unique_by=lambda thing: thing[:3]))
    rules = data.draw(st.lists(st.tuples(st.sampled_from("ab"), mutating_rules()), min_size=1, max_size=4,
                               unique_by=lambda placed: (placed[0], placed[1]["metadata"]["name"])))  # fmt: skip

    async def scenario(group: SimGroup) -> None:
        await group.join()
        for place, manifest in rules:
            group[place].replace_by_force(manifest)
        for place, kind, name, found_labels in made:
            manifest = {**config_map(name, {"at": place}, labels=found_labels), "kind": kind}
            group[place].replace_by_force(manifest)
            await asyncio.sleep(0.05)
        await group.settle()
        assert not await group.writes_within(60.0)
        for place, kind, name, _ in made:
            assert group[place].get(kind, name, namespace="default")["data"] == {"at": place}

    simulate(scenario, n=2, seed=data.draw(st.integers(0, 3)))


@few(10)
@given(st.data())
def test_one_peers_failure_never_touches_another_peers_pairs(data: st.DataObject) -> None:
    """P6, O5, R3: the others end in the same objects by the same writes, and nothing of the failed peer's is lost."""
    story = data.draw(stories(clusters="ab"))
    telling = data.draw(tellings(story, pauses=(1.0, 3.0, 20.0)))
    fault = data.draw(st.sampled_from([Fault.REFUSED, Fault.HUNG, Fault.BROKEN]))
    ahead_s = data.draw(st.sampled_from([0.0, 0.01, 10.0, 60.0]))

    async def scenario(group: SimGroup, fault: Fault) -> list[Any]:
        await group.join()
        keeping = {"match": [{"labels": [{"matchLabels": {"keep": "yes"}}]}]}
        group["a"].create(rule("keeping", CONFIG_MAP, keeping))
        for name in ("kept", "goes"):
            group["c"].create(config_map(name, {"value": "1"}, labels={"keep": "yes"}))
        await group.settle()
        before = [len(member.writes) for member in group.members]
        group.fail("c", fault)
        await asyncio.sleep(ahead_s)
        await tell(group, story, telling)
        await asyncio.sleep(1.0)
        wrote = [
            (write.verb, write.key.name)
            for member, count in zip(group.members[:2], before, strict=False)
            for write in member.writes[count:]
            if write.kind == "ConfigMap" and write.changed  # a delete that comes too late changes nothing
        ]
        seen = found(group)
        wanted = expected(group, story)
        theirs = {f"{name} at {at}": ("1", "c", False) for name in ("kept", "goes") for at in "ab"}
        assert {place: value for place, value in seen.items() if not place.endswith("c")} == theirs | {
            place: value for place, value in wanted.items() if not place.endswith("c")
        }
        group["c"].delete("ConfigMap", "goes", namespace="default")
        group["c"].apply(config_map("kept", {"value": "2"}))
        group.fail("c", Fault.NONE)
        await group.settle()
        kept = {f"kept at {at}": ("2", None if at == "c" else "c", False) for at in "abc"}
        assert found(group) == wanted | kept
        return sorted(wrote)

    seed = data.draw(st.integers(0, 3))
    broken = simulate(lambda group: scenario(group, fault), n=3, seed=seed)
    assert broken == simulate(lambda group: scenario(group, Fault.NONE), n=3, seed=seed)
    assert not {name for _, name in broken} & {"kept", "goes"}


@pytest.mark.parametrize("goes", ["b", "c"])
@pytest.mark.parametrize("silent", ["", "b", "c"])
@pytest.mark.parametrize("seed", range(3))
def test_of_two_clusters_with_one_id_nothing_is_believed_until_one_goes(goes: str, silent: str, seed: int) -> None:
    """P1, O5, A1: c is a clone of b; at a both have a Cluster, and each calls itself by that name. A new daemon, to
    which one of them may not answer, believes neither.
    """

    async def scenario(group: SimGroup) -> None:
        a, b, c = group.members
        group.start()
        await group.settle()
        hand_over(b, a)
        a.create(Rule("plain", "a", 0).manifest())
        for name in ("stays", "goes", "changes"):
            b.create(config_map(name, {"value": "b"}, labels=WANTED))
        await group.settle()
        hand_over(c, a)
        await asyncio.sleep(5.0)
        for name in ("b", "c"):
            assert a.condition("Cluster", name, "LocalConflict").get("status") == "True", name
        before = len(a.writes)
        b.delete("ConfigMap", "goes", namespace="default")
        for member in (b, c):
            member.apply(config_map("new", {"value": member.name}, labels=WANTED))
            member.apply(config_map("changes", {"value": f"{member.name}2"}, labels=WANTED))
        await asyncio.sleep(120.0)
        if silent:
            group.fail(silent, Fault.HUNG)
        await a.restart()
        await asyncio.sleep(120.0)
        for name in ("b", "c"):
            assert a.condition("Cluster", name, "LocalConflict").get("status") == "True", name
        group.fail(silent or "b", Fault.NONE)
        assert not [write for write in a.writes[before:] if write.kind == "ConfigMap"]
        assert {place: value[0] for place, value in found(group).items() if place.endswith(" at a")} == {
            f"{name} at a": "b" for name in ("stays", "goes", "changes")
        }
        a.delete("Cluster", goes)
        await group.settle()
        left = "c" if goes == "b" else "b"
        assert a.condition("Cluster", left, "LocalConflict").get("status", "False") == "False"
        offered = {name: value for name, value in found(group).items() if name.endswith(f" at {left}")}
        held = {name: value for name, value in found(group).items() if name.endswith(" at a")}
        assert {place.split()[0]: value[0] for place, value in held.items()} == {
            place.split()[0]: value[0] for place, value in offered.items()
        }
        assert not await group.writes_within(60.0)

    simulate(scenario, n=3, seed=seed, uids={"b": CLONED, "c": CLONED})


@pytest.mark.parametrize("seed", range(3))
def test_one_server_of_two_names_is_no_clone(seed: int) -> None:
    """P1: b has two Clusters for itself, and says so; so has a, which reads b through one of them all the time."""

    async def scenario(group: SimGroup) -> None:
        a, b = group.members
        group.start()
        await group.settle()
        hand_over(b, a)
        a.create(Rule("plain", "a", 0).manifest())
        b.create(config_map("changes", {"value": "0"}, labels=WANTED))
        await group.settle()
        for kind, namespace in (("Cluster", ""), ("Secret", NAMESPACE)):
            second = b.get(kind, "b", namespace=namespace)
            second["metadata"] = {"name": "second", "namespace": namespace}
            if kind == "Cluster":
                second["spec"]["authInfo"]["secretRef"]["name"] = "second"
            for member in group.members:
                if member.find(kind, "second", namespace=namespace) is None:
                    member.create(second)
        for value in ("1", "2"):
            await asyncio.sleep(120.0)
            assert b.condition("Cluster", "b", "LocalConflict").get("status") == "True"
            b.apply(config_map("changes", {"value": value}, labels=WANTED))
            await asyncio.sleep(1.0)
            assert found(group)["changes at a"][0] == value
            for name in ("b", "second"):
                assert not a.condition("Cluster", name, "LocalConflict"), name
            await a.restart()

    simulate(scenario, n=2, seed=seed)
