"""The command line, one file a command.

As the original, the program needs no command: flags alone run the daemon, and in a Pod so does an empty command line.
"""

from __future__ import annotations

import os
from typing import Final

import click

from registry_controller import __version__
from registry_controller.cli.explain import explain_command
from registry_controller.cli.leave import leave_command
from registry_controller.cli.lint import lint_command
from registry_controller.cli.plan import plan_command
from registry_controller.cli.run import run_command

PROGRAM: Final = "registry-controller"
_IN_POD: Final = "KUBERNETES_SERVICE_HOST"  # the kubelet sets it
_OF_THE_GROUP: Final = frozenset({"-h", "--help", "--version"})


class _RunByDefault(click.Group):
    """A group with `run` as its default command."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert `run` before flags, and in a Pod into an empty command line; elsewhere that prints the help."""
        is_run = args[0].startswith("-") and args[0] not in _OF_THE_GROUP if args else _IN_POD in os.environ
        if is_run:
            args = ["run", *args]
        return super().parse_args(ctx, args or ["--help"])


@click.group(cls=_RunByDefault, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name=PROGRAM)
def program() -> None:
    """Keep the objects of a group of Kubernetes clusters in step, peer to peer.

    Flags without a command are flags of `run`. In a Pod, the program without arguments runs the daemon.

    \b
    Examples:
      registry-controller lint rule.yaml
      registry-controller plan -f rule.yaml
      registry-controller explain secret default/hello
    """


program.add_command(run_command)
program.add_command(lint_command)
program.add_command(plan_command)
program.add_command(explain_command)
program.add_command(leave_command)


def main() -> None:
    """Run the command line and exit: 0, 1 for a failure, 2 for a wrong command line or option."""
    program(prog_name=PROGRAM)
