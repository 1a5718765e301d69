"""For how long members have been silent, while others were heard.

Law: who hears nobody is deaf, and learns nothing of silences meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

from registry_controller.api.meta import ClusterUID
from registry_controller.clusters.peer import Peer


class SilenceTimer:
    """A count for each silent member, from when it is first asked for until the member is heard or not asked for."""

    def __init__(self, links: Mapping[ClusterUID, Peer]) -> None:
        self._links = links
        self._silent_s: dict[ClusterUID, float] = {}
        self._hears = False
        self._counted_at = 0.0

    def count(self, members: Iterable[ClusterUID]) -> Mapping[ClusterUID, float]:
        """Tell for how long those of these members have been silent that are, in seconds."""
        now_s = asyncio.get_running_loop().time()
        passed_s = now_s - self._counted_at if self._hears else 0.0
        silent = {uid for uid in members if (link := self._links.get(uid)) is not None and not link.alive}
        self._silent_s = {uid: self._silent_s[uid] + passed_s if uid in self._silent_s else 0.0 for uid in silent}
        self._hears, self._counted_at = any(link.alive for link in self._links.values()), now_s
        return dict(self._silent_s)
