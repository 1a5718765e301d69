"""How long is waited after what a server does: the pauses that the table speaks of, which are longer than any siege."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from registry_controller.api.errors import RegistryError, ServerError, TooMuch, Unauthorized
from registry_controller.api.meta import ClusterUID
from registry_controller.clusters.dialer import Dialer
from registry_controller.kube.translate import error_of_answer
from registry_controller.watch.retry import RetryDelay

TRIES = 200
Waits = list[float]


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> Waits:
    """Write down how long somebody would wait, and wait no longer than a moment."""
    found: Waits = []
    timeout = asyncio.timeout

    def hurry(delay_s: float) -> asyncio.Timeout:
        found.append(delay_s)
        return timeout(0)

    monkeypatch.setattr(asyncio, "timeout", hurry)
    return found


def refusal(code: int, **asked: str) -> RegistryError:
    return error_of_answer(code, b"", what="list", **asked)


async def test_p6_what_was_too_much_is_asked_for_again_after_half_a_minute(waits: Waits) -> None:
    pauses = RetryDelay()
    for _ in range(TRIES):
        await pauses.wait_after(TooMuch("enough"))
    assert all(30.0 <= wait <= 35.0 for wait in waits)
    assert len(waits) == TRIES


@pytest.mark.parametrize("code", [429, 503])
async def test_p6_a_server_may_ask_to_be_asked_later_by_a_minute_at_most(waits: Waits, code: int) -> None:
    pauses = RetryDelay()
    for asked_s in (7, 60, 61, 31536000, 999999999):
        await pauses.wait_after(refusal(code, retry_after=f"{asked_s}"))
        least = min(60, asked_s)
        assert least <= waits[-1] <= least + 5.0


@pytest.mark.parametrize("asked", ["-5", "Fri, 01 Jan 2100 00:00:00 GMT", "9" * 60_000, "60.0", "", "6e9", "٣٠"])
@pytest.mark.parametrize("code", [429, 503])
async def test_p6_what_is_no_number_of_seconds_asks_for_nothing(waits: Waits, code: int, asked: str) -> None:
    pauses = RetryDelay()
    for _ in range(TRIES):
        await pauses.wait_after(refusal(code, retry_after=asked))
    assert all(wait <= 1.0 + 5.0 for wait in waits)


async def test_p6_what_fails_again_and_again_is_tried_every_few_seconds(waits: Waits) -> None:
    """P6: 2.5 s on average, which the sieges count upon."""
    pauses = RetryDelay()
    for _ in range(1000):
        await pauses.wait_after(ServerError("500", status=500))
    assert max(waits) <= 5.0
    assert 2.0 < sum(waits) / len(waits) < 3.0
    assert sum(waits[:3]) <= 0.2 + 0.4 + 0.8


def _dialer(*, fails_with: Callable[[], RegistryError]) -> Dialer:
    def connect(_: object) -> Any:
        raise fails_with()

    credentials: Any = object()
    relayed: Any = None
    return Dialer(cluster_id=ClusterUID("1"), name="a", credentials=credentials, connect_peer=connect, relayed=relayed)


@pytest.mark.parametrize("code", [429, 503])
async def test_p6_who_does_not_say_who_it_is_is_dialled_again_whatever_it_asks_for(waits: Waits, code: int) -> None:
    dialer = _dialer(fails_with=lambda: refusal(code, retry_after="31536000"))
    for attempt in range(1000):
        with pytest.raises(RegistryError):
            await dialer.dial()
        await dialer.pause(attempt)
    assert max(waits) <= 5.0
    assert 2.0 < sum(waits) / len(waits) < 3.0


async def test_p6_credentials_that_are_offered_end_the_pause() -> None:
    dialer = _dialer(fails_with=lambda: Unauthorized("401", status=401))
    dialer.set_credentials("a", credentials=object())  # type: ignore[arg-type]
    async with asyncio.timeout(0.1):
        await dialer.pause(100)
