"""The chart, as helm and a real API server see it."""

from __future__ import annotations

import base64
import itertools
import json
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml

from hack.controlplane import Cluster, CommandError, Group

Manifest = dict[str, Any]

ROOT = Path(__file__).parents[2]
CHART = str(ROOT / "deploy" / "helm" / "cluster-registry")
ORIGINAL = ROOT / "tests" / "fixtures" / "original"
API = "clusterregistry.k8s.cisco.com"
NAMESPACE = "cluster-registry"
CA = base64.b64encode(trustme.CA().cert_pem.bytes()).decode()
RELEASES = ("cluster-registry", "cluster-registry-controller", "other")
MONITORING = "monitoring.coreos.com"
MONITORING_KINDS = ("ServiceMonitor", "PrometheusRule")
MONITORING_VALUES = ("serviceMonitor", "prometheusRule", "dashboard")
SERVED = ("--api-versions", f"{MONITORING}/v1")

CI_VALUES: dict[str, Manifest] = {
    file.name.removesuffix("-values.yaml"): yaml.safe_load(file.read_text(encoding="utf-8"))
    for file in sorted((Path(CHART) / "ci").glob("*-values.yaml"))
}
EVERYTHING = CI_VALUES["full"]

VALUE_SETS: dict[str, Manifest] = {
    "the defaults": {},
    "narrow Secrets": {"rbac": {"narrowSecrets": True}},
    "the hardened profile": yaml.safe_load((Path(CHART) / "values-hardened.yaml").read_text(encoding="utf-8")),
    "the policy": {"webhooks": {"clusterValidator": {"enabled": True}}},
    **{f"ci, {name}": values for name, values in CI_VALUES.items()},
    "empty lists and maps": {
        "podAnnotations": [], "podSecurityContext": None, "securityContext": None, "resources": {}, "rbac": None,
        "serviceAccount": None, "networkPolicy": None, "terminationGracePeriodSeconds": None,
    },
    "no replicas": {"replicas": 0},
}  # fmt: skip


@pytest.fixture(scope="module")
def plane() -> Iterator[Cluster]:
    with Group(1, prefix="chart") as group:
        cluster = group[0]
        cluster.kubectl("apply", "--server-side", "-f", str(ROOT / "crds"))
        cluster.kubectl("create", "namespace", NAMESPACE)
        cluster.kubectl("label", "namespace", NAMESPACE, "pod-security.kubernetes.io/enforce=restricted")
        yield cluster


@pytest.fixture
def namespace(plane: Cluster) -> Iterator[str]:
    """The namespace, which admits only restricted Pods; what is installed in it goes after the test."""
    yield NAMESPACE
    for release in plane.helm("list", "-n", NAMESPACE, "-q").split():
        plane.helm("uninstall", "-n", NAMESPACE, release)
    plane.kubectl("delete", "configmap", "copy", "-n", NAMESPACE, "--ignore-not-found")


