"""A member that nobody trusts any more, cut off as docs/leaving.md says, on real clusters. P3."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.commands import leave
from tests.e2e.credentials import is_refused, kubeconfig
from tests.e2e.group import NAMESPACE, Member, eventually, in_sync, steadily
from tests.e2e.test_leaving import READER, is_gone

DEPLOYMENT = "cluster-registry-controller"

pytestmark = [pytest.mark.group(3, prefix="cut"), pytest.mark.nightly]


def scale(member: Member, replicas: int) -> None:
    member.kubectl("-n", NAMESPACE, "scale", "deployment", DEPLOYMENT, f"--replicas={replicas}")
    eventually(
        lambda: member.get("-n", NAMESPACE, "deployment", DEPLOYMENT)["status"].get("replicas", 0) == replicas,
        what=f"{replicas} daemons at {member.name}",
    )


def carry_again(giver: Member, taker: Member) -> None:
    """Carry a Secret over that is there already, as docs/credentials.md says."""
    text = giver.kubectl("-n", NAMESPACE, "get", "secret", giver.name, "-o", "yaml")
    drop = ("  uid:", "  resourceVersion:", "  creationTimestamp:", "  generation:")
    kept = "".join(line for line in text.splitlines(keepends=True) if not line.startswith(drop))
    taker.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=kept)


def test_p3_who_is_cut_off_gets_no_new_credentials(members: list[Member], tmp_path: Path) -> None:
    """P3: though its daemon goes on, and had watches open that outlive the tokens that opened them."""
    first, outcast, third = members
    staying = (first, third)
    held = {member.name: kubeconfig(outcast, member) for member in staying}
    stolen = {member.name: tmp_path / member.name for member in staying}
    for member in staying:
        stolen[member.name].write_bytes(held[member.name])
        assert not is_refused(member, stolen[member.name])
        member.kubectl("annotate", "cluster", outcast.name, "cluster-registry.k8s.cisco.com/cluster-disabled=cut-off")

    for member in staying:
        scale(member, 0)
    for member in staying:
        member.kubectl("-n", NAMESPACE, "delete", "secret", "--ignore-not-found", f"{READER}-token",
                       f"{READER}-token-binding")  # fmt: skip
    for member in staying:
        eventually(lambda member=member: is_refused(member, stolen[member.name]), what=f"{member.name} refuses")
        member.cluster.apiserver.restart()
    for member in staying:
        scale(member, 1)
        member.daemon.wait_ready(180)
    for member in staying:
        eventually(lambda member=member: kubeconfig(member, member) != held[member.name], what="a new token")
    carry_again(first, third)
    carry_again(third, first)
    in_sync(staying)

    for member in staying:
        eventually(lambda member=member: outcast.get("cluster", member.name)["status"]["state"] == "Failed")
        steadily(lambda member=member: kubeconfig(outcast, member) == held[member.name], for_s=5.0)
        assert is_refused(member, stolen[member.name])
    for member in staying:
        leave(member.cluster.kubeconfig, outcast.name)
    for member in staying:
        eventually(lambda member=member: is_gone(member, outcast.name), what=f"{outcast.name} at {member.name}")
    in_sync(staying)
