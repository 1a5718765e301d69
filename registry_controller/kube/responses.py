"""Reads answers of an API server, with a limit in bytes.

Law: no answer is decompressed, and the connection of an answer over the limit is closed.
"""

from __future__ import annotations

import aiohttp

from registry_controller.api.errors import ProtocolError, RegistryError, TooMuch
from registry_controller.api.meta import GVR, ObjectKey
from registry_controller.kube.failures import ConnectionSource, explain_unauthorized, explain_web_page
from registry_controller.kube.translate import error_of_answer


async def read_answer(response: aiohttp.ClientResponse, *, limit: int, what: str) -> bytes:
    """Read a whole answer of at most `limit` bytes."""
    check_not_compressed(response, what=what)
    if (response.content_length or 0) > limit:
        abort(response)
        raise TooMuch(f"{what}: the answer is larger than {format_size(limit)}")
    chunks: list[bytes] = []
    size = 0
    async for chunk in response.content.iter_any():
        size += len(chunk)
        if size > limit:
            abort(response)
            raise TooMuch(f"{what}: the answer is larger than {format_size(limit)}")
        chunks.append(chunk)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


async def read_error_body(response: aiohttp.ClientResponse, *, limit: int, what: str) -> bytes:
    """Read the body of an error; return no bytes for one over the limit: the status code suffices."""
    try:
        return await read_answer(response, limit=limit, what=what)
    except TooMuch:
        return b""


def abort(response: aiohttp.ClientResponse) -> None:
    """Close a used connection at once: TLS would wait for the end of a server that stays silent."""
    if response.connection is not None and response.connection.protocol is not None:
        response.connection.protocol.abort()
    response.close()


def check_not_compressed(response: aiohttp.ClientResponse, *, what: str) -> None:
    """Refuse a compressed answer, which was not requested: it could become very large."""
    if response.headers.get("Content-Encoding", "identity") != "identity":
        raise ProtocolError(f"{what}: the answer is compressed, which was not requested")


def error_of(
    response: aiohttp.ClientResponse,
    content: bytes,
    *,
    what: str,
    server: str,
    source: ConnectionSource,
    gvr: GVR | None = None,
    key: ObjectKey | None = None,
) -> RegistryError:
    """Turn an answer that is no success into an error."""
    hint = ""
    if is_web_page(response):
        hint = explain_web_page(server, source)
    elif response.status == 401:
        hint = explain_unauthorized(server, source)
    retry_after = response.headers.get("Retry-After", "")
    return error_of_answer(response.status, content, what=what, gvr=gvr, key=key, retry_after=retry_after, hint=hint)


def is_web_page(response: aiohttp.ClientResponse) -> bool:
    """Return whether an answer is HTML, which no API server sends: a login page, or another server."""
    return response.content_type == "text/html"


def format_size(count: int) -> str:
    """Format a number of bytes: whole MiB, else KiB."""
    return f"{count // 2**20} MiB" if count % 2**20 == 0 else f"{count // 2**10} KiB"
