"""What one case of a hostile server is: what it does, what happens here, and what is said."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tests.hostile.server.stranger import Stranger
from tests.hostile.server.world import Manifest

NATIVE: Final = "native"
"""A ConfigMap that is home's own, and that strangers claim."""
CANARY: Final = "canary-in-words"
"""What an error of a server quotes, as validation may quote an object."""
GOOD: Final = "good-{}"
"""The ConfigMap that a stranger holds in all honesty. In names of this kind its own name is put in."""


@dataclass(frozen=True, slots=True)
class Case:
    """One server. `does` is the row's first column, `happens` the second.

    `said` are the words that its Cluster, or the rules on its account, must say here, where one of several will do
    those in a tuple; `state` is its Cluster's.
    `copied` are the ConfigMaps that must come all the same, and no others may, but those that `may_come` (patterns);
    `introduces` is the Cluster, with its Secret and its words, and `brings` the rules that may come too. The honest
    peer is followed once, and again and again for `lasts_s` seconds.
    """

    does: str
    happens: str
    arm: Callable[[Stranger], None]
    said: tuple[str | tuple[str, ...], ...] = ()
    state: str = ""
    copied: tuple[str, ...] = ()
    may_come: tuple[str, ...] = ()
    introduces: str = ""
    brings: str = ""
    lasts_s: float = 0.0

    @property
    def id(self) -> str:
        """The row, as a test's name."""
        return self.does

    @property
    def told(self) -> str:
        """What the third column says."""
        return "; ".join(" or ".join(f"`{words}`" for words in ways) for ways in self.ways) or "nothing"

    @property
    def ways(self) -> tuple[tuple[str, ...], ...]:
        """What must be said, each with the ways in which it may be."""
        return tuple((words,) if isinstance(words, str) else words for words in self.said)


def good_name(server: Stranger) -> str:
    """Name a stranger's honest object."""
    return GOOD.format(server.name)


def config_map(name: str, *, namespace: str = "default", **more: str) -> Manifest:
    """Write a ConfigMap as the API does."""
    info = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": info, "data": {"text": "x", **more}}


@dataclass(frozen=True, slots=True)
class Family:
    """Cases that stand at the gate together; the daemon may not grow by more than `growth_mib` through all of them."""

    name: str
    cases: tuple[Case, ...]
    growth_mib: int = 64
