"""The resources of the container in values.yaml, while 2,000 objects of 1 KiB come at once (`hack/bench bulk 2000`).

The measured figures are printed (`python -m hack.pods -s tests/pods/test_resources.py`); values.yaml takes its defaults
from them. The CPU time has no bound: it depends on the machine, and the container has no CPU limit.
"""

from __future__ import annotations

import json
import re

import pytest

from hack.pods.counters import Usage, read_usage
from tests.e2e.group import CONFIG_MAP, config_map, eventually, grant, in_sync, rule, swap
from tests.pods.member import PodMember

_COUNT = 2000
_UNITS = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
_LABEL = {"bulk": "yes"}


def _bytes(quantity: str) -> int:
    found = re.fullmatch(r"(\d+)(Ki|Mi|Gi)", quantity)
    assert found is not None, quantity
    return int(found[1]) * _UNITS[found[2]]


def _usage(member: PodMember) -> Usage:
    """Read the counters of the container's control group."""
    uid = member.pod()["metadata"]["uid"]
    container = member.pod()["status"]["containerStatuses"][0]["containerID"].rpartition("/")[2]
    return read_usage(f"{member.nodes.cgroup}/kubepods/*/pod{uid}/{container}")


def _number(member: PodMember) -> int:
    """Count the objects."""
    listed = member.nodes.api.get("/api/v1/namespaces/default/configmaps?labelSelector=bulk%3Dyes", timeout_s=60)
    return len(listed["items"])


@pytest.mark.timeout(1800)
def test_the_limits_hold_while_2000_objects_come(members: list[PodMember]) -> None:
    first, second = members
    if first.find("cluster", second.name) is None:
        swap(first, second)
    in_sync(members)
    for member in members:
        grant(member, "configmaps", [""], ["configmaps"])
    limits = first.pod()["spec"]["containers"][0]["resources"]
    restarts = first.pod()["status"]["containerStatuses"][0]["restartCount"]
    at_rest = _usage(first)
    data = {"value": "x" * 1024}
    objects = [config_map(f"bulk-{number}", data, labels=_LABEL) for number in range(_COUNT)]
    second.kubectl("create", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    first.apply(rule("bulk", CONFIG_MAP, {"match": [{"labels": [{"matchLabels": _LABEL}]}]}))
    eventually(lambda: _number(first) == _COUNT, within_s=900, every_s=1, what=f"{_COUNT} copies")
    after = _usage(first)
    figures = f"at rest {at_rest.memory / 2**20:.0f} MiB, peak {after.peak / 2**20:.0f} MiB"
    print(f"\n{figures}, CPU {after.cpu_s - at_rest.cpu_s:.1f} s for {_COUNT} objects")
    assert first.pod()["status"]["containerStatuses"][0]["restartCount"] == restarts
    assert "cpu" not in limits["limits"]
    assert at_rest.memory < _bytes(limits["requests"]["memory"])
    assert after.peak < _bytes(limits["limits"]["memory"]) / 2
