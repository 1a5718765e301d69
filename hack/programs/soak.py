"""`hack/soak`: runs a group on real control planes for long, and plots the resources that its daemons use."""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.chaos.soak import Record

ROOT = Path(__file__).parents[2]
_TITLES = ("memory, MiB", "descriptors", "sockets among them", "threads", "tasks", "keys in the queue")
_SHOWN = 10


def main(options: argparse.Namespace) -> int:
    """Run the group, check the figures, and plot them; return the exit code."""
    from tests.chaos.play import Play
    from tests.chaos.soak import soak

    _install_matplotlib()
    with Play(seed=options.seed) as play:
        try:
            record = soak(play, minutes=options.minutes)
        except BaseException:
            play.keep(options.out)
            raise
        verdict = play.judge()
    options.out.mkdir(parents=True, exist_ok=True)
    plot = options.out / "soak.png"
    _draw(record, plot)
    _print(record)
    wrong = record.wrong() + [str(violation) for violation in verdict.violations]
    for words in wrong[:_SHOWN]:
        print(f"WRONG: {words}")
    print(f"plot: {plot}")
    print("no growth" if not wrong else f"{len(wrong)} figures grew, or laws were broken")
    return 1 if wrong else 0


def _install_matplotlib() -> None:
    """Install the plotting library, which no other program needs."""
    if importlib.util.find_spec("matplotlib") is None:
        print("installing matplotlib", file=sys.stderr)
        flags = ("--quiet", "--disable-pip-version-check", "--require-hashes", "-r", "requirements/soak.lock")
        subprocess.run([sys.executable, "-m", "pip", "install", *flags], cwd=ROOT, check=True)
        importlib.invalidate_caches()


def _print(record: Record) -> None:
    done = ", ".join(f"{what}: {count}" for what, count in sorted(record.done.items()))
    print(f"{record.lasted_s / 60:.1f} minutes; {done}")
    for name, (before, after) in record.rest.items():
        print(f"{name} at rest, before and after:")
        for title, old, new in zip(_TITLES, before, after, strict=True):
            texts = (f"{old / 1024:.1f}", f"{new / 1024:.1f}") if title == _TITLES[0] else (str(old), str(new))
            print(f"  {title:20} {texts[0]:>8} {texts[1]:>8}")


def _draw(record: Record, file: Path) -> None:
    import matplotlib as mpl
    from matplotlib.figure import Figure

    mpl.use("Agg")
    figure = Figure(figsize=(12, 14), layout="constrained")
    panels = figure.subplots(len(_TITLES), 1, sharex=True)
    for index, (panel, title) in enumerate(zip(panels, _TITLES, strict=True)):
        for name, samples in record.samples.items():
            scale = 1024 if index == 0 else 1
            minutes = [sample.at_s / 60 for sample in samples]
            panel.plot(minutes, [sample.figures[index] / scale for sample in samples], label=name, linewidth=1)
        for at_s, what in record.marks:
            if what.startswith("a member"):
                panel.axvline(at_s / 60, color="0.85", linewidth=0.5, zorder=0)
        panel.set_ylabel(title)
        panel.set_ylim(bottom=0)
    panels[0].legend(loc="lower right")
    panels[0].set_title("resources of the daemons that stay; grey lines: another member leaves and joins")
    panels[-1].set_xlabel("minutes")
    figure.savefig(file, dpi=110)


def parser() -> argparse.ArgumentParser:
    """Return the options."""
    parser = argparse.ArgumentParser(prog="hack/soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=20.0, help="duration (20)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the workload (1)")
    parser.add_argument(
        "--out", type=Path, default=Path("build/soak"), metavar="DIR", help="folder of the plots (build/soak)"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main(parser().parse_args()))
