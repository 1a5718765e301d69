"""Runs `plan` and `explain`: connects without the right to write, makes a dry run, and prints the answer."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click
import orjson

from registry_controller.api.errors import InvalidOption, RegistryError
from registry_controller.api.meta import Manifest
from registry_controller.cli.options import explain_error
from registry_controller.kube.writer import DRY_RUNNING, connect_local
from registry_controller.planner.dry_run import DryRun, start_dry_run
from registry_controller.planner.output import JsonDocument
from registry_controller.settings import Settings

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class DryRunCommand:
    """The cluster to read, and the time to wait for it and its peers."""

    settings: Settings
    kubeconfig: Path | None
    context: str | None
    wait_s: float
    now: datetime

    def ask(self, answer: Callable[[DryRun], Awaitable[_T]], *, manifests: Iterable[Manifest] = ()) -> _T:
        """Make a dry run in which `manifests` replace the rules of their names, and return its answer.

        UsageError for a kubeconfig that cannot be used, ClickException for a local API server that cannot be read.
        """
        try:
            return asyncio.run(self._ask(answer, manifests))
        except InvalidOption as error:
            raise click.UsageError(str(error)) from None
        except RegistryError as error:
            raise click.ClickException(explain_error(error)) from None

    async def _ask(self, answer: Callable[[DryRun], Awaitable[_T]], manifests: Iterable[Manifest]) -> _T:
        writer = await connect_local(kubeconfig=self.kubeconfig, context=self.context, methods=DRY_RUNNING)
        try:
            async with start_dry_run(
                self.settings, local_client=writer, manifests=manifests, now=self.now, wait_s=self.wait_s
            ) as dry_run:
                return await answer(dry_run)
        finally:
            await writer.close()


def print_and_exit(answer: str | JsonDocument, *, is_well: bool) -> NoReturn:
    """Print an answer, a document as JSON, and exit: 0, or 1 when it reports a problem."""
    text: Any = answer if isinstance(answer, str) else orjson.dumps(answer, option=orjson.OPT_INDENT_2).decode()
    click.echo(text)
    sys.exit(0 if is_well else 1)
