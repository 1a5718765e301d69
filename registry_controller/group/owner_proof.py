"""Reads at a member whether an owner is gone.

Laws: only the NotFound of the named object, or another uid under its name, from the cluster whose ID is in the mark,
and which shows that ID after its answer, proves that it is gone · silence, a refusal and a kind that is not served
prove nothing · a member that has shown no ID may be that cluster, so nothing is proven without it · while several
Clusters have an ID, the owner may be at another API server than that which answers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from registry_controller.api.errors import Forbidden, NotFound, ProtocolError, RegistryError
from registry_controller.api.meta import GVK, GVR
from registry_controller.group.members import MemberConnection
from registry_controller.group.ownership import Owner
from registry_controller.group.streams import MemberStream
from registry_controller.kube.connect import Reader
from registry_controller.kube.discover import has_definition
from registry_controller.kube.watch import read_object
from registry_controller.sync.reconciler import ASK_TIMEOUT_S


class Existence(Enum):
    """The result of a question."""

    THERE = "the owner is there"
    GONE = "the owner is gone"
    UNKNOWN = "the owner may be there"


class NotAsked(Enum):
    """The reason why no member is asked about an owner."""

    NO_MEMBER = "no member of the group has the ID of its owner's cluster"
    SEVERAL_CLUSTERS = (
        "several Clusters here have the ID of its owner's cluster, and may lead to clones; keep one of them"
    )


class Witnesses(NamedTuple):
    """The connections to the members with the ID of a cluster; none where several Clusters have that ID."""

    connections: Sequence[MemberConnection]
    is_disputed: bool = False


class Answer(NamedTuple):
    """The answer of a member; `reason` is why it proves nothing."""

    existence: Existence
    reason: str = ""


def streams_of(connection: MemberConnection, owner: Owner) -> Iterator[MemberStream]:
    """List the streams of a member that show the kind of an owner."""
    for stream in connection.streams.values():
        if stream.kind is not None and (stream.kind.group, stream.kind.kind) == (owner.group, owner.kind):
            yield stream


async def ask_members(witnesses: Witnesses, owner: Owner, *, unidentified: Mapping[str, str]) -> Answer:
    """Read an owner by name at the members with the ID of its cluster: it is gone where all of them answer that.

    Several contexts and Secrets have one ID where a cluster was cloned, or is reached by several names. `unidentified`
    are the members whose ID is not known, with the reasons.
    """
    for name, reason in unidentified.items():
        advice = f"make {name} readable, or remove it from the group"
        return Answer(Existence.UNKNOWN, f"{name} has shown no ID, and may be its owner's cluster: {reason}; {advice}")
    if witnesses.is_disputed:
        return Answer(Existence.UNKNOWN, NotAsked.SEVERAL_CLUSTERS.value)
    if not witnesses.connections:
        return Answer(Existence.UNKNOWN, NotAsked.NO_MEMBER.value)
    for connection in witnesses.connections:
        answer = await _ask_member(connection, owner)
        if answer.existence is not Existence.GONE:
            return answer
    return Answer(Existence.GONE)


async def _ask_member(connection: MemberConnection, owner: Owner) -> Answer:
    reader, discovery = connection.reader, connection.discovery
    if reader is None or discovery is None or not connection.is_alive:
        return Answer(Existence.UNKNOWN, f"{connection.name} is silent: {connection.failure or 'it is not connected'}")
    streams = sorted(streams_of(connection, owner), key=lambda stream: not stream.is_current)
    kind = streams[0].kind if streams else None  # in a version that is served
    if kind is None:
        return Answer(Existence.UNKNOWN, f"{connection.name} does not show objects of the kind of its owner")
    try:
        gvr = await discovery.resolve(kind)
        try:
            uid = await _read_uid(reader, gvr, owner, kind)
        except (Forbidden, NotFound) as error:
            if isinstance(error, Forbidden) or not error.names_object:
                return Answer(Existence.UNKNOWN, f"{connection.name}: {streams[0].explain(error)}")
            if has_definition(kind) and not await discovery.may_create(kind):
                return Answer(Existence.UNKNOWN, f"{connection.name} is about to serve {kind} no more")
            is_there = False
        else:
            is_there = uid == owner.uid
        await connection.dialer.prove(reader)  # another cluster may answer at its address since it was proven
    except RegistryError as error:
        return Answer(Existence.UNKNOWN, f"{connection.name}: {error}")
    if not connection.dialer.cluster_id:
        return Answer(Existence.UNKNOWN, f"{connection.name} does not show its ID: its namespace kube-system is hidden")
    if connection.reader is not reader or connection.dialer.cluster_id != owner.cluster:
        return Answer(Existence.UNKNOWN, f"{connection.name}: its connection changed while it answered")
    return Answer(Existence.THERE if is_there else Existence.GONE)


async def _read_uid(reader: Reader, gvr: GVR, owner: Owner, kind: GVK) -> str:
    """Read the uid of the object that has the name of an owner; ProtocolError for another object, or one without."""
    found = await read_object(reader, gvr, owner.key, kind=kind, timeout_s=ASK_TIMEOUT_S)
    if not found.uid:
        raise ProtocolError(f"get {gvr} {owner.key}: the answer has no uid")
    return found.uid
