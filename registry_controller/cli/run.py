"""`registry-controller run`: runs the daemon."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final

import click
import yaml

from registry_controller import __version__, settings
from registry_controller.cli.global_options import GlobalOptions, global_options
from registry_controller.cli.options import daemon_options, load_settings

_IGNORED_FLAGS: Final = tuple(
    "--" + prefix.lower().replace("_", "-") for prefix in settings.IGNORED_PREFIXES
)  # fmt: skip


class _RunCommand(click.Command):
    """A command that accepts all flags of the original's controllers."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Move `--clustercontroller-*` and `--synccontroller-*`, which have no effect, to ctx.meta."""
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
    """Add the flags of the original that have no effect."""
    for ignored in reversed(settings.IGNORED):
        function = click.option(ignored.flag, ignored.field, is_flag=False, flag_value="true", hidden=True)(function)
    return function


@click.command("run", cls=_RunCommand)
@global_options()
@click.option("--dump-config", is_flag=True, help="Print the options with their values, and exit.")
@click.version_option(__version__, prog_name="registry-controller")
@daemon_options()
@_ignored_options
@click.pass_context
def run_command(ctx: click.Context, /, *, options: GlobalOptions, dump_config: bool, **flags: str | None) -> None:
    """Run the daemon in this cluster.

    \b
    Examples:
      registry-controller run
      registry-controller run --kubeconfig ~/.kube/config --context kind-a --provision-local-cluster a
      registry-controller run --dump-config
    """
    extra = {name.removeprefix("--").replace("-", "_"): "" for name in ctx.meta.get(__name__, ())}
    loaded = load_settings(options, {**flags, **extra})
    if dump_config:
        click.echo(yaml.safe_dump(loaded.dump(), sort_keys=False), nl=False)
        return
    if sys.platform == "win32":
        raise click.ClickException("the daemon needs Linux or macOS; on Windows, use the other commands")
    from registry_controller import process  # noqa: PLC0415  a wrong option fails without loading the daemon

    sys.exit(process.run(loaded, kubeconfig=options.kubeconfig, context=options.context))
