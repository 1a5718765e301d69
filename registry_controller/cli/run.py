"""`registry-controller run`: the daemon."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click
import yaml

from registry_controller import __version__, settings
from registry_controller.cli.options import daemon_options, home_options, load_settings

_IGNORED_FLAGS: Final = tuple(
    "--" + prefix.lower().replace("_", "-") for prefix in settings.IGNORED_PREFIXES
)  # fmt: skip


class _Run(click.Command):
    """A command that takes the original's flags of its controllers, whatever their names."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Set aside `--clustercontroller-*` and `--synccontroller-*`, in ctx.meta; they have no effect."""
        given: list[str] = []
        kept: list[str] = []
        is_value = False  # of an ignored flag before it: "--flag value"
        for arg in args:
            if arg.startswith(_IGNORED_FLAGS):
                given.append(arg.partition("=")[0])
                is_value = "=" not in arg
            elif is_value and not arg.startswith("-"):
                is_value = False
            else:
                kept.append(arg)
                is_value = False
        ctx.meta[__name__] = given
        return super().parse_args(ctx, kept)


def _ignored_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the original's flags that have no effect."""
    for ignored in reversed(settings.IGNORED):
        function = click.option(ignored.flag, ignored.field, is_flag=False, flag_value="true", hidden=True)(function)
    return function


@click.command(cls=_Run)
@home_options
@click.option("--dump-config", is_flag=True, help="Print the options as they are understood, and exit.")
@click.version_option(__version__, prog_name="registry-controller")
@daemon_options()
@_ignored_options
@click.pass_context
def run(
    ctx: click.Context, /, kubeconfig: Path | None, context_name: str | None, dump_config: bool, **flags: str | None
) -> None:
    """Run the daemon in this cluster."""
    extra = {name.removeprefix("--").replace("-", "_"): "" for name in ctx.meta.get(__name__, ())}
    loaded = load_settings(ctx, {**flags, **extra})
    if dump_config:
        click.echo(yaml.safe_dump(loaded.dump(), sort_keys=False), nl=False)
        return
    from registry_controller import process  # noqa: PLC0415  a wrong option is refused without loading the daemon

    sys.exit(process.run(loaded, kubeconfig=kubeconfig, context=context_name))
