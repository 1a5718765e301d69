"""Keys by group: what a search finds, and what it visits. R6."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from registry_controller.api.meta import ObjectKey
from registry_controller.cache.key_groups import KeyGroups


class World:
    """Records that are their own groups. `visits` counts the records whose group was read."""

    def __init__(self) -> None:
        self.visits = 0
        self.records: dict[ObjectKey, str] = {}
        self.groups = KeyGroups(self.records, group_of=self._group_of)

    def _group_of(self, record: str) -> str:
        self.visits += 1
        return record

    def put(self, name: str, group: str | None) -> None:
        key = ObjectKey("ns", name)
        before = self.records.pop(key, None)
        if group is not None:
            self.records[key] = group
        self.groups.move(key, before=before, after=group)

    def find(self, *groups: str) -> list[str]:
        return sorted(key.name for key in self.groups.find(lambda group: group in groups))


@given(st.lists(st.tuples(st.sampled_from("abcdefgh"), st.sampled_from(["x", "y", "z", None])), max_size=60))
def test_each_group_has_its_keys_and_a_search_visits_at_most_twice_as_many(steps: list[tuple[str, str | None]]) -> None:
    world = World()
    for name, group in steps:
        world.put(name, group)
        for wanted in ("x", "y", "z"):
            world.visits = 0
            found = world.find(wanted)
            assert found == sorted(key.name for key, record in world.records.items() if record == wanted)
            assert world.visits <= 2 * len(found)
        assert world.find("x", "z") == sorted(key.name for key, record in world.records.items() if record in "xz")


def test_the_keys_of_the_largest_group_are_not_kept() -> None:
    world = World()
    for number in range(100):
        world.put(f"n{number}", "many")
    world.put("one", "few")
    assert {group: len(keys) for group, keys in world.groups._keys.items()} == {"few": 1}
    world.visits = 0
    assert world.find("few") == ["one"]
    assert world.visits == 0


def test_a_group_grows_and_shrinks_without_a_pass_over_all_for_each_key() -> None:
    world = World()
    for number in range(1000):
        world.put(f"n{number}", f"g{number % 3}")
    for number in range(1000):
        world.put(f"n{number}", "g0")
    for number in range(1000):
        world.put(f"n{number}", f"h{number % 7}")
    assert world.visits <= 3000
