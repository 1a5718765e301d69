"""`registry-controller version`: the version of this program and of daemons."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import click

from registry_controller import __version__
from registry_controller.api import meta
from registry_controller.api.errors import InvalidObject, RegistryError
from registry_controller.api.meta import Manifest
from registry_controller.cli.failures import FAILED, OK, name_context, run_to_end
from registry_controller.cli.global_options import Contexts, GlobalOptions, LocalConnection, global_options
from registry_controller.cli.options import load_settings
from registry_controller.cli.output import Form, Table, say

_HEADINGS: Final = ("CONTEXT", "CLUSTER", "DAEMON", "VERSION", "FORMATS", "REPORTED BY")
_UNKNOWN: Final = "unknown"


class DaemonVersion(NamedTuple):
    """A daemon, or a member whose Cluster names the version of its daemon."""

    context: str
    cluster: str
    daemon: str
    version: str
    formats: Mapping[str, int]
    is_current: bool

    @property
    def reported_by(self) -> str:
        """Return the object that has the version."""
        if not self.daemon:
            return "Cluster"
        return "Lease" if self.is_current else "Lease, not renewed"


@click.command("version")
@global_options(contexts=Contexts.MANY, forms=(Form.TEXT, Form.WIDE, Form.JSON, Form.YAML))
def version_command(*, options: GlobalOptions) -> None:
    """Print the version of this program, and with --context also of the daemons of that cluster and its members.

    Each running daemon reports its version in a Lease. Of a member without one here, the annotation of its Cluster
    names the version. Exits 1 when a cluster could not be read.

    \b
    Examples:
      registry-controller version
      registry-controller version --context kind-a --context kind-b
      registry-controller version --context kind-a -o json
    """
    found: list[DaemonVersion] = []
    is_whole = True
    if options.contexts or options.kubeconfig is not None:
        namespace = load_settings(options, {}).namespace
        for connection in options.connections:
            try:
                found += run_to_end(_ask(connection, namespace))
            except click.ClickException as error:
                say(f"Error: {name_context(error.format_message(), connection.context)}")
                is_whole = False
    printer = options.printer
    if printer.is_for_programs:
        printer.print_document(build_version_document(found))
    else:
        printer.print_text(f"registry-controller {__version__}")
        printer.print_table(_build_table(found))
    sys.exit(OK if is_whole else FAILED)


def build_version_document(found: Sequence[DaemonVersion]) -> Mapping[str, Any]:
    """Return the versions as plain data."""
    from registry_controller.api.formats import FORMATS  # noqa: PLC0415  late: --help needs no formats

    daemons = [
        {
            "context": one.context or None,
            "cluster": one.cluster,
            "daemon": one.daemon or None,
            "version": one.version or None,
            "formats": one.formats,
            "isCurrent": one.is_current,
        }
        for one in found
    ]
    return {"client": {"version": __version__, "formats": FORMATS}, "daemons": daemons}


def _build_table(found: Sequence[DaemonVersion]) -> Table:
    rows = [
        [
            one.context,
            one.cluster,
            one.daemon,
            one.version or _UNKNOWN,
            ", ".join(f"{name} {number}" for name, number in sorted(one.formats.items())),
            one.reported_by,
        ]
        for one in found
    ]
    return Table(_HEADINGS, rows, frozenset({"FORMATS"}))


async def _ask(connection: LocalConnection, namespace: str) -> list[DaemonVersion]:
    """Read the Leases of the daemons of a cluster, and its Clusters."""
    from registry_controller.cli.connecting import connected  # noqa: PLC0415  late, as above
    from registry_controller.local.client import command_client  # noqa: PLC0415

    async with connected(connection) as writer:
        client = command_client(writer, context=connection.context)
        clusters = await client.list(meta.CLUSTERS)
        try:
            leases = await client.list(meta.LEASES, namespace=namespace)
        except RegistryError as error:
            say(f"warning: {client.explain(error)}")
            leases = []
    context = connection.context or ""
    daemons = [*read_daemons(context, leases, now=datetime.now(UTC))]
    reported = {one.cluster for one in daemons}
    return [*daemons, *(one for one in read_members(context, clusters) if one.cluster not in reported)]


def read_daemons(context: str, leases: Sequence[Manifest], *, now: datetime) -> Iterator[DaemonVersion]:
    """List the daemons of a cluster by their Leases; other Leases are left out."""
    from registry_controller.api.daemon_lease import read_lease  # noqa: PLC0415  late, as above

    for manifest in leases:
        try:
            lease = read_lease(manifest)
        except InvalidObject:
            continue
        report = lease.report
        yield DaemonVersion(
            context=context,
            cluster=report.cluster_name if report is not None else "",
            daemon=lease.holder,
            version=report.version if report is not None else "",
            formats=report.formats if report is not None else {},
            is_current=lease.is_current(now),
        )


def read_members(context: str, clusters: Sequence[Manifest]) -> Iterator[DaemonVersion]:
    """List the members by the annotations of their Clusters."""
    from registry_controller.api.formats import read_daemon_formats, read_daemon_version  # noqa: PLC0415  late

    for manifest in clusters:
        annotation = meta.annotations_of(manifest).get(meta.DAEMON, "")
        name = str(meta.metadata_of(manifest).get("name"))
        yield DaemonVersion(
            context, name, "", read_daemon_version(annotation), read_daemon_formats(annotation), is_current=True
        )
