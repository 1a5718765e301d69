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


class _WatchedFile:
    """A file that the kubelet keeps fresh. It is in memory, so that no thread is needed to read it."""

    def __init__(self, path: Path) -> None:
        self.text = path.read_text().strip()
        self._path = path
        self._stamp = (0, 0)

    def look(self, *, afresh: bool = False) -> None:
        """Read it when it is another one, or in any case."""
        try:
            found = self._path.stat()
            stamp = (found.st_mtime_ns, found.st_ino)
            if afresh or stamp != self._stamp:
                self.text = self._path.read_text().strip() or self.text
                self._stamp = stamp
        except OSError:  # between two versions of the volume: what we have is still good
            return


class _PodIdentity:
    """The token of the pod's account, and its cluster's CA."""

    def __init__(self, account: Path, *, server: str) -> None:
        self._server = server
        self._ca, self._token = _WatchedFile(account / "ca.crt"), _WatchedFile(account / "token")
        self._looked_s = time.monotonic()

    @property
    def ca_pem(self) -> str:
        return self._ca.text

    @property
    def configuration(self) -> Configuration:
        return Configuration(host=self._server, ca_cert_data=self.ca_pem)

    def authorization(self) -> str:
        if time.monotonic() - self._looked_s > _LOOK_EVERY_S:
            self._look()
        return f"Bearer {self._token.text}" if self._token.text else ""

    async def renew(self) -> bool:
        before = self._token.text
        self._look(afresh=True)
        return self._token.text != before

    def _look(self, *, afresh: bool = False) -> None:
        self._looked_s = time.monotonic()
        for file in (self._ca, self._token):
            file.look(afresh=afresh)


class _AdminIdentity:
    """What the admin's kubeconfig says; it is read again when the server refuses it (exec plugins, OIDC)."""

    def __init__(self, configuration: Configuration, *, files: str, context: str | None) -> None:
        self._files = files
        self._context = context
        self._take(configuration)

    def authorization(self) -> str:
        return self._authorization

    async def renew(self) -> bool:
        before = self._authorization
        try:
            self._take(await _load(self._files, context=self._context))
        except InvalidOption:
            return False
        return self._authorization != before

    def _take(self, configuration: Configuration) -> None:
        self.configuration = configuration
        self.ca_pem = _ca_of(configuration)
        self._authorization = str(configuration.api_key.get("BearerToken") or "")


async def connect_home_transport(*, kubeconfig: Path | None, context: str | None, methods: frozenset[str]) -> Transport:
    """Make the transport to our own cluster; InvalidOption when there is none."""
    try:
        identity = await load_home_identity(os.environ, kubeconfig=kubeconfig, context=context)
        return Transport(identity=identity, methods=methods)
    except OSError as error:  # ssl.SSLError is one
        where = str(kubeconfig or os.environ.get("KUBECONFIG") or _ACCOUNT)
        raise InvalidOption(f"cannot connect with {where}: {error.strerror or type(error).__name__}") from error


async def load_home_identity(
    environment: Mapping[str, str], *, kubeconfig: Path | None, context: str | None
) -> Identity:
    """Find out how our own cluster is reached: the kubeconfig named, else KUBECONFIG, else the Pod's account.

    Outside of a Pod, and where a context is named, ~/.kube/config is the last resort.
    """
    files = str(kubeconfig) if kubeconfig is not None else environment.get("KUBECONFIG", "")
    in_pod = bool(environment.get("KUBERNETES_SERVICE_HOST"))
    if not files and (context or not in_pod):
        files = str(_DEFAULT.expanduser())
    return await _identify(files, context=context)


async def _identify(files: str, *, context: str | None) -> Identity:
    if files:
        return _AdminIdentity(await _load(files, context=context), files=files, context=context)
    return _PodIdentity(_ACCOUNT, server=pod_server(os.environ))


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
