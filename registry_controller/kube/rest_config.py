"""Connects to the local cluster: by the user's kubeconfig, with all of its features, or by the Pod's ServiceAccount."""

from __future__ import annotations

import os
import ssl
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import yaml
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.config.config_exception import ConfigException
from kubernetes.aio.config.kube_config import KubeConfigLoader, KubeConfigMerger

from registry_controller.api.errors import InvalidOption
from registry_controller.kube.failures import KUBECONFIG, POD
from registry_controller.kube.tls import openssl_words
from registry_controller.kube.transport import Identity, Transport

_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_REFRESH_S: Final = 10.0  # the kubelet renews the token at 80 % of an hour; the old one works on until its end
_DEFAULT: Final = Path("~/.kube/config")
_IMPERSONATION: Final = ("as", "as-uid", "as-groups", "as-user-extra")
_UNUSABLE: Final = (ConfigException, yaml.YAMLError, ValueError, KeyError, TypeError, AttributeError)


class _Merger(KubeConfigMerger):
    """Merges the files of KUBECONFIG as kubectl does.

    The first file that has a current-context decides it, where the library takes the last one. An empty file counts as
    a missing one. A program of a user (exec) is looked up beside the file that names it, if it is a relative path.
    """

    def load_config(self, path: str) -> None:
        if yaml.safe_load(Path(path).read_text()) is None:
            return
        merged: Any = self.config_merged
        current = merged.safe_get("current-context") if merged is not None else None
        super().load_config(path)  # type: ignore[no-untyped-call]
        if current:
            merged.value["current-context"] = current

    def _merge(self, item: str, add_cfg: Any, path: str) -> None:
        for entry in add_cfg if item == "users" else ():
            plugin = (entry.get("user") or {}).get("exec") or {}
            command = plugin.get("command")
            if isinstance(command, str) and os.sep in command:
                plugin["command"] = str(Path(path).absolute().parent / command)
        super()._merge(item, add_cfg, path)  # type: ignore[no-untyped-call]


class _WatchedFile:
    """A file that the kubelet renews. It is in memory, so that reading does not block the loop."""

    def __init__(self, path: Path) -> None:
        self.text = path.read_text().strip()
        self._path = path
        self._stamp = (0, 0)

    def refresh(self, *, force: bool = False) -> None:
        """Read the file when it has changed, or always with `force`."""
        try:
            found = self._path.stat()
            stamp = (found.st_mtime_ns, found.st_ino)
            if force or stamp != self._stamp:
                self.text = self._path.read_text().strip() or self.text
                self._stamp = stamp
        except OSError:  # between two versions of the volume: the last text is still valid
            return


class _PodIdentity:
    """The token of the Pod's ServiceAccount, and the CA of its cluster."""

    source: Final = POD

    def __init__(self, account: Path, *, server: str) -> None:
        self._server = server
        self._ca, self._token = _WatchedFile(account / "ca.crt"), _WatchedFile(account / "token")
        self._refreshed_s = time.monotonic()

    @property
    def ca_pem(self) -> str:
        return self._ca.text

    @property
    def configuration(self) -> Configuration:
        return Configuration(host=self._server, ca_cert_data=self.ca_pem)

    def authorization(self) -> str:
        if time.monotonic() - self._refreshed_s > _REFRESH_S:
            self._refresh()
        return f"Bearer {self._token.text}" if self._token.text else ""

    async def renew(self) -> bool:
        before = self._token.text
        self._refresh(force=True)
        return self._token.text != before

    def _refresh(self, *, force: bool = False) -> None:
        self._refreshed_s = time.monotonic()
        for file in (self._ca, self._token):
            file.refresh(force=force)


class _AdminIdentity:
    """The user's kubeconfig; it is read again after a 401 (exec plugins, OIDC)."""

    source: Final = KUBECONFIG

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


