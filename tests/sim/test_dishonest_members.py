"""A live member that lies about the others, or brings too many. P1, P11, O4, O7."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import pytest
import yaml

from registry_controller.api import meta
from registry_controller.kube.kubeconfig import Credentials
from registry_controller.membership import quota
from tests.sim.cluster.group import SimGroup, hand_over, simulate
from tests.sim.cluster.member import NAMESPACE, READER, Member
from tests.sim.cluster.transport import Fault

LAST = 2**63 - 1
"""The highest resourceVersion that etcd can have."""


def secret(member: Member, name: str) -> dict[str, Any]:
    return member.get("Secret", name, namespace=NAMESPACE)


def claims_revision(held: dict[str, Any], revision: int) -> dict[str, Any]:
    """Let a copy say that it was made from such a revision of its source."""
    notes = held["metadata"]["annotations"]
    said = json.loads(notes[meta.PROVENANCE])
    said["source"]["resourceVersion"] = str(revision)
    notes = {**notes, meta.PROVENANCE: json.dumps(said)}
    return {**held, "metadata": {**held["metadata"], "annotations": notes}}


def kubeconfig(held: dict[str, Any]) -> dict[str, Any]:
    return dict(yaml.safe_load(base64.b64decode(held["data"]["kubeconfig"])))


def with_kubeconfig(held: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    return {**held, "data": {"kubeconfig": base64.b64encode(yaml.safe_dump(document).encode()).decode()}}


def with_token(held: dict[str, Any], token: str) -> dict[str, Any]:
    document = kubeconfig(held)
    document["users"][0]["user"]["token"] = token
    return with_kubeconfig(held, document)


def known(member: Member, name: str) -> str:
    return str(member.get("Cluster", name)["spec"]["clusterID"])


def state(member: Member, name: str) -> str:
    return str(member.get("Cluster", name)["status"]["state"])


# Rebuilt clusters.


async def offers_another(group: SimGroup, *, trust_s: int) -> None:
    """Let b fall silent, and the live c offer the stranger d, which has that name, too, in its place."""
    for member in group.members:
        member.options["MEMBER_LEFT_TRUST_SECONDS"] = str(trust_s)
    group["d"].options["PROVISION_LOCAL_CLUSTER"] = "b"
    group.start()
    await group.settle()
    group.swap_all(among="abc")
    await group.settle()
    a, b, c, d = group.members
    await c.stop()
    group.fail("b", Fault.REFUSED)
    await asyncio.sleep(60.0)
    assert state(a, "b") == "Failed"
    held = c.get("Cluster", "b")
    c.replace({**held, "spec": {**held["spec"], "clusterID": d.id}})
    c.replace({**secret(c, "b"), "data": secret(d, "b")["data"]})
    assert known(a, "b") == b.id


@pytest.mark.parametrize("trust_s", [600, 0])
def test_a_member_that_is_silent_for_a_moment_is_not_replaced_by_another_one(trust_s: int) -> None:
    """P11: whoever proves an ID of his own, at an address of his own; it is said until the member is back."""

    async def scenario(group: SimGroup) -> None:
        await offers_another(group, trust_s=trust_s)
        a, b = group["a"], group["b"]
        await asyncio.sleep(400.0)
        assert known(a, "b") == b.id
        words = a.get("Cluster", "b")["status"]["message"]
        assert "another cluster, at another address, has its name now, as reported by c" in words
        if not trust_s:
            await asyncio.sleep(3600.0)
            assert known(a, "b") == b.id
        group.fail("b", Fault.NONE)
        await group.settle()
        assert (known(a, "b"), state(a, "b")) == (b.id, "Ready")

    simulate(scenario, n=4)


def test_a_rebuilt_cluster_at_another_address_takes_its_name_when_the_old_one_was_silent_for_long() -> None:
    """P11."""

    async def scenario(group: SimGroup) -> None:
        await offers_another(group, trust_s=600)
        a, d = group["a"], group["d"]
        await asyncio.sleep(700.0)
        assert known(a, "b") == d.id
        await group.settle()
        assert state(a, "b") == "Ready"

    simulate(scenario, n=4)


def test_a_cluster_that_was_carried_here_by_hand_is_not_replaced() -> None:
    """O7, P11: before its own cluster was ever alive here, nothing overwrites it."""

    async def scenario(group: SimGroup) -> None:
        a, b = group["a"], group["b"]
        group.wire("a", "b").set(Fault.REFUSED)
        group.start()
        await group.settle()
        group.swap_all()
        await group.settle()
        old = b.id
        group.rebuild("b")
        b.start()
        await asyncio.sleep(60.0)
        c = group["c"]
        for kind, namespace in (("Cluster", ""), ("Secret", NAMESPACE)):
            found = b.get(kind, "b", namespace=namespace)
            parts = {part: value for part, value in found.items() if part not in ("metadata", "status")}
            c.apply({**parts, "metadata": {"name": "b", "namespace": namespace}})
        hand_over(c, b)
        group.wire("a", "b").set(Fault.NONE)
        await group.settle()
        assert (known(c, "b"), known(a, "b")) == (b.id, old)

    simulate(scenario, n=3)


# Credentials.


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("lie", ["garbage", "what works now"])
def test_a_lie_about_a_silent_members_credentials_keeps_the_fresh_ones_from_nobody(lie: str, restarts: bool) -> None:
    """O4, O7, P3: whatever revision it claims, and whether the network is there at that moment or not."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        a, b, _, liar = group.members
        old = secret(a, "b")["data"]
        group.wire("a", "b").set(Fault.REFUSED)
        await asyncio.sleep(60.0)
        await liar.stop()
        said = secret(liar, "b")
        liar.replace(claims_revision(with_token(said, "garbage") if lie == "garbage" else said, LAST))
        await asyncio.sleep(60.0)
        b.delete("Secret", f"{READER}-token", namespace=NAMESPACE)
        await asyncio.sleep(60.0)
        assert secret(a, "b")["data"] == old
        if restarts:
            await a.restart()
            await asyncio.sleep(60.0)
        group.wire("a", "b").set(Fault.NONE)
        await group.settle()
        assert secret(a, "b")["data"] == secret(b, "b")["data"] != old
        assert state(a, "b") == "Ready"
        assert not await group.writes_within(120.0)

    simulate(scenario, n=4)


