"""A7: several daemons in one cluster, without a leader."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

import pytest

from hack.controlplane import Group
from registry_controller.api.daemon_lease import SELECTOR, lease_name, read_lease
from registry_controller.cache.replicas import chosen
from tests.e2e.group import (
    API,
    CONFIG_MAP,
    NAMESPACE,
    OWNER,
    Member,
    config_map,
    eventually,
    grant,
    holding_invariants,
    in_sync,
    rule,
    steadily,
    swap,
)
from tests.e2e.history import recorded

pytestmark = pytest.mark.nightly

_COUNT = 20
_DEPLOYMENT = "cluster-registry-controller"
_STATES = 12
_EDITS = 6
_DISABLED = "cluster-registry.k8s.cisco.com/cluster-disabled"
_PAUSED_S = 30.0
_PATIENT = [
    {"op": "add", "path": "/spec/template/spec/containers/0/livenessProbe/failureThreshold", "value": 9}
]  # or the kubelet would start it again after half a minute


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[Member, Member]]:
    """One cluster with one daemon, and one with three."""
    with Group(2, prefix="rep") as group, holding_invariants() as members:
        owner, many = (Member(cluster, *values) for cluster, values in zip(group, ((), ("replicas=3",)), strict=True))
        members += [owner, many]
        for member in members:
            daemon = member.install().daemon
            if member is many:
                member.kubectl(
                    "-n", NAMESPACE, "patch", "deployment", _DEPLOYMENT, "--type=json", "-p", json.dumps(_PATIENT)
                )
            daemon.wait_ready(timeout_s=180)
            grant(member, "configmaps", [""], ["configmaps"])
        swap(owner, many)
        in_sync(members)
        yield owner, many


def _ready(member: Member) -> set[str]:
    pods = member.get("-n", NAMESPACE, "pods")["items"]
    return {
        pod["metadata"]["name"]
        for pod in pods
        if any(one["type"] == "Ready" and one["status"] == "True" for one in pod["status"].get("conditions", ()))
    }


def _speaker(member: Member, subject: str) -> str:
    found = chosen(_ready(member), subject)
    assert found is not None
    return found


def _states(history: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """Tell how an object's conditions followed each other."""
    shown = (
        tuple(f"{one['type']}={one['status']}/{one['reason']}" for one in found["status"].get("conditions", ()))
        for found in history
        if found.get("status")
    )
    return [state for state, _ in itertools.groupby(shown)]


def test_all_three_are_known_to_each_other(pair: tuple[Member, Member]) -> None:
    _, many = pair
    eventually(lambda: len(_ready(many)) == 3)
    shares = Counter(_speaker(many, f"clusters/c{number}") for number in range(60))
    assert len(shares) == 3


def test_three_daemons_one_of_them_paused_bring_every_state_once(pair: tuple[Member, Member]) -> None:
    """No update is lost, nothing goes back, no status flaps, and the server stores no more than one write a state."""
    _, many = pair

    @contextlib.contextmanager
    def one_is_paused() -> Iterator[None]:
        speaker = _speaker(many, "resourcesyncrules/paused")
        paused = many.daemon.pids_by_pod[min(set(many.daemon.pids_by_pod) - {speaker})]
        # A timer, because a slow machine may need longer for the states.
        going_on = threading.Timer(_PAUSED_S, os.kill, (paused, signal.SIGCONT))
        os.kill(paused, signal.SIGSTOP)
        going_on.start()
        try:
            yield
        finally:
            going_on.join()

    _bring_every_state_once(*pair, "paused", one_is_paused())


def test_three_daemons_that_are_replaced_one_by_one_bring_every_state_once(pair: tuple[Member, Member]) -> None:
    """A rolling update starts a new one before an old one ends; nobody notices but by the Pods' names."""
    _, many = pair
    before = set(many.daemon.pids_by_pod)

    @contextlib.contextmanager
    def all_are_replaced() -> Iterator[None]:
        many.kubectl("-n", NAMESPACE, "rollout", "restart", f"deployment/{_DEPLOYMENT}")
        yield
        many.daemon.wait_ready(timeout_s=120)

    _bring_every_state_once(*pair, "replaced", all_are_replaced())
    assert not before & set(many.daemon.pids_by_pod)


