"""`registry-controller completion`: prints a script that completes its commands in a shell."""

from __future__ import annotations

from typing import Final

import click
from click.shell_completion import get_completion_class

from registry_controller.cli.command_group import PROGRAM
from registry_controller.cli.global_options import Contexts, GlobalOptions, global_options

SHELLS: Final = ("bash", "zsh", "fish")


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
@global_options(contexts=Contexts.NONE)
@click.pass_context
def completion_command(ctx: click.Context, /, shell: str, *, options: GlobalOptions) -> None:
    """Print a script that completes commands, flags and contexts. bash needs version 4.4 or later.

    \b
    Examples:
      registry-controller completion bash > ~/.local/share/bash-completion/completions/registry-controller
      registry-controller completion zsh > "${fpath[1]}/_registry-controller"
      registry-controller completion fish > ~/.config/fish/completions/registry-controller.fish
    """
    made = get_completion_class(shell)
    if made is None:
        raise click.ClickException(f"{shell}: there is no completion for this shell")
    root = ctx.find_root().command
    variable = f"_{PROGRAM}_COMPLETE".replace("-", "_").upper()
    options.printer.print_text(made(root, {}, PROGRAM, variable).source())
