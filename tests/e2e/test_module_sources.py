"""Names that this project shares with Cluster API and its neighbours are those of their sources."""

from __future__ import annotations

import pytest

from registry_controller.api import meta
from registry_controller.group.sources import SECRET_LABEL
from registry_controller.kube.kubeconfig import find_key
from registry_controller.local import cluster_profiles
from tests.oracle.module_sources import module_folder, read_constant

_CAPI = "sigs.k8s.io/cluster-api"
_INVENTORY = "sigs.k8s.io/cluster-inventory-api"
_RUNTIME = "sigs.k8s.io/multicluster-runtime"
_PROVIDER = "providers/kubeconfig/provider.go"


@pytest.mark.nightly
@pytest.mark.clause("P13")
def test_the_label_is_that_of_the_kubeconfig_provider() -> None:
    label = read_constant(_RUNTIME, _PROVIDER, "DefaultKubeconfigSecretLabel")
    assert (label, f"{label}=true") == (meta.MULTICLUSTER_RUNTIME_LABEL, SECRET_LABEL)
    assert read_constant(_RUNTIME, _PROVIDER, "DefaultKubeconfigSecretKey") == meta.KUBECONFIG_KEY
    # The value of the label has no constant of its own.
    provider = (module_folder(_RUNTIME) / _PROVIDER).read_text(encoding="utf-8")
    assert 'GetLabels()[p.opts.KubeconfigSecretLabel] == "true"' in provider


@pytest.mark.nightly
@pytest.mark.clause("P12")
def test_a_secret_of_cluster_api_is_known_by_type_suffix_and_key() -> None:
    written = read_constant(f"{_CAPI}/api", "core/v1beta2/common_types.go", "ClusterSecretType")
    assert written == meta.CLUSTER_API_SECRET_TYPE
    purpose = read_constant(_CAPI, "util/secret/consts.go", "Kubeconfig")
    assert f"-{purpose}" == meta.CLUSTER_API_SECRET_SUFFIX
    named = (module_folder(_CAPI) / "util" / "secret" / "secret.go").read_text(encoding="utf-8")
    assert 'return fmt.Sprintf("%s-%s", cluster, suffix)' in named
    key = read_constant(_CAPI, "util/secret/consts.go", "KubeconfigDataName")
    assert find_key(secret_type=written, data={meta.KUBECONFIG_KEY: "eA==", key: "eA=="}) == key


@pytest.mark.clause("P13")
@pytest.mark.parametrize(
    ("file", "name", "ours"),
    [
        ("apis/v1alpha1/clusterprofile_types.go", "LabelClusterManagerKey", cluster_profiles._MANAGER_LABEL),
        ("plugins/kubeconfig-secretreader/cmd/plugin/main.go", "ProviderName", cluster_profiles._PROVIDER),
        ("pkg/access/config.go", "clusterExecExtensionKey", cluster_profiles._EXEC_EXTENSION),
    ],
)
def test_a_cluster_profile_has_the_names_of_cluster_inventory_api(file: str, name: str, ours: str) -> None:
    assert read_constant(_INVENTORY, file, name) == ours
