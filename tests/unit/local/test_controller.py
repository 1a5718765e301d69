"""P2, P3, S3 and the core resources: what the daemon keeps at home, against a small API server in memory."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import pytest
import yaml

from registry_controller import __version__
from registry_controller.api import meta, names
from registry_controller.api.deleted_rules import (
    LASTS,
    DeletedRule,
    deleted_rules_manifest,
    has_later_format,
    read_deleted_rules,
)
from registry_controller.api.feature import read_feature
from registry_controller.api.formats import FORMATS, write_daemon_version
from registry_controller.api.meta import ClusterUID
from registry_controller.api.tombstone import Tombstone, has_returned, read_tombstone, tombstone_manifest
from registry_controller.local import client, reader_token
from registry_controller.local.controller import LocalController
from registry_controller.local.manifests import SERVICE_ACCOUNT, TOKEN_SECRET_TYPE
from registry_controller.report.logs import get_logger
from tests.unit.local.fake_server import CA, NAMESPACE, READER, Body, FakeServer, b64
from tests.unit.local.local_settings import LocalSettings

OUR_ID = ClusterUID("11111111-1111-1111-1111-111111111111")
OWN_CA = "-----BEGIN CERTIFICATE-----\nown-ca\n-----END CERTIFICATE-----\n"


@dataclass
class Tombstones:
    """What should stand here, and what should not: nothing, unless a test says so."""

    wanted: list[Tombstone] = field(default_factory=list)
    unwanted: list[meta.Manifest] = field(default_factory=list)
    returned: list[meta.Manifest] = field(default_factory=list)
    further: dict[str, str] = field(default_factory=dict)
    is_farewell_lost: bool = False

    def has_lost_farewell(self) -> bool:
        return self.is_farewell_lost

    def list_missing(self) -> list[Tombstone]:
        return self.wanted

    def further_labels(self, stone: Tombstone) -> dict[str, str]:
        return self.further

    def is_farewell(self, stone: Tombstone) -> bool:
        return stone.member == stone.reported_by

    def list_returned(self) -> list[meta.Manifest]:
        return self.returned

    def list_unwanted(self) -> list[meta.Manifest]:
        return self.unwanted

    def list_withdrawals(self) -> list[meta.Manifest]:
        return []


TODAY = date(2026, 1, 31)


@dataclass
class DeletedRules:
    """The rules that were deleted here, and those whose record has expired."""

    new: list[DeletedRule] = field(default_factory=list)
    expired: list[DeletedRule] = field(default_factory=list)

    def update_record(self, stored: frozenset[DeletedRule]) -> frozenset[DeletedRule]:
        return (stored | {*self.new}) - {*self.expired}


def make(
    server: FakeServer,
    *,
    tombstones: Tombstones | None = None,
    deleted: DeletedRules | None = None,
    writes_version: bool = True,
    **options: Any,
) -> LocalController:
    settings = LocalSettings(**options)
    stones = tombstones or Tombstones()
    return LocalController(
        writer=server,
        settings=settings,
        cluster_id=OUR_ID,
        tombstones=stones,
        deleted_rules=deleted or DeletedRules(),
        writes_version=lambda *_: writes_version,
        log=get_logger("test"),
    )


def cluster(name: str = "one", cluster_id: str = OUR_ID, **spec: Any) -> Body:
    reference = {"secretRef": {"name": name, "namespace": NAMESPACE}}
    return {"metadata": {"name": name}, "spec": {"clusterID": cluster_id, "authInfo": reference, **spec}}


def kubeconfig(server: FakeServer, name: str = "one") -> Any:
    secret = server.find(meta.SECRETS, name, NAMESPACE)
    assert secret is not None
    return yaml.safe_load(base64.b64decode(secret["data"]["kubeconfig"]))


def address(server: FakeServer) -> str:
    return str(kubeconfig(server)["clusters"][0]["cluster"]["server"])


def authority(server: FakeServer) -> str:
    return base64.b64decode(kubeconfig(server)["clusters"][0]["cluster"]["certificate-authority-data"]).decode()


async def eventually(holds: Callable[[], bool]) -> None:
    """Wait until something holds; the caller's timeout ends it."""
    while not holds():  # noqa: ASYNC110  what is waited for has no event
        await asyncio.sleep(0.01)