def eventually(is_so: Callable[[], bool], *, timeout_s: float = 30.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not is_so():
        assert time.monotonic() < deadline, f"not so after {timeout_s} s"
        time.sleep(0.2)


def helm(
    cluster: Cluster,
    action: str,
    release: str,
    chart: str = CHART,
    *flags: str,
    values: Mapping[str, Any] | None = None,
) -> str:
    if values is None:
        return cluster.helm(action, release, chart, "-n", NAMESPACE, *flags)
    # Without values, an upgrade would keep those of the release.
    reset = ("--reset-values",) if action == "upgrade" else ()
    return cluster.helm(
        action, release, chart, "-n", NAMESPACE, *flags, *reset, "-f", "-", stdin=yaml.safe_dump(values)
    )


def rendered(
    cluster: Cluster, values: Mapping[str, Any] | None = None, *, release: str = "cluster-registry"
) -> list[Manifest]:
    found = yaml.safe_load_all(helm(cluster, "template", release, values=values))
    return [manifest for manifest in found if manifest]


def one(manifests: list[Manifest], kind: str, name: str | None = None) -> Manifest:
    (found,) = [m for m in manifests if m["kind"] == kind and name in (None, m["metadata"]["name"])]
    return found


def environment(manifests: list[Manifest]) -> Manifest:
    (container,) = one(manifests, "Deployment")["spec"]["template"]["spec"]["containers"]
    return {item["name"]: item.get("value", item.get("valueFrom")) for item in container["env"]}


# --- What it renders ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("values", VALUE_SETS.values(), ids=VALUE_SETS)
def test_helm_lint_is_content(plane: Cluster, values: Manifest) -> None:
    plane.helm("lint", "--strict", CHART, "-f", "-", stdin=yaml.safe_dump(values))


@pytest.mark.parametrize("values", VALUE_SETS.values(), ids=VALUE_SETS)
@pytest.mark.usefixtures("namespace")
def test_what_it_renders_is_what_the_api_server_takes(plane: Cluster, values: Manifest) -> None:
    """Each object names its namespace: a role for ClusterProfiles is in another one than the release."""
    manifests = helm(plane, "template", "cluster-registry", CHART, "--include-crds", "--no-hooks", values=values)
    for flags in ((), ("--server-side", "--force-conflicts")):
        plane.kubectl("apply", "--dry-run=server", "--validate=strict", *flags, "-f", "-", stdin=manifests)


NAMES = {
    "cluster-registry": "cluster-registry-controller",
    "cluster-registry-controller": "cluster-registry-controller-controller",
    "other": "other-cluster-registry-controller",
}


@pytest.mark.parametrize(("release", "name"), NAMES.items())
def test_the_names_follow_the_release(plane: Cluster, release: str, name: str) -> None:
    values = {"podDisruptionBudget": {"enabled": True}, "webhooks": {"clusterValidator": {"enabled": True}}}
    found = sorted((m["kind"], m["metadata"]["name"]) for m in rendered(plane, values, release=release))
    assert found == [
        ("ClusterRole", name),
        ("ClusterRole", f"{name}-aggregated"),
        ("ClusterRole", f"{name}-reader"),
        ("ClusterRole", f"{name}-reader-aggregated"),
        ("ClusterRoleBinding", name),
        ("ClusterRoleBinding", f"{name}-reader"),
        ("Deployment", name),
        ("Pod", f"{name.removesuffix('-controller')}-check"),
        ("PodDisruptionBudget", name),
        ("Role", name),
        ("Role", f"{name}-reader"),
        ("RoleBinding", name),
        ("RoleBinding", f"{name}-reader"),
        ("Service", name),
        ("ServiceAccount", name),
        ("ServiceAccount", f"{name}-reader"),
        ("ValidatingAdmissionPolicy", f"{name}-cluster-validator"),
        ("ValidatingAdmissionPolicyBinding", f"{name}-cluster-validator"),
    ]


OVERRIDES = {
    "fullnameOverride": (
        {"fullnameOverride": "full"},
        "full-controller",
        "cluster-registry-controller",
        "cluster-registry",
    ),
    "nameOverride": ({"nameOverride": "short"}, "other-short-controller", "short-controller", "short"),
    "nameOverride in the release's name": ({"nameOverride": "the"}, "other-controller", "the-controller", "the"),
}


@pytest.mark.parametrize(("values", "name", "selected", "part_of"), OVERRIDES.values(), ids=OVERRIDES)
def test_names_can_be_overridden(plane: Cluster, values: Manifest, name: str, selected: str, part_of: str) -> None:
    deployment = one(rendered(plane, values, release="other"), "Deployment")
    assert deployment["metadata"]["name"] == name
    assert deployment["spec"]["selector"]["matchLabels"]["app.kubernetes.io/name"] == selected
    assert deployment["metadata"]["labels"]["app.kubernetes.io/part-of"] == part_of


@pytest.mark.parametrize(("release", "name"), NAMES.items())
def test_selectors_and_labels_are_those_of_the_original(plane: Cluster, release: str, name: str) -> None:
    manifests = rendered(plane, {"podDisruptionBudget": {"enabled": True}}, release=release)
    selector = {"app.kubernetes.io/name": "cluster-registry-controller", "app.kubernetes.io/instance": release}
    deployment = one(manifests, "Deployment")
    assert deployment["spec"]["selector"] == {"matchLabels": selector}
    assert one(manifests, "PodDisruptionBudget")["spec"]["selector"] == {"matchLabels": selector}
    assert one(manifests, "Service")["spec"]["selector"] == selector
    assert selector.items() <= deployment["spec"]["template"]["metadata"]["labels"].items()
    labels = selector | {
        "app": name,
        "app.kubernetes.io/component": "cluster-registry-controller",
        "app.kubernetes.io/part-of": "cluster-registry",
        "app.kubernetes.io/managed-by": "Helm",
        "app.kubernetes.io/version": "0.1.0",
        "helm.sh/chart": "cluster-registry-0.1.0",
    }
    for manifest in (found for found in manifests if found["kind"] != "Pod"):
        assert labels.items() <= manifest["metadata"]["labels"].items(), manifest["metadata"]["name"]


_SELECTOR = "app.kubernetes.io/name=cluster-registry-controller,app.kubernetes.io/instance={}"


def test_the_defaults_reach_the_daemon(plane: Cluster) -> None:
    assert environment(rendered(plane)) == {
        "NAMESPACE": {"fieldRef": {"fieldPath": "metadata.namespace"}},
        "POD_NAME": {"fieldRef": {"fieldPath": "metadata.name"}},
        "POD_SELECTOR": _SELECTOR.format("cluster-registry"),
        "MANAGE_LOCAL_CLUSTER_SECRET": "true",
        "READER_SERVICE_ACCOUNT_NAME": "cluster-registry-controller-reader",
        "READER_TOKEN_EXPIRATION_SECONDS": "0",
        "MEMBER_LEFT_TRUST_SECONDS": "86400",
        "STABILIZATION_WINDOW_SECONDS": "30",
        "MEMBER_ABSENCE_SECONDS": "600",
        "NETWORK_NAME": "default",
        "DELETION_LIMIT_PERCENT": "50",
        "SYNCED_RULES_ENABLED": "true",
        "CORE_RESOURCES_SOURCE_ENABLED": "true",
        "METRICS_ADDR": ":8080",
        "HEALTH_ADDR": ":8090",
        "LOG_FORMAT": "json",
        "LOG_VERBOSITY": "0",
    }


def test_the_values_reach_the_daemon(plane: Cluster) -> None:
    manifests = rendered(plane, EVERYTHING, release="other")
    assert environment(manifests) == {
        "NAMESPACE": {"fieldRef": {"fieldPath": "metadata.namespace"}},
        "POD_NAME": {"fieldRef": {"fieldPath": "metadata.name"}},
        "POD_SELECTOR": _SELECTOR.format("other"),
        "PROVISION_LOCAL_CLUSTER": "alpha",
        "MANAGE_LOCAL_CLUSTER_SECRET": "false",
        "READER_SERVICE_ACCOUNT_NAME": "other-cluster-registry-controller-reader",
        "MULTICLUSTER_RUNTIME_LABEL": "true",
        "CLUSTER_PROFILE_NAMESPACE": "default",
        "READER_TOKEN_EXPIRATION_SECONDS": "3600",
        "MEMBER_LEFT_TRUST_SECONDS": "0",
        "STABILIZATION_WINDOW_SECONDS": "5",
        "MEMBER_ABSENCE_SECONDS": "60",
        "NETWORK_NAME": "vpn",
        "DELETION_LIMIT_PERCENT": "20",
        "SYNCED_RULES_ENABLED": "false",
        "SYNCED_RULES_KINDS": "Secret,*.apps",
        "SYNCED_RULES_NAMESPACES": "a,b",
        "CLOSED_KINDS": "ClusterRole.rbac.authorization.k8s.io",
        "CLOSED_NAMESPACES": "kube-system",
        "IGNORED_NAMESPACE_CONTENT": "ConfigMap/istio-ca-root-cert,RoleBinding.rbac.authorization.k8s.io/system:*",
        "APISERVER_ENDPOINT_ADDRESS": "https://api.example.test:6443",
        "CORE_RESOURCES_SOURCE_ENABLED": "false",
        "METRICS_ADDR": ":9090",
        "HEALTH_ADDR": ":9091",
        "LOG_FORMAT": "console",
        "LOG_VERBOSITY": "2",
        "WORKERS": "16",
        "NODE_NAME": {"fieldRef": {"fieldPath": "spec.nodeName"}},
    }
    template = one(manifests, "Deployment")["spec"]["template"]
    assert template["metadata"]["annotations"] == {
        "istio.io/rev": "cp-v115x.istio-system",
        "example.com/a": "b",
        "cluster-registry.k8s.cisco.com/deletion-limit-percent": "20",
    }
    assert template["metadata"]["labels"]["example.com/team"] == "platform"
    for value in (
        "nodeSelector", "tolerations", "affinity", "imagePullSecrets", "priorityClassName",
        "terminationGracePeriodSeconds",
    ):  # fmt: skip
        assert template["spec"][value] == EVERYTHING[value]
    assert template["spec"]["serviceAccountName"] == "registry"
    assert EVERYTHING["podSecurityContext"].items() <= template["spec"]["securityContext"].items()
    (container,) = template["spec"]["containers"]
    assert container["image"] == f"example.test/registry-controller@{EVERYTHING['image']['digest']}"
    assert container["imagePullPolicy"] == "Always"
    assert container["args"] == ["run", *EVERYTHING["extraArgs"]]
    assert container["resources"]["requests"] == {"cpu": 1, "memory": "1Gi"}
    assert {mount["mountPath"] for mount in container["volumeMounts"]} == {"/tmp", "/etc/ssl/certs"}
    assert [volume["name"] for volume in template["spec"]["volumes"]] == ["tmp", "certificates"]
    assert one(manifests, "Service")["spec"]["type"] == "NodePort"
    account = one(manifests, "ServiceAccount", "registry")
    assert account["metadata"]["annotations"] == {"example.com/role": "c"}


def test_a_constraint_of_topology_without_a_selector_counts_the_pods_of_the_release(plane: Cluster) -> None:
    deployment = one(rendered(plane, EVERYTHING), "Deployment")["spec"]
    own, given = deployment["template"]["spec"]["topologySpreadConstraints"]
    assert own == EVERYTHING["topologySpreadConstraints"][0] | {"labelSelector": deployment["selector"]}
    assert given == EVERYTHING["topologySpreadConstraints"][1]


def test_the_image_is_named_by_its_tag_or_its_digest(plane: Cluster) -> None:
    def image(**values: str) -> str:
        manifests = rendered(plane, {"image": {"repository": "example.test/daemon"} | values})
        used = {
            container["image"]
            for manifest in (one(manifests, "Pod"), one(manifests, "Deployment")["spec"]["template"])
            for container in manifest["spec"]["containers"]
        }
        (found,) = used
        return str(found)

    digest = f"sha256:{'a' * 64}"
    assert image() == "example.test/daemon:0.1.0"
    assert image(tag="1") == "example.test/daemon:1"
    assert image(tag="1", digest=digest) == f"example.test/daemon@{digest}"


def test_the_pods_run_as_the_user_of_the_image_unless_the_platform_chooses(plane: Cluster) -> None:
    spec = one(rendered(plane), "Deployment")["spec"]["template"]["spec"]
    assert (spec["securityContext"]["runAsUser"], spec["securityContext"]["runAsGroup"]) == (65532, 65532)
    chosen = {"podSecurityContext": {"runAsUser": None, "runAsGroup": None}}
    spec = one(rendered(plane, chosen), "Deployment")["spec"]["template"]["spec"]
    assert spec["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}


def test_accounts_and_rights_can_be_left_to_an_administrator(plane: Cluster) -> None:
    values = {"serviceAccount": {"create": False, "name": "given"}, "rbac": {"create": False}}
    manifests = rendered(plane, values)
    assert {m["kind"] for m in manifests} == {"Deployment", "Service", "ServiceAccount", "Pod"}
    assert one(manifests, "ServiceAccount")["metadata"]["name"] == "cluster-registry-controller-reader"
    for manifest in (one(manifests, "Pod"), one(manifests, "Deployment")["spec"]["template"]):
        assert manifest["spec"]["serviceAccountName"] == "given"


@pytest.mark.parametrize("kind", ["RoleBinding", "ClusterRoleBinding"])
def test_the_rights_are_bound_to_the_account_that_the_pods_have(plane: Cluster, kind: str) -> None:
    manifests = rendered(plane, {"serviceAccount": {"name": "given"}})
    binding = one(manifests, kind, "cluster-registry-controller")
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "given", "namespace": NAMESPACE}]


