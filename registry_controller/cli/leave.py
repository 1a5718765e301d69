"""`registry-controller leave`: removes a cluster from its group."""

from __future__ import annotations

import sys
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

import click

from registry_controller.cli.failures import run_to_end
from registry_controller.cli.global_options import Contexts, GlobalOptions, LocalConnection, global_options
from registry_controller.cli.options import daemon_options, load_settings, seconds
from registry_controller.settings import Settings

if TYPE_CHECKING:
    from registry_controller.api.meta import ClusterUID
    from registry_controller.local.client import ClusterClient
    from registry_controller.membership.leave import LeaveCommand


@click.command("leave")
@click.argument("cluster", required=False, metavar="[CLUSTER]")
@click.option(
    "--without",
    multiple=True,
    metavar="CLUSTER",
    help="A member that no longer runs: its Cluster and Secret are deleted here. Repeatable.",
)
@click.option(
    "--wait",
    "wait_s",
    callback=seconds,
    metavar="TIME",
    default="2m",
    show_default=True,
    help="Time to wait for the end. After that, run the same command to continue.",
)
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@global_options(contexts=Contexts.MANY)
@daemon_options(("reader_service_account_name", "manage_local_cluster_secret"))
@click.pass_context
def leave_command(
    ctx: click.Context,
    /,
    *,
    options: GlobalOptions,
    cluster: str | None,
    without: tuple[str, ...],
    wait_s: float,
    yes: bool,
    **flags: str | None,
) -> None:
    """Remove this cluster from its group, or, with CLUSTER, a member that no longer runs.

    With several --context, each of these clusters leaves, one after another; with CLUSTER, each declares it gone. The
    daemon of this cluster must be running, because it cleans up. The deletionPolicy of each rule decides whether
    its copies stay. A tombstone, a ClusterFeature that every member keeps for 90 days, prevents other members from
    bringing the cluster back. It may join again at any time, as a new member.

    Asks for confirmation, and needs --yes without a terminal. Exits 1 when work is left after the time to wait.

    \b
    Examples:
      registry-controller leave --context kind-b
      registry-controller leave c --yes --wait 5m
      registry-controller leave --without c
      registry-controller leave --context kind-b --context kind-c
    """
    if cluster and without:
        raise click.UsageError("--without is for a cluster that leaves by itself: give no CLUSTER with it", ctx)
    if cluster == "":  # such as from a variable of a script that is not set: without a name, this cluster would leave
        raise click.UsageError("CLUSTER is empty: name the member that is gone, or leave the argument out", ctx)
    settings = load_settings(options, flags)
    order = LeaveOrder(cluster or "", without, wait_s)
    run_to_end(
        _leave_each(options, settings, order, yes=yes)
        if len(options.contexts) > 1
        else _leave_one(settings, options.connection, order, yes=yes)
    )


class LeaveOrder(NamedTuple):
    """The member that is gone, empty for the cluster itself; the members left out; the time to wait."""

    cluster: str
    without: tuple[str, ...]
    wait_s: float


async def _leave_one(settings: Settings, place: LocalConnection, order: LeaveOrder, *, yes: bool) -> None:
    # Imported late, so that a wrong command line fails at once.
    from registry_controller.cli.connecting import connected  # noqa: PLC0415
    from registry_controller.kube.writer import WRITING  # noqa: PLC0415
    from registry_controller.local.client import command_client  # noqa: PLC0415

    async with connected(place, methods=WRITING) as writer:
        client = command_client(writer, context=place.context)
        command = _make_command(client, await client.read_id(), settings)
        if not yes:
            _confirm(await command.question(order.cluster), server=client.server)
        await _give(command, order)


async def _leave_each(options: GlobalOptions, settings: Settings, order: LeaveOrder, *, yes: bool) -> None:
    """Run the order in each cluster, in the order of the contexts; all questions come first."""
    from registry_controller.admin.sites import connect_sites  # noqa: PLC0415

    async with connect_sites(options.connections, namespace=options.namespace) as found:
        commands = []
        for site in found.require_all():
            daemon = site.daemon
            theirs = replace(
                settings,
                namespace=daemon.namespace,
                reader_service_account_name=daemon.reader_account,
                manage_local_cluster_secret=daemon.manages_secret,
            )
            command = _make_command(site.client, site.cluster_id, theirs)
            if not yes:
                _confirm(await command.question(order.cluster), server=site.client.server)
            commands.append((site.label, command))
        for label, command in commands:
            click.echo(f"context {label}")
            await _give(command, order)


def _make_command(client: ClusterClient, cluster_id: ClusterUID, settings: Settings) -> LeaveCommand:
    from registry_controller.membership.leave import LeaveCommand  # noqa: PLC0415

    today = datetime.now(UTC).date()
    return LeaveCommand(api=client, local=cluster_id, settings=settings, today=today, report=click.echo)


async def _give(command: LeaveCommand, order: LeaveOrder) -> None:
    if order.cluster:
        await command.declare(order.cluster, wait_s=order.wait_s)
    else:
        await command.leave(without=order.without, wait_s=order.wait_s)


def _confirm(question: str, *, server: str) -> None:
    """Confirm on the terminal; UsageError without a terminal."""
    if not sys.stdin.isatty():
        raise click.UsageError(f"{question} [{server}]: there is no terminal to ask on; confirm with --yes")
    click.confirm(f"{question} [{server}]", abort=True)
