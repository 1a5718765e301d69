"""The stand-in deployment controller: which Pods go and come in a rollout."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hack.controlplane.podspec import Deployment, read_deployment
from hack.controlplane.rollout import Standing, choose_to_stop, compute_status, count_to_start, is_done

OLD, NEW = Standing(is_current=False, is_ready=True), Standing(is_current=True, is_ready=True)
OLD_SICK, NEW_STARTING = Standing(is_current=False, is_ready=False), Standing(is_current=True, is_ready=False)


def _deployment(replicas: int, surge: int | str, unavailable: int | str) -> Deployment:
    rolling = {"maxSurge": surge, "maxUnavailable": unavailable}
    return _read(replicas, {"type": "RollingUpdate", "rollingUpdate": rolling})


def _read(replicas: int, strategy: dict[str, Any]) -> Deployment:
    pod = {"serviceAccountName": "app", "containers": [{"name": "app", "command": ["app"]}]}
    spec = {"replicas": replicas, "strategy": strategy, "template": {"metadata": {}, "spec": pod}}
    return read_deployment(
        {"metadata": {"name": "app", "namespace": "app", "uid": "u", "generation": 1}, "spec": spec},
    )


@pytest.mark.parametrize(
    ("replicas", "surge", "unavailable", "expected"),
    [(3, 1, 0, (1, 0)), (1, "25%", "25%", (1, 0)), (10, "25%", "25%", (3, 2)), (2, 0, 0, (0, 1))],
)
def test_shares_are_rounded_as_kubernetes_does(
    replicas: int, surge: int | str, unavailable: int | str, expected: tuple[int, int]
) -> None:
    deployment = _deployment(replicas, surge, unavailable)
    assert (deployment.surge, deployment.lack) == expected


@pytest.mark.parametrize(
    ("pods", "stopped", "started"),
    [
        pytest.param([OLD, OLD, OLD], [], 1, id="one more at first"),
        pytest.param([OLD, OLD, OLD, NEW_STARTING], [], 0, id="wait until it is ready"),
        pytest.param([OLD, OLD, OLD, NEW], [0], 0, id="then one goes"),
        pytest.param([OLD, OLD, NEW], [], 1, id="and the next comes"),
        pytest.param([OLD, OLD_SICK, OLD, NEW], [1], 0, id="what is sick goes first"),
        pytest.param([NEW, NEW, NEW, NEW], [3], 0, id="one too many"),
        pytest.param([NEW, NEW, NEW], [], 0, id="done"),
    ],
)
def test_three_pods_are_replaced_one_by_one(pods: list[Standing], stopped: list[int], started: int) -> None:
    deployment = _deployment(3, 1, 0)
    assert (choose_to_stop(deployment, pods), count_to_start(deployment, pods)) == (stopped, started)


def test_recreate_ends_all_before_the_first_comes() -> None:
    deployment = _read(2, {"type": "Recreate"})
    assert choose_to_stop(deployment, [OLD, OLD_SICK]) == [1, 0]
    assert count_to_start(deployment, []) == 2
    assert compute_status(deployment, [NEW, NEW_STARTING])["conditions"][0]["status"] == "False"


@given(
    replicas=st.integers(1, 6),
    rolling=st.tuples(st.integers(0, 3), st.integers(0, 3)),
    becomes_ready=st.lists(st.booleans(), min_size=200, max_size=200),
)
def test_a_rollout_ends_and_keeps_to_its_strategy(
    replicas: int, rolling: tuple[int, int], becomes_ready: list[bool]
) -> None:
    deployment = _deployment(replicas, *rolling)
    least = max(0, replicas - deployment.lack)
    pods = [OLD] * replicas
    for is_ready in becomes_ready:
        going = choose_to_stop(deployment, pods)
        pods = [pod for number, pod in enumerate(pods) if number not in going]
        pods += [NEW_STARTING] * count_to_start(deployment, pods)
        assert len(pods) <= replicas + deployment.surge
        assert sum(pod.is_ready for pod in pods) >= least
        if is_ready and NEW_STARTING in pods:
            pods[pods.index(NEW_STARTING)] = NEW
    ready_for_sure = becomes_ready.count(True) >= 2 * replicas
    assert is_done(deployment, pods) or not ready_for_sure
