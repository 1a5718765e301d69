"""What a rule takes out of a copy belongs to the cluster that holds the copy. A9."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from registry_controller.planner.output import build_explanation_document, format_explanation
from tests.sim.cluster.dry_run import explained
from tests.sim.cluster.group import CONFIG_MAP, SECRET, SimGroup, config_map, rule, simulate
from tests.sim.cluster.member import Member
from tests.sim.cluster.refusal import Refusal
from tests.sim.cluster.store import Change

pytestmark = pytest.mark.clause("A9")

DEPLOYMENT = {"group": "apps", "version": "v1", "kind": "Deployment"}
WIDGET = {"group": "sim.example", "version": "v1", "kind": "Widget"}
CLUSTER_ROLE = {"group": "rbac.authorization.k8s.io", "version": "v1", "kind": "ClusterRole"}
JOB = {"group": "batch", "version": "v1", "kind": "Job"}
HPA = "horizontal-pod-autoscaler"


def removing(*paths: str) -> dict[str, Any]:
    return {"mutations": {"overrides": [{"type": "remove", "path": path} for path in paths]}}


def deployment(replicas: int | None = 3, *, app: str = "web", **spec: Any) -> dict[str, Any]:
    scale = {} if replicas is None else {"replicas": replicas}
    return {
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {**scale, "selector": {"matchLabels": {"app": app}}, **spec},
    }


def scale(here: Member, replicas: int) -> None:
    body = {"kind": "Deployment", "metadata": {"name": "web", "namespace": "default"}, "spec": {"replicas": replicas}}
    here.write_as(HPA, body, subresource="scale")


def replicas_of(here: Member) -> int:
    found: int = here.get("Deployment", "web", namespace="default")["spec"]["replicas"]
    return found


def writes_of(here: Member, kind: str) -> int:
    return sum(write.kind == kind and write.changed for write in here.writes)


async def a_copy(
    group: SimGroup, kind: dict[str, str], source: dict[str, Any], *entries: dict[str, Any]
) -> tuple[Member, Member]:
    here, owner = group["a"], group["b"]
    await group.join()
    owner.create(source)
    here.create(rule("leaving", kind, *entries))
    await group.settle()
    return here, owner


def test_the_replicas_that_an_autoscaler_sets_stay() -> None:
    async def scenario(group: SimGroup) -> None:
        here, owner = await a_copy(group, DEPLOYMENT, deployment(), removing("/spec/replicas?"))
        assert replicas_of(here) == 1  # the server's default
        before = writes_of(here, "Deployment")
        for count in (5, 6, 7, 8, 9, 10, 5):
            scale(here, count)
            await asyncio.sleep(2)
            assert replicas_of(here) == count
        assert writes_of(here, "Deployment") == before
        await here.restart()
        await group.settle()
        assert (replicas_of(here), writes_of(here, "Deployment")) == (5, before)
        owner.apply(deployment(4, paused=True))
        await group.settle()
        assert here.get("Deployment", "web", namespace="default")["spec"]["paused"] is True
        assert (replicas_of(here), writes_of(here, "Deployment")) == (5, before + 1)
        assert here.condition("ResourceSyncRule", "leaving", "Synced")["status"] == "True"

    simulate(scenario, n=2)


def test_a_removal_hands_the_replicas_over_and_its_end_takes_them_back() -> None:
    async def scenario(group: SimGroup) -> None:
        here, _ = await a_copy(group, DEPLOYMENT, deployment(3))
        assert replicas_of(here) == 3
        here.apply(rule("leaving", DEPLOYMENT, removing("/spec/replicas?")))
        await group.settle()
        assert replicas_of(here) == 3
        scale(here, 7)
        await group.settle()
        assert replicas_of(here) == 7
        put_back = {"type": "replace", "path": "/spec/replicas?", "value": "2", "parseValue": True}
        entry = removing("/spec/replicas?")
        entry["mutations"]["overrides"].append(put_back)
        here.apply(rule("leaving", DEPLOYMENT, entry))
        await group.settle()
        assert replicas_of(here) == 2
        here.apply(rule("leaving", DEPLOYMENT))
        await group.settle()
        assert replicas_of(here) == 3

    simulate(scenario, n=2)


def test_a_copy_that_is_made_anew_gets_the_clusters_values_again() -> None:
    """A2: also after a restart, and what the daemon has set for others then is still theirs."""

    async def scenario(group: SimGroup) -> None:
        entry = removing("/spec/replicas?", "/spec/strategy?")
        entry["mutations"] |= {"labels": {"remove": ["team"]}, "annotations": {"remove": ["note"]}}
        source = deployment(3)
        source["metadata"] |= {"labels": {"team": "theirs"}, "annotations": {"note": "theirs"}}
        here, owner = await a_copy(group, DEPLOYMENT, source, entry)
        scale(here, 5)
        info = {"name": "web", "namespace": "default", "labels": {"team": "ours"}, "annotations": {"note": "ours"}}
        here.write_as("tuner", {"kind": "Deployment", "metadata": info, "spec": {"strategy": {"type": "Recreate"}}})
        await group.settle()
        before = here.get("Deployment", "web", namespace="default")
        owner.replace_by_force(deployment(3, app="other"))
        for _ in range(2):
            await group.settle()
            found = here.get("Deployment", "web", namespace="default")
            assert found["metadata"]["uid"] != before["metadata"]["uid"]
            assert found["spec"] == {
                "replicas": 5,
                "strategy": {"type": "Recreate"},
                "selector": {"matchLabels": {"app": "other"}},
            }
            assert found["metadata"]["labels"]["team"] == found["metadata"]["annotations"]["note"] == "ours"
            await here.restart()

    simulate(scenario, n=2)


QUOTA = Refusal(403, "Forbidden", 'deployments.apps "web" is forbidden: exceeded quota: objects')
TIMEOUT = Refusal(500, "InternalError", "etcdserver: request timed out")
BUSY = Refusal(429, "TooManyRequests", "slow down")


async def _deleted_to_be_made_anew(
    group: SimGroup, delay: Refusal | None, entry: dict[str, Any]
) -> tuple[Member, Member, Callable[[], None]]:
    """Let a copy be deleted to be made anew, and wait; what is returned ends what it waits for.

    It waits until its finalizer is removed, or while the API server refuses the creation.
    """
    here, owner = await a_copy(group, DEPLOYMENT, deployment(3), entry)
    scale(here, 5)
    held = here.get("Deployment", "web", namespace="default")
    if delay is None:
        here.replace({**held, "metadata": {**held["metadata"], "finalizers": ["sim.example/slow"]}})
    else:

        def refuse(change: Change) -> None:
            if change.kind.kind == "Deployment" and change.new is None:
                here.server.refused["Deployment web"] = delay

        here.server.store.listeners.append(refuse)
    await group.settle()

    def go_on() -> None:
        here.server.refused.clear()
        here.server.store.listeners[:] = [one for one in here.server.store.listeners if one.__name__ != "refuse"]
        if delay is None:
            going = here.get("Deployment", "web", namespace="default")
            assert going["metadata"]["deletionTimestamp"]
            here.replace({**going, "metadata": {**going["metadata"], "finalizers": []}})

    owner.replace_by_force(deployment(3, app="other"))
    await asyncio.sleep(20)
    return here, owner, go_on


@pytest.mark.parametrize("delay", [None, TIMEOUT, BUSY, QUOTA], ids=str)
def test_a_copy_that_is_made_anew_gets_the_clusters_values_however_long_that_takes(delay: Refusal | None) -> None:
    """A2: and the Event comes then, too. One that somebody deletes later gets none."""

    async def scenario(group: SimGroup) -> None:
        here, _, go_on = await _deleted_to_be_made_anew(group, delay, removing("/spec/replicas?"))
        go_on()
        await group.settle()
        found = here.get("Deployment", "web", namespace="default")
        assert found["spec"] == {"replicas": 5, "selector": {"matchLabels": {"app": "other"}}}
        assert len([event for event in here.list("Event") if event.get("reason") == "Recreated"]) == 1
        here.delete("Deployment", "web", namespace="default")
        await group.settle()
        assert replicas_of(here) == 1

    simulate(scenario, n=2)


@pytest.mark.parametrize(("meanwhile", "expected"), [("wants it", 3), ("was away", 1)])
def test_what_a_copy_had_is_used_only_where_it_is_wanted_still(meanwhile: str, expected: int) -> None:
    """A rule that wants the place itself gets it, and one that did not want the copy meanwhile makes a new one."""

    async def scenario(group: SimGroup) -> None:
        leaving = removing("/spec/replicas?")
        here, _, go_on = await _deleted_to_be_made_anew(group, None, leaving)
        elsewhere = {"match": [{"namespaces": ["none"]}]}
        here.apply(rule("leaving", DEPLOYMENT, elsewhere if meanwhile == "was away" else {}))
        await group.settle()
        go_on()
        await group.settle()
        assert (here.find("Deployment", "web", namespace="default") is None) is (meanwhile == "was away")
        if meanwhile == "was away":
            here.apply(rule("leaving", DEPLOYMENT, leaving))
            await group.settle()
        assert replicas_of(here) == expected

    simulate(scenario, n=2)


@pytest.mark.parametrize("count", [64, 65])
def test_a_rule_may_take_out_any_number_of_places(count: int) -> None:
    """Their values are this cluster's, also after the copy was made anew, and after a restart."""

    async def scenario(group: SimGroup) -> None:
        entry = {"mutations": {"labels": {"remove": [f"l{number}" for number in range(count)]}}}
        here, owner = await a_copy(group, DEPLOYMENT, deployment(3), entry)
        info = {"name": "web", "namespace": "default", "labels": {"l0": "ours"}}
        here.write_as("tuner", {"kind": "Deployment", "metadata": info})
        owner.apply(deployment(4))
        await group.settle()
        assert replicas_of(here) == 4
        owner.replace_by_force(deployment(4, app="other"))
        for _ in range(2):
            await group.settle()
            found = here.get("Deployment", "web", namespace="default")
            assert found["spec"]["selector"] == {"matchLabels": {"app": "other"}}
            assert found["metadata"]["labels"]["l0"] == "ours"
            assert here.condition("ResourceSyncRule", "leaving", "Synced")["status"] == "True"
            await here.restart()
        owner.apply(deployment(5, app="other"))
        await group.settle()
        assert replicas_of(here) == 5
        assert here.get("Deployment", "web", namespace="default")["metadata"]["labels"]["l0"] == "ours"

    simulate(scenario, n=2)


