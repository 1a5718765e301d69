"""Merges the Services of all members that have a label into one ConfigMap in the own cluster.

python service_directory.py --namespace default --label service-directory=yes

The ConfigMap `service-directory` has one key for each Service, NAMESPACE.NAME, with the members that have it: the type,
address and ports there, and `stale` where the member does not answer now.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import signal
from typing import Any

from registry_controller.group import Event, Group, Key, Object

SERVICES = "services"
NAME = "service-directory"


def describe(service: Object) -> dict[str, Any]:
    """Return the entry of a Service at one member."""
    spec = service.manifest.get("spec") or {}
    ports = [{"name": port.get("name", ""), "port": port["port"]} for port in spec.get("ports") or ()]
    return {"type": spec.get("type", ""), "clusterIP": spec.get("clusterIP", ""), "ports": ports, "stale": False}


class ServiceDirectory:
    """The operator."""

    def __init__(self, group: Group, namespace: str, label: str) -> None:
        self.group = group
        self.namespace = namespace
        self.label = label
        self.written: dict[str, str] | None = None

    async def run(self) -> None:
        """Run until cancelled."""
        controller = self.group.controller(self.reconcile)
        controller.watches(SERVICES, label_selector=self.label, keys=self.keys_of)
        await controller.run()

    def keys_of(self, event: Event) -> list[Key]:
        """Return the only key: every event concerns the whole ConfigMap."""
        return [Key("", self.namespace, NAME)]

    async def reconcile(self, key: Key) -> None:
        """Write the ConfigMap."""
        before = await self.read_written()
        entries: dict[str, dict[str, Any]] = {}
        for name in (*self.group, *self.group.unreadable):
            member = self.group.get(name)
            for service in member.list(SERVICES, label_selector=self.label) if member is not None else ():
                entries.setdefault(f"{service.namespace}.{service.name}", {})[name] = describe(service)
            if member is None or member.is_stale(SERVICES):
                for place, text in before.items():  # this program may have started while the member was silent
                    entry = json.loads(text).get(name)
                    if entry is not None:
                        entries.setdefault(place, {}).setdefault(name, entry)
                for members in entries.values():
                    if name in members:
                        members[name]["stale"] = True
        data = {place: json.dumps(members, sort_keys=True) for place, members in sorted(entries.items())}
        if data != before:
            info = {"name": NAME, "namespace": self.namespace}
            await self.group.local.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": info, "data": data})
            self.written = data

    async def read_written(self) -> dict[str, str]:
        """Return the data that was written last, also by an earlier process."""
        if self.written is None:
            found = await self.group.local.get("configmaps", NAME, namespace=self.namespace)
            self.written = dict(found.manifest.get("data") or {}) if found is not None else {}
        return self.written


async def main() -> None:
    """Run the operator."""
    parser = argparse.ArgumentParser(description="Merges the Services of all members into one ConfigMap.")
    parser.add_argument("--namespace", default="default", help="the namespace of the ConfigMap")
    parser.add_argument("--label", default="service-directory=yes", help="the label selector of the Services")
    options = parser.parse_args()
    async with Group.from_cluster(operator=NAME) as group:
        await ServiceDirectory(group, options.namespace, options.label).run()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as the first process of a Pod, too
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main())
