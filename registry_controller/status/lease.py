"""Writes the Lease of this daemon, and deletes the Leases of daemons that are gone.

Laws: a Lease is renewed once a minute, and when its report changed, at most every 5 s · it is no leader election:
nothing waits for it · a refusal is logged once, and tried again each minute.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Final, NoReturn
from urllib.parse import quote

import msgspec

from registry_controller.api import meta
from registry_controller.api.daemon_lease import RENEWAL_S, SELECTOR, lease_manifest, lease_name, read_lease
from registry_controller.api.daemon_report import DaemonReport
from registry_controller.api.errors import Conflict, Forbidden, InvalidObject, NotFound, RegistryError
from registry_controller.api.meta import Manifest, ObjectKey
from registry_controller.kube.writer import LocalWriter
from registry_controller.report.logs import get_logger

log = get_logger(__name__)

SPACING_S: Final = 5.0
_KEPT: Final = timedelta(days=1)
_SEARCH_S: Final = 3600.0
_MOST: Final = 500
_TRIES: Final = 3


class LeaseWriter:
    """Keeps one Lease; `holder` is the name of the Pod or host, and `report` returns the present report."""

    def __init__(
        self,
        writer: LocalWriter,
        *,
        namespace: str,
        holder: str,
        report: Callable[[], DaemonReport],
        now: Callable[[], datetime],
    ) -> None:
        self._writer = writer
        self._namespace, self._holder = namespace, holder
        self._key = ObjectKey(namespace, lease_name(holder))
        self._report = report
        self._now = now
        self._revision = ""
        self._searched_s = -math.inf
        self._logged = ""
        self._is_changed = asyncio.Event()

    def request(self) -> None:
        """Request a renewal soon: the report has changed."""
        self._is_changed.set()

    async def run(self) -> NoReturn:
        """Renew the Lease until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            self._is_changed.clear()
            began_s = loop.time()
            await self.renew()
            if loop.time() >= self._searched_s + _SEARCH_S:
                self._searched_s = loop.time()
                await self.delete_stale()
            try:
                async with asyncio.timeout_at(began_s + RENEWAL_S):
                    await self._is_changed.wait()
            except TimeoutError:
                continue
            await asyncio.sleep(began_s + SPACING_S - loop.time())

    async def renew(self) -> None:
        """Write the Lease once; a failure is logged."""
        for _ in range(_TRIES):
            try:
                await self._write()
            except (Conflict, NotFound) as error:  # another process wrote or deleted it: read it again
                self._revision = ""
                failure: RegistryError = error
            except RegistryError as error:
                self._log_failure(error)
                return
            else:
                self._logged = ""
                return
        self._log_failure(failure)

    async def delete_stale(self) -> None:
        """Delete the Leases that were not renewed for a day."""
        path = meta.LEASES.path(self._namespace) + f"?labelSelector={quote(SELECTOR, safe='')}&limit={_MOST}"
        try:
            found = _decode(await self._writer.get_path(path)).get("items")
            for item in found if isinstance(found, list) else ():
                if isinstance(item, dict) and self._is_stale(item):
                    await self._delete(item)
        except RegistryError as error:
            log.debug("cannot delete the Leases of former daemons", error=str(error))

    async def _write(self) -> None:
        manifest = lease_manifest(self._report(), namespace=self._namespace, holder=self._holder, now=self._now())
        if not self._revision:
            self._revision = await self._read_revision()
        if self._revision:
            info = {**meta.metadata_of(manifest), "resourceVersion": self._revision}
            body = msgspec.json.encode({**manifest, "metadata": info})
            stored = await self._writer.replace(meta.LEASES, self._key, body, dry_run=False)
        else:
            stored = await self._writer.create(meta.LEASES, self._namespace, msgspec.json.encode(manifest))
        self._revision = _revision_of(_decode(stored))

    async def _read_revision(self) -> str:
        """Return the resourceVersion of the stored Lease; empty where there is none."""
        try:
            return _revision_of(_decode(await self._writer.get(meta.LEASES, self._key)))
        except NotFound:
            return ""

    def _is_stale(self, item: Manifest) -> bool:
        try:
            lease = read_lease(item)
        except InvalidObject:
            return False
        return lease.name != self._key.name and lease.renewed is not None and self._now() - lease.renewed > _KEPT

    async def _delete(self, item: Manifest) -> None:
        info = meta.metadata_of(item)
        key = ObjectKey(self._namespace, str(info.get("name")))
        uid, revision = str(info.get("uid")), str(info.get("resourceVersion"))
        try:
            await self._writer.delete(meta.LEASES, key, uid=uid, resource_version=revision)
        except (Conflict, NotFound):
            return  # another replica was faster, or its daemon is back
        log.info("deleted the Lease of a daemon that does not run any more", name=key.name)

    def _log_failure(self, error: RegistryError) -> None:
        """Log a refusal once, with what to do; other failures pass, and each is logged for debugging."""
        text = str(error)
        if not isinstance(error, Forbidden):
            log.debug("cannot write the Lease of this daemon", name=self._key.name, error=text)
        elif self._logged != text:
            self._logged = text
            log.warning(
                "cannot write the Lease of this daemon; `registry-controller status` does not show this daemon",
                name=self._key.name,
                error=text,
                advice="grant the daemon get, list, create, update and delete of leases.coordination.k8s.io in "
                f"namespace {self._namespace}, as the Role of the chart does; it is tried again each minute",
            )


def _decode(body: bytes) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _revision_of(manifest: Manifest) -> str:
    return str(meta.metadata_of(manifest).get("resourceVersion") or "")
