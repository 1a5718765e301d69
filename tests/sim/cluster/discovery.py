"""What a simulated API server says of itself: its version, its groups, and what it serves in each of their versions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from tests.sim.cluster.fields import Manifest
from tests.sim.cluster.kinds import Kind


def documents(
    url: str, served: Mapping[Kind, Collection[str]], *, terminating: Collection[Kind] = ()
) -> dict[str, Manifest]:
    """Write the documents by path; `served` are the versions in which each kind is served, if any.

    Of kinds whose definition is `terminating`, nothing can be created.
    """
    address = [{"clientCIDR": "0.0.0.0/0", "serverAddress": url.removeprefix("https://")}]
    found: dict[str, Manifest] = {
        "/version": {"major": "1", "minor": "36", "gitVersion": "v1.36.1"},
        "/api": {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": address},
    }
    groups = []
    for group in sorted({kind.group for kind in served}):
        versions = _versions(group, served)
        spelled = [f"{group}/{version}" if group else version for version in versions]
        for api_version, version in zip(spelled, versions, strict=True):
            kinds = [kind for kind, its in served.items() if kind.group == group and version in its]
            resources = [
                {**entry, "verbs": [verb for verb in entry["verbs"] if kind not in terminating or verb != "create"]}
                for kind in kinds
                for entry in kind.resource()
            ]
            said = {"kind": "APIResourceList", "groupVersion": api_version, "resources": resources}
            found[f"/apis/{api_version}" if group else f"/api/{api_version}"] = said
        if group:
            named = [{"groupVersion": one, "version": other} for one, other in zip(spelled, versions, strict=True)]
            groups.append({"name": group, "versions": named, "preferredVersion": named[0]})
    return found | {"/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}}


def schemas(served: Mapping[Kind, Collection[str]], *, changes: int) -> Manifest:
    """Write the index of schemas: a place for each API version, with a hash that differs after each change."""
    names = {f"{kind.group}/{version}" if kind.group else version for kind, its in served.items() for version in its}
    paths = {f"apis/{name}" if "/" in name else f"api/{name}" for name in names}
    return {"paths": {path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={changes}"} for path in sorted(paths)}}


def _versions(group: str, served: Mapping[Kind, Iterable[str]]) -> list[str]:
    """List the versions of a group as a server does: what is stable before what is not."""
    its = {kind: (*versions, *((kind.version,) if kind.installed else ())) for kind, versions in served.items()}
    found = {version for kind, versions in its.items() if kind.group == group for version in versions}
    return sorted(found, key=lambda version: ("alpha" in version, "beta" in version, version))