def test_what_only_we_wrote_goes_with_the_edit_that_removes_it() -> None:
    """A Secret's key: also when the daemon is down while the rule is edited."""

    async def scenario(group: SimGroup) -> None:
        secret = {
            "kind": "Secret",
            "metadata": {"name": "keys", "namespace": "default"},
            "data": {"a": "YQ==", "b": "Yg=="},
        }
        match = {"match": [{"objectKey": {"name": "keys"}}]}
        here, _ = await a_copy(group, SECRET, secret, match)
        await here.stop()
        here.apply(rule("leaving", SECRET, {**match, **removing("/data/b?")}))
        here.start()
        await group.settle()
        assert here.get("Secret", "keys", namespace="default")["data"] == {"a": "YQ=="}
        here.write_as("injector", {**secret, "data": {"b": "aGVyZQ==", "c": "Yw=="}})
        await group.settle()
        assert here.get("Secret", "keys", namespace="default")["data"] == {"a": "YQ==", "b": "aGVyZQ=="}
        here.apply(rule("leaving", SECRET, match))
        await group.settle()
        assert here.get("Secret", "keys", namespace="default")["data"] == {"a": "YQ==", "b": "Yg=="}

    simulate(scenario, n=2)


def test_a_whole_map_is_left_and_so_is_a_field_that_the_source_lacks() -> None:
    async def scenario(group: SimGroup) -> None:
        here, owner = await a_copy(
            group, CONFIG_MAP, config_map("one", {"a": "1"}), removing("/data?", "/spec?/never/there")
        )
        assert "data" not in here.get("ConfigMap", "one", namespace="default")
        theirs = {"kind": "ConfigMap", "metadata": {"name": "one", "namespace": "default"}}
        here.write_as("tuner", {**theirs, "data": {"a": "here", "x": "here"}})
        owner.apply(config_map("one", {"a": "2"}))
        await group.settle()
        assert here.get("ConfigMap", "one", namespace="default")["data"] == {"a": "here", "x": "here"}

    simulate(scenario, n=2)


