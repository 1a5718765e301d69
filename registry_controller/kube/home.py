"""The connection to our own cluster: the admin's kubeconfig, which may use all of it, or the pod's account."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.config.config_exception import ConfigException
from kubernetes.aio.config.kube_config import list_kube_config_contexts, load_kube_config

from registry_controller.api.errors import InvalidOption
from registry_controller.kube.transport import Identity, Transport

_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_LOOK_EVERY_S: Final = 10.0  # the kubelet renews the token at 80 % of an hour; the old one works on until its end
_DEFAULT: Final = Path("~/.kube/config")
_UNUSABLE: Final = (ConfigException, yaml.YAMLError, ValueError, KeyError, TypeError, AttributeError)


class _PodIdentity:
    """The token that the kubelet keeps fresh in a file."""

    def __init__(self, account: Path) -> None:
        self.ca_pem = (account / "ca.crt").read_text()
        self._file = account / "token"
        self._looked_s = 0.0
        self._stamp = (0, 0)
        self._authorization = ""
        self._look()

    def authorization(self) -> str:
        if time.monotonic() - self._looked_s > _LOOK_EVERY_S:
            self._look()
        return self._authorization

    async def renew(self) -> bool:
        before = self._authorization
        self._stamp = (0, 0)
        self._look()
        return self._authorization != before

    def _look(self) -> None:
        """Read the file when it is another one; a file in memory, so that no thread is needed."""
        self._looked_s = time.monotonic()
        try:
            found = self._file.stat()
            stamp = (found.st_mtime_ns, found.st_ino)
            if stamp != self._stamp:
                token = self._file.read_text().strip()
                self._authorization = f"Bearer {token}" if token else self._authorization
                self._stamp = stamp
        except OSError:  # between two versions of the volume: the token that we have is still good
            return


class _AdminIdentity:
    """What the admin's kubeconfig says; it is read again when the server refuses it (exec plugins, OIDC)."""

    def __init__(self, configuration: Configuration, *, files: str, context: str | None) -> None:
        self.ca_pem = _ca_of(configuration)
        self._files = files
        self._context = context
        self._authorization = str(configuration.api_key.get("BearerToken") or "")

    def authorization(self) -> str:
        return self._authorization

    async def renew(self) -> bool:
        before = self._authorization
        try:
            found = await _load(self._files, context=self._context)
        except InvalidOption:
            return False
        self._authorization = str(found.api_key.get("BearerToken") or "")
        return self._authorization != before


async def connect_home_transport(
    *, kubeconfig: Path | None, context: str | None, methods: frozenset[str]
) -> tuple[Transport, str]:
    """Make the transport to our own cluster and return it with the cluster's CA; InvalidOption when there is none."""
    try:
        configuration, identity = await load_home_configuration(os.environ, kubeconfig=kubeconfig, context=context)
        return Transport(configuration, identity=identity, methods=methods), identity.ca_pem
    except OSError as error:  # ssl.SSLError is one
        where = str(kubeconfig or os.environ.get("KUBECONFIG") or _ACCOUNT)
        raise InvalidOption(f"cannot connect with {where}: {error.strerror or type(error).__name__}") from error


async def load_home_configuration(
    environment: Mapping[str, str], *, kubeconfig: Path | None, context: str | None
) -> tuple[Configuration, Identity]:
    """Find out how our own cluster is reached: the kubeconfig named, else KUBECONFIG, else the pod's account."""
    files = str(kubeconfig) if kubeconfig is not None else environment.get("KUBECONFIG", "")
    in_pod = bool(environment.get("KUBERNETES_SERVICE_HOST"))
    if not files and (context or not in_pod):
        files = str(_DEFAULT.expanduser())
    return await _identify(files, context=context)


async def _identify(files: str, *, context: str | None) -> tuple[Configuration, Identity]:
    if files:
        configuration = await _load(files, context=context)
        return configuration, _AdminIdentity(configuration, files=files, context=context)
    identity = _PodIdentity(_ACCOUNT)
    return Configuration(host=pod_server(os.environ), ca_cert_data=identity.ca_pem), identity


def pod_server(environment: Mapping[str, str]) -> str:
    """Spell the URL of the API server that the kubelet announces; IPv6 hosts are bracketed."""
    host = environment.get("KUBERNETES_SERVICE_HOST", "")
    port = environment.get("KUBERNETES_SERVICE_PORT", "") or "443"
    if not host:
        raise InvalidOption("KUBERNETES_SERVICE_HOST is not set: give --kubeconfig, or run in a pod")
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"


async def _load(files: str, *, context: str | None) -> Configuration:
    _check_exists(files)
    configuration = Configuration()
    try:
        await load_kube_config(  # type: ignore[no-untyped-call]
            config_file=files, context=context, client_configuration=configuration, persist_config=False
        )
    except _UNUSABLE as error:
        raise InvalidOption(_why_unusable(files, error, context=context)) from error
    return configuration


def _why_unusable(files: str, error: Exception, *, context: str | None) -> str:
    """Say what is wrong with a kubeconfig, never in the library's words: they may quote what is in it."""
    try:
        contexts, current = list_kube_config_contexts(config_file=files)  # type: ignore[no-untyped-call]
        names = sorted(str(found["name"]) for found in contexts)
    except ConfigException:
        return f"kubeconfig {files}: its current-context is missing or cannot be used; --context names another one"
    except _UNUSABLE:
        return f"kubeconfig {files}: is no kubeconfig ({type(error).__name__})"
    if context and context not in names:
        return f"kubeconfig {files}: has no context {context}; it has {', '.join(names)}"
    chosen = context or str(current["name"])
    return f"kubeconfig {files}: its context {chosen} cannot be used ({type(error).__name__}): see its cluster and user"


def _check_exists(files: str) -> None:
    if not any(Path(file).expanduser().is_file() for file in files.split(os.pathsep) if file):
        raise InvalidOption(f"kubeconfig {files}: there is no such file")


def _ca_of(configuration: Configuration) -> str:
    data: Any = configuration.ca_cert_data
    if data:
        return data if isinstance(data, str) else data.decode()
    return Path(configuration.ssl_ca_cert).read_text() if configuration.ssl_ca_cert else ""
