"""`registry-controller leave`: take a cluster out of its group."""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import click

from registry_controller.api.errors import InvalidOption, RegistryError
from registry_controller.cli.options import daemon_options, home_options, load_settings, seconds
from registry_controller.settings import Settings


@click.command()
@click.argument("cluster", required=False, metavar="[CLUSTER]")
@click.option(
    "--without",
    multiple=True,
    metavar="CLUSTER",
    help="A member that will never hear of it: its Cluster and Secret are deleted here. Repeatable.",
)
@click.option(
    "--wait",
    "wait_s",
    callback=seconds,
    metavar="TIME",
    default="2m",
    show_default=True,
    help="How long to wait until all is done. After that, the same command goes on where it was.",
)
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@home_options
@daemon_options(("namespace", "reader_service_account_name", "manage_local_cluster_secret"))
@click.pass_context
def leave(
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
    """Take this cluster out of its group, or, with CLUSTER, a member that is dead and cannot do so itself.

    This cluster's daemon must be running: it is what clears up. Copies go or stay as the deletionPolicy of their rules
    says. Nobody brings the member back: a tombstone, a ClusterFeature that every member keeps, sees to that for 90
    days. It may join again at any time, as a new member.

    Asks before it begins, and without a terminal wants --yes. Exits with 1 when something is left to do after the time
    to wait.
    """
    if cluster and without:
        raise click.UsageError("--without is for leaving oneself: give no CLUSTER with it", ctx)
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
        raise click.ClickException(str(error)) from None


class LocalConnection(NamedTuple):
    """How this cluster is reached."""

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
    from registry_controller.kube.connect import WRITING, connect_home  # noqa: PLC0415
    from registry_controller.kube.watch import read_cluster_id  # noqa: PLC0415
    from registry_controller.local.client import LocalClient  # noqa: PLC0415
    from registry_controller.membership.leave import LeaveCommand  # noqa: PLC0415  a wrong command is refused at once

    home = await connect_home(kubeconfig=place.kubeconfig, context=place.context, methods=WRITING)
    try:
        farewell = LeaveCommand(
            api=LocalClient(home),
            local=await read_cluster_id(home),
            settings=settings,
            today=datetime.now(UTC).date(),
            report=click.echo,
        )
        if not yes:
            _ask(await farewell.question(cluster or ""), server=home.server)
        if cluster:
            await farewell.declare(cluster, wait_s=wait_s)
        else:
            await farewell.leave(without=without, wait_s=wait_s)
    finally:
        await home.close()


def _ask(question: str, *, server: str) -> None:
    """Let a person at a terminal decide; UsageError where there is none."""
    if not sys.stdin.isatty():
        raise click.UsageError(f"{question} [{server}]: nobody is there to answer; --yes does")
    click.confirm(f"{question} [{server}]", abort=True)