def _bring_every_state_once(
    owner: Member, many: Member, name: str, meanwhile: contextlib.AbstractContextManager[None]
) -> None:
    """Change sources again and again meanwhile, and look at all that was stored of copies and statuses."""
    many.apply(rule(name, CONFIG_MAP, {"match": [{"labels": [{"matchLabels": {"load": name}}]}]}))
    names = [f"{name}-{number}" for number in range(_COUNT)]

    def put(state: int) -> None:
        owner.apply(*(config_map(one, {"state": str(state)}, labels={"load": name}) for one in names))

    def copied(state: int) -> bool:
        found = many.get("configmaps", "-l", f"load={name}")["items"]
        return [item["data"]["state"] for item in found] == [str(state)] * _COUNT

    put(0)
    eventually(lambda: copied(0))
    many.kubectl("wait", "--for=condition=Synced", f"rsr/{name}", "--timeout=180s")
    with (
        recorded(many.cluster, f"/api/v1/namespaces/default/configmaps?labelSelector=load%3D{name}") as copies,
        recorded(many.cluster, f"/apis/{API}/clusters") as clusters,
        recorded(many.cluster, f"/apis/{API}/resourcesyncrules?fieldSelector=metadata.name%3D{name}") as rules,
    ):
        began = time.monotonic()
        with meanwhile:
            for state in range(1, _STATES):
                put(state)
                time.sleep(max(0.0, began + state * _PAUSED_S / (_STATES - 1) - time.monotonic()))
        put(_STATES)
        eventually(lambda: copied(_STATES))
        took_s = time.monotonic() - began
        eventually(lambda: len(_ready(many)) == 3)
        steadily(lambda: copied(_STATES), for_s=3)
    for one in names:
        seen = [int(found["data"]["state"]) for found in copies if found["metadata"]["name"] == one]
        assert seen == sorted(set(seen)), f"{one} went back, or was written twice: {seen}"
        assert seen[-1] == _STATES
    assert not _flaps(_states(rules)), _states(rules)
    for one in (owner.name, many.name):
        history = [found for found in clusters if found["metadata"]["name"] == one]
        assert not _flaps(_states(history)), (one, _states(history))
    # One of them speaks, once a second at most: while there was news, not for longer, and not three times.
    assert len(rules) <= took_s + 15, len(rules)


def test_an_edited_rule_is_not_undone_by_a_daemon_that_hears_of_it_later(pair: tuple[Member, Member]) -> None:
    """No copy goes back to what its rule asked for before, and none of a new name is deleted."""
    owner, many = pair
    match = {"match": [{"labels": [{"matchLabels": {"load": "edited"}}]}]}
    owner.apply(*(config_map(f"edited-{number}", {"a": "1"}, labels={"load": "edited"}) for number in range(_COUNT)))

    def edit(step: int, **mutations: Any) -> None:
        mutations |= {"labels": {"add": {"step": str(step)}}}
        many.apply(rule("edited", CONFIG_MAP, {**match, "mutations": mutations}, deletionPolicy="Delete"))

    def copied(step: int, suffix: str = "") -> bool:
        found = [item["metadata"] for item in many.get("configmaps", "-l", "load=edited")["items"]]
        return len(found) == _COUNT and all(
            info["labels"]["step"] == str(step) and info["name"].endswith(suffix) for info in found
        )

    edit(0)
    eventually(lambda: copied(0), what="the copies are here")
    with recorded(many.cluster, "/api/v1/namespaces/default/configmaps?labelSelector=load%3Dedited") as copies:
        for step in range(1, _EDITS):
            edit(step)
            eventually(lambda step=step: copied(step), what=f"edit {step} is carried out")  # type: ignore[misc]
    steps: dict[str, list[str]] = {}
    for found in copies:
        steps.setdefault(found["metadata"]["name"], []).append(found["metadata"]["labels"]["step"])
    for name, seen in steps.items():
        assert seen == sorted(set(seen)), f"{name} went back, or was written twice: {seen}"

    offset = many.cluster.audit_offset()
    edit(_EDITS, overrides=[{"type": "replace", "path": "/metadata/name", "value": "{{ .Object.metadata.name }}-new"}])
    eventually(lambda: copied(_EDITS, "-new"), what="the copies have their new names")
    steadily(lambda: copied(_EDITS, "-new"), for_s=3)
    deleted = [line["objectRef"]["name"] for line in many.cluster.audit(offset) if line["verb"] == "delete"]
    assert deleted
    assert not [name for name in deleted if name.endswith("-new")]


