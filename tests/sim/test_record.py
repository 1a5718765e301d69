"""A run of `hack/sim` that was interrupted goes on from its record."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hack.programs import sim


def run(path: Path, count: int) -> int:
    return sim.main(sim.parser().parse_args(["--record", str(path), "--schedules", str(count), "--workers", "1"]))


def test_a_run_plays_what_its_record_lacks_and_counts_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "record.json"
    assert run(path, 1) == 0
    first = sim.Record(path).read()
    assert run(path, 2) == 0
    assert "\n2 schedules with the earlier runs\n" in capsys.readouterr().out
    both = sim.Record(path).read()
    assert (first.played, both.played) == ({1}, {1, 2})
    assert sum(both.tally.deeds.values()) > sum(first.tally.deeds.values()) > 0
    assert run(path, 2) == 0
    assert "\n0 schedules in " in capsys.readouterr().out
    assert sim.Record(path).read() == both


def test_a_record_of_other_sources_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "record.json"
    path.write_text(json.dumps({"sources": "other"}), encoding="utf-8")
    assert run(path, 1) == 2
    assert str(path) in capsys.readouterr().err