def test_the_policy_for_the_network_lets_names_api_servers_and_clients_through(plane: Cluster) -> None:
    manifests = rendered(plane, EVERYTHING)
    policy = one(manifests, "NetworkPolicy")["spec"]
    assert policy["podSelector"] == one(manifests, "Deployment")["spec"]["selector"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    names, servers = policy["egress"]
    assert names == {"ports": [{"port": 53, "protocol": protocol} for protocol in ("UDP", "TCP")]}
    assert servers == {
        "to": [{"ipBlock": {"cidr": cidr}} for cidr in ("192.0.2.4/32", "2001:db8::/64")],
        "ports": [{"port": port, "protocol": "TCP"} for port in (443, 6443)],
    }
    health, metrics = policy["ingress"]
    assert health == {"ports": [{"port": "health"}]}
    assert metrics == {"ports": [{"port": "metrics"}], "from": EVERYTHING["networkPolicy"]["metricsFrom"]}


def monitored(cluster: Cluster, values: Mapping[str, Any], *flags: str) -> list[Manifest]:
    """Render the chart with all of its monitoring, and these values."""
    enabled = {name: {"enabled": True} | values.get(name, {}) for name in MONITORING_VALUES}
    found = yaml.safe_load_all(helm(cluster, "template", "other", CHART, *flags, values={**values, **enabled}))
    return [manifest for manifest in found if manifest]


@pytest.mark.parametrize("values", [{}, EVERYTHING], ids=["the defaults", "everything"])
def test_a_service_monitor_finds_the_service_and_its_port(plane: Cluster, values: Manifest) -> None:
    manifests = monitored(plane, values, *SERVED)
    monitor, service = one(manifests, "ServiceMonitor"), one(manifests, "Service")
    given = values.get("serviceMonitor", {})
    selector = monitor["spec"]["selector"]
    assert selector["matchLabels"]
    assert set(selector) == {"matchLabels"}
    assert selector["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert monitor["metadata"]["namespace"] == service["metadata"]["namespace"] == NAMESPACE
    (endpoint,), (port,) = monitor["spec"]["endpoints"], service["spec"]["ports"]
    assert endpoint == {"port": port["name"], "interval": given.get("interval", "30s")}
    (container,) = one(manifests, "Deployment")["spec"]["template"]["spec"]["containers"]
    assert port["targetPort"] in {found["name"] for found in container["ports"]}
    assert given.get("labels", {}).items() <= monitor["metadata"]["labels"].items()


@pytest.mark.parametrize("values", [{}, EVERYTHING], ids=["the defaults", "everything"])
def test_a_prometheus_rule_has_the_alerts_of_the_file(plane: Cluster, values: Manifest) -> None:
    """Their annotation `runbook_url` begins with the address that was given, and is left out without one."""
    given = values.get("prometheusRule", {})
    expected = yaml.safe_load((Path(CHART) / "files" / "alerts.yaml").read_text(encoding="utf-8"))
    for group in expected["groups"]:
        for alert in group["rules"]:
            page, _, anchor = alert["annotations"].pop("runbook_url").partition("#")
            assert (page, anchor) == ("docs/alerts.md", alert["alert"].lower())
            if given:
                alert["annotations"]["runbook_url"] = f"{given['runbookURL']}#{anchor}"
    rule = one(monitored(plane, values, *SERVED), "PrometheusRule")
    assert rule["spec"] == expected
    assert rule["metadata"]["namespace"] == NAMESPACE
    assert given.get("labels", {}).items() <= rule["metadata"]["labels"].items()


@pytest.mark.parametrize("values", [{}, EVERYTHING], ids=["the defaults", "everything"])
def test_a_dashboard_is_the_file_with_the_label_of_the_sidecar(plane: Cluster, values: Manifest) -> None:
    given = values.get("dashboard", {})
    manifest = one(monitored(plane, values), "ConfigMap")
    (text,) = manifest["data"].values()
    assert text == (Path(CHART) / "files" / "dashboard.json").read_text(encoding="utf-8").strip()
    assert all(name.endswith(".json") for name in manifest["data"])
    assert manifest["metadata"]["namespace"] == NAMESPACE
    labels = given.get("labels", {"grafana_dashboard": "1"})
    assert labels.items() <= manifest["metadata"]["labels"].items()
    assert manifest["metadata"].get("annotations") == given.get("annotations")


def test_the_monitoring_is_rendered_only_where_it_is_wanted_and_served(plane: Cluster) -> None:
    """Each cluster serves ConfigMaps, so the dashboard needs only its value."""

    def kinds(manifests: list[Manifest]) -> set[str]:
        return {found["kind"] for found in manifests if found["kind"] in (*MONITORING_KINDS, "ConfigMap")}

    assert kinds(monitored(plane, {}, *SERVED)) == {*MONITORING_KINDS, "ConfigMap"}
    assert kinds(monitored(plane, {})) == {"ConfigMap"}
    unwanted = yaml.safe_load_all(helm(plane, "template", "other", CHART, *SERVED, values={}))
    assert kinds([manifest for manifest in unwanted if manifest]) == set()


def test_helm_test_runs_the_check_with_the_account_and_options_of_the_daemon(plane: Cluster) -> None:
    manifests = rendered(plane, EVERYTHING)
    pod, deployment = one(manifests, "Pod"), one(manifests, "Deployment")
    (container,) = pod["spec"]["containers"]
    (daemon,) = deployment["spec"]["template"]["spec"]["containers"]
    assert pod["metadata"]["annotations"]["helm.sh/hook"] == "test"
    assert pod["metadata"]["annotations"]["helm.sh/hook-delete-policy"] == "before-hook-creation", "Helm 3 has no log"
    assert (container["command"], container["args"]) == (["registry-controller"], ["check"])
    for field in ("env", "image", "securityContext", "volumeMounts"):
        assert container[field] == daemon[field], field
    for field in ("serviceAccountName", "securityContext", "volumes"):
        assert pod["spec"][field] == deployment["spec"]["template"]["spec"][field], field
    selector = deployment["spec"]["selector"]["matchLabels"]
    assert not selector.items() <= pod["metadata"]["labels"].items(), "the Service and the daemons would count it"


def test_the_container_says_what_it_runs(plane: Cluster) -> None:
    spec = one(rendered(plane), "Deployment")["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert container["name"] == "manager"
    assert (container["command"], container["args"]) == (["registry-controller"], ["run"])
    assert {port["name"]: port["containerPort"] for port in container["ports"]} == {"metrics": 8080, "health": 8090}
    paths = {probe: container[probe]["httpGet"] for probe in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert paths == {
        "startupProbe": {"path": "/livez", "port": "health"},
        "livenessProbe": {"path": "/livez", "port": "health"},
        "readinessProbe": {"path": "/readyz", "port": "health"},
    }
    assert spec["automountServiceAccountToken"] is True
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert [volume["name"] for volume in spec["volumes"] if "emptyDir" in volume] == ["tmp"]


def test_the_policy_is_there_only_when_it_is_wanted(plane: Cluster) -> None:
    kinds = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
    assert not [m for m in rendered(plane) if m["kind"] in kinds]
    manifests = rendered(plane, {"webhooks": {"clusterValidator": {"enabled": True}}})
    policy, binding = (one(manifests, kind)["spec"] for kind in kinds)
    assert policy["failurePolicy"] == "Ignore"
    assert policy["paramKind"] == {"apiVersion": f"{API}/v1alpha1", "kind": "Cluster"}
    (rule,) = policy["matchConstraints"]["resourceRules"]
    assert (rule["resources"], rule["operations"]) == (["clusters"], ["CREATE", "UPDATE"])
    assert binding["policyName"] == one(manifests, kinds[0])["metadata"]["name"]
    assert binding["paramRef"] == {"selector": {}, "parameterNotFoundAction": "Allow"}
    assert binding["validationActions"] == ["Deny"]


@pytest.mark.parametrize("enabled", [True, False], ids=["on", "off"])
def test_no_webhook_is_registered_served_or_configured(plane: Cluster, enabled: bool) -> None:
    """The values of its server have no effect."""
    values = {"enabled": enabled, "port": 8080, "certificateDirectory": "/certificates", "nameSuffix": "validator"}
    manifests = rendered(plane, {"webhooks": {"clusterValidator": values}})
    assert manifests == rendered(plane, {"webhooks": {"clusterValidator": {"enabled": enabled}}})
    assert not [m for m in manifests if "Webhook" in m["kind"]]
    assert [port["name"] for port in one(manifests, "Service")["spec"]["ports"]] == ["http-metrics"]
    assert not [name for name in environment(manifests) if "WEBHOOK" in name]


STRATEGIES = {0: "Recreate", 1: "Recreate", 2: "RollingUpdate"}


@pytest.mark.parametrize(("replicas", "strategy"), STRATEGIES.items())
def test_one_pod_ends_before_the_next_starts(plane: Cluster, replicas: int, strategy: str) -> None:
    assert one(rendered(plane, {"replicas": replicas}), "Deployment")["spec"]["strategy"]["type"] == strategy


# --- Values ------------------------------------------------------------------------------------------------------


UNKNOWN_VALUES = (
    "foo",
    *(f"{parent}.foo" for parent in (
        "localCluster", "image", "service", "resources", "rbac", "controller", "controller.log", "controller.network",
        "controller.leaderElection", "controller.syncedRules", "controller.closed",
        "webhooks", "webhooks.clusterValidator", "securityContext", "podSecurityContext",
        "affinity", "health", "istio", "serviceAccount", "podDisruptionBudget", "networkPolicy",
        "serviceMonitor", "prometheusRule", "dashboard",
    )),
)  # fmt: skip


@pytest.mark.parametrize("value", UNKNOWN_VALUES)
def test_an_unknown_value_is_refused_by_its_name(plane: Cluster, value: str) -> None:
    with pytest.raises(CommandError) as refused:
        helm(plane, "template", "cluster-registry", CHART, "--set", f"{value}=1")
    assert "additional properties 'foo' not allowed" in refused.value.stderr
    parent = value.rpartition(".")[0].replace(".", "/")
    assert f"at '{'/' if parent else ''}{parent}'" in refused.value.stderr


WRONG_VALUES = {
    "replicas=-1": "at '/replicas'",
    "service.port=70000": "at '/service/port'",
    "service.type=Cluster": "at '/service/type'",
    "controller.log.format=xml": "at '/controller/log/format'",
    "controller.log.verbosity=high": "at '/controller/log/verbosity'",
    "localCluster.name=A_b": "at '/localCluster/name'",
    "rbac.narrowSecrets=perhaps": "at '/rbac/narrowSecrets'",
    "controller.syncedRules.kinds={secrets}": "at '/controller/syncedRules/kinds/0'",
    f"controller.closed.namespaces={{{NAMESPACE}}}": "must not name the release's own namespace",
    "controller.closed.namespaces={kube-*}": "at '/controller/closed/namespaces/0'",
    "controller.ignoredNamespaceContent={istio-ca-root-cert}": "at '/controller/ignoredNamespaceContent/0'",
    "health.port=8080": "they must differ",
    "image.digest=latest": "at '/image/digest'",
    "podLabels.app=mine": "invalid propertyName 'app'",
    "terminationGracePeriodSeconds=soon": "at '/terminationGracePeriodSeconds'",
    "extraEnv[0].value=a": "at '/extraEnv/0'",
    "extraEnv[0].name=LOG_FORMAT": "extraEnv: LOG_FORMAT is set twice, or by the chart",
    "networkPolicy.egressCIDRs={localhost}": "at '/networkPolicy/egressCIDRs/0'",
    "networkPolicy.enabled=true": "networkPolicy.egressCIDRs: must list the addresses",
    "serviceAccount.create=false": "serviceAccount.name: must name the account to use",
    "serviceAccount.name=cluster-registry-controller-reader": "must not be the reader's account",
}


@pytest.mark.parametrize(("value", "words"), WRONG_VALUES.items())
def test_a_wrong_value_is_refused_by_its_name(plane: Cluster, value: str, words: str) -> None:
    with pytest.raises(CommandError) as refused:
        helm(plane, "template", "cluster-registry", CHART, "--set", value)
    assert words in refused.value.stderr


def leaves(values: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, f"{path}{key}.")
        else:
            yield f"{path}{key}", value


ORIGINAL_VALUES = dict(leaves(yaml.safe_load((ORIGINAL / "chart" / "values.yaml").read_text(encoding="utf-8"))))


@pytest.mark.parametrize("path", ORIGINAL_VALUES)
def test_every_value_of_the_original_is_accepted(plane: Cluster, path: str) -> None:
    values: Any = ORIGINAL_VALUES[path]
    for key in reversed(path.split(".")):
        values = {key: values}
    helm(plane, "template", "cluster-registry", values=values)


def test_all_values_of_the_original_together_are_accepted(plane: Cluster) -> None:
    helm(plane, "template", "cluster-registry", CHART, "-f", str(ORIGINAL / "chart" / "values.yaml"))


# --- Installed ---------------------------------------------------------------------------------------------------


INSTALLED = {name: values for name, values in VALUE_SETS.items() if name != "empty lists and maps"}


@pytest.mark.parametrize("values", INSTALLED.values(), ids=INSTALLED)
def test_it_installs_and_upgrades_again_and_again(plane: Cluster, namespace: str, values: Manifest) -> None:
    helm(plane, "install", "cluster-registry", values=values)
    eventually(lambda: has_rules(plane, "cluster-registry-controller-aggregated"))
    for _ in range(2):
        helm(plane, "upgrade", "cluster-registry", values=values)
    helm(plane, "upgrade", "cluster-registry", CHART, "--reuse-values", "--server-side=false")
    helm(plane, "upgrade", "cluster-registry", CHART, "--server-side=true", values={"replicas": 3})
    helm(plane, "upgrade", "cluster-registry", values={"replicas": 1})
    deployment = plane.api.get(f"/apis/apps/v1/namespaces/{namespace}/deployments/cluster-registry-controller")
    assert deployment["spec"]["strategy"] == {"type": "Recreate"}
    for role in ("cluster-registry-controller-aggregated", "cluster-registry-controller-reader-aggregated"):
        assert has_rules(plane, role)


def has_rules(cluster: Cluster, role: str) -> bool:
    return bool(cluster.api.get(f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{role}").get("rules"))


def test_the_notes_name_what_to_swap(plane: Cluster, namespace: str) -> None:
    notes = helm(plane, "install", "cluster-registry", values={"localCluster": {"name": "alpha"}})
    assert "\n  registry-controller join --context THIS --context OTHER\n" in notes
    assert "kubectl get cluster alpha -o yaml | kubectl --context OTHER create -f -" in notes
    assert f"kubectl -n {namespace} get secret alpha -o yaml | kubectl --context OTHER create -f -" in notes
    nameless = helm(plane, "upgrade", "cluster-registry", values={})
    assert "--set localCluster.name=NAME" in nameless
    assert "get secret" not in nameless


def test_the_notes_warn_while_the_image_is_a_placeholder(plane: Cluster, namespace: str) -> None:
    warning = "WARNING: image.repository is registry-controller, which is a placeholder"
    assert warning in helm(plane, "install", "cluster-registry", values={})
    values = {"image": {"repository": "example.test/registry-controller"}}
    assert "WARNING" not in helm(plane, "upgrade", "cluster-registry", values=values)


def test_the_notes_say_whose_rights_are_left_to_an_administrator(plane: Cluster, namespace: str) -> None:
    values = {"serviceAccount": {"create": False, "name": "given"}, "rbac": {"create": False}}
    notes = helm(plane, "install", "cluster-registry", values=values)
    assert f"grant the rights of the ServiceAccounts {namespace}/given and\n{namespace}/cluster-registry-con" in notes


def test_the_notes_warn_of_the_originals_image(plane: Cluster, namespace: str) -> None:
    values = {"image": {"repository": "example.test/cluster-registry-controller"}}
    assert "WARNING: image.repository is example.test" in helm(plane, "install", "cluster-registry", values=values)


@pytest.fixture
def monitoring(plane: Cluster) -> Iterator[None]:
    """The API of the Prometheus operator, without the operator."""
    names = [f"{plural}.{MONITORING}" for plural in ("servicemonitors", "prometheusrules")]
    plane.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(_definition(kind) for kind in MONITORING_KINDS))
    plane.kubectl("wait", "--for=condition=Established", "--timeout=60s", *(f"crd/{name}" for name in names))
    yield
    plane.kubectl("delete", "crd", *names)


def _definition(kind: str) -> Manifest:
    plural = f"{kind.lower()}s"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{MONITORING}"},
        "spec": {
            "group": MONITORING,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }


NO_RUNBOOK = "prometheusRule.runbookURL is not set, so the alerts do not link to their steps"
NOT_SERVED = f"This cluster does not serve {MONITORING}/v1, so serviceMonitor and prometheusRule have no effect"


@pytest.mark.usefixtures("namespace", "monitoring")
def test_the_notes_name_the_address_that_the_alerts_lack(plane: Cluster) -> None:
    values: Manifest = {"prometheusRule": {"enabled": True}}
    assert NO_RUNBOOK in helm(plane, "install", "cluster-registry", values=values)
    assert "runbook_url" not in plane.kubectl("get", "prometheusrules", "-n", NAMESPACE, "-o", "yaml")
    values["prometheusRule"]["runbookURL"] = "https://docs.example.test/alerts"
    notes = helm(plane, "upgrade", "cluster-registry", values=values)
    assert NO_RUNBOOK not in notes
    assert NOT_SERVED not in notes
    assert "runbook_url: https://docs.example.test/alerts#" in plane.kubectl(
        "get", "prometheusrules", "-n", NAMESPACE, "-o", "yaml"
    )


@pytest.mark.usefixtures("namespace")
def test_the_notes_name_what_has_no_effect_without_the_operator(plane: Cluster) -> None:
    notes = helm(plane, "install", "cluster-registry", values={"prometheusRule": {"enabled": True}})
    assert NOT_SERVED in notes
    assert NO_RUNBOOK not in notes


@pytest.mark.parametrize("values", [{}, EVERYTHING], ids=["the defaults", "everything"])
def test_its_pods_are_admitted_where_only_restricted_ones_are(plane: Cluster, namespace: str, values: Manifest) -> None:
    helm(plane, "install", "cluster-registry", values=values)
    name = "cluster-registry-controller"
    template = plane.api.get(f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}")["spec"]["template"]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        **template,
        "metadata": {"name": "a", "labels": template["metadata"]["labels"]},
    }
    account = template["spec"]["serviceAccountName"]
    argv = ("create", "--dry-run=server", "-n", namespace, "-f", "-")
    assert plane.api.get(f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}")
    pod["spec"].pop("priorityClassName", None)  # which the cluster lacks
    plane.kubectl(*argv, stdin=json.dumps(pod))
    check = one(rendered(plane, values), "Pod")
    check["spec"].pop("priorityClassName", None)
    plane.kubectl(*argv, stdin=json.dumps(check))
    pod["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = True
    with pytest.raises(CommandError, match="violates PodSecurity"):
        plane.kubectl(*argv, stdin=json.dumps(pod))


# --- Rights ------------------------------------------------------------------------------------------------------


READ = ("get", "list", "watch")
WRITE = ("create", "update", "patch", "delete", "deletecollection")
OWN = tuple(f"{plural}.{API}" for plural in ("clusters", "clusterfeatures", "resourcesyncrules"))
CONTROLLER = f"system:serviceaccount:{NAMESPACE}:cluster-registry-controller"
READER = f"{CONTROLLER}-reader"
DAEMON_WRITES = ("create", "update", "patch", "delete")

# (who, verbs, resources, namespace or "" for the whole cluster) that are allowed with the defaults
ALLOWED = [
    (READER, READ, (*OWN, "secrets", "namespaces", "nodes"), ""),
    (CONTROLLER, (*READ, *DAEMON_WRITES), (*OWN, "secrets"), ""),
    (CONTROLLER, ("update", "patch"), tuple(f"{resource}/status" for resource in OWN), ""),
    (CONTROLLER, ("update",), (f"{OWN[0]}/finalizers",), ""),
    (CONTROLLER, READ, ("namespaces", "nodes", "customresourcedefinitions.apiextensions.k8s.io"), ""),
    (CONTROLLER, ("create", "patch"), ("events", "events.events.k8s.io"), "default"),
    (CONTROLLER, ("get", "list", "create", "update", "delete"), ("leases.coordination.k8s.io",), NAMESPACE),
    (READER, ("get", "list"), ("leases.coordination.k8s.io",), NAMESPACE),
    (CONTROLLER, ("get",), ("serviceaccounts/cluster-registry-controller-reader",), NAMESPACE),
]
ALL_RESOURCES = (
    *OWN, "secrets", "namespaces", "nodes", "pods", "configmaps", "serviceaccounts", "services", "deployments.apps",
    "leases.coordination.k8s.io", "clusterroles.rbac.authorization.k8s.io",
    "customresourcedefinitions.apiextensions.k8s.io", *(f"{plural}.admissionregistration.k8s.io" for plural in (
        "validatingwebhookconfigurations", "validatingadmissionpolicies", "validatingadmissionpolicybindings")),
)  # fmt: skip


def may(cluster: Cluster, who: str, verb: str, resource: str, namespace: str = "", *, subresource: str = "") -> bool:
    """Say whether a ServiceAccount may; the resource is RESOURCE.GROUP or RESOURCE.GROUP/NAME, no namespace is all."""
    kind, _, name = resource.partition("/")
    plural, _, group = kind.partition(".")
    asked = {"verb": verb, "resource": plural, "group": group, "name": name}
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{NAMESPACE}", "system:authenticated"]
    review = {
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": {
            "user": who, "groups": groups,
            "resourceAttributes": asked | {"namespace": namespace, "subresource": subresource},
        },
    }  # fmt: skip
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    answer = cluster.api.request("POST", path, body=review)["status"]
    return bool(answer["allowed"])


def what_may(cluster: Cluster, who: str, verbs: tuple[str, ...], namespace: str = "") -> set[tuple[str, str]]:
    """Return the verbs and resources that are allowed, asked one by one."""
    return {
        (verb, resource)
        for verb, resource in itertools.product(verbs, ALL_RESOURCES)
        if may(cluster, who, verb, resource, namespace)
    }


def test_the_rights_are_these_and_no_others(plane: Cluster, namespace: str) -> None:
    helm(plane, "install", "cluster-registry")
    eventually(lambda: may(plane, READER, "list", "secrets") and may(plane, CONTROLLER, "list", "secrets"))
    for who, verbs, resources, where in ALLOWED:
        for verb, resource in itertools.product(verbs, resources):
            name, _, subresource = resource.partition("/")
            if name == "serviceaccounts":
                name, subresource = resource, ""
            assert may(plane, who, verb, name, where, subresource=subresource), (who, verb, resource)

    verbs = (*READ, *WRITE)
    for who in (READER, CONTROLLER):
        wanted = {
            (verb, resource)
            for allowed, some, resources, where in ALLOWED
            for verb, resource in itertools.product(some, resources)
            if allowed == who and not where and "/" not in resource
        }
        assert what_may(plane, who, verbs) == wanted, who


def test_a_reader_never_does_more_than_read(plane: Cluster, namespace: str) -> None:
    helm(plane, "install", "cluster-registry")
    eventually(lambda: may(plane, READER, "list", "secrets"))
    for where in (NAMESPACE, "default"):
        lines = plane.kubectl("auth", "can-i", "--list", f"--as={READER}", "-n", where).splitlines()[1:]
        for line in lines:
            verbs = set(re.findall(r"\[([^\]]*)\]", line)[-1].split())
            if "selfsubject" not in line:  # what everybody may ask about himself
                assert verbs <= set(READ), line
            assert not line.startswith("*"), line
    for subresource in ("exec", "portforward", "proxy"):
        assert not may(plane, READER, "create", "pods", NAMESPACE, subresource=subresource)
    for account in ("cluster-registry-controller", "cluster-registry-controller-reader"):
        assert not may(plane, READER, "create", f"serviceaccounts/{account}", NAMESPACE, subresource="token")


def test_the_daemon_makes_tokens_for_the_reader_alone(plane: Cluster, namespace: str) -> None:
    helm(plane, "install", "cluster-registry")
    body = json.dumps(
        {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 600}}
    )
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{{}}/token"
    argv = ("create", f"--as={CONTROLLER}", "-f", "-", "--raw")
    assert "token" in plane.kubectl(*argv, path.format("cluster-registry-controller-reader"), stdin=body)
    for other in ("cluster-registry-controller", "default"):
        with pytest.raises(CommandError, match="forbidden"):
            plane.kubectl(*argv, path.format(other), stdin=body)


NARROW = [
    # who, verb, in the release's namespace, in another one, in all
    (READER, "get", True, False, False),
    (READER, "list", True, False, False),
    (READER, "watch", True, False, False),
    (READER, "create", False, False, False),
    (READER, "delete", False, False, False),
    (CONTROLLER, "get", True, False, False),
    (CONTROLLER, "list", True, False, False),
    (CONTROLLER, "watch", True, False, False),
    (CONTROLLER, "create", True, False, False),
    (CONTROLLER, "update", True, False, False),
    (CONTROLLER, "patch", True, False, False),
    (CONTROLLER, "delete", True, False, False),
]


def test_secrets_can_be_narrowed_to_the_releases_namespace_and_widened_again(plane: Cluster, namespace: str) -> None:
    helm(plane, "install", "cluster-registry", values={"rbac": {"narrowSecrets": True}})
    eventually(lambda: may(plane, READER, "list", "nodes") and may(plane, CONTROLLER, "list", "nodes"))
    for who, verb, *expected in NARROW:
        assert [may(plane, who, verb, "secrets", where) for where in (NAMESPACE, "default", "")] == expected, (
            who,
            verb,
        )
    helm(plane, "upgrade", "cluster-registry", values={})
    eventually(lambda: may(plane, READER, "list", "secrets") and may(plane, CONTROLLER, "delete", "secrets"))


def test_creating_namespaces_is_granted_on_demand(plane: Cluster, namespace: str) -> None:
    helm(plane, "install", "cluster-registry", values={"controller": {"createNamespaces": True}})
    eventually(lambda: may(plane, CONTROLLER, "create", "namespaces"))
    assert not may(plane, CONTROLLER, "delete", "namespaces")
    assert not may(plane, READER, "create", "namespaces")
    helm(plane, "upgrade", "cluster-registry", values={})
    eventually(lambda: not may(plane, CONTROLLER, "create", "namespaces"))


def test_the_policy_gives_the_daemon_no_right(plane: Cluster, namespace: str) -> None:
    roles = [[m.get("rules") for m in rendered(plane, values) if m["kind"] in ("ClusterRole", "Role")] for values in (
        {}, {"webhooks": {"clusterValidator": {"enabled": True}}})]  # fmt: skip
    assert roles[0] == roles[1]


@pytest.mark.parametrize("values", VALUE_SETS.values(), ids=VALUE_SETS)
def test_nothing_is_granted_with_a_star(plane: Cluster, values: Manifest) -> None:
    manifests = rendered(plane, values)
    roles = [m for m in manifests if m["kind"] in ("ClusterRole", "Role")]
    assert len(roles) >= 5
    for role in roles:
        assert ("aggregationRule" in role) == ("rules" not in role), role["metadata"]["name"]
        for rule in role.get("rules", ()):
            assert "*" not in [word for part in rule.values() for word in part], role["metadata"]["name"]
    for role in roles:
        if "-reader" in role["metadata"]["name"]:
            assert all(set(rule["verbs"]) <= set(READ) for rule in role.get("rules", ()))


def test_labelled_cluster_roles_add_up(plane: Cluster, namespace: str) -> None:
    helm(plane, "install", "cluster-registry")
    for label, who, verbs in (
        ("reader-aggregated", READER, list(READ)), ("controller-aggregated", CONTROLLER, [*READ, *DAEMON_WRITES]),
    ):  # fmt: skip
        assert not may(plane, who, "list", "configmaps")
        role = {
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": f"extra-{label}", "labels": {f"cluster-registry.k8s.cisco.com/{label}": "true"}},
            "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": verbs}],
        }  # fmt: skip
        plane.kubectl("apply", "-f", "-", stdin=json.dumps(role))
        eventually(lambda who=who, last=verbs[-1]: may(plane, who, last, "configmaps"))
        # An upgrade leaves it: the added rights are Kubernetes' part of the role.
        helm(plane, "upgrade", "cluster-registry", values={"replicas": 2})
        assert may(plane, who, verbs[-1], "configmaps")
        plane.kubectl("delete", "clusterrole", f"extra-{label}")
        eventually(lambda who=who: not may(plane, who, "list", "configmaps"))
    assert not may(plane, READER, "create", "configmaps")


# --- In place of the original ------------------------------------------------------------------------------------


def store_originals(cluster: Cluster) -> None:
    """Put the original's definitions and objects where nothing of the kind is."""
    cluster.kubectl("delete", "--ignore-not-found", "--wait", "-f", str(ROOT / "crds"))
    cluster.kubectl("apply", "-f", str(ORIGINAL / "crds"))
    for definition in ("clusters", "resourcesyncrules", "clusterfeatures"):
        cluster.kubectl("wait", "--for=condition=Established", "--timeout=180s", f"crd/{definition}.{API}")
    cluster.kubectl("create", "--validate=false", "-f", str(ORIGINAL / "objects"))
    copy = {
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"},
        "metadata": {
            "name": "copy", "namespace": NAMESPACE,
            "annotations": {
                "cluster-registry.k8s.cisco.com/resource-owner-cluster-id": "5f0c1c2e-0000-4000-8000-00000000000b",
                "banzaicloud.com/last-applied": "UEsDBA==",
            },
        },
    }  # fmt: skip
    cluster.kubectl("create", "-f", "-", stdin=json.dumps(copy))


def what_is_stored(cluster: Cluster) -> Manifest:
    kinds = ",".join((*OWN, "configmaps"))
    items = json.loads(cluster.kubectl("get", kinds, "-n", NAMESPACE, "-o", "json"))["items"]
    return {
        f"{item['kind']}/{item['metadata']['name']}": (item["metadata"]["uid"], item.get("spec"), item.get("data"))
        for item in items
    }


@pytest.mark.parametrize(
    "flags", [(), ("--server-side=false",)], ids=["installed server-side", "installed client-side"]
)
@pytest.mark.parametrize("release", RELEASES)
def test_it_takes_the_place_of_the_original(
    plane: Cluster, namespace: str, release: str, flags: tuple[str, ...]
) -> None:
    name = NAMES[release]
    reader = f"system:serviceaccount:{namespace}:{name}-reader"
    store_originals(plane)
    values = {"localCluster": {"name": "alpha"}, "podDisruptionBudget": {"enabled": True}}
    helm(plane, "install", release, str(ORIGINAL / "chart"), *flags, values=values)
    webhook = f"{name}-cluster-validator-webhook"
    # What the running daemon of the original does to its webhook.
    patch = {
        "webhooks": [
            {"name": f"cluster-validator.{API}", "failurePolicy": "Fail", "clientConfig": {"caBundle": "YQ=="}}
        ]
    }
    plane.kubectl("patch", "validatingwebhookconfiguration", webhook, "-p", json.dumps(patch))
    eventually(lambda: may(plane, reader, "list", "secrets"))
    before = what_is_stored(plane)
    accounts = [f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}{end}" for end in ("", "-reader")]
    uids = [plane.api.get(path)["metadata"]["uid"] for path in accounts]

    helm(plane, "upgrade", release, values=values)
    helm(plane, "upgrade", release, values=values)

    assert what_is_stored(plane) == before
    # The tokens that the other clusters hold are of these accounts.
    assert [plane.api.get(path)["metadata"]["uid"] for path in accounts] == uids
    deployment = plane.api.get(f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}")
    assert deployment["spec"]["strategy"] == {"type": "Recreate"}
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "registry-controller:0.1.0"
    assert "LEADER_ELECTION_ENABLED" not in {item["name"] for item in container["env"]}
    gone = plane.kubectl("get", "role,rolebinding,validatingwebhookconfiguration", "-n", namespace, "-o", "name")
    assert "leader-election" not in gone
    assert webhook not in gone
    budget = plane.api.get(f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets/{name}")["spec"]
    assert (budget.get("minAvailable"), budget["maxUnavailable"]) == (None, 1)
    eventually(lambda: may(plane, reader, "list", "secrets"))
    assert not may(plane, reader, "list", "leases.coordination.k8s.io")

    # The definitions come when the user applies them, before or after.
    plane.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(ROOT / "crds"))
    assert what_is_stored(plane) == before
    helm(plane, "upgrade", release, CHART, "--reuse-values")


def test_the_first_upgrade_of_a_server_side_release_is_as_near_to_recreate_as_it_can(
    plane: Cluster, namespace: str
) -> None:
    helm(plane, "install", "cluster-registry", str(ORIGINAL / "chart"))
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/cluster-registry-controller"
    helm(plane, "upgrade", "cluster-registry", values={})
    near = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
    assert plane.api.get(path)["spec"]["strategy"] == near
    helm(plane, "upgrade", "cluster-registry", values={})
    assert plane.api.get(path)["spec"]["strategy"] == {"type": "Recreate"}


# --- In place of the webhook -------------------------------------------------------------------------------------


@pytest.fixture
def earlier(tmp_path: Path) -> str:
    """The chart with the webhook's configuration, which an earlier release has where the policy is now."""
    chart = tmp_path / "cluster-registry"
    shutil.copytree(CHART, chart)
    (chart / "templates" / "validatingadmissionpolicy.yaml").unlink()
    shutil.copy(ROOT / "tests" / "fixtures" / "earlier" / "validatingwebhookconfiguration.yaml", chart / "templates")
    return str(chart)


@pytest.fixture
def local_cluster(plane: Cluster) -> Iterator[str]:
    """A Cluster that is local by its status, as a daemon would write it, with the ID that it has."""
    path = f"/apis/{API}/v1alpha1/clusters"
    plane.kubectl("delete", "clusters", "--all")
    plane.api.request("POST", path, body=a_cluster("local", "ours"))
    patch = json.dumps({"status": {"type": "Local"}})
    plane.kubectl("patch", "cluster", "local", "--subresource=status", "--type=merge", "-p", patch)
    yield "ours"
    plane.kubectl("delete", "clusters", "--all")


def a_cluster(name: str, cluster_id: str) -> Manifest:
    return {
        "apiVersion": f"{API}/v1alpha1",
        "kind": "Cluster",
        "metadata": {"name": name},
        "spec": {"clusterID": cluster_id},
    }


def refusal(cluster: Cluster, manifest: Manifest) -> str:
    """Try to create an object, without storing it; return what kubectl prints when it is refused."""
    try:
        cluster.kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(manifest))
    except CommandError as error:
        return error.stderr
    return ""