def widget(ports: list[dict[str, Any]], **spec: Any) -> dict[str, Any]:
    return {"kind": "Widget", "metadata": {"name": "one", "namespace": "default"}, "spec": {"ports": ports, **spec}}


def ports_of(here: Member) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = here.get("Widget", "one", namespace="default")["spec"]["ports"]
    return found


def test_an_element_is_left_by_its_name_and_keeps_its_fields_while_the_list_changes() -> None:
    """The lists of the simulated server have no keys: here the rule's `name=` tells elements apart."""

    async def scenario(group: SimGroup) -> None:
        http, tls = {"name": "http", "port": 80}, {"name": "tls", "port": 443}
        entry = removing("/spec/ports/name=http?/port?", "/spec/ports/name=side?")
        here, owner = await a_copy(group, WIDGET, widget([http, tls]), entry)
        assert ports_of(here) == [{"name": "http"}, tls]
        side = {"name": "side", "port": 1}
        here.write_as("injector", widget([{"name": "http", "port": 8080}, tls, side]))
        await group.settle()
        assert ports_of(here) == [{"name": "http", "port": 8080}, tls, side]
        owner.apply(widget([{"name": "new"}, http, {"name": "tls", "port": 444}]))
        for _ in range(2):
            await group.settle()
            mine = {"name": "http", "port": 8080}
            assert ports_of(here) == [{"name": "new"}, mine, {"name": "tls", "port": 444}, side]
            await here.restart()
        here.write_as("injector", widget([{"name": "new"}, {"name": "http", "port": 8080}, {"name": "other"}]))
        await group.settle()
        assert {"name": "other"} not in ports_of(here)

    simulate(scenario, n=2)


