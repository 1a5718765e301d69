"""The options that the local controller reads."""

from __future__ import annotations

from dataclasses import dataclass

from tests.unit.local.fake_server import NAMESPACE, READER


@dataclass(frozen=True)
class LocalSettings:
    namespace: str = NAMESPACE
    reader_service_account_name: str = READER
    network_name: str = "default"
    apiserver_endpoint_address: str = ""
    reader_token_expiration_seconds: int = 0
    provision_local_cluster: str = "one"
    manage_local_cluster_secret: bool = True
    core_resources_source_enabled: bool = True
    multicluster_runtime_label: bool = False
    cluster_profile_namespace: str = ""
