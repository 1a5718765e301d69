"""Checks one member as its readers meet it: address, DNS, TCP, TLS, identity, token and rights. It only reads.

A probe runs on this machine or in a daemon's Pod, which gets the request on its standard input.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from registry_controller import __version__
from registry_controller.admin.findings import CheckResult, Level, Problem
from registry_controller.api import meta
from registry_controller.api.cluster import Cluster
from registry_controller.api.errors import Forbidden, NotFound, RegistryError, Unauthorized, Unreachable
from registry_controller.api.meta import GVR
from registry_controller.api.selection import Selection
from registry_controller.kube.connect import Reader, connect_peer
from registry_controller.kube.handshake import (
    ExamineError,
    ServerCertificate,
    ServerFault,
    ServerPort,
    connect,
    handshake,
    read_port,
    resolve,
)
from registry_controller.kube.kubeconfig import Credentials, with_endpoint
from registry_controller.kube.watch import read_cluster_id

STEP_S: Final = 5.0
_SOON: Final = timedelta(days=30)
_CLOCK: Final = timedelta(seconds=60)
_NOTHING: Final = "cluster-registry.k8s.cisco.com/no-object=true"
"""A label selector that no object matches: the answer shows the right, and no object."""
_NAMES_SHOWN: Final = 8
_STEPS: Final = {
    ServerFault.DNS: "address",
    **dict.fromkeys((ServerFault.REFUSED, ServerFault.NO_ROUTE, ServerFault.TIMEOUT), "connection"),
}


class OtherCA(msgspec.Struct, frozen=True):
    """Certificate authorities that may have issued a certificate which the CA of the target does not verify.

    `place` is where they come from, in words; an empty `pem` means the system's.
    """

    place: str
    pem: str = ""


class ProbeTarget(msgspec.Struct, frozen=True):
    """A member to check, with the credentials of its readers; `namespace` is that of its Secret.

    `ca_place` is where the CA comes from, in words.
    """

    name: str
    cluster_id: str
    credentials: Credentials
    namespace: str
    other_cas: tuple[OtherCA, ...] = ()
    ca_place: str = "its Secret"


class ProbeRequest(msgspec.Struct, frozen=True):
    """The members to check; one line of JSON."""

    targets: tuple[ProbeTarget, ...]


class ProbeAnswer(msgspec.Struct, frozen=True):
    """The findings of a probe, and the version of the program that made it; one line of JSON."""

    version: str
    findings: tuple[CheckResult, ...]


def build_target(
    cluster: Cluster, published: Credentials, *, namespace: str, network_name: str, other_cas: Iterable[OtherCA] = ()
) -> ProbeTarget:
    """Return a member as a reader in that network meets it: its Cluster's endpoint goes before its Secret.

    `published` are the credentials in the Secret, `namespace` is where it is. Raises InvalidKubeconfig with the field
    of the endpoint.
    """
    endpoint = cluster.endpoint_for(network_name)
    has_bundle = endpoint is not None and bool(endpoint.ca_bundle.strip())
    return ProbeTarget(
        cluster.name,
        cluster.cluster_id,
        with_endpoint(published, endpoint),
        namespace,
        (*other_cas, OtherCA("the system's store")),
        "the caBundle of its Cluster" if has_bundle else "its Secret",
    )


async def answer(request: ProbeRequest) -> ProbeAnswer:
    """Check all members of a request at once."""
    found = await asyncio.gather(*map(probe, request.targets))
    return ProbeAnswer(__version__, tuple(finding for findings in found for finding in findings))


async def probe(target: ProbeTarget) -> Sequence[CheckResult]:
    """Check one member, up to the first step that fails."""
    port = read_port(target.credentials.server, tls_server_name=target.credentials.tls_server_name)
    found: list[CheckResult] = []
    try:
        addresses = await resolve(port, timeout_s=STEP_S)
        found.append(_ok(target, "address", f"{port} is {', '.join(addresses[:_NAMES_SHOWN])}"))
        await connect(port, timeout_s=STEP_S)
        found.append(_ok(target, "connection", f"{port} accepts connections"))
        shown = await handshake(port, ca_pem=target.credentials.ca_pem, timeout_s=STEP_S)
    except ExamineError as error:
        return [*found, await _explain(target, port, error)]
    found.append(_judge_certificate(target, port, shown, now=datetime.now(UTC)))
    return [*found, *await _probe_answers(target)]


async def _probe_answers(target: ProbeTarget) -> Sequence[CheckResult]:
    try:
        reader = connect_peer(target.credentials)
    except RegistryError as error:
        return [_fail(target, "kubeconfig", str(error), Problem.KUBECONFIG)]
    try:
        return await _probe_reader(target, reader)
    finally:
        await reader.close()


async def _probe_reader(target: ProbeTarget, reader: Reader) -> Sequence[CheckResult]:
    server = target.credentials.server
    try:
        found_id = await read_cluster_id(reader, timeout_s=STEP_S)
    except Unauthorized:
        return [_fail(target, "token", f"{server} does not accept the token (401)", Problem.UNAUTHORIZED)]
    except Forbidden as error:
        return [
            _ok(target, "token", f"{server} accepts the token"),
            _fail(target, "rights", f"the reader lacks a right there (403): {error}", Problem.MISSING_RIGHT),
        ]
    except Unreachable:
        return [_fail(target, "answer", f"{server} gives no whole answer", Problem.TIMEOUT)]
    except NotFound:
        return [_fail(target, "identity", f"{server} has no namespace kube-system", Problem.NOT_KUBERNETES)]
    except RegistryError as error:
        return [_fail(target, "answer", f"{server} answers as no API server does: {error}", Problem.NOT_KUBERNETES)]
    if found_id != target.cluster_id:
        message = f"{server} is another cluster: its ID is {found_id}, not {target.cluster_id}"
        return [_fail(target, "identity", message, Problem.OTHER_CLUSTER)]
    return [
        _ok(target, "token", f"{server} accepts the token"),
        _ok(target, "identity", f"the cluster's ID is {found_id}"),
        await _probe_rights(target, reader),
        compare_clocks(target.name, reader.time_there(), datetime.now(UTC)),
    ]


async def _probe_rights(target: ProbeTarget, reader: Reader) -> CheckResult:
    """Check the rights without which no member can read another one; rules may need more."""
    missing: list[str] = []
    for gvr, namespace in _rights(target.namespace):
        try:
            selection = Selection(namespace=namespace, labels=_NOTHING)
            await reader.list_page(gvr, selection, query={"limit": "1"}, timeout_s=STEP_S)
        except Forbidden:
            missing.append(f"{gvr.resource}{f' in namespace {namespace}' if namespace else ''}")
        except RegistryError as error:
            return _fail(target, "rights", str(error), Problem.OTHER)
    if missing:
        message = f"the reader may not list {', '.join(missing)} (403)"
        return _fail(target, "rights", message, Problem.MISSING_RIGHT)
    return _ok(target, "rights", "the reader may read Clusters, rules, features, nodes, namespaces and its Secrets")


def _rights(namespace: str) -> Sequence[tuple[GVR, str]]:
    kinds = (meta.CLUSTERS, meta.RULES, meta.FEATURES, meta.NAMESPACES, meta.NODES)
    return [*((gvr, "") for gvr in kinds), (meta.SECRETS, namespace)]


def compare_clocks(name: str, there: datetime | None, here: datetime) -> CheckResult:
    """Compare the clock of an API server with the clock of this machine."""
    if there is None:
        return CheckResult(name, "clock", Level.OK, "the API server sends no time")
    apart_s = abs((there - here).total_seconds())
    if apart_s <= _CLOCK.total_seconds():
        return CheckResult(name, "clock", Level.OK, "the clocks agree within a minute")
    message = f"the clock of the API server differs by {apart_s:.0f} s from the clock of the machine that checks"
    return CheckResult(name, "clock", Level.WARN, message, Problem.CLOCK)


def _judge_certificate(
    target: ProbeTarget, port: ServerPort, shown: ServerCertificate, *, now: datetime
) -> CheckResult:
    days = (shown.not_after - now).days
    by = f"the CA in {target.ca_place}" if target.credentials.ca_pem else "a CA of the system"
    message = f'the certificate is valid for {port.tls_name} for {days} more days; "{shown.issuer}" issued it, {by}'
    if shown.not_after - now < _SOON:
        return CheckResult(target.name, "certificate", Level.WARN, message, Problem.EXPIRES_SOON)
    return _ok(target, "certificate", message)


async def _explain(target: ProbeTarget, port: ServerPort, error: ExamineError) -> CheckResult:
    problem = Problem[error.cause.name]
    message = f"{port}: {error.cause.value}"
    shown = error.certificate
    if shown is not None and error.cause is ServerFault.WRONG_NAME:
        names = ", ".join(shown.names[:_NAMES_SHOWN]) or "no name"
        message = f"{message} {port.tls_name}; it is valid for {names}"
    elif shown is not None and error.cause is ServerFault.UNTRUSTED:
        message = f'{message}; "{shown.issuer}" issued it{await _other_ca(target, port)}'
    elif shown is not None and error.cause is ServerFault.EXPIRED:
        message = f"{message}, on {shown.not_after:%Y-%m-%d}"
    elif error.detail:
        message = f"{message} ({error.detail})"
    return _fail(target, _STEPS.get(error.cause, "certificate"), message, problem)


async def _other_ca(target: ProbeTarget, port: ServerPort) -> str:
    """Return which other certificate authorities verify the server, in words; empty for none."""
    for other in target.other_cas:
        try:
            await handshake(port, ca_pem=other.pem, timeout_s=STEP_S)
        except (ExamineError, ssl.SSLError, ValueError):
            continue
        return f", which {other.place} has, and {target.ca_place} has not"
    return f", which is not in {target.ca_place}"


def _ok(target: ProbeTarget, step: str, message: str) -> CheckResult:
    return CheckResult(target.name, step, Level.OK, message)


def _fail(target: ProbeTarget, step: str, message: str, problem: Problem) -> CheckResult:
    return CheckResult(target.name, step, Level.FAIL, message, problem)
