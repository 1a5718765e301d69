"""The group of all commands: it loads a command when it is called, and finds the command among global flags."""

from __future__ import annotations

import copy
import importlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from registry_controller.cli.global_options import split_global_flags

PROGRAM: Final = "registry-controller"
PLUGIN: Final = "kubectl-cluster_registry"
"""The executable by whose name kubectl finds the plugin `kubectl cluster-registry`."""

_PLUGIN_PROGRAM: Final = "kubectl cluster-registry"
_IN_POD: Final = "KUBERNETES_SERVICE_HOST"  # the kubelet sets it
_OF_THE_GROUP: Final = frozenset({"-h", "--help", "--version"})


class CommandPlace(NamedTuple):
    """The module and name of a command, and its summary for the help of the program; a hidden command has none."""

    module: str
    name: str
    summary: str


def name_program(executable: str) -> str:
    """Return the program's name in usage and examples: that of kubectl's plugin, or its own."""
    return _PLUGIN_PROGRAM if Path(executable).stem == PLUGIN else PROGRAM


class ProgramGroup(click.Group):
    """A group of commands that are imported when they are called, so that help and completion are fast.

    As the original, the program needs no command: flags that only the daemon has run it, and in a Pod so does an empty
    command line.
    """

    places: Mapping[str, CommandPlace]

    def __init__(self, *args: Any, places: Mapping[str, CommandPlace], **more: Any) -> None:
        super().__init__(*args, **more)
        self.places = places

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for name, place in self.places.items() if place.summary]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        place = self.places.get(cmd_name)
        if place is None:
            return None
        command: click.Command = getattr(importlib.import_module(place.module), place.name)
        if ctx.find_root().info_name == _PLUGIN_PROGRAM:
            command = copy.copy(command)
            command.help = _rename_program(command.help or "")
        return command

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the help text with the name by which the program was called."""
        text = self.help
        if ctx.info_name == _PLUGIN_PROGRAM:
            self.help = _rename_program(text or "")
        try:
            super().format_help_text(ctx, formatter)
        finally:
            self.help = text

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands by their summaries, without an import of their modules."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, self.places[name].summary) for name in self.list_commands(ctx)])

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Move the global flags behind the command; without a command, choose between `run` and the help."""
        before, rest = split_global_flags(args)
        if not rest:
            args = self._parse_no_command(ctx, before)
        elif not rest[0].startswith("-"):
            args = [rest[0], *before, *rest[1:]]
        elif rest[0] not in _OF_THE_GROUP:
            args = ["run", *args]  # a flag of the daemon
        else:
            args = rest
        return super().parse_args(ctx, args)

    def _parse_no_command(self, ctx: click.Context, before: Sequence[str]) -> list[str]:
        if _IN_POD in os.environ:
            return ["run", *before]
        if before and not ctx.resilient_parsing:  # a completion has no command yet
            raise click.UsageError(f"there is no command; `{ctx.info_name} run` runs the daemon", ctx)
        return ["--help"]


def _rename_program(text: str) -> str:
    """Replace the program's name in examples by that of kubectl's plugin."""
    return text.replace(f"{PROGRAM} ", f"{_PLUGIN_PROGRAM} ")
