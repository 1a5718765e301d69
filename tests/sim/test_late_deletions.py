"""Deletions of copied Namespaces and definitions without an answer, and the copies that come meanwhile. O1, A4, S3."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.sim.cluster.containers import (
    DEFINITION,
    LABELS,
    RELIC,
    in_team,
    install_relics,
    relic,
    share_apart,
    stays,
)
from tests.sim.cluster.group import CONFIG_MAP, SimGroup, config_map, simulate
from tests.sim.cluster.member import Member
from tests.sim.cluster.refusal import Refusal

LATE_S = 30.0


def answer_deletions(member: Member, kind: str, answer: Callable[[int, Callable[[], Any]], Any]) -> list[float]:
    """Answer the deletions of a kind otherwise: `answer` gets the number of each, and what carries it out.

    Returns the moments at which they are sent.
    """
    delete, sent = member.server.store.delete, list[float]()

    def refuse(of: Any, key: Any, **given: Any) -> Any:
        if of.kind != kind:
            return delete(of, key, **given)
        sent.append(asyncio.get_running_loop().time())
        return answer(len(sent), lambda: delete(of, key, **given))

    member.server.store.delete = refuse  # type: ignore[method-assign]
    return sent


async def check_stays(member: Member, name: str) -> bool:
    """Report whether a ConfigMap came within some minutes; it must not go again."""
    seen = False
    for _ in range(300):
        await asyncio.sleep(1.0)
        is_there = name in in_team(member)
        assert is_there or not seen, "the copy went with its Namespace"
        seen = is_there
    return seen


@pytest.mark.parametrize("second", ["Timeout", "TooManyRequests", "Forbidden"])
def test_no_copy_goes_with_a_deletion_that_is_carried_out_late(second: str) -> None:
    """The first one has no answer; the answer to the second one shows nothing about it."""

    async def scenario(group: SimGroup) -> None:
        a, b, c = await share_apart(group, CONFIG_MAP, "Orphan")

        def answer(number: int, carry_out: Callable[[], Any]) -> Any:
            if number == 1:
                asyncio.get_running_loop().call_later(LATE_S, carry_out)
                raise Refusal(504, "Timeout", "request did not complete within the requested timeout")
            if number == 2:
                c.create(config_map("one", {"a": "1"}, namespace="team", labels=LABELS))
            codes = {"Timeout": 504, "TooManyRequests": 429, "Forbidden": 403}
            raise Refusal(codes[second], second, "not now")

        answer_deletions(a, "Namespace", answer)
        b.delete("Namespace", "team")
        await check_stays(a, "one")

    simulate(scenario, n=3)


@pytest.mark.parametrize("wait_s", [0.0, 5.0, 20.0])
def test_a_copy_that_comes_after_a_kill_does_not_go_with_a_deletion_that_was_sent_before(wait_s: float) -> None:
    async def scenario(group: SimGroup) -> None:
        a, b, c = await share_apart(group, CONFIG_MAP, "Orphan")

        def answer(number: int, carry_out: Callable[[], Any]) -> Any:
            if number > 1:
                return carry_out()
            asyncio.get_running_loop().call_later(LATE_S, carry_out)
            raise Refusal(504, "Timeout", "request did not complete within the requested timeout")

        sent = answer_deletions(a, "Namespace", answer)
        b.delete("Namespace", "team")
        for _ in range(3000):
            await asyncio.sleep(0.01)
            if sent:
                break
        a.kill()
        await asyncio.sleep(1.0)
        a.start()
        await asyncio.sleep(wait_s)
        c.create(config_map("one", {"a": "1"}, namespace="team", labels=LABELS))
        await check_stays(a, "one")
        assert sent

    simulate(scenario, n=3)


def test_a_copy_comes_at_once_into_a_namespace_whose_source_is_there_also_after_a_start() -> None:
    async def scenario(group: SimGroup) -> None:
        a, _, c = await share_apart(group, CONFIG_MAP, "Orphan")
        await a.stop()
        c.create(config_map("one", {"a": "1"}, namespace="team", labels=LABELS))
        a.start()
        await asyncio.sleep(5.0)
        assert set(in_team(a)) == {"one"}

    simulate(scenario, n=3)


@pytest.mark.parametrize("kind", ["Namespace", "CustomResourceDefinition"])
@pytest.mark.parametrize("code", [500, 403, 0])
def test_deletions_that_fail_for_ever_keep_no_copy_out(code: int, kind: str) -> None:
    """A webhook that is down: 500. Without any answer: 0. Meanwhile the rules say what they wait for."""

    async def scenario(group: SimGroup) -> None:
        a, b, c = await share_apart(group, CONFIG_MAP, "Orphan")
        install_relics(b, LABELS)
        install_relics(c, {})
        a.create(stays("kinds", DEFINITION, policy="Delete"))
        a.create(stays("relics", RELIC, policy="Orphan"))
        await group.settle()

        def answer(_: int, __: Callable[[], Any]) -> Any:
            if not code:
                raise Refusal(504, "Timeout", "request did not complete within the requested timeout")
            reason = "InternalError" if code == 500 else "Forbidden"
            raise Refusal(code, reason, "failed calling webhook")

        answer_deletions(a, kind, answer)
        if kind == "Namespace":
            b.delete("Namespace", "team")
        else:
            b.delete("CustomResourceDefinition", "relics.sim.example")
        await asyncio.sleep(150.0)
        if kind == "Namespace":
            c.create(config_map("one", {"a": "1"}, namespace="team", labels=LABELS))
        else:
            c.create(relic(1))
        waiting, rule = set[str](), "many" if kind == "Namespace" else "relics"
        for _ in range(180):
            await asyncio.sleep(1.0)
            condition = a.condition("ResourceSyncRule", rule, "Synced")
            if condition["status"] != "True":
                waiting.add(f"{condition['reason']}: {condition['message']}")
        if kind == "Namespace":
            assert set(in_team(a)) == {"one"}
        else:
            assert a.find("Relic", "r-001", namespace="default") is not None
        assert code == 403 or any("sent without an answer" in words for words in waiting), waiting

    simulate(scenario, n=3)
