"""Plays a trace of the search in the simulation: its acts and its ticks, in their order.

Between them the simulation delivers in an order of its own: each delivery of the trace is a second of its time.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Sequence
from typing import Final

from registry_controller.membership.leave import LeaveIncomplete
from tests.explore.steps import Step
from tests.explore.world import MEMBERS, NAMES
from tests.sim.cluster.group import CONFIG_MAP, SimGroup, config_map, hand_over, rule
from tests.sim.cluster.member import NAMESPACE, READER, Member
from tests.sim.cluster.transport import Fault, Wire
from tests.sim.schedule.leaving import TRUST_S, declare, leave, stones

_PASSES_S: Final = {"deliver": 1.0, "moment": 25.0, "window": 60.0, "absence": 700.0, "trust": TRUST_S + 60.0}
_JOINS_S: Final = 90.0
_RENAMES_S: Final = 2.0
_FAULTS: Final = {"cut": Fault.REFUSED, "heal": Fault.NONE}
_LABELLED: Final = {"match": [{"labels": [{"matchLabels": {"explored": "yes"}}]}]}
RULE: Final = rule("explored", CONFIG_MAP, _LABELLED, deletionPolicy="Delete")
"""The rule that the acts make and delete."""


async def play(trace: Iterable[Step], group: SimGroup) -> None:
    """Play a trace in a group of three that has joined."""
    down: set[int] = set()
    steps = list(trace)
    if any(step.kind in ("rule", "unrule") for step in steps):
        await _share_by_rule(steps, group)
    for step in steps:
        if step.kind in _PASSES_S:
            await asyncio.sleep(_PASSES_S[step.kind])
        elif step.kind == "repair":
            for name in NAMES:
                group.fail(name, Fault.NONE)
            for number in down:
                group[NAMES[number]].start()
            down.clear()
        else:
            await _act(step, group)
            down = (down | {step.who}) if step.kind == "crash" else (down - {step.who})


async def _share_by_rule(steps: Sequence[Step], group: SimGroup) -> None:
    """Make the rule where the first act on it deletes it, and an object of each member that it copies."""
    for name in NAMES:
        group[name].create(config_map(f"of-{name}", {"at": name}, labels={"explored": "yes"}))
    home = next(step.who for step in steps if step.kind in ("rule", "unrule"))
    group[NAMES[home]].create(RULE)
    await group.settle()


async def _act(step: Step, group: SimGroup) -> None:
    who, other = group[NAMES[step.who]], group[NAMES[step.other]]
    with contextlib.suppress(LeaveIncomplete):  # the daemons go on with it
        match step.kind:
            case "swap":
                await _swap(who, other)
            case "leave":
                await leave(group, who.name, wait_s=0.0)
            case "declare":
                await declare(group, other.name, at=who.name, wait_s=0.0)
            case _:
                _act_at_once(step, who, group.wire(who.name, other.name))


def _act_at_once(step: Step, who: Member, wire: Wire) -> None:
    if step.kind in _FAULTS:
        wire.set(_FAULTS[step.kind])
        return
    match step.kind:
        case "delete":
            who.delete("Cluster", who.name)
        case "replace":
            who.replace_by_force(who.get("Cluster", who.name))
        case "rename":
            _rename(who)
        case "rotate":
            who.delete("Secret", f"{READER}-token", namespace=NAMESPACE)
        case "rule":
            who.create(RULE)
        case "unrule":
            who.delete("ResourceSyncRule", RULE["metadata"]["name"])
        case "crash":
            who.kill()
        case "restart":
            who.start()


def _rename(who: Member) -> None:
    """Let the own Cluster name another Secret, and delete the earlier one."""
    own, earlier = who.get("Cluster", who.name), who.published
    auth = {"secretRef": {"name": f"{earlier}-new", "namespace": NAMESPACE}}
    who.replace({**own, "spec": {**own["spec"], "authInfo": auth}})
    asyncio.get_running_loop().call_later(_RENAMES_S, lambda: who.delete("Secret", earlier, namespace=NAMESPACE))


async def _swap(who: Member, other: Member) -> None:
    left = [one for one in (who, other) if one.find("Cluster", one.name) is None]
    for one in left:
        for name in stones(one):
            one.delete("ClusterFeature", name)
    await asyncio.sleep(_JOINS_S if left else 0.0)
    hand_over(who, other)
    hand_over(other, who)


def ids(order: str) -> dict[str, str]:
    """Return IDs for members whose order is that of these names: where relays are equal, the daemon chooses by it."""
    return {name: f"{order.index(name)}0000000-0000-4000-8000-000000000000" for name in (NAMES[one] for one in MEMBERS)}
