"""`registry-controller leave`: removes a cluster from its group."""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import click

from registry_controller.api.errors import InvalidOption, RegistryError
from registry_controller.cli.options import connection_options, daemon_options, explain_error, load_settings, seconds
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
@connection_options
@daemon_options(("namespace", "reader_service_account_name", "manage_local_cluster_secret"))
@click.pass_context
def leave_command(
    ctx: click.Context,
    /,
    *,
    cluster: str | None,
    without: tuple[str, ...],
    wait_s: float,
    yes: bool,
    kubeconfig: Path | None,
    context_name: str | None,
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
    settings = load_settings(ctx, flags)
    try:
        asyncio.run(
            _leave(
                settings, LocalConnection(kubeconfig, context_name), cluster, without=without, wait_s=wait_s, yes=yes
            )
        )
    except InvalidOption as error:
        raise click.UsageError(str(error), ctx) from None
    except RegistryError as error:
        raise click.ClickException(explain_error(error)) from None


class LocalConnection(NamedTuple):
    """The kubeconfig and context of this cluster."""

    kubeconfig: Path | None
    context: str | None


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
