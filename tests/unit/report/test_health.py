"""The health and metrics servers, over real sockets."""

from __future__ import annotations

import asyncio
import gzip
import urllib.error
import urllib.request
from collections.abc import Callable

import pytest

from registry_controller.api.errors import InvalidOption
from registry_controller.api.optiontext import Address
from registry_controller.report.health import HealthServer

HERE = Address("127.0.0.1", 0)
Check = Callable[[], str | None]


def server(live: dict[str, Check] | None = None, ready: dict[str, Check] | None = None) -> HealthServer:
    return HealthServer(
        health=HERE, metrics=HERE, live=live or {}, ready=ready or {}, render=lambda accept: (b"m 1\n", "text/plain")
    )


async def get(address: Address | None, path: str) -> tuple[int, str]:
    def fetch() -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://{address}{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    return await asyncio.to_thread(fetch)


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/healthz"])
async def test_all_is_well_while_no_check_complains(path: str) -> None:
    async with server(live={"loop": lambda: None}, ready={"local-cluster": lambda: None}).serve() as running:
        assert await get(running.health_address, path) == (200, "ok\n")


async def test_a_failing_check_is_named_where_it_counts_and_only_there() -> None:
    checks: dict[str, Check] = {
        "local-cluster": lambda: "not listed yet",
        "fine": lambda: None,
        "odd": lambda: 1 / 0 and None,
    }
    async with server(ready=checks).serve() as running:
        assert await get(running.health_address, "/readyz") == (
            503,
            "local-cluster: not listed yet\nodd: the check failed with an error, which is in the log\n",
        )
        assert (await get(running.health_address, "/livez"))[0] == 200
        assert (await get(running.health_address, "/healthz"))[0] == 200


async def test_metrics_have_an_address_of_their_own() -> None:
    async with server().serve() as running:
        assert await get(running.metrics_address, "/metrics") == (200, "m 1\n")
        assert (await get(running.metrics_address, "/livez"))[0] == 404
        assert (await get(running.health_address, "/metrics"))[0] == 404
        assert running.metrics_address is not None
        assert running.metrics_address.port != 0


async def test_nothing_is_served_where_no_address_is_given() -> None:
    quiet = HealthServer(health=None, metrics=None, live={}, ready={}, render=lambda _: (b"", ""))
    async with quiet.serve():
        assert (quiet.health_address, quiet.metrics_address) == (None, None)


async def test_a_taken_port_is_an_error_that_names_the_option() -> None:
    async with server().serve() as running:
        assert running.health_address is not None
        second = HealthServer(
            health=None, metrics=running.health_address, live={}, ready={}, render=lambda _: (b"", "")
        )
        with pytest.raises(
            InvalidOption, match=r"METRICS_ADDR \(--metrics-addr\): cannot listen on 127.0.0.1:"
        ) as caught:
            async with second.serve():
                pass
        assert str(caught.value).endswith(": the address is in use; stop the other program, or give another port")


@pytest.mark.parametrize(
    ("host", "words"),
    [("192.0.2.1", "this host does not have the address"), ("name.invalid", "the host name cannot be resolved")],
)
async def test_an_address_that_cannot_be_bound_says_what_to_give(host: str, words: str) -> None:
    address = Address(host, 0)
    wrong = HealthServer(health=address, metrics=None, live={}, ready={}, render=lambda _: (b"", ""))
    with pytest.raises(InvalidOption, match=rf"HEALTH_ADDR \(--health-addr\): cannot listen on .*: {words}; give"):
        async with wrong.serve():
            pass


async def test_nothing_listens_afterwards() -> None:
    async with server().serve() as running:
        address = running.health_address
    assert address is not None
    with pytest.raises(OSError, match="Connect call failed"):
        await asyncio.open_connection(address.host, address.port)


@pytest.mark.parametrize(("asked", "coding"), [("gzip", "gzip"), ("deflate, gzip;q=1.0", "gzip"), ("identity", None)])
async def test_metrics_are_compressed_for_those_who_ask(asked: str, coding: str | None) -> None:
    async with server().serve() as running:

        def fetch() -> tuple[str | None, bytes]:
            request = urllib.request.Request(
                f"http://{running.metrics_address}/metrics", headers={"Accept-Encoding": asked}
            )
            with urllib.request.urlopen(request, timeout=5) as answer:
                return answer.headers["Content-Encoding"], answer.read()

        found, body = await asyncio.to_thread(fetch)
    assert found == coding
    assert (gzip.decompress(body) if coding else body) == b"m 1\n"
