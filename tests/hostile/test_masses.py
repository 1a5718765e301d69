"""What costs much memory for few bytes, sent by a real server: it is refused in the table's words, and costs little."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator

import pytest

from registry_controller.api import meta
from registry_controller.api.errors import RegistryError
from registry_controller.api.meta import GVK, GVR, ObjectKey
from registry_controller.api.selection import Selection
from registry_controller.kube.connect import Reader, connect_peer
from registry_controller.kube.kubeconfig import Credentials
from registry_controller.kube.listing import list_objects
from registry_controller.kube.object import MANIFEST_BYTES, decode_manifest
from registry_controller.kube.watch import watch_events
from tests.hostile.cases import Case, config_map, good_name
from tests.hostile.server.stranger import Grounds, Stranger
from tests.hostile.tables import FAMILIES

MIB = 1024 * 1024
MAPS = GVR("", "v1", "configmaps", True, False)
MAP = GVK("", "v1", "ConfigMap")
CASES = {case.does: case for family in FAMILIES for case in family.cases}
ROWS = {
    "answers errors of 5,000,000 causes": "403",
    "gives a continue token of 1 MiB": "is longer than that of any server",
    "sends 200,000 labels": "an object with more metadata than is accepted",
    "offers 300,000 empty lists": "an object that is too large",
}


@pytest.fixture(scope="module")
def grounds() -> Iterator[Grounds]:
    with Grounds() as found:
        yield found


async def everything_said(reader: Reader) -> str:
    """Ask as the daemon does: who it is, what there is, and what happens; tell the first words against it."""
    place = Selection(namespace="default")
    try:
        await reader.get(meta.NAMESPACES, ObjectKey("", "kube-system"))
        async for page in list_objects(reader, MAPS, place, kind=MAP):
            for obj in page.items:
                decode_manifest(obj.raw)
        events = watch_events(
            reader, MAPS, place, kind=MAP, resource_version="", initial=True, timeout_s=60, on_open=lambda: None
        )
        async for event in events:
            if event.refused:
                return event.refused
    except RegistryError as error:
        return str(error)
    raise AssertionError("nothing was said")


@pytest.mark.parametrize("does", ROWS)
async def test_p5_what_is_large_once_it_is_decoded_is_not_decoded(grounds: Grounds, does: str) -> None:
    case: Case = CASES[does]
    server = Stranger(grounds, "s")
    server.put(config_map(good_name(server)))
    case.arm(server)
    if case.turns is not None:
        case.turns(server)
    server.open()
    credentials = Credentials(server.url, server.ca.cert_pem.bytes().decode(), server.token, "", "", "")
    reader = connect_peer(credentials)
    try:
        said = await everything_said(reader)  # once before it is measured: what the server makes is its own
        gc.collect()
        tracemalloc.start()
        try:
            await everything_said(reader)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    finally:
        await reader.close()
        server.close()
    assert ROWS[does] in said
    # What the server makes and what waits in its sockets counts, too; decoded it would be some 400 MiB.
    assert peak < 32 * MANIFEST_BYTES, f"{peak / MIB:.0f} MiB"
