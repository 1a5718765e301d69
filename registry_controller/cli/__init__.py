"""The command line, one file a command.

The original was started without a command: flags alone are `run`, and in a Pod nothing at all is, too.
"""

from __future__ import annotations

import os
from typing import Final

import click

from registry_controller import __version__
from registry_controller.cli.explain import explain
from registry_controller.cli.leave import leave
from registry_controller.cli.lint import lint
from registry_controller.cli.plan import plan
from registry_controller.cli.run import run

PROGRAM: Final = "registry-controller"
_IN_POD: Final = "KUBERNETES_SERVICE_HOST"  # the kubelet sets it
_OF_THE_GROUP: Final = frozenset({"-h", "--help", "--version"})


class _RunByDefault(click.Group):
    """A group whose command may be left out."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put `run` in front of flags, and in a Pod of nothing at all, which elsewhere asks for help."""
        is_run = args[0].startswith("-") and args[0] not in _OF_THE_GROUP if args else _IN_POD in os.environ
        if is_run:
            args = [run.name or "run", *args]
        return super().parse_args(ctx, args or ["--help"])


@click.group(cls=_RunByDefault, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name=PROGRAM)
def program() -> None:
    """Keep the objects of a group of Kubernetes clusters in step, peer to peer.

    With flags and no command it runs the daemon, as `run` does, and in a Pod without flags, too.
    """


program.add_command(run)
program.add_command(lint)
program.add_command(plan)
program.add_command(explain)
program.add_command(leave)


def main() -> None:
    """Run the command line and exit: 0, 1 for a failure, 2 for a wrong command line or option."""
    program(prog_name=PROGRAM)
