"""The credentials of the local cluster for kopf, which makes its own connections."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, field
from pathlib import Path

from registry_controller.kube.rest_config import load_local_identity


@dataclass(frozen=True, slots=True)
class KopfLogin:
    """A server and credentials. Fields name files where the kubeconfig does, or where the client library made them."""

    server: str
    ca_pem: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    certificate_file: str = ""
    key_file: str = ""
    verify: bool = True


def read_login(*, kubeconfig: Path | None, context: str | None) -> KopfLogin:
    """Read the present credentials. It blocks, and must not run in an event loop."""
    return asyncio.run(_read(kubeconfig=kubeconfig, context=context))


async def _read(*, kubeconfig: Path | None, context: str | None) -> KopfLogin:
    identity = await load_local_identity(dict(os.environ), kubeconfig=kubeconfig, context=context)
    configuration = identity.configuration
    return KopfLogin(
        server=configuration.host,
        ca_pem=identity.ca_pem,
        token=identity.authorization().removeprefix("Bearer "),
        certificate_file=configuration.cert_file or "",
        key_file=configuration.key_file or "",
        verify=bool(configuration.verify_ssl),
    )
