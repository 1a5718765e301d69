"""What `plan` and `explain` have in common: a connection that cannot write, a dry run, and words for what fails."""

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
from registry_controller.kube.connect import REHEARSING, connect_home
from registry_controller.planner.dry_run import DryRun, start_dry_run
from registry_controller.planner.output import JsonDocument
from registry_controller.settings import Settings

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class DryRunCommand:
    """Where to ask, and how long to wait for it."""

    settings: Settings
    kubeconfig: Path | None
    context: str | None
    wait_s: float
    now: datetime

    def ask(self, answer: Callable[[DryRun], Awaitable[_T]], *, manifests: Iterable[Manifest] = ()) -> _T:
        """Rehearse, with rules from files in their places, and answer.

        UsageError for a kubeconfig that cannot be used, ClickException for an API server of ours that cannot be read.
        """
        try:
            return asyncio.run(self._ask(answer, manifests))
        except InvalidOption as error:
            raise click.UsageError(str(error)) from None
        except RegistryError as error:
            raise click.ClickException(str(error)) from None

    async def _ask(self, answer: Callable[[DryRun], Awaitable[_T]], manifests: Iterable[Manifest]) -> _T:
        home = await connect_home(kubeconfig=self.kubeconfig, context=self.context, methods=REHEARSING)
        try:
            async with start_dry_run(
                self.settings, local_client=home, manifests=manifests, now=self.now, wait_s=self.wait_s
            ) as dry_run:
                return await answer(dry_run)
        finally:
            await home.close()


def end(answer: str | JsonDocument, *, is_well: bool) -> NoReturn:
    """Print an answer, a document as JSON, and exit: 0, or 1 when something is amiss."""
    text: Any = answer if isinstance(answer, str) else orjson.dumps(answer, option=orjson.OPT_INDENT_2).decode()
    click.echo(text)
    sys.exit(0 if is_well else 1)
