"""Who of several speaks of what: rendezvous hashing, so that each is asked alike and nobody has to agree.

Law: everyone who knows the same members names the same one; when a member comes or goes, only what is its own moves.
"""

from __future__ import annotations

from collections.abc import Collection
from hashlib import blake2b


def chosen(members: Collection[str], subject: str) -> str | None:
    """Name the member that speaks of a subject; None where there is none."""
    return max(members, key=lambda member: (_weight(member, subject), member), default=None)


def _weight(member: str, subject: str) -> bytes:
    return blake2b(f"{member}\n{subject}".encode(), digest_size=8).digest()
