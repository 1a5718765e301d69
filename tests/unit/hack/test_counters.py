"""The counters of a container, as the kernel writes them in each version of control groups."""

from __future__ import annotations

from pathlib import Path

import pytest

from hack.pods import counters

_POD = "rc-pods-1-2-1/kubepods/burstable/pod-a/c"
_PATTERN = "rc-pods-1-2-1/kubepods/*/pod-a/c"
_TREES = {
    1: {
        f"memory/{_POD}/memory.usage_in_bytes": "1000\n",
        f"memory/{_POD}/memory.max_usage_in_bytes": "3000\n",
        f"cpuacct/{_POD}/cpuacct.usage": "2500000000\n",
        # The controllers of version 2 are in use by version 1; the tree of version 2 is one of several.
        "unified/cgroup.controllers": "",
    },
    2: {
        "cgroup.controllers": "cpu memory\n",
        f"{_POD}/memory.current": "1000\n",
        f"{_POD}/memory.peak": "3000\n",
        f"{_POD}/cpu.stat": "usage_usec 2500000\nuser_usec 2000000\nsystem_usec 500000\n",
    },
}


@pytest.mark.parametrize("version", [1, 2])
def test_the_counters_of_both_versions_have_the_same_units(
    version: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in _TREES[version].items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(counters, "CGROUPS", tmp_path)
    assert counters.read_usage(_PATTERN) == counters.Usage(memory=1000, peak=3000, cpu_s=2.5)