async def connect_local_transport(
    *, kubeconfig: Path | None, context: str | None, methods: frozenset[str]
) -> Transport:
    """Make the transport to the local cluster; InvalidOption when its credentials cannot be used."""
    try:
        identity = await load_local_identity(os.environ, kubeconfig=kubeconfig, context=context)
        return Transport(identity=identity, methods=methods)
    except ssl.SSLError as error:
        where = _name_source(kubeconfig)
        raise InvalidOption(
            f"{where}: OpenSSL refuses a certificate or key in it{openssl_words(error)}; correct its "
            "certificate-authority-data, client-certificate-data and client-key-data"
        ) from error
    except OSError as error:
        file = f" {error.filename}" if isinstance(error.filename, str) else ""
        problem = f"the file{file} cannot be read" + (f" ({error.strerror})" if error.strerror else "")
        raise InvalidOption(f"{_name_source(kubeconfig)}: {problem}; make it readable, or name another one") from error


def _name_source(kubeconfig: Path | None) -> str:
    files = kubeconfig or os.environ.get("KUBECONFIG")
    return f"kubeconfig {files}" if files else f"ServiceAccount in {_ACCOUNT}"


def check_contexts(kubeconfig: Path | str | None, contexts: Iterable[str]) -> None:
    """Raise InvalidOption for a context that the kubeconfig does not have; without `kubeconfig`, that of kubectl."""
    wanted = list(contexts)
    if not wanted:
        return
    files = _find_files(os.environ, kubeconfig=kubeconfig, context=wanted[0])
    _check_exists(files)
    try:
        config: Any = _Merger(files).config  # type: ignore[no-untyped-call]
        names = [str(found["name"]) for found in config.safe_get("contexts") or ()]
    except _UNUSABLE as error:
        raise InvalidOption(_explain_kubeconfig(files, error, context=wanted[0])) from error
    for context in wanted:
        if context not in names:
            raise InvalidOption(_explain_missing(files, names, context=context))


async def load_local_identity(
    environment: Mapping[str, str], *, kubeconfig: Path | None, context: str | None
) -> Identity:
    """Find the credentials of the local cluster: `kubeconfig`, else KUBECONFIG, else the Pod's ServiceAccount.

    Outside of a Pod, and with a `context`, ~/.kube/config replaces the ServiceAccount.
    """
    return await _identify(_find_files(environment, kubeconfig=kubeconfig, context=context), context=context)


def _find_files(environment: Mapping[str, str], *, kubeconfig: Path | str | None, context: str | None) -> str:
    """Return the files of the kubeconfig; empty for the Pod's ServiceAccount."""
    files = str(kubeconfig) if kubeconfig is not None else environment.get("KUBECONFIG", "")
    in_pod = bool(environment.get("KUBERNETES_SERVICE_HOST"))
    return files or (str(_DEFAULT.expanduser()) if context or not in_pod else "")


async def _identify(files: str, *, context: str | None) -> Identity:
    if files:
        return _AdminIdentity(await _load(files, context=context), files=files, context=context)
    return _PodIdentity(_ACCOUNT, server=pod_server(os.environ))


def pod_server(environment: Mapping[str, str]) -> str:
    """Return the URL of the API server from the kubelet's variables, with brackets for IPv6."""
    host = environment.get("KUBERNETES_SERVICE_HOST", "")
    port = environment.get("KUBERNETES_SERVICE_PORT", "") or "443"
    if not host:
        raise InvalidOption("KUBERNETES_SERVICE_HOST is not set: give --kubeconfig, or run in a Pod")
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"


async def _load(files: str, *, context: str | None) -> Configuration:
    _check_exists(files)
    configuration = Configuration()
    try:
        loader = _make_loader(files, context=context)
        await loader.load_and_set(configuration)  # type: ignore[no-untyped-call]
    except _UNUSABLE as error:
        raise InvalidOption(_explain_kubeconfig(files, error, context=context)) from error
    _check_plugin(loader, configuration, files=files)
    _check_impersonation(loader, files=files)
    _check_addresses(configuration, files=files)
    return configuration


def _make_loader(files: str, *, context: str | None = None) -> KubeConfigLoader:
    merged = _Merger(files).config  # type: ignore[no-untyped-call]
    return KubeConfigLoader(config_dict=merged, active_context=context, config_base_path=None)  # type: ignore