@pytest.fixture
def server() -> FakeServer:
    return FakeServer()


async def test_an_empty_cluster_gets_everything_that_is_ours(server: FakeServer) -> None:
    assert await make(server).reconcile() == ""
    own = server.find(meta.CLUSTERS, "one")
    assert own is not None
    assert own["spec"] == {
        "clusterID": OUR_ID,
        "authInfo": {"secretRef": {"name": "one", "namespace": NAMESPACE}},
    }
    assert own["metadata"].keys() == {"name", "uid", "resourceVersion", "creationTimestamp", "annotations"}
    assert own["metadata"]["annotations"] == {meta.DAEMON: write_daemon_version(__version__)}
    secret = server.find(meta.SECRETS, "one", NAMESPACE)
    assert secret is not None
    assert secret["type"] == meta.REGISTRY_SECRET_TYPE
    assert secret["data"].keys() == {"kubeconfig"}
    assert secret["metadata"].keys() == {"name", "namespace", "uid", "resourceVersion", "creationTimestamp"}
    for name in names.CORE_RULES:
        assert server.find(meta.RULES, name) is not None
    feature = server.find(meta.FEATURES, names.CORE_FEATURE_OBJECT)
    assert feature is not None
    assert feature["metadata"]["labels"] == {meta.CORE_RESOURCE: "true"}
    assert feature["metadata"]["ownerReferences"] == [
        {
            "apiVersion": meta.API_VERSION,
            "kind": "Cluster",
            "name": "one",
            "uid": own["metadata"]["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]


async def test_the_published_kubeconfig_names_the_cluster_and_the_reader(server: FakeServer) -> None:
    await make(server).reconcile()
    document = kubeconfig(server)
    assert document["current-context"] == document["contexts"][0]["name"] == document["clusters"][0]["name"] == "one"
    assert document["users"][0]["name"] == READER
    assert document["users"][0]["user"]["token"].startswith("token-")
    assert document["preferences"] == {}
    assert address(server) == "https://10.0.0.1:6443"


async def test_a_second_pass_writes_nothing(server: FakeServer) -> None:
    home = make(server)
    await home.reconcile()
    server.writes.clear()
    assert await home.reconcile() == ""
    assert await make(server).reconcile() == ""
    assert server.writes == []


async def test_no_cluster_is_made_where_one_with_our_id_is_there(server: FakeServer) -> None:
    server.put(meta.CLUSTERS, cluster("carried"))
    await make(server).reconcile()
    assert server.find(meta.CLUSTERS, "one") is None
    assert server.find(meta.SECRETS, "carried", NAMESPACE) is not None


@pytest.mark.clause("P2")
@pytest.mark.parametrize("name", ["one", ""])
async def test_a_local_cluster_that_was_deleted_is_made_again_as_it_was(
    server: FakeServer, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """O6: after a moment, in which whoever deleted it may create it again."""
    made = cluster("one", kubernetesApiEndpoints=[{"serverAddress": "https://one.test"}])
    made["metadata"] |= {"labels": {"region": "north"}, "annotations": {"team": "x", meta.OWNER: "forged"}}
    server.put(meta.CLUSTERS, made)
    home = make(server, provision_local_cluster=name)
    await home.reconcile()
    server.drop(meta.CLUSTERS, "one")
    assert await home.reconcile() == ""
    assert server.find(meta.CLUSTERS, "one") is None
    monkeypatch.setattr("registry_controller.core.decision.lost_cluster.REPLACED_S", 0.0)
    assert await home.reconcile() == ""
    found = server.find(meta.CLUSTERS, "one")
    assert found is not None
    assert found["spec"] == made["spec"]
    annotations = {"team": "x", meta.DAEMON: write_daemon_version(__version__)}
    assert (found["metadata"]["labels"], found["metadata"]["annotations"]) == ({"region": "north"}, annotations)


async def test_a_name_that_another_cluster_has_is_a_problem_in_words(server: FakeServer) -> None:
    server.put(meta.CLUSTERS, cluster("one", "another"))
    assert "Cluster one: has another clusterID" in await make(server).reconcile()
    assert server.writes == []


async def test_without_a_name_nothing_is_provisioned(server: FakeServer) -> None:
    assert await make(server, provision_local_cluster="").reconcile() == ""
    assert server.writes == []


async def test_two_clusters_with_our_id_stop_everything(server: FakeServer) -> None:
    server.put(meta.CLUSTERS, cluster("one"))
    server.put(meta.CLUSTERS, cluster("two"))
    assert await make(server).reconcile() == ""
    assert server.writes == []


async def test_a_disabled_local_cluster_is_left_alone(server: FakeServer) -> None:
    disabled = cluster()
    disabled["metadata"]["annotations"] = {meta.CLUSTER_DISABLED: ""}
    server.put(meta.CLUSTERS, disabled)
    assert await make(server).reconcile() == ""
    assert server.writes == []


@pytest.mark.parametrize(
    ("endpoints", "option", "reported", "expected"),
    [
        ([{"clientNetwork": "n", "serverAddress": "n"}, {"serverAddress": "first"}, {"serverAddress": "x"}], "option",
         "10.0.0.1", "https://first"),
        ([{}], "option:7", "10.0.0.1", "https://option:7"),
        ([{"clientNetwork": "n", "serverAddress": "n"}], "", "10.0.0.1:6443", "https://10.0.0.1:6443"),
        ([], "", "", "https://own.example:6443"),
    ],
    ids=["the endpoint without a network", "the option", "what the API server reports", "our own connection's"],
)  # fmt: skip
async def test_the_address_comes_from(
    server: FakeServer, endpoints: list[Body], option: str, reported: str, expected: str
) -> None:
    server.put(meta.CLUSTERS, cluster(kubernetesApiEndpoints=endpoints))
    server.reported = [reported]
    assert await make(server, apiserver_endpoint_address=option).reconcile() == ""
    assert address(server) == expected


async def test_api_servers_that_report_different_addresses_cause_no_writes(server: FakeServer) -> None:
    server.reported = ["10.0.0.1:6443", "10.0.0.2:6443", "10.0.0.3:6443"]
    home = make(server)
    await home.reconcile()
    for _ in range(3):
        await home.reconcile()
    server.writes.clear()
    for _ in range(6):
        await home.reconcile()
    assert server.writes == []


async def test_the_authority_has_our_own_and_the_endpoints_bundle_once(server: FakeServer) -> None:
    server.ca_pem = OWN_CA
    bundle = "-----BEGIN CERTIFICATE-----\nbundle\n-----END CERTIFICATE-----\n"
    server.put(meta.CLUSTERS, cluster(kubernetesApiEndpoints=[{"caBundle": b64(bundle)}]))
    await make(server).reconcile()
    assert authority(server) == f"{CA}\n{OWN_CA}\n{bundle}"


async def test_our_own_authority_is_not_repeated(server: FakeServer) -> None:
    server.ca_pem = CA.strip()
    await make(server).reconcile()
    assert authority(server) == CA


async def test_a_bundle_that_is_no_base64_is_a_problem_and_the_rules_are_made_all_the_same(server: FakeServer) -> None:
    server.put(meta.CLUSTERS, cluster(kubernetesApiEndpoints=[{"caBundle": "***"}]))
    assert "caBundle" in await make(server).reconcile()
    assert server.find(meta.RULES, names.RULES_SINK) is not None


async def test_any_token_secret_of_the_reader_is_used_the_oldest_first(server: FakeServer) -> None:
    for name, account in (("legacy-1", READER), ("legacy-2", READER), ("other", "default")):
        info = {"name": name, "namespace": NAMESPACE, "annotations": {SERVICE_ACCOUNT: account}}
        data = {"token": b64(f"of-{name}"), "ca.crt": b64(CA)}
        server.put(meta.SECRETS, {"metadata": info, "type": TOKEN_SECRET_TYPE, "data": data})
    await make(server).reconcile()
    assert kubeconfig(server)["users"][0]["user"]["token"] == "of-legacy-1"
    assert server.find(meta.SECRETS, f"{READER}-token", NAMESPACE) is None


async def test_a_deleted_token_secret_is_made_anew_and_published(server: FakeServer) -> None:
    home = make(server)
    await home.reconcile()
    before = kubeconfig(server)["users"][0]["user"]["token"]
    server.drop(meta.SECRETS, f"{READER}-token", NAMESPACE)
    assert await home.reconcile() == ""
    assert kubeconfig(server)["users"][0]["user"]["token"] != before


async def test_a_token_that_never_comes_is_a_problem(server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader_token, "_WAIT_S", 0.02)
    monkeypatch.setattr(reader_token, "_POLL_S", 0.01)
    server.fills_tokens = False
    assert "has not filled its token Secret yet" in await make(server).reconcile()
    assert server.find(meta.SECRETS, "one", NAMESPACE) is None


def token_of(server: FakeServer) -> str:
    return str(kubeconfig(server)["users"][0]["user"]["token"])


class Clocks:
    """The wall's clock and the loop's, moved by hand."""

    def __init__(self, server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
        self.wall_s, self.loop_s = 1_800_000_000.0, 50.0
        server.now_s = lambda: self.wall_s
        monkeypatch.setattr(reader_token.time, "time", lambda: self.wall_s)
        monkeypatch.setattr(reader_token, "_now_s", lambda: self.loop_s)

    def pass_s(self, seconds: float) -> None:
        self.wall_s += seconds
        self.loop_s += seconds


@pytest.fixture
def clocks(server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> Clocks:
    return Clocks(server, monkeypatch)


@pytest.mark.clause("P3")
@pytest.mark.parametrize(("asked_s", "granted_s"), [(600, 600), (86_400, 3_600)])
@pytest.mark.parametrize("restarted", [False, True], ids=["up", "restarted"])
async def test_a_token_that_expires_is_renewed_at_four_fifths_of_what_was_granted(
    server: FakeServer, clocks: Clocks, asked_s: int, granted_s: int, restarted: bool
) -> None:
    server.grants_s = 3_600
    home = make(server, reader_token_expiration_seconds=asked_s)
    assert await home.reconcile() == ""
    first, writes = token_of(server), len(server.writes)
    assert home._secret.renew_in_s() == pytest.approx(granted_s * 0.8, abs=1)
    clocks.pass_s(granted_s * 0.8 - 5)
    if restarted:
        clocks.loop_s = 3.0  # as a new process counts
        home = make(server, reader_token_expiration_seconds=asked_s)
    assert await home.reconcile() == ""
    assert (token_of(server), len(server.writes)) == (first, writes)
    assert home._secret.renew_in_s() == pytest.approx(5, abs=1)
    clocks.pass_s(6)
    assert await home.reconcile() == ""
    assert token_of(server) != first
    assert server.writes[writes:] == ["issue token", "replace secrets"]
    assert server.find(meta.SECRETS, f"{READER}-token", NAMESPACE) is None, "nothing that lasts is made"


async def test_a_clock_that_is_set_leaves_a_token_of_this_life_alone(server: FakeServer, clocks: Clocks) -> None:
    home = make(server, reader_token_expiration_seconds=600)
    await home.reconcile()
    first = token_of(server)
    for wall_s in (-1e6, 1e6, 1e6):
        clocks.wall_s += wall_s
        await home.reconcile()
        assert token_of(server) == first
    clocks.wall_s -= 5e6
    await make(server, reader_token_expiration_seconds=600).reconcile()
    assert token_of(server) != first, "from the future: when it ends cannot be told"


@pytest.mark.parametrize("what", ["secret", "account"])
async def test_a_token_whose_secret_or_account_was_made_anew_is_replaced(server: FakeServer, what: str) -> None:
    """P3: either revokes it at once."""
    home = make(server, reader_token_expiration_seconds=600)
    await home.reconcile()
    first = token_of(server)
    if what == "secret":
        server.drop(meta.SECRETS, f"{READER}-token-binding", NAMESPACE)
    else:
        server.drop(client.SERVICE_ACCOUNTS, READER, NAMESPACE)
        assert f"ServiceAccount {NAMESPACE}/{READER} does not exist" in await home.reconcile()
        server.put(client.SERVICE_ACCOUNTS, {"metadata": {"name": READER, "namespace": NAMESPACE}})
    assert await home.reconcile() == ""
    assert token_of(server) != first


async def test_the_option_goes_both_ways(server: FakeServer) -> None:
    await make(server).reconcile()
    lasting = token_of(server)
    await make(server, reader_token_expiration_seconds=600).reconcile()
    assert token_of(server) != lasting
    await make(server).reconcile()
    assert token_of(server) == lasting


async def test_who_may_issue_no_tokens_says_so(server: FakeServer) -> None:
    server.forbidden.add(("create", "serviceaccounts/token"))
    said = await make(server, reader_token_expiration_seconds=600).reconcile()
    assert f"cannot create serviceaccounts/token.v1 in namespace {NAMESPACE}: forbidden" in said


async def test_a_missing_service_account_is_named_and_no_token_secret_is_made(server: FakeServer) -> None:
    server.drop(client.SERVICE_ACCOUNTS, READER, NAMESPACE)
    assert f"ServiceAccount {NAMESPACE}/{READER} does not exist" in await make(server).reconcile()
    assert server.find(meta.SECRETS, f"{READER}-token", NAMESPACE) is None


async def test_a_secret_that_says_the_same_in_other_words_is_not_rewritten(server: FakeServer) -> None:
    home = make(server)
    await home.reconcile()
    secret = server.find(meta.SECRETS, "one", NAMESPACE)
    assert secret is not None
    secret["data"]["kubeconfig"] = b64(json.dumps(kubeconfig(server), indent=4))
    server.writes.clear()
    await home.reconcile()
    assert server.writes == []


async def test_a_broken_secret_is_filled_again_and_keeps_what_others_added(server: FakeServer) -> None:
    home = make(server)
    await home.reconcile()
    secret = server.find(meta.SECRETS, "one", NAMESPACE)
    assert secret is not None
    secret["data"] = {"kubeconfig": b64("{"), "note": b64("mine")}
    secret["metadata"]["labels"] = {"team": "x"}
    secret["metadata"]["ownerReferences"] = [
        {"apiVersion": meta.API_VERSION, "kind": "Cluster", "name": "one", "uid": "u"},
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "v"},
    ]
    assert await home.reconcile() == ""
    secret = server.find(meta.SECRETS, "one", NAMESPACE)
    assert secret is not None
    assert secret["data"]["note"] == b64("mine")
    assert secret["metadata"]["labels"] == {"team": "x"}
    assert [owner["kind"] for owner in secret["metadata"]["ownerReferences"]] == ["ConfigMap"]
    assert kubeconfig(server)["current-context"] == "one"


@pytest.mark.parametrize(
    ("change", "words"), [({"type": "Opaque"}, "its type must be"), ({"immutable": True}, "is immutable")]
)
async def test_a_secret_that_cannot_be_filled_is_a_problem(server: FakeServer, change: Body, words: str) -> None:
    info = {"name": "one", "namespace": NAMESPACE}
    server.put(meta.SECRETS, {"metadata": info, "type": meta.REGISTRY_SECRET_TYPE, "data": {}, **change})
    assert words in await make(server).reconcile()


async def test_a_secret_that_is_not_managed_is_not_touched(server: FakeServer) -> None:
    await make(server, manage_local_cluster_secret=False).reconcile()
    assert server.find(meta.SECRETS, "one", NAMESPACE) is None
    assert server.find(meta.SECRETS, f"{READER}-token", NAMESPACE) is None


async def test_core_objects_that_somebody_edits_or_deletes_are_put_back(server: FakeServer) -> None:
    home = make(server)
    await home.reconcile()
    rule = server.find(meta.RULES, names.SECRETS_SINK)
    assert rule is not None
    wanted = json.loads(json.dumps(rule["spec"]))
    rule["spec"]["suspend"] = True
    rule["spec"]["rules"] = []
    rule["metadata"]["labels"] = {"team": "x"}
    rule["metadata"]["ownerReferences"][0]["uid"] = "of-an-older-cluster"
    server.drop(meta.FEATURES, names.CORE_FEATURE_OBJECT)
    assert await home.reconcile() == ""
    rule = server.find(meta.RULES, names.SECRETS_SINK)
    assert rule is not None
    assert rule["spec"] == wanted
    assert rule["metadata"]["labels"] == {"team": "x", meta.CORE_RESOURCE: "true"}
    assert len(rule["metadata"]["ownerReferences"]) == 1
    assert rule["metadata"]["ownerReferences"][0]["uid"] != "of-an-older-cluster"
    assert server.find(meta.FEATURES, names.CORE_FEATURE_OBJECT) is not None


async def test_a_core_rule_of_which_the_crd_drops_a_field_is_not_written_again(server: FakeServer) -> None:
    server.unknown[meta.RULES.resource] = ("clusterFeatureMatch",)
    home = make(server)
    await home.reconcile()
    server.writes.clear()
    await home.reconcile()
    assert server.writes == []
    server.unknown.clear()
    await home.reconcile()
    assert server.writes == ["replace resourcesyncrules"] * 3


async def test_rules_as_the_go_original_stores_them_are_not_rewritten(server: FakeServer) -> None:
    home = make(server)
    await home.reconcile()
    rule = server.find(meta.RULES, names.CLUSTERS_SINK)
    assert rule is not None
    rule["spec"]["rules"] = [{"mutations": {"syncStatus": False, "labels": {}}, "match": []}]
    server.writes.clear()
    await home.reconcile()
    assert server.writes == []


async def test_the_feature_goes_when_switched_off_and_the_rules_stay(server: FakeServer) -> None:
    await make(server).reconcile()
    assert await make(server, core_resources_source_enabled=False).reconcile() == ""
    assert server.find(meta.FEATURES, names.CORE_FEATURE_OBJECT) is None
    assert server.find(meta.RULES, names.RULES_SINK) is not None


@pytest.mark.parametrize(
    ("verb", "resource", "words"),
    [
        ("list", "clusters", "cannot list clusters.clusterregistry.k8s.cisco.com/v1alpha1"),
        ("create", "secrets", f"cannot create secrets.v1 in namespace {NAMESPACE}"),
        ("get", "resourcesyncrules", "cannot get resourcesyncrules"),
    ],
)
async def test_a_missing_right_names_verb_resource_and_who_can_give_it(
    server: FakeServer, verb: str, resource: str, words: str
) -> None:
    server.forbidden.add((verb, resource))
    problem = await make(server).reconcile()
    assert words in problem
    assert meta.CONTROLLER_AGGREGATED in problem


async def test_no_token_is_ever_in_a_problem(server: FakeServer) -> None:
    server.forbidden |= {("update", "secrets"), ("create", "secrets")}
    info = {"name": "t", "namespace": NAMESPACE, "annotations": {SERVICE_ACCOUNT: READER}}
    data = {"token": b64("very-secret"), "ca.crt": b64(CA)}
    server.put(meta.SECRETS, {"metadata": info, "type": TOKEN_SECRET_TYPE, "data": data})
    problem = await make(server).reconcile()
    assert problem
    assert "very-secret" not in problem


async def test_tombstones_are_kept_and_dropped_as_they_should_be(server: FakeServer) -> None:
    """O6: by a cluster that is no member, too."""
    stone = Tombstone(ClusterUID("2"), "22", OUR_ID, date(2030, 1, 1))
    tombstones = Tombstones(wanted=[stone], further={f"{meta.LEFT}added": "yes"})
    home = make(server, tombstones=tombstones, provision_local_cluster="")
    assert await home.reconcile() == ""
    stored = server.find(meta.FEATURES, stone.name)
    assert stored is not None
    assert read_tombstone(read_feature(stored)) == stone
    assert meta.labels_of(stored)[f"{meta.LEFT}added"] == "yes"
    assert await home.reconcile() == ""  # it is there already, and was not heard yet
    tombstones.wanted, tombstones.returned = [], [stored]
    assert await home.reconcile() == ""
    noted = server.find(meta.FEATURES, stone.name)
    assert noted is not None
    assert has_returned(meta.labels_of(noted))
    assert read_tombstone(read_feature(noted)) == stone
    stored, tombstones.returned = noted, []
    tombstones.wanted, tombstones.unwanted = [], [stored]
    assert await home.reconcile() == ""
    assert server.find(meta.FEATURES, stone.name) is None


@pytest.mark.clause("O6")
async def test_who_has_left_makes_no_cluster_while_its_tombstone_is_lost(server: FakeServer) -> None:
    """The tombstone is created with the next pass."""
    lost = Tombstone(OUR_ID, "11", OUR_ID, date(2030, 1, 1))
    tombstones = Tombstones(is_farewell_lost=True)
    home = make(server, tombstones=tombstones)
    assert await home.reconcile() == ""
    assert server.find(meta.CLUSTERS, "one") is None
    tombstones.wanted = [lost]
    assert await home.reconcile() == ""
    assert server.find(meta.CLUSTERS, "one") is None
    assert server.find(meta.FEATURES, lost.name) is not None


async def test_who_has_left_makes_no_cluster_until_the_tombstone_is_gone(server: FakeServer) -> None:
    """O6: not after a restart, either."""
    server.put(meta.FEATURES, tombstone_manifest(Tombstone(OUR_ID, "11", OUR_ID, date(2030, 1, 1))))
    server.put(meta.FEATURES, tombstone_manifest(Tombstone(ClusterUID("2"), "22", OUR_ID, date(2030, 1, 1))))
    for _ in range(2):
        assert await make(server).reconcile() == ""
        assert server.find(meta.CLUSTERS, "one") is None
    home = make(server)
    assert await home.reconcile() == ""
    server.drop(meta.FEATURES, f"left-{OUR_ID}.11")
    assert await home.reconcile() == ""
    assert server.find(meta.CLUSTERS, "one") is not None


async def test_the_task_retries_says_its_problem_and_hears_pokes(server: FakeServer) -> None:
    changes: list[str] = []
    server.forbidden.add(("list", "clusters"))
    home = LocalController(
        writer=server,
        settings=LocalSettings(),
        cluster_id=OUR_ID,
        tombstones=Tombstones(),
        deleted_rules=DeletedRules(),
        log=get_logger("test"),
        on_change=lambda: changes.append(home.problem),
    )
    async with asyncio.TaskGroup() as group, asyncio.timeout(10):
        task = group.create_task(home.run())
        await eventually(lambda: bool(home.problem))
        server.forbidden.clear()
        home.request_pass()
        await eventually(lambda: not home.problem)
        server.drop(meta.RULES, names.RULES_SINK)
        home.request_pass()
        await eventually(lambda: server.find(meta.RULES, names.RULES_SINK) is not None)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
    assert len(changes) == 2
    assert changes[1] == ""


# The record of deleted rules. W3.


def recorded(server: FakeServer) -> dict[str, date]:
    """Return the rules in the record, each with its day."""
    found = server.find(meta.FEATURES, names.DELETED_RULES_OBJECT)
    rules = read_deleted_rules(found["metadata"].get("annotations") or {}) if found is not None else ()
    return {rule.name: rule.day for rule in rules}


async def test_w3_rules_that_were_deleted_here_are_recorded_until_that_expires(server: FakeServer) -> None:
    deleted = DeletedRules()
    home = make(server, deleted=deleted)
    assert await home.reconcile() == ""
    assert server.find(meta.FEATURES, names.DELETED_RULES_OBJECT) is None
    old = [DeletedRule("lasts", "uid-l", TODAY - LASTS), DeletedRule("expired", "uid-e", TODAY - LASTS)]
    server.put(meta.FEATURES, deleted_rules_manifest(old))
    deleted.new, deleted.expired = [DeletedRule("new", "uid-n", TODAY)], old[1:]
    assert await home.reconcile() == ""
    assert recorded(server) == {"lasts": TODAY - LASTS, "new": TODAY}
    writes = len(server.writes)
    assert await home.reconcile() == ""
    assert len(server.writes) == writes


async def test_w3_a_record_of_a_later_format_is_left_alone(server: FakeServer) -> None:
    manifest = deleted_rules_manifest([])
    manifest["metadata"]["annotations"][meta.DELETED_RULES] = json.dumps({"format": 2, "rules": {"r": "uid"}})
    server.put(meta.FEATURES, manifest)
    assert await make(server, deleted=DeletedRules([DeletedRule("new", "uid-n", TODAY)])).reconcile() == ""
    assert (
        server.find(meta.FEATURES, names.DELETED_RULES_OBJECT)["metadata"]["annotations"]
        == (manifest["metadata"]["annotations"])
    )


@pytest.mark.clause("A11")
async def test_what_a_later_version_added_to_the_record_stays_when_it_is_written(server: FakeServer) -> None:
    manifest = deleted_rules_manifest([DeletedRule("old", "uid-o", TODAY)])
    record = json.loads(manifest["metadata"]["annotations"][meta.DELETED_RULES])
    record = {**record, "added": 1, "rules": [{**record["rules"][0], "added": 2}]}
    manifest["metadata"]["annotations"] |= {meta.DELETED_RULES: json.dumps(record), "x/added": "3"}
    manifest["metadata"]["labels"]["x/added"] = "4"
    server.put(meta.FEATURES, manifest)
    assert await make(server, deleted=DeletedRules([DeletedRule("new", "uid-n", TODAY)])).reconcile() == ""
    info = server.find(meta.FEATURES, names.DELETED_RULES_OBJECT)["metadata"]
    written = json.loads(info["annotations"][meta.DELETED_RULES])
    assert written["added"] == 1
    assert {entry["uid"]: entry.get("added") for entry in written["rules"]} == {"uid-o": 2, "uid-n": None}
    assert (info["annotations"]["x/added"], info["labels"]["x/added"]) == ("3", "4")


@pytest.mark.clause("A11")
@pytest.mark.parametrize(("found", "kept"), [({"added": 1}, True), ({"format": 2, "version": "later"}, False)])
async def test_what_a_later_version_said_of_its_daemon_stays(
    server: FakeServer, found: dict[str, Any], kept: bool
) -> None:
    await make(server).reconcile()
    own = server.find(meta.CLUSTERS, "one")
    own["metadata"]["annotations"] = {meta.DAEMON: json.dumps(found)}
    server.put(meta.CLUSTERS, own)
    assert await make(server).reconcile() == ""
    written = json.loads(server.find(meta.CLUSTERS, "one")["metadata"]["annotations"][meta.DAEMON])
    assert written == ({**found, "version": __version__, "formats": dict(FORMATS)} if kept else found)


@pytest.mark.clause("A11")
@pytest.mark.parametrize("writes", [True, False])
async def test_only_the_replica_that_is_to_writes_the_version(server: FakeServer, writes: bool) -> None:
    await make(server).reconcile()
    own = server.find(meta.CLUSTERS, "one")
    of_other = write_daemon_version("0.0.1")
    own["metadata"]["annotations"] = {meta.DAEMON: of_other}
    server.put(meta.CLUSTERS, own)
    assert await make(server, writes_version=writes).reconcile() == ""
    written = server.find(meta.CLUSTERS, "one")["metadata"]["annotations"][meta.DAEMON]
    assert written == (write_daemon_version(__version__) if writes else of_other)


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"format": 1}', '{"format": 1, "rules": [1, {"name": "r"}, {"name": "r", "uid": 1}]}']
)
def test_w3_a_record_that_cannot_be_read_names_no_rule(text: str) -> None:
    assert read_deleted_rules({meta.DELETED_RULES: text}) == frozenset()
    assert not has_later_format({meta.DELETED_RULES: text})
