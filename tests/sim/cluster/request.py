"""A request, taken apart, and what it selects."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from registry_controller.api.meta import ObjectKey
from tests.sim.cluster.fields import Manifest, Matcher, selector
from tests.sim.cluster.kinds import BY_PLURAL, Kind
from tests.sim.cluster.refusal import Refusal
from tests.sim.cluster.store import Change, Store


class Answer(NamedTuple):
    """An HTTP answer."""

    status: int
    body: bytes
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Request:
    """A request for objects, taken apart. `key` names one object, or, with an empty name, a collection.

    With `metadata_only` it is for their metadata, as PartialObjectMetadata.
    """

    kind: Kind
    version: str
    key: ObjectKey
    subresource: str
    query: Mapping[str, str]
    metadata_only: bool = False

    @property
    def api_version(self) -> str:
        """Spell the version that is asked for."""
        return f"{self.kind.group}/{self.version}" if self.kind.group else self.version

    def shown(self, manifest: Manifest) -> Manifest:
        """Show an object in the version that is asked for; versions differ in nothing else."""
        if self.metadata_only:
            return {**PARTIAL, "metadata": manifest["metadata"]}
        if self.version == self.kind.version:
            return manifest
        return {**manifest, "apiVersion": self.api_version}

    def accepting(self, header: str) -> Request:
        """Read from the header `Accept` whether metadata is enough."""
        return dataclasses.replace(self, metadata_only=True) if "as=PartialObjectMetadata" in header else self


PARTIAL = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}


@functools.lru_cache(maxsize=4096)
def parse(path: str) -> Request:
    """Take a path and its query apart; Refusal for what is not served."""
    parts = urlsplit(path)
    segments = [unquote(segment) for segment in parts.path.strip("/").split("/")]
    head = 2 if segments[0] == "api" else 3
    group, version = ("", segments[1]) if head == 2 else (segments[1], segments[2])
    rest, namespace = segments[head:], ""
    if rest[:1] == ["namespaces"] and len(rest) > 2 and rest[2] != "status":
        namespace, rest = rest[1], rest[2:]
    kind = BY_PLURAL.get((group, version, rest[0])) if rest else None
    if kind is None:
        raise Refusal(404, "", "404 page not found")
    name, subresource = (*rest[1:], "", "")[:2]
    served = {"": True, "status": kind.has_status, "scale": kind.scales}
    if not served.get(subresource):
        raise Refusal(404, "NotFound", "the server could not find the requested resource", {})
    return Request(kind, version, ObjectKey(namespace, name), subresource, dict(parse_qsl(parts.query)))


def matcher(request: Request) -> Matcher:
    """Read what a request selects; Refusal for selectors that the kind does not know."""
    query, namespace = request.query, request.key.namespace
    try:
        chosen = selector(query.get("labelSelector", ""), query.get("fieldSelector", ""), known=request.kind.fields)
    except ValueError as error:
        raise Refusal(400, "BadRequest", str(error)) from None
    if not namespace:
        return chosen
    return lambda manifest: manifest["metadata"].get("namespace") == namespace and chosen(manifest)


def select(store: Store, request: Request, *, without: Iterable[Change] = ()) -> list[Manifest]:
    """List what a request selects, in the order of etcd's keys; `without` are the latest changes, if not heard yet."""
    matches, held = matcher(request), store.all(request.kind)
    undone = [change for change in without if change.kind is request.kind]
    if undone:
        held = dict(held)
        for change in reversed(undone):
            held.pop(change.key, None)
            if change.before is not None:
                held[change.key] = change.before
    return [found for _, found in sorted(held.items()) if matches(found)]