def _flaps(states: Sequence[object]) -> bool:
    return any(first == third for first, third in zip(states, states[2:], strict=False))


def test_another_replica_takes_over_the_status_when_its_writer_dies(pair: tuple[Member, Member]) -> None:
    """The clock starts with its death; its Pod stays, and the kubelet starts its container again."""
    owner, many = pair
    eventually(lambda: len(_ready(many)) == 3)
    speaker = _speaker(many, f"clusters/{owner.name}")
    many.kill(many.daemon.pids_by_pod[speaker])
    try:
        _disable(many, owner)
    finally:
        _enable(many, owner)
    eventually(lambda: len(_ready(many)) == 3)


def test_when_the_one_that_speaks_hangs_another_takes_over(pair: tuple[Member, Member]) -> None:
    """As soon as its Pod is not ready any more, which the kubelet's probes have to find out."""
    owner, many = pair
    eventually(lambda: len(_ready(many)) == 3)
    speaker = _speaker(many, f"clusters/{owner.name}")
    pid = many.daemon.pids_by_pod[speaker]
    os.kill(pid, signal.SIGSTOP)
    try:
        eventually(lambda: speaker not in _ready(many), what="its Pod is not ready")
        _disable(many, owner)
    finally:
        os.kill(pid, signal.SIGCONT)
        _enable(many, owner)
    eventually(lambda: len(_ready(many)) == 3)


def test_no_daemon_ever_asks_for_the_lease_of_another(pair: tuple[Member, Member]) -> None:
    """There is no leader: three daemons, their deaths and their pauses, and each writes only the Lease of its own Pod.

    They look for copies in all kinds, by the label of their owner, and Leases are one of these. They list the Leases of
    daemons to delete those that are a day old.
    """
    _, many = pair
    asked = [line for line in many.cluster.audit() if "cluster-registry" in line["user"].get("username", "")]
    assert asked
    about = [line for line in asked if line.get("objectRef", {}).get("apiGroup") == "coordination.k8s.io"]
    looking = [line for line in about if f"labelSelector={quote(OWNER, safe='')}" in line["requestURI"]]
    listing = [line for line in about if line["verb"] == "list" and quote(SELECTOR, safe="") in line["requestURI"]]
    written = [line for line in about if line not in looking and line not in listing]
    assert {line["verb"] for line in written} <= {"get", "create", "update"}
    assert {line["objectRef"].get("namespace") for line in written} <= {NAMESPACE}
    stored = many.get("leases", "-n", NAMESPACE, "-l", SELECTOR)["items"]
    holders = {lease.name: lease.holder for lease in map(read_lease, stored)}
    assert holders == {lease_name(pod): pod for pod in holders.values()}
    assert _ready(many) <= set(holders.values())
    assert {line["verb"] for line in looking} <= {"list"}


def _disable(at: Member, peer: Member) -> None:
    """Stop reading a peer, and wait until its status says so."""
    at.kubectl("annotate", "cluster", peer.name, f"{_DISABLED}=true")
    eventually(lambda: at.get("cluster", peer.name)["status"]["state"] == "Disabled")


def _enable(at: Member, peer: Member) -> None:
    at.kubectl("annotate", "cluster", peer.name, f"{_DISABLED}-")
    eventually(lambda: at.get("cluster", peer.name)["status"]["state"] == "Ready")
