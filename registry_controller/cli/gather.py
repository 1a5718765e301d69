"""`registry-controller gather`: writes the state of clusters into an archive, without data of Secrets."""

from __future__ import annotations

import functools
import io
import re
import sys
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from registry_controller import __version__
from registry_controller.api import meta
from registry_controller.api.errors import RegistryError, Unreachable
from registry_controller.api.meta import GVR, Manifest
from registry_controller.cli.events import EVENTS, select_events
from registry_controller.cli.failures import FAILED, OK, name_context, run_to_end
from registry_controller.cli.global_options import Contexts, GlobalOptions, LocalConnection, global_options
from registry_controller.cli.options import load_settings
from registry_controller.cli.output import Form, format_document, hide_managers, say

if TYPE_CHECKING:
    from registry_controller.kube.connect import Reader
    from registry_controller.local.client import ClusterClient

_OBJECTS: Final = (meta.CLUSTERS, meta.FEATURES, meta.RULES)
_DEFINITIONS: Final = GVR("apiextensions.k8s.io", "v1", "customresourcedefinitions", False)
_DEPLOYMENTS: Final = GVR("apps", "v1", "deployments", True)
_PODS: Final = GVR("", "v1", "pods", True)
_SECRETS: Final = GVR("", "v1", "secrets", True)
_LOG_BYTES: Final = 8 * 1024 * 1024
_OF_PODS: Final = ("name", "namespace", "labels", "creationTimestamp", "ownerReferences", "uid")
_OF_SECRETS: Final = ("name", "namespace", "labels", "creationTimestamp", "uid", "resourceVersion")
_STDOUT: Final = Path("-")
_NO_PART: Final = re.compile(r'[/\\:*?"<>|\x00-\x1f]')  # what Linux, macOS or Windows refuse in the name of a file
_METRICS_PORTS: Final = frozenset({"metrics", "http-metrics"})


@dataclass(slots=True)
class GatheredFiles:
    """The files of an archive by their paths, and the parts that could not be read."""

    files: dict[str, bytes] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def add(self, path: str, document: Any) -> None:
        """Add plain data as YAML."""
        self.files[path] = format_document(document, Form.YAML).encode()


@click.command("gather")
@click.option(
    "--file",
    "archive",
    type=click.Path(path_type=Path, allow_dash=True),
    metavar="FILE|-",
    help="The archive, - for standard output; default: a new name here.",
)
@global_options(contexts=Contexts.MANY)
def gather_command(*, options: GlobalOptions, archive: Path | None) -> None:
    """Write the state of clusters into an archive, for a report of a problem.

    It has the objects of the registry's kinds, their Events, the CustomResourceDefinitions in short, the daemons'
    Pods with logs and metrics, their Leases, and versions. Of Secrets it has names and types, never data. It has names
    and addresses of your clusters: read it before you pass it on.

    Exits 1 when a part could not be read; the archive then names that part in problems.txt.

    \b
    Examples:
      registry-controller gather
      registry-controller gather --context kind-a --context kind-b --file report.tar.gz
    """
    namespace = load_settings(options, {}).namespace
    now = datetime.now(UTC)
    found = GatheredFiles()
    found.add("client.yaml", {"version": __version__, "python": sys.version, "platform": sys.platform, "time": now})
    names = [connection.context or "current" for connection in options.connections]
    for connection, name, folder in zip(options.connections, names, name_folders(names), strict=True):
        say(f"reading {name}")
        try:
            run_to_end(_gather(connection, namespace, folder, found))
        except click.ClickException as error:
            found.problems.append(name_context(error.format_message(), connection.context))
    for problem in found.problems:
        say(f"warning: {problem}")
    target = archive or Path(f"cluster-registry-{now:%Y%m%d-%H%M%S}.tar.gz")
    write_archive(found, target, now=now)
    if target != _STDOUT:
        options.printer.print_text(str(target))
    sys.exit(FAILED if found.problems else OK)