def test_a_list_without_keys_is_left_only_while_both_are_equally_long_and_that_is_said() -> None:
    async def scenario(group: SimGroup) -> None:
        hook = {"service": "x", "caBundle": "theirs"}
        here, owner = await a_copy(group, WIDGET, widget([hook]), removing("/spec/ports/0/caBundle?"))
        assert ports_of(here) == [{"service": "x"}]
        here.write_as("injector", widget([{"service": "x", "caBundle": "here"}]))
        await group.settle()
        assert ports_of(here) == [{"service": "x", "caBundle": "here"}]
        owner.apply(widget([hook, {"service": "y"}]))
        await group.settle()
        assert ports_of(here) == [{"service": "x"}, {"service": "y"}]
        said = [event["message"] for event in here.list("Event") if event.get("reason") == "NotLeft"]
        assert said
        assert "default/one: spec.ports has no keys here" in said[0]

    simulate(scenario, n=2)


def test_the_rules_of_an_aggregated_cluster_role_are_left_without_being_asked() -> None:
    async def scenario(group: SimGroup) -> None:
        selectors = {"clusterRoleSelectors": [{"matchLabels": {"aggregate": "yes"}}]}
        at_owner, at_home = [{"verbs": ["get"]}], [{"verbs": ["list"]}]
        source = {"kind": "ClusterRole", "metadata": {"name": "all"}, "aggregationRule": selectors, "rules": at_owner}
        plain = {"kind": "ClusterRole", "metadata": {"name": "plain"}, "rules": at_owner}
        group["b"].create(plain)
        here, _ = await a_copy(group, CLUSTER_ROLE, source)
        assert "rules" not in here.get("ClusterRole", "all")
        here.write_as("clusterrole-aggregation-controller", {**source, "rules": at_home})
        here.write_as("kubectl", {**plain, "rules": at_home})
        await group.settle()
        assert here.get("ClusterRole", "all")["rules"] == at_home
        assert here.get("ClusterRole", "plain")["rules"] == at_owner

    simulate(scenario, n=2)


def test_a_finished_job_is_not_run_again_for_its_time_to_live() -> None:
    async def scenario(group: SimGroup) -> None:
        source = {"kind": "Job", "metadata": {"name": "once", "namespace": "default"}}
        here, _ = await a_copy(group, JOB, {**source, "spec": {"suspend": False, "ttlSecondsAfterFinished": 60}})
        assert here.get("Job", "once", namespace="default")["spec"] == {"suspend": False}
        here.write_as("kubectl", {**source, "spec": {"ttlSecondsAfterFinished": 5}})
        await group.settle()
        assert here.get("Job", "once", namespace="default")["spec"]["ttlSecondsAfterFinished"] == 5

    simulate(scenario, n=2)


