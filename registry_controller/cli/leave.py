"""`registry-controller leave`: removes a cluster from its group."""

from __future__ import annotations

import sys
from datetime import UTC, datetime

import click

from registry_controller.cli.failures import run_to_end
from registry_controller.cli.global_options import GlobalOptions, LocalConnection, global_options
from registry_controller.cli.options import daemon_options, load_settings, seconds
from registry_controller.settings import Settings


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
@global_options()
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

    The daemon of this cluster must be running, because it cleans up. The deletionPolicy of each rule decides whether
    its copies stay. A tombstone, a ClusterFeature that every member keeps for 90 days, prevents other members from
    bringing the cluster back. It may join again at any time, as a new member.

    Asks for confirmation, and needs --yes without a terminal. Exits 1 when work is left after the time to wait.

    \b
    Examples:
      registry-controller leave --context kind-b
      registry-controller leave c --yes --wait 5m
      registry-controller leave --without c
    """
    if cluster and without:
        raise click.UsageError("--without is for a cluster that leaves by itself: give no CLUSTER with it", ctx)
    settings = load_settings(options, flags)
    run_to_end(_leave(settings, options.connection, cluster, without=without, wait_s=wait_s, yes=yes))


async def _leave(
    settings: Settings,
    place: LocalConnection,
    cluster: str | None,
    *,
    without: tuple[str, ...],
    wait_s: float,
    yes: bool,
) -> None:
    # Imported late, so that a wrong command line fails at once.
    from registry_controller.kube.watch import read_cluster_id  # noqa: PLC0415
    from registry_controller.kube.writer import WRITING, connect_local  # noqa: PLC0415
    from registry_controller.local.client import LocalClient  # noqa: PLC0415
    from registry_controller.membership.leave import LeaveCommand  # noqa: PLC0415

    writer = await connect_local(kubeconfig=place.kubeconfig, context=place.context, methods=WRITING)
    try:
        command = LeaveCommand(
            api=LocalClient(writer),
            local=await read_cluster_id(writer),
            settings=settings,
            today=datetime.now(UTC).date(),
            report=click.echo,
        )
        if not yes:
            _confirm(await command.question(cluster or ""), server=writer.server)
        if cluster:
            await command.declare(cluster, wait_s=wait_s)
        else:
            await command.leave(without=without, wait_s=wait_s)
    finally:
        await writer.close()


def _confirm(question: str, *, server: str) -> None:
    """Confirm on the terminal; UsageError without a terminal."""
    if not sys.stdin.isatty():
        raise click.UsageError(f"{question} [{server}]: there is no terminal to ask on; confirm with --yes")
    click.confirm(f"{question} [{server}]", abort=True)