def name_folders(contexts: Sequence[str]) -> Sequence[str]:
    """Return a folder for each context; each is a folder of its own, and none leads out of the archive."""
    found: list[str] = []
    for context in contexts:
        folder = _NO_PART.sub("_", context)
        while folder in found or not folder.strip("."):
            folder += "_"
        found.append(folder)
    return found


def write_archive(found: GatheredFiles, target: Path, *, now: datetime) -> None:
    """Write the archive, readable by its user alone; ClickException where it cannot be written."""
    files = {**found.files, "problems.txt": "".join(f"{problem}\n" for problem in found.problems).encode()}
    try:
        with _open_archive(target) as opened:
            for path, content in sorted(files.items()):
                info = tarfile.TarInfo(f"cluster-registry/{path}")
                info.size, info.mode, info.mtime = len(content), 0o600, int(now.timestamp())
                opened.addfile(info, io.BytesIO(content))
    except OSError as error:
        raise click.ClickException(f"{target}: cannot be written: {error.strerror}") from None


def _open_archive(target: Path) -> tarfile.TarFile:
    if target == _STDOUT:
        return tarfile.open(fileobj=sys.stdout.buffer, mode="w|gz")
    target.touch(mode=0o600)
    if target.is_file():  # every user may read an earlier archive; a device stays as it is
        target.chmod(0o600)
    return tarfile.open(target, "w:gz")


async def _gather(connection: LocalConnection, namespace: str, folder: str, found: GatheredFiles) -> None:
    from registry_controller.admin.sites import COMPONENT  # noqa: PLC0415  late: --help needs no client
    from registry_controller.cli.connecting import connected  # noqa: PLC0415
    from registry_controller.local.client import command_client  # noqa: PLC0415

    async with connected(connection) as writer:
        client = command_client(writer, context=connection.context)

        async def list_into(
            path: str, gvr: GVR, *, within: str = "", labels: str = "", shorten: Any = remove_managers
        ) -> Sequence[Any]:
            try:
                listed = await client.list(gvr, namespace=within, labels=labels)
                items = [item for item in listed if gvr != _DEFINITIONS or _is_ours(item)]
            except RegistryError as error:
                found.problems.append(client.explain(error))
                return ()
            found.add(f"{folder}/{path}", [shorten(item) for item in items])
            return items

        try:
            found.add(f"{folder}/server.yaml", await client.read_path("/version"))
        except Unreachable:  # nor would it answer the other requests
            raise
        except RegistryError as error:
            found.problems.append(client.explain(error))
        for gvr in _OBJECTS:
            await list_into(f"{gvr.resource}.yaml", gvr)
        await list_into("definitions.yaml", _DEFINITIONS, shorten=shorten_definition)
        await list_into("leases.yaml", meta.LEASES, within=namespace)
        # Other programs may run in the namespace, with secrets in their arguments and logs.
        await list_into(
            "deployments.yaml", _DEPLOYMENTS, within=namespace, labels=COMPONENT, shorten=shorten_deployment
        )
        await list_into("secrets.yaml", _SECRETS, within=namespace, shorten=shorten_secret)
        pods = await list_into("pods.yaml", _PODS, within=namespace, labels=COMPONENT, shorten=shorten_pod)
        try:
            events = await client.list(EVENTS)
            found.add(f"{folder}/events.yaml", [remove_managers(event) for event in select_events(events, "", "")])
        except RegistryError as error:
            found.problems.append(client.explain(error))

        place = _PodScope(client, writer, namespace, folder)
        for pod in pods:
            await _gather_pod(place, pod, found)


class _PodScope(NamedTuple):
    """The connection to a cluster, the namespace of its daemon, and its folder in the archive."""

    client: ClusterClient
    reader: Reader
    namespace: str
    folder: str


