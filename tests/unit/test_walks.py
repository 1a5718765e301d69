"""hack/walks: what it counts as a file, a hop and a request."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from hack.programs import walks
from hack.programs.walks import BOUNDS, Bounds, Walk, measure

MODULES = {
    "one": "def run(two, times):\n    for _ in range(times):\n        two.work()\n    own()\n\ndef own():\n    pass\n",
    "two": "def work():\n    pass\n",
}


def _load(folder: Path) -> dict[str, ModuleType]:
    loaded = {}
    for name, source in MODULES.items():
        path = folder / f"{name}.py"
        path.write_text(source, encoding="utf-8")
        spec = importlib.util.spec_from_file_location(f"walked_{name}", path)
        assert spec is not None
        assert spec.loader is not None
        loaded[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(loaded[name])
    return loaded


@pytest.mark.parametrize(("turns", "times", "hops"), [(1, 1, 3), (1, 200, 3), (2, 200, 6)])
def test_a_hop_counts_once_a_turn(
    turns: int, times: int, hops: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Into one, over to two, back to one."""
    monkeypatch.setattr(walks, "PACKAGE", f"{tmp_path}/")
    loaded = _load(tmp_path)
    walk = Walk()
    with walk.observed("a"):
        for _ in range(turns):
            loaded["one"].run(loaded["two"], times)
    assert walk.files == ["one.py", "two.py"]
    assert (walk.hops, walk.back) == (hops, hops - 2)
    assert walk.calls["two.py:work"] == turns * times
    assert sys.getprofile() is None


def test_a_count_over_its_bound_is_missed() -> None:
    walk = Walk(hops=3, gets=1)
    assert walk.missed(Bounds(hops=2, gets=1)) == ["hops"]
    assert str(Bounds(hops=2, gets=1)) == "hops <= 2, gets <= 1"


@pytest.mark.parametrize("name", ["a", "b", "c", "d"])
def test_a_walk_reaches_its_end_and_is_counted(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A count that the table shows is not 0 because a name was not found."""
    monkeypatch.setattr(walks, "BESIDE", 3)
    walk, _ = measure(name)
    assert name in BOUNDS
    assert {"files", "hops", "adds", "decisions"} <= {column for column in Bounds.__slots__ if walk.count(column) > 0}
    assert walk.count("writes") == {"a": 1, "b": 0, "c": 1, "d": 1}[name]
    assert walk.count("gets") >= {"a": 0, "b": 1, "c": 1, "d": 0}[name]
    assert walk.count("lists") >= {"a": 0, "b": 1, "c": 0, "d": 1}[name]
    assert walk.hops == walk.back + len(walk.files)
