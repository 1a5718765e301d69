"""`join` on real control planes: it checks, swaps, waits, changes nothing when done again, and takes itself back."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from hack.controlplane import Group
from tests.e2e.commands import Ended, contexts, run
from tests.e2e.group import NAMESPACE, Member, eventually, holding_invariants, start_members

NAMES = ["wed-1", "wed-2", "wed-3"]


@pytest.fixture(scope="module")
def group() -> Iterator[Group]:
    with Group(3, prefix="wed") as found:
        yield found


@pytest.fixture(scope="module")
def members(group: Group) -> Iterator[list[Member]]:
    """Run three fresh members."""
    with holding_invariants() as found:
        found += start_members(group)
        yield found


def join(group: Group, *arguments: str, names: list[str] = NAMES) -> Ended:
    return run(group.kubeconfig, "join", *contexts(names), *arguments)


def clusters(member: Member) -> dict[str, str]:
    """Return the states of the Clusters in a member, by name."""
    found = json.loads(member.kubectl("get", "clusters", "-o", "json"))["items"]
    return {one["metadata"]["name"]: one.get("status", {}).get("state", "") for one in found}


def writes(members: list[Member], offsets: list[int]) -> list[tuple[str, str, str]]:
    """List the writes of the admin since then: verb, resource and name."""
    return [
        (line["verb"], line["objectRef"]["resource"], line["objectRef"].get("name", ""))
        for member, offset in zip(members, offsets, strict=True)
        for line in member.cluster.audit(offset)
        if line["user"].get("username") == "kubernetes-admin"
        and line["verb"] in ("create", "update", "patch", "delete")
        and line["objectRef"]["resource"] in ("clusters", "secrets")
    ]


def offsets(members: list[Member]) -> list[int]:
    return [member.cluster.audit_offset() for member in members]


def published(member: Member) -> dict[str, object]:
    """Return the published kubeconfig."""
    found = eventually(lambda: member.find("-n", NAMESPACE, "secret", member.name), what="the Secret")
    return dict(yaml.safe_load(base64.b64decode(found["data"]["kubeconfig"])))


def token_of(member: Member) -> str:
    kubeconfig: dict[str, list[dict[str, dict[str, str]]]] = published(member)  # type: ignore[assignment]
    return kubeconfig["users"][0]["user"]["token"]


def test_a_wrong_endpoint_is_found_before_anything_is_written(group: Group, members: list[Member]) -> None:
    """The message names the fact and the flag; each cluster still knows only itself."""
    free = group[0].port
    for address, words in (
        ("https://no-such-host.invalid:6443", "the host name cannot be resolved"),
        (f"https://localhost.invalid:{free}", "the host name cannot be resolved"),
        ("https://127.0.0.1:1", "the port refuses connections"),
        (f"https://127.0.0.1:{group[0].port}", "no trusted certificate authority issued the certificate"),
        (f"https://127.1:{group[1].port}", "the certificate is not valid for this address 127.1"),
    ):
        done = join(group, "--endpoint", f"wed-2={address}")
        assert done.code == 1, (address, done)
        assert words in done.stderr, address
        assert "nothing was written" in done.stderr
        assert "--endpoint wed-2=URL" in done.stderr or "--ca-file wed-2=FILE" in done.stderr
    assert [list(clusters(member)) for member in members] == [[name] for name in NAMES]
    assert "spec.kubernetesApiEndpoints" not in members[1].kubectl("get", "cluster", "wed-2", "-o", "yaml")


def test_another_cluster_at_the_address_is_found(group: Group, members: list[Member], tmp_path: Path) -> None:
    """With the CA of the other cluster the handshake succeeds, and its token is refused."""
    kubeconfig: Any = published(members[0])
    ca = tmp_path / "ca.pem"
    ca.write_bytes(base64.b64decode(kubeconfig["clusters"][0]["cluster"]["certificate-authority-data"]))
    address = f"https://127.0.0.1:{group[0].port}"
    done = join(group, "--endpoint", f"wed-2={address}", "--ca-file", f"wed-2={ca}")
    assert done.code == 1
    assert "does not accept the token (401)" in done.stderr
    assert list(clusters(members[0])) == ["wed-1"]


def test_the_credentials_of_another_cluster_are_found_by_its_id(group: Group, members: list[Member]) -> None:
    """The other cluster accepts its own token, so only its ID shows the mistake."""
    members[1].daemon.stop()
    text = members[0].get("secret", members[0].name, "-n", NAMESPACE)["data"]["kubeconfig"]
    patch = json.dumps({"data": {"kubeconfig": text}})
    members[1].kubectl("-n", NAMESPACE, "patch", "secret", members[1].name, "--type", "merge", "-p", patch)
    try:
        done = join(group)
    finally:
        members[1].kubectl("-n", NAMESPACE, "delete", "secret", members[1].name)  # its daemon publishes it again
        members[1].daemon.start()
        members[1].daemon.wait_ready()
    assert done.code == 1
    assert f"is another cluster: its ID is {members[0].id}, not {members[1].id}" in done.stderr
    assert "set --endpoint wed-2=URL to the address of wed-2" in done.stderr
    assert "nothing was written" in done.stderr
    assert published(members[1])["clusters"] != published(members[0])["clusters"]
    assert list(clusters(members[0])) == ["wed-1"]


def test_a_missing_right_of_the_reader_is_found(group: Group, members: list[Member]) -> None:
    role = "cluster-registry-controller-reader"
    held = members[2].get("clusterrolebinding", role)
    members[2].kubectl("delete", "clusterrolebinding", role)
    try:
        done = join(group)
    finally:
        members[2].create({key: held[key] for key in ("apiVersion", "kind", "roleRef", "subjects")} | {
            "metadata": {key: held["metadata"][key] for key in ("name", "labels")}
        })  # fmt: skip
    assert done.code == 1
    assert "wed-3" in done.stderr
    assert "lacks a right there (403)" in done.stderr
    assert "registry-controller rbac" in done.stderr
    assert list(clusters(members[0])) == ["wed-1"]


def test_a_dry_run_prints_the_objects_and_hides_the_credentials(group: Group, members: list[Member]) -> None:
    before = offsets(members)
    done = join(group, "--dry-run", "-o", "yaml")
    assert done.code == 0, done.stderr
    documents = [one for one in yaml.safe_load_all(done.stdout) if one]
    assert len(documents) == 8
    assert {one["kind"] for one in documents} == {"Cluster", "Secret"}
    assert done.stdout.count("# context wed-1: create") == 4
    assert not any(token_of(member) in done.stdout + done.stderr for member in members)
    assert all(one["data"] == {"kubeconfig": "<redacted>"} for one in documents if one["kind"] == "Secret")
    shown = join(group, "--dry-run", "-o", "yaml", "--show-secrets")
    secrets = [one for one in yaml.safe_load_all(shown.stdout) if one and one["kind"] == "Secret"]
    assert token_of(members[0]) in base64.b64decode(secrets[0]["data"]["kubeconfig"]).decode()
    table = join(group, "--dry-run")
    assert table.stdout.splitlines()[0].split() == ["CONTEXT", "ACTION", "OBJECT"]
    assert len(table.stdout.splitlines()) == 9
    assert writes(members, before) == []


def test_three_fresh_members_join_by_two_swaps_and_a_second_join_changes_nothing(
    group: Group, members: list[Member]
) -> None:
    before = offsets(members)
    done = join(group)
    assert done.code == 0, done.stderr
    assert "3 members are in step" in done.stderr
    assert "the checks ran on this machine" in done.stderr  # the control planes have no nodes
    for member in members:
        assert clusters(member) == dict.fromkeys(NAMES, "Ready")
    assert {verb for verb, *_ in writes(members, before)} == {"create"}
    assert len(writes(members, before)) == 8
    before = offsets(members)
    again = join(group)
    assert again.code == 0, again.stderr
    assert again.stdout.strip() == "nothing to change"
    assert writes(members, before) == []
    assert not any(token_of(member) in text for member in members for text in (*done[1:], *again[1:]))


def test_an_endpoint_is_stored_and_published(group: Group, members: list[Member]) -> None:
    address = f"https://localhost:{group[1].port}"
    done = join(group, "--endpoint", f"wed-2={address}")
    assert done.code == 0, done.stderr
    assert published(members[1])["clusters"][0]["cluster"]["server"] == address  # type: ignore[index]
    again = join(group, "--endpoint", f"wed-2={address}")
    assert again.stdout.strip() == "nothing to change"


def test_names_of_clusters_that_do_not_join_are_refused(group: Group, members: list[Member]) -> None:
    done = join(group, "--endpoint", "wed-9=https://127.0.0.1:1")
    assert (done.code, "wed-9: is neither a --context nor the name of its Cluster" in done.stderr) == (1, True)
    same = join(group, names=["wed-1", "wed-1"])
    assert (same.code, "are one cluster" in same.stderr) == (1, True)
    assert join(group, names=["wed-1"]).code == 2
    assert join(group, "--endpoint", "https://x").code == 2
    assert join(group, "--show-secrets").code == 2


def test_an_undo_needs_the_whole_group_and_a_new_join_works_after_it(group: Group, members: list[Member]) -> None:
    part = join(group, "--undo", names=NAMES[:2])
    assert part.code == 1
    assert "has another member, wed-3" in part.stderr
    done = join(group, "--undo")
    assert done.code == 0, done.stderr
    for member in members:
        assert list(clusters(member)) == [member.name]
        assert member.find("-n", NAMESPACE, "secret", member.name) is not None
    assert join(group, "--undo").stdout.strip() == "nothing to change"
    again = join(group)
    assert again.code == 0, again.stderr
    for member in members:
        assert clusters(member) == dict.fromkeys(NAMES, "Ready")


def test_clusters_leave_one_after_another_and_join_again(group: Group, members: list[Member]) -> None:
    """A cluster that has left does not join again by itself; the message has the command that lets it."""
    done = run(group.kubeconfig, "leave", "--yes", *contexts(NAMES[1:]))
    assert done.code == 0, done.stderr
    assert done.stdout.count("this cluster has left, and its credentials are revoked") == 2
    assert list(clusters(members[0])) == ["wed-1"]
    refused = join(group, names=NAMES[:2])
    assert refused.code == 1
    assert "has left its group" in refused.stderr
    command = refused.stderr.split("run `")[1].split("`")[0]
    assert command.startswith("kubectl --context wed-2 delete clusterfeatures -l ")
    members[1].kubectl(*command.split()[3:])
    again = join(group, names=NAMES[:2])
    assert again.code == 0, again.stderr
    assert clusters(members[1]) == {"wed-1": "Ready", "wed-2": "Ready"}
