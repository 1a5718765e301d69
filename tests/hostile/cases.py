"""What one case of a hostile server is: what it does, what happens here, and what is said."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from tests.hostile.server.stranger import Stranger
from tests.hostile.server.world import Manifest
from tests.hostile.shown import Claim

NATIVE: Final = "native"
"""A ConfigMap that is home's own, and that strangers claim."""
CANARY: Final = "canary-in-words"
"""What an error of a server quotes, as validation may quote an object."""
GOOD: Final = "good-{}"
"""The ConfigMap that a stranger holds in all honesty. In names of this kind its own name is put in."""


@dataclass(frozen=True, slots=True)
class Copy:
    """A ConfigMap that must come, with this content and the daemon's own marks only; from then on it stays as it is."""

    name: str = GOOD
    data: Mapping[str, str] = field(default_factory=lambda: {"text": "x"}, hash=False)


HONEST: Final = (Copy(),)
"""The copy of the stranger's honest object."""


@dataclass(frozen=True, slots=True)
class Case:
    """One server. `does` is the row's first column, `claims` are the second.

    `arm` makes it what it is; one that `turns` is honest, but for `arm`, until its copies have come. `said` are the
    words that its Cluster, or the rules on its account, must say here, where one of several will do those in a tuple;
    `state` is its Cluster's. `copied` are the ConfigMaps that must come all the same, and no others may; `introduces`
    is the Cluster, with its Secret and its words, and `brings` the rules that may come too. The honest peer is followed
    once, and again and again for `lasts_s` seconds.
    """

    does: str
    claims: tuple[Claim, ...]
    arm: Callable[[Stranger], None] = lambda server: None
    turns: Callable[[Stranger], None] | None = None
    said: tuple[str | tuple[str, ...], ...] = ()
    state: str = ""
    copied: tuple[Copy, ...] = ()
    introduces: str = ""
    brings: str = ""
    lasts_s: float = 0.0

    @property
    def id(self) -> str:
        """The row, as a test's name."""
        return self.does

    @property
    def happens(self) -> str:
        """What the second column says."""
        return "; ".join(claim.words for claim in self.claims)

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
    """Cases that stand at the gate together, for `lasts_s` seconds at least.

    The daemon may not grow by more than `growth_mib` through all of them.
    """

    name: str
    cases: tuple[Case, ...]
    growth_mib: int = 64
    lasts_s: float = 0.0
