"""The options: one table, read once."""

from __future__ import annotations

import dataclasses

import pytest

from registry_controller import settings
from registry_controller.api.errors import InvalidOption
from registry_controller.api.optiontext import Address, parse_address
from registry_controller.settings import OPTIONS, Settings, load


def test_nothing_given_is_the_original_with_our_defaults() -> None:
    loaded = load({}, {})
    assert loaded.namespace == "cluster-registry"
    assert loaded.provision_local_cluster == ""
    assert loaded.manage_local_cluster_secret
    assert loaded.reader_service_account_name == "cluster-registry-controller-reader"
    assert loaded.network_name == "default"
    assert loaded.core_resources_source_enabled
    assert (loaded.metrics_addr, loaded.health_addr) == (Address("", 8080), Address("", 8090))
    assert (loaded.log_format, loaded.log_verbosity, loaded.workers) == ("json", 0, 32)
    assert loaded.ignored == loaded.remarks() == ()


def test_every_field_has_a_row_and_every_row_a_field() -> None:
    assert {option.field for option in OPTIONS} | {"ignored"} == {field.name for field in dataclasses.fields(Settings)}


def test_a_flag_beats_the_environment() -> None:
    loaded = load({"NETWORK_NAME": "lan", "WORKERS": "4"}, {"network_name": "wan", "workers": None})
    assert (loaded.network_name, loaded.workers) == ("wan", 4)


@pytest.mark.parametrize(
    ("environment", "field", "value"),
    [
        ("NETWORK_NAME", "network_name", ""),
        ("METRICS_ADDR", "metrics_addr", None),
        ("MANAGE_LOCAL_CLUSTER_SECRET", "manage_local_cluster_secret", False),
    ],
)
def test_a_variable_that_is_set_and_empty_is_a_value(environment: str, field: str, value: object) -> None:
    assert getattr(load({environment: ""}, {}), field) == value


def test_an_empty_flag_is_a_value_too() -> None:
    assert load({"NETWORK_NAME": "lan"}, {"network_name": ""}).network_name == ""


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NAMESPACE", ""),
        ("NAMESPACE", "Not_A_Name"),
        ("PROVISION_LOCAL_CLUSTER", "a b"),
        ("MANAGE_LOCAL_CLUSTER_SECRET", "yes"),
        ("READER_SERVICE_ACCOUNT_NAME", ""),
        ("METRICS_ADDR", "8080"),
        ("HEALTH_ADDR", "::1:80"),
        ("HEALTH_ADDR", ":65536"),
        ("LOG_FORMAT", "xml"),
        ("LOG_VERBOSITY", "-1"),
        ("LOG_VERBOSITY", ""),
        ("WORKERS", "0"),
        ("WORKERS", "¹"),
    ],
)
@pytest.mark.parametrize("as_flag", [True, False])
def test_a_wrong_value_is_refused_naming_the_option(name: str, value: str, as_flag: bool) -> None:
    with pytest.raises(InvalidOption) as caught:
        load(*(({}, {name.lower(): value}) if as_flag else ({name: value}, {})))
    assert name in str(caught.value)
    assert "--" + name.lower().replace("_", "-") in str(caught.value)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        (":8080", Address("", 8080)),
        ("127.0.0.1:0", Address("127.0.0.1", 0)),
        ("[::1]:80", Address("::1", 80)),
        ("localhost:9", Address("localhost", 9)),
    ],
)
def test_an_address_is_read_and_spelled_back(text: str, address: Address) -> None:
    assert parse_address(text) == address
    assert str(address) == text


@pytest.mark.parametrize("text", ["", "0"])
def test_an_address_that_is_empty_or_zero_serves_nothing(text: str) -> None:
    assert parse_address(text) is None


@pytest.mark.parametrize(
    ("environ", "flags", "named"),
    [
        ({"LEADER_ELECTION_ENABLED": "true"}, {}, "LEADER_ELECTION_ENABLED"),
        ({"SYNCCONTROLLER_WORKER_COUNT": "2"}, {}, "SYNCCONTROLLER_WORKER_COUNT"),
        ({"CLUSTERCONTROLLER_REFRESH_INTERVAL_SECONDS": "1"}, {}, "CLUSTERCONTROLLER_REFRESH_INTERVAL_SECONDS"),
        ({}, {"enable_leader_election": "true"}, "--enable-leader-election"),
        ({}, {"devel_mode": "true"}, "--devel-mode"),
        ({}, {"synccontroller_worker_count": ""}, "--synccontroller-worker-count"),
        ({"CLUSTER_VALIDATOR_WEBHOOK_ENABLED": "true"}, {}, "CLUSTER_VALIDATOR_WEBHOOK_ENABLED"),
        ({"CLUSTER_VALIDATOR_WEBHOOK_PORT": "http"}, {}, "CLUSTER_VALIDATOR_WEBHOOK_PORT"),
        ({}, {"cluster_validator_webhook_name": "x"}, "--cluster-validator-webhook-name"),
    ],
)
def test_what_has_no_effect_is_accepted_and_said(environ: dict[str, str], flags: dict[str, str], named: str) -> None:
    loaded = load(environ, flags)
    assert loaded.ignored == (named,)
    assert loaded.remarks() == (f"{named} has no effect and is ignored",)


def test_one_line_names_all_options_that_have_no_effect() -> None:
    """A release that comes from the original, with its webhook."""
    given = {
        "LEADER_ELECTION_ENABLED": "true",
        "CLUSTER_VALIDATOR_WEBHOOK_ENABLED": "true",
        "CLUSTER_VALIDATOR_WEBHOOK_NAME": "cluster-validator-webhook",
        "CLUSTER_VALIDATOR_WEBHOOK_HOST": "127.0.0.1",
        "CLUSTER_VALIDATOR_WEBHOOK_PORT": "9443",
        "CLUSTER_VALIDATOR_WEBHOOK_CERTIFICATE_DIRECTORY": "/tmp/webhooks/clusterValidator/certificates",
    }
    loaded = load(given, {})
    assert loaded.remarks() == (f"{', '.join(given)} have no effect and are ignored",)
    assert loaded == dataclasses.replace(load({}, {}), ignored=tuple(given))


@pytest.mark.parametrize("text", ["istio-ca-root-cert", "configmap/x", "ConfigMap/", "ConfigMap/a b", "*/x"])
def test_an_object_to_ignore_has_a_kind_and_a_name(text: str) -> None:
    with pytest.raises(InvalidOption, match=r"IGNORED_NAMESPACE_CONTENT .* is not an object: write ConfigMap/istio"):
        load({"IGNORED_NAMESPACE_CONTENT": text}, {})


def test_a_dump_loads_again_as_the_same_settings() -> None:
    given = {"METRICS_ADDR": "[::1]:80", "HEALTH_ADDR": "", "WORKERS": "7", "MANAGE_LOCAL_CLUSTER_SECRET": "false"}
    given["IGNORED_NAMESPACE_CONTENT"] = "ConfigMap/istio-ca-root-cert,RoleBinding.rbac.authorization.k8s.io/system:*"
    loaded = load(given, {})
    texts = {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in loaded.dump().items()}
    assert load(texts, {}) == loaded


def test_the_docs_table_has_every_option() -> None:
    table = settings.markdown()
    assert all(f"`{option.environment}` | `{option.flag}`" in table for option in OPTIONS)
