"""Decides in which order the ways to one peer are tried, and which of them are withdrawn (P7).

`clusters/resolver.py` decides which Cluster object of a peer counts, and gathers the credentials.
The first way are the credentials that the peer's Cluster here names, at the endpoint of that Cluster. The other ways
are the credentials of other Clusters of the same ID, and of registry Secrets that belong to the peer and that no
Cluster names; then each Secret at its own address, where an endpoint has replaced that.

Laws: a way that works is tried before the peer counts as failed · the first way is preferred as soon as it works · a
way that is not here any more is not used · a server that did not answer is asked once, however many ways lead to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

from registry_controller.api.meta import ClusterUID, ObjectKey


class Way(Protocol):
    """Credentials for one API server. Equal ones are one way."""

    @property
    def verified_address(self) -> object:
        """The server, its TLS server name and the CA that verifies it."""


_W = TypeVar("_W", bound=Way)


def other_ways(
    own: _W | None, *, aliases: Iterable[_W], unnamed: Iterable[_W], as_stored: Iterable[_W] = ()
) -> tuple[_W, ...]:
    """List the ways beside a Cluster's own credentials (None without usable ones), each once.

    `aliases` are the credentials of other Clusters of the ID, `unnamed` are in the peer's Secrets that no
    Cluster names. A person carried the former here, so they come first. `as_stored` are the credentials of the peer's
    Secrets with the addresses in these.
    """
    return tuple(dict.fromkeys(way for way in (*aliases, *unnamed, *as_stored) if way != own))


def ways_after(failed: _W, others: Sequence[_W], *, is_refused: bool) -> Sequence[_W]:
    """List the ways to try after the first one failed.

    `is_refused` means that its server answered, and refused the credentials. Otherwise only another server can help.
    """
    return [way for way in others if is_refused or way.verified_address != failed.verified_address]


def is_withdrawn(used: _W, *, first: _W, others: Sequence[_W]) -> bool:
    """Report whether another way, over which a peer is read, is not here any more."""
    return used != first and used not in others


def unnamed_secrets(
    owned: Iterable[tuple[ObjectKey, ClusterUID]], *, member: ClusterUID, named: Iterable[ObjectKey]
) -> Sequence[ObjectKey]:
    """List the registry Secrets that belong to a member by their marks, and that no Cluster here names, sorted."""
    taken = frozenset(named)
    return sorted(key for key, owner in owned if owner == member and key not in taken)
