"""The checks of one cluster, before and after the installation; each finding is one line, with what corrects it.

They run for the user of a kubeconfig, and in a Pod with the daemon's account, as by `helm test`.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec

from registry_controller.admin.addresses import find_new_address, read_credentials, read_published_address
from registry_controller.admin.findings import CheckResult, Level, Problem
from registry_controller.admin.group_status import DEFINITIONS
from registry_controller.admin.objects import (
    find_condition,
    key_of,
    mapping,
    message_of,
    read_or_none,
    state_of,
    with_id,
)
from registry_controller.admin.peer_leases import read_leases
from registry_controller.admin.probe import OtherCA, ProbeTarget, build_target, compare_clocks, probe
from registry_controller.admin.published import Published, find_published
from registry_controller.admin.sites import Site
from registry_controller.api import meta
from registry_controller.api.cluster import State, read_cluster
from registry_controller.api.daemon_lease import RENEWAL_S, SELECTOR
from registry_controller.api.errors import (
    BadInput,
    Forbidden,
    InvalidKubeconfig,
    InvalidObject,
    NotServed,
    RegistryError,
)
from registry_controller.api.meta import ClusterUID, Manifest
from registry_controller.cache.crds import read_bundled
from registry_controller.core.rules.schema import find_unknown_properties
from registry_controller.kube.connect import Reader, connect_peer
from registry_controller.kube.handshake import ExamineError, handshake, read_port
from registry_controller.kube.kubeconfig import Credentials, read_secret
from registry_controller.kube.object import decode_manifest
from registry_controller.local.client import Access

_LEAST: Final = (1, 30)
_VERSION: Final = re.compile(r"v?([0-9]+)\.([0-9]+)")
_WAITING: Final = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"})
_STEP_S: Final = 5.0
_LATE_S: Final = 2 * RENEWAL_S

_INSTALL: Final = (
    Access("create", "apiextensions.k8s.io", "customresourcedefinitions"),
    Access("create", "", "namespaces"),
    Access("create", "rbac.authorization.k8s.io", "clusterroles"),
    Access("create", "rbac.authorization.k8s.io", "clusterrolebindings"),
)
_INSTALL_INSIDE: Final = (
    ("", "serviceaccounts"),
    ("", "services"),
    ("", "secrets"),
    ("apps", "deployments"),
    ("rbac.authorization.k8s.io", "roles"),
    ("rbac.authorization.k8s.io", "rolebindings"),
)
"""The kinds that the chart creates, in its namespace; the Secrets are helm's own."""
_SECRET_VERBS: Final = ("get", "list")
_COMMANDS: Final = tuple(
    Access(verb, meta.GROUP, resource)
    for resource in ("clusters", "clusterfeatures", "resourcesyncrules")
    for verb in ("get", "list")
)
_DAEMON: Final = (
    *(
        Access(verb, meta.GROUP, resource)
        for resource in ("clusters", "clusterfeatures", "resourcesyncrules")
        for verb in ("get", "list", "watch", "create", "update", "delete")
    ),
    *(Access("patch", meta.GROUP, resource, subresource="status") for resource in ("clusters", "resourcesyncrules")),
    *(Access(verb, "", resource) for resource in ("nodes", "namespaces") for verb in ("get", "list", "watch")),
)


