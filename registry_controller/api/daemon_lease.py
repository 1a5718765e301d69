"""The Lease of a daemon, which holds its report.

Each daemon process writes one Lease in its own namespace, named after its Pod, and renews it once a minute. It is no
leader election: only programs that show the state of a group read it. Peers may read it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from registry_controller.api import meta
from registry_controller.api.daemon_report import DaemonReport, read_report, write_report
from registry_controller.api.errors import InvalidObject
from registry_controller.api.meta import Manifest

RENEWAL_S: Final = 60
DURATION_S: Final = 3 * RENEWAL_S
"""`spec.leaseDurationSeconds`: a Lease that was not renewed for so long is of a daemon that does not run."""
SELECTOR: Final = f"{meta.DAEMON_LEASE}=true"
"""The label selector of the Leases of daemons."""

_PREFIX: Final = "cluster-registry-"
_MOST_NAME: Final = 253


@dataclass(frozen=True, slots=True)
class DaemonLease:
    """The Lease of a daemon, as it was read. `holder` is the name of the Pod; `report` is None for a later format."""

    name: str
    holder: str
    renewed: datetime | None
    report: DaemonReport | None

    def is_current(self, now: datetime) -> bool:
        """Return whether the daemon renewed the Lease lately; the clocks of two clusters may differ."""
        return self.renewed is not None and abs((now - self.renewed).total_seconds()) < DURATION_S


def spell_time(moment: datetime) -> str:
    """Return a time in the form of the report, in whole seconds."""
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def lease_name(holder: str) -> str:
    """Return the name of the Lease of a daemon, from the name of its Pod or host."""
    plain = re.sub(r"[^a-z0-9.-]+", "-", holder.lower()).strip("-.")
    return f"{_PREFIX}{plain or 'daemon'}"[:_MOST_NAME].rstrip("-.")


def lease_manifest(report: DaemonReport, *, namespace: str, holder: str, now: datetime) -> Manifest:
    """Return the Lease; `now` is the time of the renewal, and `holder` the name of the Pod or host."""
    return {
        "apiVersion": meta.LEASE.api_version,
        "kind": meta.LEASE.kind,
        "metadata": {
            "name": lease_name(holder),
            "namespace": namespace,
            "labels": {meta.DAEMON_LEASE: "true"},
            "annotations": {meta.DAEMON_REPORT: write_report(report)},
        },
        "spec": {
            "holderIdentity": holder,
            "leaseDurationSeconds": DURATION_S,
            "acquireTime": f"{report.started.removesuffix('Z')}.000000Z",
            "renewTime": f"{now.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ}",
        },
    }


def read_lease(manifest: Manifest) -> DaemonLease:
    """Parse a Lease; its report is None where it has none, and for one of a later format.

    Raises InvalidObject for an object that is no Lease of a daemon of this cluster, as a copy of one is.
    """
    info = meta.metadata_of(manifest)
    if meta.labels_of(manifest).get(meta.DAEMON_LEASE) != "true":
        raise InvalidObject("metadata.labels", f"has no {SELECTOR}: it is no Lease of a daemon")
    if meta.OWNER in meta.annotations_of(manifest):
        raise InvalidObject(f"metadata.annotations[{meta.OWNER}]", "marks a copy: its daemon runs in another cluster")
    found = manifest.get("spec")
    spec = found if isinstance(found, Mapping) else {}
    report = read_report(meta.annotations_of(manifest).get(meta.DAEMON_REPORT, ""))
    return DaemonLease(str(info.get("name")), _text(spec, "holderIdentity"), _time(spec, "renewTime"), report)


def _text(found: Manifest, key: str) -> str:
    text = found.get(key)
    return text if isinstance(text, str) else ""


def _time(found: Manifest, key: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(_text(found, key))
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else None
