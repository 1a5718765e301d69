"""Connects to members that no Cluster describes: by the user's own contexts, and by Secrets alone."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from registry_controller.api.errors import Forbidden, RegistryError, Unreachable
from registry_controller.api.meta import ClusterUID
from registry_controller.clusters.dialer import Dialer, pause_s, read_proven_id
from registry_controller.kube.connect import READING, Reader
from registry_controller.kube.discover import Discovery
from registry_controller.kube.kubeconfig import Credentials
from registry_controller.kube.writer import connect_local

LEAVES_AFTER_S: Final = 30.0
"""A member that is missing, or another cluster, for less than this has not left: it may be replaced, or restored."""


class Context(NamedTuple):
    """A context of a kubeconfig. Without `kubeconfig`, as kubectl finds it; without `name`, the current one.

    Without both in a Pod, the cluster of the Pod.
    """

    kubeconfig: Path | None = None
    name: str | None = None


CONNECTS_WITHIN_S: Final = 20.0
"""The program that gives a user credentials (exec) may wait for a person: the member counts as silent then."""

ConnectContext = Callable[[Context], Awaitable[Reader]]
"""Opens a connection to the cluster of a context, for reading alone."""


async def connect_context(context: Context) -> Reader:
    """Connect to the cluster of a context; InvalidOption for a kubeconfig that cannot be used."""
    return await connect_local(kubeconfig=context.kubeconfig, context=context.name, methods=READING)


class LearnedID:
    """The ID of a cluster that nothing describes: that of its first answer.

    A cluster that answers with another ID is not read. When all answers of 30 s had another one, the cluster was
    rebuilt, or the name leads elsewhere: `on_replaced` is called with the reason. `is_shown` is false while the last
    answer showed no ID, or another one.
    """

    def __init__(self) -> None:
        self.cluster_id = ClusterUID("")
        self.is_shown = False
        self.on_replaced: Callable[[str], None] = lambda _: None
        self._differs_since_s: float | None = None

    def check(self, uid: ClusterUID, *, server: str) -> None:
        """Take the first ID; RegistryError for another one."""
        self.cluster_id = self.cluster_id or uid
        if uid == self.cluster_id:
            self._differs_since_s, self.is_shown = None, True
            return
        self.is_shown = False
        reason = f"{server} is another cluster now: it had the ID {self.cluster_id}, and has {uid or 'none'}"
        now_s = asyncio.get_running_loop().time()
        if self._differs_since_s is None:
            self._differs_since_s = now_s
        elif now_s - self._differs_since_s >= LEAVES_AFTER_S:
            self.on_replaced(reason)
        raise RegistryError(reason)


class ContextDialer:
    """Connects to the cluster of a context with the user's own credentials.

    A connection whose server shows a new certificate authority is not used any more: the next one is proven again.
    """

    def __init__(self, name: str, context: Context, *, connect: ConnectContext = connect_context) -> None:
        self.name = name
        self.identity = LearnedID()
        self.on_problem: Callable[[], None] = lambda: None
        self._context = context
        self._connect = connect
        self._closing: set[asyncio.Task[Any]] = set()
        self._connecting: asyncio.Task[Reader] | None = None

    @property
    def cluster_id(self) -> ClusterUID:
        """Return the ID that the cluster showed last; empty before it has answered, and where it may not be read."""
        return self.identity.cluster_id if self.identity.is_shown else ClusterUID("")

    async def dial(self) -> Reader:
        """Connect; RegistryError when the cluster does not answer, InvalidOption for a wrong kubeconfig."""
        reader = await self._connect_in_time()
        try:
            await self.prove(reader)
        except BaseException:
            await reader.close()
            raise
        reader.on_new_ca(lambda: self._refuse(reader))
        return reader

    async def _connect_in_time(self) -> Reader:
        """Connect; Unreachable where that takes long. It goes on then, and the next call waits for it again."""
        if self._connecting is None:
            work = self._connect_context()
            self._connecting = asyncio.get_running_loop().create_task(work, name=f"connect {self.name}")
        with self._ending_with_its_task():
            done, _ = await asyncio.wait((self._connecting,), timeout=CONNECTS_WITHIN_S)
        if not done:
            raise Unreachable(
                f"context {self.name}: no connection for {CONNECTS_WITHIN_S:.0f} s; does its user log in?"
            )
        connecting, self._connecting = self._connecting, None
        return await connecting

    async def _connect_context(self) -> Reader:
        return await self._connect(self._context)

    @contextlib.contextmanager
    def _ending_with_its_task(self) -> Iterator[None]:
        """End the connecting where the task that waits for it is cancelled."""
        try:
            yield
        except asyncio.CancelledError:
            if self._connecting is not None:
                self._connecting.cancel()
            raise

    def _refuse(self, reader: Reader) -> None:
        """Close a connection, and fail the request that runs: its server may be another cluster."""
        closing = asyncio.get_running_loop().create_task(reader.close(), name=f"close {self.name}")
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)
        raise Unreachable(f"{reader.server}: has another certificate authority, and is proven again")

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

        A user who may not read the namespace kube-system is answered by the server's version: the ID is unknown then.
        """
        try:
            self.identity.check(await read_proven_id(reader), server=reader.server)
        except Forbidden:
            self.identity.is_shown = False
            await Discovery(reader).server_version()

    async def pause(self, attempt: int) -> None:
        """Wait after failure number `attempt` (0 is the first)."""
        with self._ending_with_its_task():
            await asyncio.sleep(pause_s(attempt))

    def reset_relayed(self) -> None:
        """Do nothing."""


class SecretDialer(Dialer):
    """Connects with the credentials of a Secret to a cluster whose ID is known once it has answered.

    Answers over former credentials show nothing about the cluster that the Secret leads to now: they change no ID, and
    do not count for the 30 s.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.identity = LearnedID()

    def _check_id(self, uid: ClusterUID, *, server: str, credentials: Credentials) -> None:
        if credentials == self._credentials:
            self.identity.check(uid, server=server)
            self.cluster_id = uid
        else:
            super()._check_id(uid, server=server, credentials=credentials)
