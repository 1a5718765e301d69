"""Runs probes in the daemons' Pods, from where the members are read, or else on this machine.

Law: credentials go to a Pod through the stream only.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from registry_controller.admin.findings import CheckResult, Level, Problem
from registry_controller.admin.objects import key_of
from registry_controller.admin.probe import ProbeAnswer, ProbeRequest, ProbeTarget, answer
from registry_controller.admin.sites import Site
from registry_controller.api import meta
from registry_controller.api.errors import Forbidden, RegistryError
from registry_controller.api.meta import Manifest
from registry_controller.kube.handshake import read_port
from registry_controller.kube.pod_exec import connect_exec
from registry_controller.local.client import Access

COMMAND: Final = ("registry-controller", "probe")
_EXEC_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Viewer:
    """A cluster with its name, and the other members to check as it meets them."""

    site: Site
    name: str
    targets: Sequence[ProbeTarget]


@dataclass(frozen=True, slots=True)
class View:
    """The findings about members from one place: from the Pod of a cluster, or from this machine.

    `obstacle` is why no Pod was used; empty for a Pod.
    """

    viewer: str
    findings: tuple[CheckResult, ...]
    obstacle: str = ""


async def view_members(viewers: Sequence[Viewer]) -> Sequence[View]:
    """Check the targets of each viewer."""
    return await asyncio.gather(*map(_view, viewers))


async def _view(viewer: Viewer) -> View:
    site, name, request = viewer.site, viewer.name, ProbeRequest(tuple(viewer.targets))
    pods: list[Manifest] = []
    with contextlib.suppress(Forbidden):
        pods += [pod for pod in await site.list_pods() if meta.condition_of(pod, "Ready") == "True"]
    found = await _run_in_pod(site, pods, request)
    if isinstance(found, ProbeAnswer):
        return View(name, found.findings)
    here = await answer(request)
    loopback = _note_loopback(pods, request.targets)
    return View(name, (*here.findings, *loopback), obstacle=found)


async def _run_in_pod(site: Site, pods: Sequence[Manifest], request: ProbeRequest) -> ProbeAnswer | str:
    """Return the answer of the program in a Pod, or why there is none."""
    if not pods:
        return "no Pod of its daemon is ready, or your user may not read Pods"
    pod = pods[0]
    key = key_of(pod)
    try:
        right = Access("create", "", "pods", key.namespace, subresource="exec")
        if not await site.client.may(right):
            return f"your user may not {right}; grant it to that user to check from there"
        transport = await connect_exec(kubeconfig=site.kubeconfig, context=site.context or None)
        try:
            line = msgspec.json.encode(request) + b"\n"
            container = _container(pod, site.daemon.container)
            ended = await transport.run_in_pod(key, container=container, command=COMMAND, stdin=line, timeout_s=_EXEC_S)
        finally:
            await transport.close()
    except RegistryError as error:
        return str(error)
    if not ended.succeeded:
        return f"the program in Pod {key} does not know the command {COMMAND[-1]}; upgrade the daemon"
    try:
        return msgspec.json.decode(ended.stdout, type=ProbeAnswer)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return f"the program in Pod {key} gives an answer that cannot be read"


def _container(pod: Manifest, wanted: str) -> str:
    names = [str(one.get("name")) for one in (pod.get("spec") or {}).get("containers") or ()]
    return wanted if wanted in names or not names else names[0]


def _note_loopback(pods: Sequence[Manifest], targets: Sequence[ProbeTarget]) -> Sequence[CheckResult]:
    """Warn of loopback addresses, which work on this machine, and not in Pods."""
    if not any(_has_own_address(pod) for pod in pods):
        return ()
    return [
        CheckResult(target.name, "address", Level.WARN, f"{port} leads a Pod to itself only", Problem.LOOPBACK)
        for target in targets
        if (port := read_port(target.credentials.server)).is_loopback
    ]


def _has_own_address(pod: Manifest) -> bool:
    try:
        return not ipaddress.ip_address(str((pod.get("status") or {}).get("podIP"))).is_loopback
    except ValueError:
        return False