class SiteChecks:
    """Checks one cluster. `is_inside` is true in a Pod, where the daemon's account has the rights.

    `others` are further clusters whose contexts are given: they show the addresses that they publish.
    """

    def __init__(self, site: Site, *, is_inside: bool, others: Sequence[Site] = ()) -> None:
        self._site = site
        self._is_inside = is_inside
        self._others = {other.cluster_id: other for other in others if other is not site}
        self._name = site.label

    async def before(self, *, address: str) -> Sequence[CheckResult]:
        """Check before the installation; `address` is the API server's for the other clusters, empty for none."""
        rights = [*_INSTALL, *(Access("create", *kind, self._site.daemon.namespace) for kind in _INSTALL_INSIDE)]
        return [
            await self._check_version(),
            *await self._check_definitions(is_needed=False),
            await self._check_rights(rights, who="your user"),
            await self._check_address(address),
            self._check_clock(),
        ]

    async def after(self) -> Sequence[CheckResult]:
        """Check a cluster whose daemon is installed."""
        self._name = await self._read_name() or self._name
        found: list[CheckResult] = [await self._check_version(), *await self._check_definitions(is_needed=True)]
        if any(finding.is_failure for finding in found):
            return found
        rights = _DAEMON if self._is_inside else _COMMANDS
        who = "the daemon's account" if self._is_inside else "your user"
        inside = [Access(verb, "", "secrets", self._site.daemon.namespace) for verb in _SECRET_VERBS]
        found += [await self._check_rights([*rights, *inside], who=who), *await self._check_daemon()]
        found += await self._check_published()
        if all(finding.step != "clock" for finding in found):  # the published address leads to the same API server
            found.append(self._check_clock())
        return [*found, *await self._check_peers()]

    async def _read_name(self) -> str:
        """Return the name of the own Cluster; empty without one."""
        with contextlib.suppress(RegistryError):
            return next((key_of(own).name for own in await self._list_own()), "")
        return ""

    async def _list_own(self) -> Sequence[Manifest]:
        return with_id(await self._site.list_clusters(), self._site.cluster_id)

    def _ok(self, step: str, message: str) -> CheckResult:
        return CheckResult(self._name, step, Level.OK, message)

    def _fail(self, step: str, message: str, problem: Problem = Problem.OTHER) -> CheckResult:
        return CheckResult(self._name, step, Level.FAIL, message, problem)

    async def _check_version(self) -> CheckResult:
        try:
            version = await self._site.read_version()
        except Forbidden as error:
            return CheckResult(self._name, "api-server", Level.WARN, str(error), Problem.OWN_RIGHT)
        found = _VERSION.match(version)
        if found is None:
            return CheckResult(
                self._name, "api-server", Level.WARN, f"its version {version!r} cannot be read", Problem.OTHER
            )
        if (int(found[1]), int(found[2])) < _LEAST:
            return self._fail("api-server", f"Kubernetes {version} is older than 1.30", Problem.OLD_SERVER)
        return self._ok("api-server", f"Kubernetes {version}")

    async def _check_definitions(self, *, is_needed: bool) -> Sequence[CheckResult]:
        try:
            listed = await self._site.client.list(DEFINITIONS)
        except Forbidden as error:
            return [CheckResult(self._name, "definitions", Level.WARN, str(error), Problem.MISSING_RIGHT)]
        return list(self._compare_definitions(listed, is_needed=is_needed))

    def _compare_definitions(self, listed: Sequence[Manifest], *, is_needed: bool) -> Iterator[CheckResult]:
        installed = {key_of(one).name: one for one in listed}
        bundled = read_bundled()
        missing = sorted(set(bundled) - set(installed))
        is_without_chart = len(missing) == len(bundled) and not self._site.daemon.deployment
        if is_without_chart and is_needed:
            yield self._fail("definitions", "the chart is not installed here", Problem.NOT_INSTALLED)
        elif missing and (is_needed or len(missing) < len(bundled)):
            yield self._fail("definitions", f"{', '.join(missing)} are not installed", Problem.OLD_DEFINITIONS)
        old = {
            name: lost
            for name, ours in bundled.items()
            if name in installed
            and (lost := find_unknown_properties(ours, installed=installed[name], version=meta.VERSION))
        }
        for name, lost in sorted(old.items()):
            words = f"{name} is of another release, and drops {', '.join(lost[:5])}"
            yield self._fail("definitions", words, Problem.OLD_DEFINITIONS)
        if not missing and not old:
            yield self._ok("definitions", "the CustomResourceDefinitions know all fields of this release")
        elif not old and not is_needed and len(missing) == len(bundled):
            yield self._ok("definitions", "none is installed yet; the chart installs them")

    async def _check_rights(self, rights: Sequence[Access], *, who: str) -> CheckResult:
        try:
            answers = await asyncio.gather(*map(self._site.client.may, rights))
        except RegistryError as error:
            return CheckResult(self._name, "own-rights", Level.WARN, f"cannot be reviewed: {error}", Problem.OTHER)
        lacking = [str(right) for right, is_allowed in zip(rights, answers, strict=True) if not is_allowed]
        if lacking:
            return self._fail("own-rights", f"{who} may not {'; '.join(lacking)}", Problem.OWN_RIGHT)
        return self._ok("own-rights", f"{who} has the rights that are needed")

    async def _check_address(self, address: str) -> CheckResult:
        """Check the address before the daemon publishes it: no token exists yet."""
        server = address or self._site.client.server
        port = read_port(server)
        if not address and port.is_loopback:
            words = f"the kubeconfig's address {port} leads a Pod to itself only"
            return CheckResult(self._name, "address", Level.WARN, words, Problem.LOOPBACK)
        try:
            shown = await handshake(port, ca_pem=self._site.client.ca_pem, timeout_s=_STEP_S)
        except ExamineError as error:
            names = f"; it is valid for {', '.join(error.certificate.names)}" if error.certificate is not None else ""
            return self._fail("address", f"{port}: {error.cause.value}{names}", Problem[error.cause.name])
        days = (shown.not_after - datetime.now(UTC)).days
        return self._ok("address", f"{port} answers, and its certificate is valid for it for {days} more days")

    def _check_clock(self) -> CheckResult:
        return compare_clocks(self._name, self._site.writer.time_there(), datetime.now(UTC))

    async def _check_daemon(self) -> Sequence[CheckResult]:
        """Check the Pods with their image, and the Lease."""
        found: Sequence[CheckResult] = ()
        with contextlib.suppress(Forbidden, NotServed):
            manifests = await self._site.client.list(
                meta.LEASES, namespace=self._site.daemon.namespace, labels=SELECTOR
            )
            found = self._check_leases(manifests)
        if not self._site.daemon.selector:
            return found
        runs = any(finding.level is Level.OK for finding in found)
        return [await self._check_pods(daemon_runs=runs), *found]

    async def _check_pods(self, *, daemon_runs: bool) -> CheckResult:
        """Check the Pods; where none is on a node, a daemon that runs elsewhere makes that a warning."""
        try:
            pods = await self._site.list_pods()
        except Forbidden as error:
            return CheckResult(self._name, "pods", Level.WARN, str(error), Problem.OWN_RIGHT)
        if not any(mapping(pod.get("spec")).get("nodeName") for pod in pods):
            problem, words = await self._explain_absence(pods)
            if daemon_runs:
                words = f"{words}; its Lease is renewed, so a daemon runs elsewhere, or has just ended"
            return CheckResult(self._name, "pods", Level.WARN if daemon_runs else Level.FAIL, words, problem)
        image = self._site.daemon.image
        waits = [reason for pod in pods for reason in _waiting(pod)]
        if pulls := sorted(_WAITING & set(waits)):
            return self._fail("image", f"{image} cannot be pulled: {', '.join(pulls)}", Problem.IMAGE)
        if not any(meta.condition_of(pod, "Ready") == "True" for pod in pods):
            return self._fail("pods", f"no Pod is ready: {', '.join(waits) or 'see its log'}", Problem.NO_POD)
        return self._ok("image", f"{image} runs")

    async def _explain_absence(self, pods: Sequence[Manifest]) -> tuple[Problem, str]:
        """Return why none of these Pods is on a node."""
        daemon = self._site.daemon
        with contextlib.suppress(Forbidden):
            if not await self._site.client.list(meta.NODES):
                return Problem.NO_NODE, f"the cluster has no node, so no Pod of the Deployment {daemon.deployment} runs"
        if pods:
            message = find_condition(pods[0], "PodScheduled").get("message") or "no scheduler has answered"
            return Problem.NO_NODE, f"Pod {key_of(pods[0]).name} is on no node: {message}"
        if daemon.refusal:
            return Problem.NOT_CREATED, f"the Deployment {daemon.deployment} creates no Pod: {daemon.refusal}"
        if not daemon.replicas:
            return Problem.NO_REPLICA, f"the Deployment {daemon.deployment} has 0 replicas"
        return Problem.NOT_CREATED, f"the Deployment {daemon.deployment} has no Pod yet"

    def _check_leases(self, manifests: Sequence[Manifest]) -> Sequence[CheckResult]:
        leases = read_leases(manifests)
        if not leases:
            return []
        now = datetime.now(UTC)
        if not any(lease.is_current(now) for lease in leases):
            return [self._fail("daemon", "no daemon renewed its Lease within three minutes", Problem.NO_POD)]
        ago_s = min(abs((now - lease.renewed).total_seconds()) for lease in leases if lease.renewed is not None)
        if ago_s > _LATE_S:
            words = f"its Lease was renewed {ago_s:.0f} s ago, and a daemon that runs renews it once a minute"
            return [CheckResult(self._name, "daemon", Level.WARN, words, Problem.NO_POD)]
        versions = sorted({lease.report.version for lease in leases if lease.report is not None})
        words = f"runs, version {', '.join(versions) or 'unknown'}; it renewed its Lease {ago_s:.0f} s ago"
        return [self._ok("daemon", words)]

    async def _check_published(self) -> Sequence[CheckResult]:
        """Check the published address, certificate and token as a reader of this cluster does."""
        try:
            found = await find_published(self._site)
        except BadInput as error:
            return [self._fail("published", str(error), Problem.NOT_PUBLISHED)]
        if not isinstance(found, Published):
            return [self._fail("published", found, Problem.NOT_PUBLISHED)]
        others = (OtherCA(f"the connection of {self._site.client.place}", self._site.client.ca_pem),)
        namespace = key_of(found.secret).namespace
        try:  # as a member of another network meets it
            cluster = read_cluster(found.cluster)
            target = build_target(cluster, found.credentials, namespace=namespace, network_name="", other_cas=others)
        except (InvalidObject, InvalidKubeconfig) as error:
            return [CheckResult(found.name, "kubeconfig", Level.FAIL, str(error), Problem.KUBECONFIG)]
        return await probe(target)

    async def _check_peers(self) -> Sequence[CheckResult]:
        clusters = await self._site.list_clusters()
        own = {key_of(one).name for one in with_id(clusters, self._site.cluster_id)}
        others = [one for one in clusters if key_of(one).name not in own]
        results = await asyncio.gather(*map(self._check_peer, others))
        return [finding for findings in results for finding in findings]

    async def _check_peer(self, manifest: Manifest) -> Sequence[CheckResult]:
        """Check a peer with the credentials that are here, and how it sees this cluster."""
        name, cluster = key_of(manifest).name, read_or_none(manifest)
        if cluster is None or cluster.secret is None:
            return [CheckResult(name, "kubeconfig", Level.FAIL, "its Cluster names no Secret", Problem.KUBECONFIG)]
        if cluster.disabled:
            return [CheckResult(name, "state", Level.OK, "is disabled here, so it is not checked")]
        secret = await self._site.client.read(meta.SECRETS, cluster.secret)
        if secret is None:
            words = f"its Secret {cluster.secret} is missing here"
            return [CheckResult(name, "kubeconfig", Level.FAIL, words, Problem.NOT_SWAPPED)]
        try:
            credentials = read_secret(secret_type=str(secret.get("type")), data=secret.get("data") or {})
            network_name = self._site.daemon.network_name
            target = build_target(cluster, credentials, namespace=cluster.secret.namespace, network_name=network_name)
        except InvalidKubeconfig as error:
            return [
                CheckResult(name, "kubeconfig", Level.FAIL, f"Secret {cluster.secret}: {error}", Problem.KUBECONFIG)
            ]
        found = await probe(target)
        if any(finding.is_failure for finding in found):
            return await self._explain_failure(found, target)
        state = self._check_state(name, manifest)
        found = await self._explain_failure([*found, state], target) if state.is_failure else [*found, state]
        return [*found, await self._check_seen(name, target.credentials)]

    async def _explain_failure(self, found: Sequence[CheckResult], target: ProbeTarget) -> Sequence[CheckResult]:
        """Return the findings about a peer that fail, with its new address where its context is given."""
        other = self._others.get(ClusterUID(target.cluster_id))
        new = await find_new_address(of=other, at=self._site) if other is not None else ""
        if not new:
            return found
        return [
            msgspec.structs.replace(one, message=f"{one.message}; it has the address {new} now", problem=Problem.MOVED)
            if one.is_failure
            else one
            for one in found
        ]

    def _check_state(self, name: str, manifest: Manifest) -> CheckResult:
        if state_of(manifest) == State.READY.value:
            return CheckResult(name, "state", Level.OK, "the daemon here reads it")
        words = f"the daemon here does not read it: {message_of(manifest) or 'no answer yet'}"
        return CheckResult(name, "state", Level.FAIL, words, Problem.NOT_READ)

    async def _check_seen(self, name: str, credentials: Credentials) -> CheckResult:
        """Check how a peer sees this cluster, at the address that is published."""
        reader = connect_peer(credentials)
        try:
            raw = await reader.get_path(meta.CLUSTERS.path())
            items = decode_manifest(raw).get("items") or ()
            found = with_id([mapping(item) for item in items], self._site.cluster_id)
            if not found:
                return CheckResult(name, "as-seen", Level.FAIL, "does not know this cluster", Problem.NOT_SWAPPED)
            if state_of(found[0]) == State.READY.value:
                return CheckResult(name, "as-seen", Level.OK, "reads this cluster at its published address")
            words = f"does not read this cluster: {message_of(found[0]) or 'no answer yet'}"
            if await self._has_earlier_address(reader, found[0]):
                words = f"{words}; it has an earlier address of this cluster"
                return CheckResult(name, "as-seen", Level.FAIL, words, Problem.MOVED)
            return CheckResult(name, "as-seen", Level.FAIL, words, Problem.NOT_READ)
        except RegistryError as error:
            return CheckResult(name, "as-seen", Level.WARN, f"its Clusters cannot be read: {error}", Problem.OTHER)
        finally:
            await reader.close()

    async def _has_earlier_address(self, reader: Reader, manifest: Manifest) -> bool:
        """Return whether the Cluster of this cluster at a peer leads to another address than the published one."""
        cluster = read_or_none(manifest)
        if cluster is None or cluster.secret is None:
            return False
        with contextlib.suppress(RegistryError):
            secret = decode_manifest(await reader.get_path(meta.SECRETS.object_path(cluster.secret)))
            held = read_credentials(secret, cluster, network_name="").server  # the peer's network is not known here
            own = await read_published_address(self._site, network_name="")
            return bool(own) and own != held
        return False


def _waiting(pod: Manifest) -> Iterator[str]:
    for status in mapping(pod.get("status")).get("containerStatuses") or ():
        reason = mapping(mapping(mapping(status).get("state")).get("waiting")).get("reason")
        if reason:
            yield str(reason)
