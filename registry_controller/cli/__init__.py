"""The command line, one file a command.

Without a command, flags of the daemon run it, as in the original; in a Pod so does an empty command line.
"""

from __future__ import annotations

import errno
import logging
import os
import sys
from typing import Final

import click

from registry_controller import __version__
from registry_controller.cli.command_group import PROGRAM, CommandPlace, ProgramGroup, name_program
from registry_controller.report.lines import OURS

_HERE: Final = "registry_controller.cli"
_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})

COMMANDS: Final = {
    "run": CommandPlace(f"{_HERE}.run", "run_command", "Run the daemon in this cluster."),
    "lint": CommandPlace(f"{_HERE}.lint", "lint_command", "Check files of rules, without a cluster."),
    "plan": CommandPlace(f"{_HERE}.plan", "plan_command", "Report the changes that a rule would make."),
    "explain": CommandPlace(f"{_HERE}.explain", "explain_command", "Report why an object is copied, or is not."),
    "rbac": CommandPlace(f"{_HERE}.rbac", "rbac_command", "Print the ClusterRoles that rules need."),
    "crds": CommandPlace(f"{_HERE}.crds", "crds_command", "Print the CustomResourceDefinitions."),
    "suspend": CommandPlace(f"{_HERE}.suspend", "suspend_command", "Stop rules; their copies stay."),
    "resume": CommandPlace(f"{_HERE}.suspend", "resume_command", "Start suspended rules again."),
    "check": CommandPlace(f"{_HERE}.check", "check_command", "Check a cluster before and after the installation."),
    "join": CommandPlace(f"{_HERE}.join", "join_command", "Join clusters to one group."),
    "status": CommandPlace(f"{_HERE}.status", "status_command", "Show how the members of a group find each other."),
    "get": CommandPlace(f"{_HERE}.get", "get_command", "Show objects of all members."),
    "watch": CommandPlace(f"{_HERE}.get", "watch_command", "Show objects of all members, and their changes."),
    "events": CommandPlace(f"{_HERE}.events", "events_command", "Show the Events of the registry's objects."),
    "gather": CommandPlace(
        f"{_HERE}.gather", "gather_command", "Write the state of clusters into an archive, for support."
    ),
    "leave": CommandPlace(f"{_HERE}.leave", "leave_command", "Remove a cluster from its group."),
    "version": CommandPlace(
        f"{_HERE}.version", "version_command", "Print the versions of this program and of daemons."
    ),
    "completion": CommandPlace(
        f"{_HERE}.completion", "completion_command", "Print a script for the shell's completion."
    ),
}
_FOR_PROGRAMS: Final = {"probe": CommandPlace(f"{_HERE}.probe", "probe_command", "")}


@click.group(
    cls=ProgramGroup, places={**COMMANDS, **_FOR_PROGRAMS}, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(__version__, prog_name=PROGRAM)
def program() -> None:
    """Keep the objects of a group of Kubernetes clusters in step, peer to peer.

    The global flags --kubeconfig, --context, --namespace, --output and --color may be before or after the command.
    Flags of the daemon without a command are flags of `run`. In a Pod, the program without arguments runs the daemon.

    \b
    Examples:
      registry-controller join --context kind-a --context kind-b
      registry-controller status --context kind-a --context kind-b
      registry-controller lint rule.yaml
      registry-controller plan -f rule.yaml
      registry-controller explain secret default/hello
    """


def main() -> None:
    """Run the command line and exit: 0, 1 for a failure, 2 for a wrong command line or option."""
    logging.getLogger(OURS).addHandler(logging.NullHandler())  # a command has messages of its own
    _replace_closed_streams()
    try:
        program(prog_name=name_program(sys.argv[0]))
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the interpreter writes the rest at its end
        raise SystemExit(f"Error: the answer cannot be written: {error.strerror}") from None


def _replace_closed_streams() -> None:
    """Replace standard streams that the caller has closed, as in `<&-`: they are None in Python."""
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115, PTH123
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123
