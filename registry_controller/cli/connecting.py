"""Connects commands to a cluster: for reading alone, unless a command is to write."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from registry_controller.cli.global_options import LocalConnection
from registry_controller.kube.writer import Writer, connect_local

READING: Final = frozenset({"GET"})


@asynccontextmanager
async def connected(connection: LocalConnection, *, methods: frozenset[str] = READING) -> AsyncIterator[Writer]:
    """Connect to a cluster; every other method than `methods` is refused here.

    InvalidOption for a kubeconfig that cannot be used.
    """
    writer = await connect_local(kubeconfig=connection.kubeconfig, context=connection.context, methods=methods)
    try:
        yield writer
    finally:
        await writer.close()
