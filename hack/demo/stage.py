"""Where a story plays: three clusters, and somebody who runs the daemons in them."""

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
    """A cluster of the story: its context in the kubeconfig, its name in the group, more flags for helm."""

    context: str
    name: str
    helm_flags: str = ""

    @property
    def kubectl(self) -> str:
        """How a kubectl command for it begins."""
        return f"kubectl --context {self.context}"

    @property
    def helm(self) -> str:
        """How a helm command for it begins."""
        return f"helm --kube-context {self.context}"


class Stage(Protocol):
    """What a story needs; a context manager that takes away what was put there."""

    @property
    def terminal(self) -> Terminal:
        """Where it is told."""

    @property
    def actors(self) -> Sequence[Actor]:
        """The three clusters."""

    def install(self, actor: Actor) -> None:
        """Install the chart, with the command shown, and see to it that the daemon runs."""

    def wait_ready(self, actor: Actor) -> None:
        """Wait until the daemon says that it is ready."""

    def silence(self, actor: Actor) -> AbstractContextManager[None] | None:
        """Let a cluster's API server be gone for as long as it is entered; None where that is not ours to do."""

    def logs(self) -> dict[str, Path | str]:
        """Return where each daemon's log is, or its text, by the cluster's name."""

    def farewell(self) -> str:
        """Say how to look around."""


def install_command(actor: Actor, more: str = "") -> str:
    """Spell the helm command that makes a cluster a member."""
    flags = " ".join(part for part in (f"--set localCluster.name={actor.name}", actor.helm_flags, more) if part)
    return f"{actor.helm} install {RELEASE} {CHART} --namespace {NAMESPACE} --create-namespace {flags}"