UPGRADES: dict[str, tuple[tuple[str, ...], Manifest | None]] = {
    "kept on": ((), {"webhooks": {"clusterValidator": {"enabled": True}}}),
    "by the values of the release": (("--reuse-values",), None),
    "by the values of the release, client-side": (("--reuse-values", "--server-side=false"), None),
    "switched off": ((), {}),
}


@pytest.mark.parametrize("release", ["the original", "an earlier release"])
@pytest.mark.parametrize("upgrade", UPGRADES)
@pytest.mark.usefixtures("namespace")
def test_an_upgrade_removes_the_webhook_that_nothing_answers(
    plane: Cluster, earlier: str, local_cluster: str, release: str, upgrade: str
) -> None:
    """The running daemon has changed the configuration; without any Pod it lets no Cluster pass."""
    name = "cluster-registry-controller"
    chart = earlier if release == "an earlier release" else str(ORIGINAL / "chart")
    helm(plane, "install", "cluster-registry", chart, values={"webhooks": {"clusterValidator": {"enabled": True}}})
    webhook = {"name": f"cluster-validator.{API}", "failurePolicy": "Fail", "clientConfig": {"caBundle": CA}}
    patch = json.dumps({"webhooks": [webhook]})
    plane.kubectl("patch", "validatingwebhookconfiguration", f"{name}-cluster-validator-webhook", "-p", patch)
    eventually(lambda: "failed calling webhook" in refusal(plane, a_cluster("peer", "theirs")))

    flags, values = UPGRADES[upgrade]
    helm(plane, "upgrade", "cluster-registry", CHART, *flags, values=values)

    enabled = upgrade != "switched off"
    kinds = "validatingwebhookconfiguration,validatingadmissionpolicy,validatingadmissionpolicybinding"
    names = {found.partition(".")[0] for found in plane.kubectl("get", kinds, "-o", "name").split()}
    assert names == ({"validatingadmissionpolicy", "validatingadmissionpolicybinding"} if enabled else set())
    eventually(lambda: refusal(plane, a_cluster("peer", "theirs")) == "")
    eventually(lambda: ("denied request" in refusal(plane, a_cluster("second", local_cluster))) == enabled)


def test_a_cluster_without_an_id_passes_until_it_gets_ours(plane: Cluster, namespace: str, local_cluster: str) -> None:
    """The original's definition lets one be without."""
    helm(plane, "install", "cluster-registry", values={"webhooks": {"clusterValidator": {"enabled": True}}})
    eventually(lambda: "denied request" in refusal(plane, a_cluster("second", local_cluster)))
    plane.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(ORIGINAL / "crds" / "clusters.yaml"))
    bare = {"apiVersion": f"{API}/v1alpha1", "kind": "Cluster", "metadata": {"name": "bare"}}
    eventually(lambda: refusal(plane, bare) == "")
    plane.kubectl("create", "-f", "-", stdin=json.dumps(bare))
    plane.kubectl("annotate", "cluster", "bare", "example.com/note=1")
    assert refusal(plane, a_cluster("empty", "")) == ""
    with pytest.raises(CommandError, match="which Cluster local has already"):
        plane.kubectl("patch", "cluster", "bare", "--type=merge", "-p", json.dumps(a_cluster("bare", local_cluster)))
    plane.kubectl("delete", "cluster", "bare")
    plane.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(ROOT / "crds"))
