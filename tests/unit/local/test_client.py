"""The client of one cluster: its messages for the daemon and for users, and its patience."""

from __future__ import annotations

from typing import Any

import pytest

from registry_controller.api import meta
from registry_controller.api.errors import Conflict, Forbidden, NotFound, NotServed, ProtocolError, TooManyRequests
from registry_controller.api.meta import ClusterUID, ObjectKey
from registry_controller.kube.failures import POD
from registry_controller.kube.patience import MOST_TRIES
from registry_controller.local.client import Access, ClusterClient, command_client
from tests.unit.local.fake_server import NAMESPACE, READER, FakeServer

RULE = {"apiVersion": meta.API_VERSION, "kind": "ResourceSyncRule", "metadata": {"name": "one"}}
KEY = ObjectKey("", "one")
ACCOUNT = ObjectKey(NAMESPACE, READER)


def user_client(server: Any, context: str | None = "a") -> ClusterClient:
    return command_client(server, context=context)


async def _use(client: ClusterClient, verb: str) -> object:
    stored = {**RULE, "metadata": {"name": "one", "uid": "u", "resourceVersion": "1"}}
    calls = {
        "get": lambda: client.read(meta.RULES, KEY),
        "list": lambda: client.list(meta.RULES),
        "create": lambda: client.create(meta.RULES, RULE),
        "update": lambda: client.replace(meta.RULES, stored),
        "patch": lambda: client.merge_patch(meta.RULES, KEY, {"spec": {"suspend": True}}),
        "delete": lambda: client.delete(meta.RULES, stored),
    }
    return await calls[verb]()


@pytest.mark.clause("S3")
@pytest.mark.parametrize("verb", ["get", "list", "create", "update", "patch", "delete"])
async def test_a_missing_right_is_named_with_the_way_to_grant_it(verb: str) -> None:
    server: Any = FakeServer()
    server.forbidden.add((verb, "resourcesyncrules"))
    with pytest.raises(Forbidden) as daemon:
        await _use(ClusterClient(server), verb)
    assert str(daemon.value).startswith(f"cannot {verb} {meta.RULES}: forbidden; grant it with a ClusterRole")
    assert str(daemon.value).endswith(f'{meta.CONTROLLER_AGGREGATED}: "true" here, as the chart does')
    with pytest.raises(Forbidden) as user:
        await _use(user_client(server), verb)
    assert str(user.value) == (
        f"context a: your user may not {verb} resourcesyncrules.{meta.GROUP}; "
        "grant it to that user, or name another --context"
    )
    assert (user.value.status, user.value.reason) == (403, "Forbidden")
    server.source = POD
    with pytest.raises(Forbidden, match="as the chart does"):
        await _use(user_client(server, None), verb)


async def test_the_right_to_a_part_of_an_object_is_named() -> None:
    server: Any = FakeServer()
    server.forbidden |= {("create", "serviceaccounts/token"), ("update", "resourcesyncrules")}
    with pytest.raises(Forbidden, match=r"cannot create serviceaccounts/token\.v1 in namespace registry: forbidden"):
        await ClusterClient(server).request_token(ACCOUNT, {})
    with pytest.raises(Forbidden, match="may not create serviceaccounts/token in namespace registry; grant"):
        await user_client(server).request_token(ACCOUNT, {})
    with pytest.raises(Forbidden, match=r"cannot update resourcesyncrules/status\."):
        await ClusterClient(server).replace_status(meta.RULES, RULE)


async def test_a_refusal_that_is_no_missing_right_keeps_its_message() -> None:
    class Refusing(FakeServer):
        async def create(self, *_: object) -> bytes:
            raise Forbidden("create: 403 QuotaExceeded team", reason="QuotaExceeded")

    server: Any = Refusing()
    for client in (ClusterClient(server), user_client(server)):
        with pytest.raises(Forbidden, match="QuotaExceeded team"):
            await client.create(meta.RULES, RULE)


@pytest.mark.parametrize("verb", ["get", "list", "create"])
async def test_a_kind_that_is_not_served_is_told_from_a_missing_object(verb: str) -> None:
    server: Any = FakeServer()
    assert await ClusterClient(server).read(meta.RULES, KEY) is None
    server.missing.add("resourcesyncrules")
    with pytest.raises(NotServed, match="not served by this cluster; apply the CustomResourceDefinitions of this rel"):
        await _use(ClusterClient(server), verb)
    with pytest.raises(NotServed, match=r"context a: does not serve resourcesyncrules\..*; install the chart there"):
        await _use(user_client(server), verb)


async def test_a_missing_namespace_is_told_from_a_missing_kind() -> None:
    server: Any = FakeServer()
    server.missing.add("secrets")
    with pytest.raises(NotFound):
        await ClusterClient(server).create(meta.SECRETS, {"metadata": {"namespace": "none", "name": "one"}})


async def test_objects_are_stored_read_and_deleted() -> None:
    server: Any = FakeServer()
    server.put(meta.NAMESPACES, {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "kube-system"}})
    client = user_client(server)
    uid = server.find(meta.NAMESPACES, "kube-system")["metadata"]["uid"]
    assert await client.read_id() == ClusterUID(uid)
    stored = await client.create(meta.RULES, RULE)
    assert await client.list(meta.RULES, labels="a=b", fields="metadata.name=one") == [stored]
    changed = await client.replace(meta.RULES, {**stored, "spec": {"priority": 1}})
    assert await client.read(meta.RULES, KEY) == changed
    with pytest.raises(Conflict):
        await client.replace(meta.RULES, stored)
    await client.delete(meta.RULES, changed)
    assert await client.read(meta.RULES, KEY) is None


async def test_a_right_is_reviewed() -> None:
    server: Any = FakeServer()
    client = user_client(server)
    server.forbidden.add(("list", "secrets"))
    assert await client.may(Access("get", "", "secrets"))
    assert not await client.may(Access("list", "", "secrets"))


async def test_an_answer_that_is_no_object_is_refused() -> None:
    class Broken(FakeServer):
        async def get_path(self, path: str) -> bytes:
            return b"[]"

    server: Any = Broken()
    with pytest.raises(ProtocolError, match="/api: the answer is not a JSON object"):
        await ClusterClient(server).read_path("/api")


@pytest.mark.parametrize("verb", ["get", "list", "create"])
async def test_a_command_comes_later_where_it_is_asked_to_and_the_daemon_leaves_that_to_its_loops(verb: str) -> None:
    server: Any = FakeServer()
    server.busy = 1
    with pytest.raises(TooManyRequests):
        await _use(ClusterClient(server), verb)
    assert server.busy == 0
    server.busy = MOST_TRIES - 1
    await _use(user_client(server), verb)
    server.busy = MOST_TRIES
    with pytest.raises(TooManyRequests):
        await _use(user_client(server), verb)
    assert server.busy == 0


def test_an_error_has_the_name_of_its_cluster_once() -> None:
    server: Any = FakeServer()
    named, unnamed = user_client(server), ClusterClient(server)
    assert named.explain(NotServed("context a: does not serve it")) == "context a: does not serve it"
    assert named.explain(NotServed("no")) == "context a: no"
    assert user_client(server, None).explain(NotServed("no")) == "the current context: no"
    server.source = POD
    assert user_client(server, None).explain(NotServed("no")) == "this cluster: no"
    assert unnamed.explain(NotServed("no")) == "no"
