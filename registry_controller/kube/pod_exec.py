"""Runs a program in a container by the exec subresource of its Pod, over a WebSocket.

Law: input goes through the stream, never into the request's address, which API servers write into audit logs · output
is limited in bytes.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

import aiohttp
import msgspec
from yarl import URL

from registry_controller.api.errors import Forbidden, NotFound, ProtocolError, RegistryError, TooMuch, Unauthorized
from registry_controller.api.meta import GVR, ObjectKey
from registry_controller.kube.connect import READING
from registry_controller.kube.failures import FAILURES
from registry_controller.kube.rest_config import load_local_identity
from registry_controller.kube.transport import Transport

PODS: Final = GVR("", "v1", "pods", True, True)
_PROTOCOL: Final = "v4.channel.k8s.io"
_STDIN, _STDOUT, _STDERR, _ERROR = 0, 1, 2, 3
_LIMIT_BYTES: Final = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ExecResult:
    """The output of a program, and whether it ended with 0."""

    stdout: bytes
    stderr: bytes
    succeeded: bool


class ExecTransport(Transport):
    """A connection to one API server that reads, and runs programs in Pods."""

    async def run_in_pod(
        self, pod: ObjectKey, *, container: str, command: Sequence[str], stdin: bytes, timeout_s: float
    ) -> ExecResult:
        """Run `command` in a container, and write `stdin` to it; the program itself finds the end of its input.

        Raises errors of `api.errors` only: Forbidden without the right, ProtocolError for a server without WebSockets.
        """
        query = [("container", container), *(("command", word) for word in command)]
        query += [("stdin", "true"), ("stdout", "true"), ("stderr", "true"), ("tty", "false")]
        path = f"{PODS.object_path(pod, subresource='exec')}?{urlencode(query)}"
        what = f"exec in Pod {pod}"
        try:
            async with asyncio.timeout(timeout_s):
                return await self._run(path, stdin, what=what)
        except aiohttp.WSServerHandshakeError as error:
            raise _refusal(error.status, what) from error
        except FAILURES as error:
            raise self._failure(error, what=what) from error

    async def _run(self, path: str, stdin: bytes, *, what: str) -> ExecResult:
        headers = {"User-Agent": self._headers["User-Agent"]}
        if authorization := self._identity.authorization():
            headers["Authorization"] = authorization
        session = self.pool_manager = self.pool_manager or self._create_pool_manager()
        parts: dict[int, list[bytes]] = {_STDOUT: [], _STDERR: [], _ERROR: []}
        size = 0
        url = URL(self.server + path, encoded=True)
        async with session.ws_connect(url, protocols=(_PROTOCOL,), headers=headers, **self._extra) as stream:
            await stream.send_bytes(bytes([_STDIN]) + stdin)
            async for message in stream:
                if message.type is not aiohttp.WSMsgType.BINARY or not message.data:
                    continue
                size += len(message.data)
                if size > _LIMIT_BYTES:
                    raise TooMuch(f"{what}: the output is larger than {_LIMIT_BYTES // 2**20} MiB")
                parts.setdefault(message.data[0], []).append(message.data[1:])
        out, err, status = (b"".join(parts[channel]) for channel in (_STDOUT, _STDERR, _ERROR))
        return ExecResult(out, err, _has_succeeded(status, what=what))


async def connect_exec(*, kubeconfig: Path | None, context: str | None) -> ExecTransport:
    """Connect to the cluster of a context; InvalidOption when its credentials cannot be used."""
    identity = await load_local_identity(os.environ, kubeconfig=kubeconfig, context=context)
    return ExecTransport(identity=identity, methods=READING)


class _ExecStatus(msgspec.Struct):
    status: str = ""


def _has_succeeded(answer: bytes, *, what: str) -> bool:
    """Read the Status that ends the stream."""
    try:
        return msgspec.json.decode(answer, type=_ExecStatus).status == "Success"
    except msgspec.DecodeError:
        raise ProtocolError(f"{what}: the connection ended before the program did") from None


def _refusal(status: int, what: str) -> RegistryError:
    if status == 403:
        return Forbidden(f"{what}: forbidden", lacks_right=True)
    if status == 401:
        return Unauthorized(f"{what}: the credentials are refused", status=401)
    if status == 404:
        return NotFound(f"{what}: the API server finds no such Pod, or no node that runs it")
    return ProtocolError(f"{what}: the API server answers {status}, and opens no stream")