def test_a_lie_about_a_newcomers_credentials_does_not_keep_it_out() -> None:
    """O4: before it was Ready here nobody knows which are the good ones, and all are tried."""

    async def scenario(group: SimGroup) -> None:
        a, b, _, liar = group.members
        group.start()
        await group.settle()
        group.swap_all(among="acd")
        await group.settle()
        group.wire("a", "b").set(Fault.REFUSED)
        hand_over(b, liar)
        hand_over(liar, b)
        await asyncio.sleep(30.0)
        await liar.stop()
        liar.replace(claims_revision(with_token(secret(liar, "b"), "garbage"), LAST))
        await asyncio.sleep(60.0)
        assert secret(a, "b")["data"] == secret(liar, "b")["data"]
        group.wire("a", "b").set(Fault.NONE)
        await group.settle()
        assert secret(a, "b")["data"] == secret(b, "b")["data"]
        assert state(a, "b") == "Ready"

    simulate(scenario, n=4)


def test_nobody_else_says_by_what_name_a_members_server_proves_itself() -> None:
    """O4: behind one address there may be many, and another name leads to another one, with the member's token."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        a, b, liar = group.members
        dialled: list[Credentials] = []
        connect = a.first._connect
        a.first._connect = lambda credentials, life: (dialled.append(credentials), connect(credentials, life))[1]  # type: ignore[method-assign]
        await a.restart()
        group.wire("a", "b").set(Fault.REFUSED)
        b.delete("Secret", f"{READER}-token", namespace=NAMESPACE)
        await asyncio.sleep(60.0)
        await liar.stop()
        good = secret(liar, "b")
        document = kubeconfig(good)
        document["clusters"][0]["cluster"]["tls-server-name"] = "evil.test"
        liar.replace(claims_revision(with_kubeconfig(good, document), LAST))
        group.wire("a", "b").set(Fault.NONE)
        await asyncio.sleep(120.0)
        assert "carry the Secret over" in a.get("Cluster", "b")["status"]["message"]
        liar.replace(good)
        await group.settle()
        assert state(a, "b") == "Ready"
        assert {credentials.tls_server_name for credentials in dialled} == {""}

    simulate(scenario, n=3)


def test_the_secrets_that_a_liar_names_for_a_member_lead_nowhere_else_and_keep_nobody_out() -> None:
    """O4: many are named for b, of other names than before; that which b renamed meanwhile is among an honest one's."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        a, b, honest, liar = group.members
        dialled: list[Credentials] = []
        connect = a.first._connect
        a.first._connect = lambda credentials, life: (dialled.append(credentials), connect(credentials, life))[1]  # type: ignore[method-assign]
        await a.restart()
        for name in ("b", "c"):
            group.wire("a", name).set(Fault.REFUSED)
        await liar.stop()
        bring(liar, range(60), cluster_id=b.id)
        for number in range(60):
            document = kubeconfig(with_token(secret(liar, "b"), f"wrong-{number}"))
            if number % 2:
                document["clusters"][0]["cluster"]["tls-server-name"] = "evil.test"
            liar.replace(with_kubeconfig(secret(liar, f"x{number:02}"), document))
        auth = {"secretRef": {"name": "b-new", "namespace": NAMESPACE}}
        b.apply({"kind": "Cluster", "metadata": {"name": "b"}, "spec": {"authInfo": auth}})
        b.delete("Secret", f"{READER}-token", namespace=NAMESPACE)
        b.delete("Secret", "b", namespace=NAMESPACE)
        await asyncio.sleep(60.0)
        group.wire("a", "b").set(Fault.NONE)
        await asyncio.sleep(60.0)
        assert state(a, "b") == "Failed"
        tried = {credentials.token for credentials in dialled if credentials.token.startswith("wrong")}
        assert tried == {"wrong-0", "wrong-2"}
        group.wire("a", "c").set(Fault.NONE)
        await asyncio.sleep(30.0)
        assert state(a, "b") == state(a, honest.name) == "Ready"
        assert {credentials.tls_server_name for credentials in dialled} == {""}
        assert secret(a, "b-new")["data"] == secret(b, "b-new")["data"]
        assert not brought(a, "Secret", namespace=NAMESPACE)

    simulate(scenario, n=4)