async def _gather_pod(place: _PodScope, pod: Manifest, found: GatheredFiles) -> None:
    """Read logs and metrics of a Pod, through the API server."""
    name = str(meta.metadata_of(pod).get("name"))
    base = f"/api/v1/namespaces/{place.namespace}/pods/{name}"
    port = find_metrics_port(pod)
    parts = {f"{name}.log": f"{base}/log?limitBytes={_LOG_BYTES}"}
    if _restarts(pod):
        parts[f"{name}.previous.log"] = f"{base}/log?previous=true&limitBytes={_LOG_BYTES}"
    if port:
        parts[f"{name}.metrics.txt"] = f"{base}:{port}/proxy/metrics"
    for file, path in parts.items():
        try:
            read = functools.partial(place.reader.get_path, path, limit_bytes=2 * _LOG_BYTES)
            found.files[f"{place.folder}/pods/{file}"] = await place.client.patiently(read)
        except RegistryError as error:
            found.problems.append(place.client.explain(error))


def find_metrics_port(pod: Manifest) -> int:
    """Return the port of a Pod's metrics; 0 without one."""
    for container in (pod.get("spec") or {}).get("containers") or ():
        for port in container.get("ports") or ():
            if port.get("name") in _METRICS_PORTS:
                return int(port.get("containerPort") or 0)
    return 0


def _restarts(pod: Manifest) -> bool:
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return any(status.get("restartCount") for status in statuses)


def remove_managers(manifest: Manifest) -> Manifest:
    """Return an object without its managers, and without kubectl's annotation, which repeats the object."""
    shown = hide_managers(manifest)
    info = meta.metadata_of(shown)
    annotations = {
        key: value for key, value in (info.get("annotations") or {}).items() if key != meta.KUBECTL_LAST_APPLIED
    }
    return {**shown, "metadata": {**info, "annotations": annotations}} if "annotations" in info else shown


def shorten_secret(manifest: Manifest) -> Manifest:
    """Return name, type and keys of a Secret: neither its data nor its annotations, which may repeat them."""
    data = manifest.get("data")
    return {
        "metadata": _pick(meta.metadata_of(manifest), _OF_SECRETS),
        "type": manifest.get("type"),
        "keys": sorted(data) if isinstance(data, Mapping) else [],
    }


def shorten_pod(manifest: Manifest) -> Manifest:
    """Return a Pod without variables of its environment and annotations: people put secrets into both."""
    spec = manifest.get("spec") or {}
    containers = [
        {key: container.get(key) for key in ("name", "image", "args", "resources", "ports")}
        for container in spec.get("containers") or ()
    ]
    info = _pick(meta.metadata_of(manifest), _OF_PODS)
    return {"metadata": info, "spec": {"containers": containers}, "status": manifest.get("status")}


def shorten_deployment(manifest: Manifest) -> Manifest:
    """Return a Deployment in the same way, with the Pods that it makes."""
    spec = manifest.get("spec") or {}
    template = shorten_pod(spec.get("template") or {})
    info = _pick(meta.metadata_of(manifest), _OF_PODS)
    shown = {"replicas": spec.get("replicas"), "strategy": spec.get("strategy"), "template": template["spec"]}
    return {"metadata": info, "spec": shown, "status": manifest.get("status")}


def _is_ours(definition: Manifest) -> bool:
    return (definition.get("spec") or {}).get("group") == meta.GROUP


def shorten_definition(manifest: Manifest) -> Manifest:
    """Return name, versions and conditions of a definition."""
    spec = manifest.get("spec") or {}
    versions = [_pick(version, ("name", "served", "storage")) for version in spec.get("versions") or ()]
    status = manifest.get("status") or {}
    return {
        "metadata": _pick(meta.metadata_of(manifest), ("name", "creationTimestamp", "generation", "labels")),
        "spec": {"group": spec.get("group"), "scope": spec.get("scope"), "versions": versions},
        "status": {"conditions": status.get("conditions"), "storedVersions": status.get("storedVersions")},
    }


def _pick(found: Mapping[str, Any], keys: Sequence[str]) -> Mapping[str, Any]:
    return {key: found[key] for key in keys if key in found}
