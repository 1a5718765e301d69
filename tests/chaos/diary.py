"""What the daemons of one cluster wrote down, and whether one of them ended by itself or met what it did not expect."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.laws import Verdict

_EARS = ('"logger":"kopf', '"logger":"asyncio"')  # the library that listens to our own kinds; the daemon starts it anew
_NOT_STARTED = ": cannot start the container: "  # its API server gave the kubelet no token: that is tried again, too
_RESTARTED = "; starting it again in"


@dataclass
class Diary:
    """The logs of one cluster's daemons: those of a folder, one for each Pod that runs beside others."""

    folder: Path
    forgiven: dict[Path, int] = field(default_factory=dict)
    """Lines from the beginning of a log that are not looked at."""

    def texts(self) -> dict[Path, str]:
        return {log: log.read_text(errors="replace") for log in sorted(self.folder.glob("*.log"))}

    def ends(self) -> int:
        """Count how often a daemon ended, and was started again."""
        return sum(text.count(_RESTARTED) - text.count(_NOT_STARTED) for text in self.texts().values())

    def forgive(self) -> None:
        """Look at nothing of what is written there by now."""
        self.forgiven = {log: text.count("\n") for log, text in self.texts().items()}

    def check(self, verdict: Verdict, where: str, *, kills: int) -> None:
        """daemon: no daemon ends by itself, and none meets what it did not expect. kills: how often one was killed."""
        verdict.count("daemon")
        if (ended := self.ends()) > kills:
            told = [line for text in self.texts().values() for line in text.splitlines() if _RESTARTED in line]
            verdict.broken("daemon", where, f"ended {ended} times, and was killed {kills} times", told[-3:])
        for log, text in self.texts().items():
            lines = text.splitlines()
            for number in range(self.forgiven.get(log, 0), len(lines)):
                if _is_unexpected(lines[number]):
                    cited = [line[:6000] for line in lines[number : number + 2]]
                    verdict.broken("daemon", where, f"{log.name}, line {number}", cited)


def _is_unexpected(line: str) -> bool:
    return line.startswith("Traceback") or ('"level":"error"' in line and not any(one in line for one in _EARS))
