"""Measure the sentences of the guides: `hack/sentences [PATH ...]`.

A guide is read by a person in a hurry: its sentences have 17 words on average, and none has more than 35.
Specifications are not measured: they are exact first. Each document of the project is one or the other.
Prints `file:line: N words: the sentence's beginning`, and one line for each document, and exits 1 for a finding.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

GUIDES: Final = (
    "README.md",
    "deploy/helm/cluster-registry/README.md",
    "docs/alerts.md",
    "docs/command-line.md",
    "docs/concepts.md",
    "docs/credentials.md",
    "docs/explain-and-plan.md",
    "docs/gitops.md",
    "docs/glossary.md",
    "docs/install.md",
    "docs/integrations.md",
    "docs/joining.md",
    "docs/leaving.md",
    "docs/monitoring.md",
    "docs/operations.md",
    "docs/operators.md",
    "docs/options.md",
    "docs/permissions.md",
    "docs/recovery.md",
    "docs/rules-by-example.md",
    "docs/security.md",
    "docs/troubleshooting.md",
    "docs/upgrading.md",
)
"""Documents that are read to do something."""

SPECIFICATIONS: Final = (
    "docs/architecture.md",
    "docs/behaviour.md",
    "docs/development.md",
    "docs/reasons.md",
    "docs/releasing.md",
    "docs/rules.md",
    "docs/security-limits.md",
    "docs/security-tests.md",
)
"""Documents in which a developer or an administrator looks something up."""

MAX_MEAN: Final = 17
"""Words of a sentence on average, in one document."""
MAX_WORDS: Final = 35
"""Words of one sentence, in prose or in the cell of a table."""

_FENCE: Final = re.compile(r"^\s*(```|~~~)")
_ITEM: Final = re.compile(r"^\s*(?:[-*+]|\d+\.)\s+")
_LINK: Final = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_CODE: Final = re.compile(r"`[^`]*`")
_END: Final = re.compile(r"(?<=[.!?])[)*_\"]*\s+(?=[^a-z])|(?<=[.!?][)*_\"])\s+(?=[^a-z])")
_WORD: Final = re.compile(r"\w[\w'./-]*")


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence: the line of its paragraph, the number of words, the text. `in_table` if a cell has it."""

    line: int
    words: int
    text: str
    in_table: bool


def main(arguments: argparse.Namespace) -> int:
    """Print findings; return the exit code."""
    known = {*GUIDES, *SPECIFICATIONS}
    unnamed = sorted({str(path) for path in Path("docs").glob("*.md")} - known) if not arguments.paths else []
    found = len(unnamed)
    for name in unnamed:
        print(f"{name}: is neither a guide nor a specification; name it in hack/programs/sentences.py")
    for name in arguments.paths or [name for name in GUIDES if Path(name).exists()]:
        found += _report(name)
    return 1 if found else 0


def parser() -> argparse.ArgumentParser:
    """Return the options."""
    made = argparse.ArgumentParser(prog="hack/sentences", description="Measure the sentences of the guides.")
    made.add_argument("paths", nargs="*", metavar="PATH", help="Markdown files; without any, all guides")
    return made


def sentences(source: str) -> Iterator[Sentence]:
    """Yield the sentences of a Markdown text, without its headings and code blocks.

    A paragraph, an item of a list and a cell of a table each end a sentence. A span of code is one word.
    """
    for line, text, in_table in _paragraphs(source):
        plain = _CODE.sub("CODE", _LINK.sub(r"\1", text))
        for part in _END.split(plain):
            if words := len(_WORD.findall(part)):
                yield Sentence(line, words, part, in_table)


def mean(measured: Sequence[Sentence]) -> float:
    """Return the average number of words of the sentences in prose; 0 without any. Cells are mostly no sentences."""
    lengths = [sentence.words for sentence in measured if not sentence.in_table]
    return sum(lengths) / len(lengths) if lengths else 0.0


def _report(name: str) -> int:
    measured = list(sentences(Path(name).read_text(encoding="utf-8")))
    long = [sentence for sentence in measured if sentence.words > MAX_WORDS]
    for sentence in long:
        print(f"{name}:{sentence.line}: {sentence.words} words: {sentence.text[:70]}")
    average = mean(measured)
    is_heavy = average > MAX_MEAN
    if long or is_heavy:
        print(f"{name}: {average:.1f} words a sentence (at most {MAX_MEAN}); {len(long)} with more than {MAX_WORDS}")
    return len(long) + is_heavy


def _paragraphs(source: str) -> Iterator[tuple[int, str, bool]]:
    """Yield the first line, the text, and whether it is a table's cell, of each paragraph."""
    first, text, fenced = 0, "", False
    for number, line in enumerate([*source.splitlines(), ""], start=1):
        is_fence = bool(_FENCE.match(line))
        is_cell = line.lstrip().startswith("|")
        ends = is_fence or fenced or is_cell or not line.strip() or line.startswith("#") or bool(_ITEM.match(line))
        if ends and text:
            yield first, text, False
            text = ""
        if is_fence:
            fenced = not fenced
        elif is_cell and not fenced:
            yield from ((number, cell, True) for cell in re.split(r"(?<!\\)\|", line.strip().strip("|")))
        elif line.strip() and not fenced and not line.startswith("#"):
            first = first if text else number
            text = f"{text} {_ITEM.sub('', line).strip()}".lstrip()


if __name__ == "__main__":
    sys.exit(main(parser().parse_args()))