def _check_plugin(loader: KubeConfigLoader, configuration: Configuration, *, files: str) -> None:
    """Raise InvalidOption where the user's exec plugin failed: the library logs that, and goes on without credentials.

    The requests of such a user are anonymous, and the API server answers that a right is missing.
    """
    user: Any = loader._user  # where refresh_token of the library finds the plugin, too
    if user is None or "exec" not in user or configuration.api_key.get("BearerToken") or configuration.cert_file:
        return
    plugin: Any = user.safe_get("exec")
    program = f" {plugin['command']}" if isinstance(plugin, dict) and isinstance(plugin.get("command"), str) else ""
    raise InvalidOption(
        f"kubeconfig {files}: the program{program} of its user (exec) gives no credentials; install it, or log in again"
    )


def _check_impersonation(loader: KubeConfigLoader, *, files: str) -> None:
    """Raise InvalidOption for a user that acts as another one: the library would act with all rights of the first."""
    user: Any = loader._user
    if user is not None and any(user.safe_get(name) for name in _IMPERSONATION):
        raise InvalidOption(
            f"kubeconfig {files}: its user acts as another one (as), which only kubectl can do; name another --context"
        )


def _check_addresses(configuration: Configuration, *, files: str) -> None:
    """Raise InvalidOption for a server or a proxy to which no connection can be made."""
    for field, address in (("server", configuration.host), ("proxy-url", configuration.proxy)):
        if field == "server" or address:
            try:
                parts = urlsplit(address or "")
                is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
            except ValueError:  # the port, or the brackets of an IPv6 address
                is_usable = False
            if not is_usable:
                raise InvalidOption(
                    f"kubeconfig {files}: the {field} of its cluster is no URL such as https://HOST:PORT; correct it"
                )


def _explain_kubeconfig(files: str, error: Exception, *, context: str | None) -> str:
    """Return the problem of a kubeconfig, without the library's message, which may quote its content."""
    try:
        loader = _make_loader(files)
        current: Any = loader.current_context
        names = sorted(str(found["name"]) for found in loader.list_contexts())  # type: ignore[no-untyped-call]
    except ConfigException:
        return f"kubeconfig {files}: its current-context is missing or cannot be used; name another one with --context"
    except yaml.YAMLError as invalid:
        mark = getattr(invalid, "problem_mark", None)
        place = f" (line {mark.line + 1})" if mark is not None else ""
        return f"kubeconfig {files}: is no kubeconfig: it is not valid YAML{place}; correct it, or name another file"
    except _UNUSABLE:
        return f"kubeconfig {files}: is no kubeconfig: its contexts cannot be read; correct it, or name another file"
    if context and context not in names:
        return _explain_missing(files, names, context=context)
    chosen = context or str(current["name"])
    part = _missing_part(error)
    return (
        f"kubeconfig {files}: its context {chosen} cannot be used: {part}; correct it, or name another with --context"
    )


def _explain_missing(files: str, names: Iterable[str], *, context: str) -> str:
    return f"kubeconfig {files}: has no context {context}; it has {', '.join(sorted(names))}: name one of these"


def _missing_part(error: Exception) -> str:
    """Return which part of a context the library did not accept."""
    if isinstance(error, yaml.YAMLError):
        return "a file that its user or cluster names is not valid YAML"
    if isinstance(error, ConfigException):
        return "its cluster or user is missing, incomplete or names a file that cannot be read"
    return "its cluster or user has a field of a wrong type"


def _check_exists(files: str) -> None:
    if not any(Path(file).expanduser().is_file() for file in files.split(os.pathsep) if file):
        raise InvalidOption(
            f"kubeconfig {files}: there is no such file; name another one, with --kubeconfig or KUBECONFIG"
        )


def _ca_of(configuration: Configuration) -> str:
    data: Any = configuration.ca_cert_data
    if data:
        return data if isinstance(data, str) else data.decode()
    return Path(configuration.ssl_ca_cert).read_text() if configuration.ssl_ca_cert else ""