POD = {"version": "v1", "kind": "Pod"}


def test_a_pod_that_somebody_deleted_here_is_made_again_for_a_new_source_only() -> None:
    async def scenario(group: SimGroup) -> None:
        source = {
            "kind": "Pod",
            "metadata": {"name": "once", "namespace": "default"},
            "spec": {"containers": [{"name": "a"}]},
        }
        here, owner = await a_copy(group, POD, source)
        here.delete("Pod", "once", namespace="default")
        owner.apply({**source, "spec": {"containers": [{"name": "b"}]}})
        await group.settle()
        assert here.find("Pod", "once", namespace="default") is None
        told = here.condition("ResourceSyncRule", "leaving", "Synced")
        assert told["status"] == "True", told
        (entry,) = [one for one in here.get("ResourceSyncRule", "leaving")["status"]["clusters"] if one["name"] == "b"]
        assert entry["skipped"] == 1
        assert [(one["object"], one["reason"]) for one in entry["failures"]] == [("Pod default/once", "DeletedHere")]
        owner.replace_by_force(source)
        await group.settle()
        assert here.find("Pod", "once", namespace="default") is not None
        here.delete("Pod", "once", namespace="default")
        await group.settle()
        assert here.find("Pod", "once", namespace="default") is None
        await here.restart()
        await group.settle()
        assert here.find("Pod", "once", namespace="default") is not None

    simulate(scenario, n=2)


def _hold(here: Member, *, finalizers: tuple[str, ...]) -> None:
    """Let the Pod wait for the end of its deletion, as for its grace period, or end that."""
    held = here.get("Pod", "once", namespace="default")
    here.replace({**held, "metadata": {**held["metadata"], "finalizers": [*finalizers]}})


@pytest.mark.parametrize("is_slow", [False, True])
@pytest.mark.parametrize("deleted", ["by a rule", "to be made anew"])
def test_a_pod_that_the_daemon_deleted_itself_is_made_again(is_slow: bool, deleted: str) -> None:
    """A2, W3: also when it takes its time to go. One that somebody else deletes then is not."""

    async def scenario(group: SimGroup) -> None:
        source = {"kind": "Pod", "metadata": {"name": "once", "namespace": "default"}, "spec": {}}
        here, _ = await a_copy(group, POD, source)
        if is_slow:
            _hold(here, finalizers=("sim/grace",))
        if deleted == "by a rule":
            here.apply(rule("leaving", POD, {"match": [{"namespaces": ["none"]}]}, deletionPolicy="Delete"))
        else:
            named = {"type": "replace", "path": "/spec/hostname?", "value": "x"}
            here.apply(rule("leaving", POD, {"match": [{}], "mutations": {"overrides": [named]}}))
        await asyncio.sleep(60)
        if is_slow:
            assert here.get("Pod", "once", namespace="default")["metadata"]["deletionTimestamp"]
            _hold(here, finalizers=())
        await group.settle()
        if deleted == "by a rule":
            assert here.find("Pod", "once", namespace="default") is None
            here.apply(rule("leaving", POD, {"match": [{}]}))
        await group.settle()
        if is_slow:
            _hold(here, finalizers=("sim/grace",))
        here.delete("Pod", "once", namespace="default")
        await group.settle()
        if is_slow:
            _hold(here, finalizers=())
        await group.settle()
        assert here.find("Pod", "once", namespace="default") is None

    simulate(scenario, n=2)


def test_an_explanation_says_which_fields_are_left_to_this_cluster() -> None:
    async def scenario(group: SimGroup) -> None:
        here, _ = await a_copy(group, DEPLOYMENT, deployment(), removing("/spec/replicas?", "/spec/paused?"))
        scale(here, 5)
        await group.settle()
        found, names = await explained(group, "Deployment", "web")
        assert [(row.action.value, row.left) for row in found.planned] == [("skip", ("spec.paused", "spec.replicas"))]
        assert format_explanation(found, names).endswith("\n  left to this cluster: spec.paused, spec.replicas")
        decision = build_explanation_document(found, names)["decisions"][0]
        assert decision["leftHere"] == ("spec.paused", "spec.replicas")

    simulate(scenario, n=2)
