"""The webhook's parts put together: the server, the gate, and the ear for its configuration."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from pathlib import Path
from typing import Protocol

from registry_controller.api.meta import Manifest
from registry_controller.api.optiontext import Address
from registry_controller.api.selection import Selection
from registry_controller.kube.connect import Writer
from registry_controller.kube.discover import Discovery
from registry_controller.local.client import LocalClient
from registry_controller.watch.bell import NotifyHandler
from registry_controller.watch.reflector import Reflector
from registry_controller.webhook.gate import Gate
from registry_controller.webhook.keeping import CertificateDirectory
from registry_controller.webhook.registration import KIND
from registry_controller.webhook.server import WebhookServer


class WebhookSettings(Protocol):
    """The options that this room reads."""

    @property
    def cluster_validator_webhook_name(self) -> str: ...

    @property
    def cluster_validator_webhook_host(self) -> str: ...

    @property
    def cluster_validator_webhook_port(self) -> int: ...

    @property
    def cluster_validator_webhook_certificate_directory(self) -> str: ...


class Webhook:
    """Everything about the webhook. `clusters` lists the Clusters here, as stored; `holder` is this replica."""

    def __init__(
        self,
        settings: WebhookSettings,
        *,
        writer: Writer,
        discovery: Discovery,
        clusters: Callable[[], Iterable[Manifest]],
        holder: str,
        clock: Callable[[], datetime],
    ) -> None:
        name = settings.cluster_validator_webhook_name
        self._gate = Gate(
            api=LocalClient(writer),
            configuration=name,
            directory=CertificateDirectory(Path(settings.cluster_validator_webhook_certificate_directory)),
            holder=holder,
            clock=clock,
        )
        self._server = WebhookServer(
            at=Address(settings.cluster_validator_webhook_host, settings.cluster_validator_webhook_port),
            tls=self._gate.tls,
            clusters=clusters,
        )
        self._ear = Reflector(
            reader=writer,
            discovery=discovery,
            kind=KIND,
            selection=Selection(fields=f"metadata.name={name}"),
            sink=NotifyHandler(self._gate.poke),
            heard_from=lambda: None,
        )

    def serve(self) -> AbstractAsyncContextManager[None]:
        """Listen while the context is open; nobody gets through until `register` has succeeded once."""
        return self._server.serve()

    async def register(self) -> None:
        """Make one try to be known to the API server."""
        await self._gate.reconcile()

    async def run(self) -> None:
        """Stay known, until cancelled."""
        async with asyncio.TaskGroup() as scope:
            scope.create_task(self._ear.run(), name="reflect home webhook")
            scope.create_task(self._gate.run(), name="webhook")
