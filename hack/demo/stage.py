"""The stage of a story: three clusters with their daemons."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from .terminal import Terminal

RELEASE = "cluster-registry"
NAMESPACE = "cluster-registry"
DEPLOYMENT = f"{RELEASE}-controller"
CHART = "deploy/helm/cluster-registry"


@dataclass(frozen=True, slots=True)
class Actor:
    """A cluster of the story: its context in the kubeconfig, its name in the group, additional flags for helm."""

    context: str
    name: str
    helm_flags: str = ""

    @property
    def kubectl(self) -> str:
        """The beginning of a kubectl command for the cluster."""
        return f"kubectl --context {self.context}"

    @property
    def helm(self) -> str:
        """The beginning of a helm command for the cluster."""
        return f"helm --kube-context {self.context}"


class Stage(Protocol):
    """The clusters of a story, as a context manager that removes all objects of the story at its end."""

    @property
    def terminal(self) -> Terminal:
        """The terminal that shows the story."""

    @property
    def actors(self) -> Sequence[Actor]:
        """The three clusters."""

    def install(self, actor: Actor) -> None:
        """Show and run the command that installs the chart, and start the daemon."""

    def wait_ready(self, actor: Actor) -> None:
        """Wait until the daemon is ready."""

    def without_api_server(self, actor: Actor) -> AbstractContextManager[None] | None:
        """Return a context without the cluster's API server; None where the demo must not stop it."""

    def logs(self) -> dict[str, Path | str]:
        """Return the path or the text of each daemon's log, by the cluster's name."""

    def next_commands(self) -> str:
        """Return commands with which a user can continue."""


def install_command(actor: Actor, more: str = "") -> str:
    """Return the helm command that makes a cluster a member."""
    flags = " ".join(part for part in (f"--set localCluster.name={actor.name}", actor.helm_flags, more) if part)
    return f"{actor.helm} install {RELEASE} {CHART} --namespace {NAMESPACE} --create-namespace {flags}"
