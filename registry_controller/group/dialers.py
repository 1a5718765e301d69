"""Connects to members that no Cluster describes: by the user's own contexts, and by Secrets alone."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, NamedTuple

from registry_controller.api.errors import Forbidden, NotFound, RegistryError
from registry_controller.api.meta import ClusterUID
from registry_controller.clusters.dialer import PROBE_TIMEOUT_S, Dialer
from registry_controller.core.backoff import backoff_s
from registry_controller.kube.connect import READING, Reader
from registry_controller.kube.discover import Discovery
from registry_controller.kube.watch import read_cluster_id
from registry_controller.kube.writer import connect_local

_PAUSE_S: Final = 0.2
_PAUSE_CAP_S: Final = 5.0


class Context(NamedTuple):
    """A context of a kubeconfig. Without `kubeconfig`, as kubectl finds it; without `name`, the current one.

    Without both in a Pod, the cluster of the Pod.
    """

    kubeconfig: Path | None = None
    name: str | None = None


ConnectContext = Callable[[Context], Awaitable[Reader]]
"""Opens a connection to the cluster of a context, for reading alone."""


async def connect_context(context: Context) -> Reader:
    """Connect to the cluster of a context; InvalidOption for a kubeconfig that cannot be used."""
    return await connect_local(kubeconfig=context.kubeconfig, context=context.name, methods=READING)


class ContextDialer:
    """Connects to the cluster of a context with the user's own credentials; `cluster_id` is known once it answered."""

    def __init__(self, name: str, context: Context, *, connect: ConnectContext = connect_context) -> None:
        self.name = name
        self.cluster_id = ClusterUID("")
        self.on_problem: Callable[[], None] = lambda: None
        self._context = context
        self._connect = connect

    async def dial(self) -> Reader:
        """Connect; RegistryError when the cluster does not answer, InvalidOption for a wrong kubeconfig."""
        reader = await self._connect(self._context)
        try:
            await self.prove(reader)
        except BaseException:
            await reader.close()
            raise
        return reader

    async def dial_over_others(self, error: RegistryError) -> Reader | None:
        """Return None: there is no other way."""
        return None

    async def dial_with_relayed(self, error: RegistryError) -> Reader | None:
        """Return None: no other member has credentials."""
        return None

    async def dial_with_changed(self) -> Reader | None:
        """Wait forever: the connection renews its credentials itself."""
        await asyncio.Event().wait()
        return None

    async def prove(self, reader: Reader) -> None:
        """Check that the cluster is the one that answered first; RegistryError otherwise.

        A user who may not read the namespace kube-system is answered by the server's version: the ID stays unknown.
        """
        try:
            self.cluster_id = await _prove(reader, self.cluster_id)
        except Forbidden:
            await Discovery(reader).server_version()

    async def pause(self, attempt: int) -> None:
        """Wait after failure number `attempt` (0 is the first)."""
        await asyncio.sleep(backoff_s(attempt, base=_PAUSE_S, cap=_PAUSE_CAP_S, chance=random.random()))  # noqa: S311

    def reset_relayed(self) -> None:
        """Do nothing."""


class SecretDialer(Dialer):
    """Connects with the credentials of a Secret to a cluster whose ID is known once it has answered."""

    async def prove(self, reader: Reader) -> None:
        """Check that the cluster is the one that answered first; RegistryError otherwise."""
        self.cluster_id = await _prove(reader, self.cluster_id)


async def _prove(reader: Reader, expected: ClusterUID) -> ClusterUID:
    try:
        uid = await read_cluster_id(reader, timeout_s=PROBE_TIMEOUT_S)
    except NotFound as error:
        raise RegistryError(f"{reader.server} has no namespace kube-system that we may read: {error}") from None
    if expected and uid != expected:
        raise RegistryError(f"{reader.server} is another cluster now: it had the ID {expected}, and has {uid}")
    return uid