# Too many.


def bring(member: Member, numbers: range, *, cluster_id: str = "") -> None:
    """Hold so many Clusters, with Secrets, of one ID, or each of another one."""
    found = secret(member, member.name)
    for number in numbers:
        name = f"x{number:02}"
        reference = {"secretRef": {"name": name, "namespace": NAMESPACE}}
        spec = {"clusterID": cluster_id or f"{number:08}-0000-4000-8000-000000000000", "authInfo": reference}
        member.create({"kind": "Cluster", "metadata": {"name": name}, "spec": spec})
        member.create({**found, "metadata": {"name": name, "namespace": NAMESPACE}})


def brought(member: Member, kind: str, *, namespace: str = "") -> list[str]:
    names = [item["metadata"]["name"] for item in member.list(kind, namespace=namespace)]
    return [name for name in names if name.startswith("x")]


def test_of_one_id_there_are_a_few_clusters_here_however_many_its_member_holds() -> None:
    """P1, O4: each would be asked for what it leads to; the others do not come, nor their Secrets, and it is said."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        a, _, liar = group.members
        await liar.stop()
        bring(liar, range(60), cluster_id=liar.id)
        await group.settle()
        assert len(brought(a, "Cluster")) == quota.MOST_OF_ONE - 1
        assert len(brought(a, "Secret", namespace=NAMESPACE)) == quota.MOST_OF_ONE - 1
        assert state(a, "c") == "Ready"
        said = a.condition("Cluster", "c", "ClustersSynced")
        assert (said["status"], said["message"]) == (
            "False",
            "57 of the Clusters that it holds are not copied here: no more than 4 of one ID; delete the unneeded ones",
        )
        for number in range(60):
            liar.delete("Cluster", f"x{number:02}")
        await group.settle()
        assert brought(a, "Cluster") == []

    simulate(scenario, n=3)


def test_there_is_room_for_so_many_clusters_and_for_others_when_some_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """O4: whoever brings them, and in whatever names."""
    monkeypatch.setattr(quota, "MOST_CLUSTERS", 8)

    async def scenario(group: SimGroup) -> None:
        await group.join()
        a, _, liar = group.members
        await group["b"].stop()
        await liar.stop()
        bring(liar, range(30))
        await group.settle()
        assert brought(a, "Cluster") == ["x00", "x01", "x02", "x03", "x04"]
        assert len(brought(a, "Secret", namespace=NAMESPACE)) == 5
        words = a.condition("Cluster", "c", "ClustersSynced")["message"]
        assert words.startswith("25 of the Clusters that it holds are not copied here: no more than 8 in all")
        for number in range(5):
            liar.delete("Cluster", f"x{number:02}")
            a.delete("Cluster", f"x{number:02}")
        await group.settle()
        assert brought(a, "Cluster") == ["x05", "x06", "x07", "x08", "x09"]

    simulate(scenario, n=3)
