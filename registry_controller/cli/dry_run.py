"""Runs `plan` and `explain`: connects without the right to write, makes a dry run, and prints the answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from registry_controller.api.meta import Manifest
from registry_controller.cli.failures import run_to_end
from registry_controller.cli.global_options import LocalConnection
from registry_controller.cli.output import Printer
from registry_controller.kube.writer import DRY_RUNNING, connect_local
from registry_controller.planner.dry_run import DryRun, start_dry_run
from registry_controller.settings import Settings

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class DryRunCommand:
    """The cluster to read, the time to wait for it and its peers, and the printer of the progress."""

    settings: Settings
    connection: LocalConnection
    wait_s: float
    now: datetime
    printer: Printer

    def ask(self, answer: Callable[[DryRun], Awaitable[_T]], *, manifests: Iterable[Manifest] = ()) -> _T:
        """Make a dry run in which `manifests` replace the rules of their names, and return its answer.

        OptionFailure for a kubeconfig that cannot be used, ClickException for a local API server that cannot be read.
        """
        with self.printer.progress("reading the cluster and its peers"):
            return run_to_end(self.ask_async(answer, manifests=manifests))

    async def ask_async(self, answer: Callable[[DryRun], Awaitable[_T]], *, manifests: Iterable[Manifest] = ()) -> _T:
        """Do the same in a running event loop. InvalidOption and RegistryError are raised as they are."""
        kubeconfig, context = self.connection
        writer = await connect_local(kubeconfig=kubeconfig, context=context, methods=DRY_RUNNING)
        try:
            async with start_dry_run(
                self.settings, local_client=writer, manifests=manifests, now=self.now, wait_s=self.wait_s
            ) as dry_run:
                return await answer(dry_run)
        finally:
            await writer.close()
