"""README and docs, taken apart: fenced blocks with their words, tables, links."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
ALL_TEXT = [*DOCUMENTS, *(ROOT / name for name in ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "hack/README.md"))]
_FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block: the language, what stands behind it, the text."""

    document: str
    line: int
    language: str
    tag: str
    text: str

    @property
    def name(self) -> str:
        """Where it stands."""
        return f"{self.document}:{self.line}"


def blocks(path: Path) -> list[Block]:
    """Find the fenced blocks of a document."""
    text = path.read_text(encoding="utf-8")
    found = []
    for match in _FENCE.finditer(text):
        language, _, tag = match[1].partition(" ")
        line = text.count("\n", 0, match.start()) + 1
        found.append(Block(str(path.relative_to(ROOT)), line, language, tag.strip(), match[2]))
    return found


def tables(path: Path) -> list[list[list[str]]]:
    """Read the tables of a document: rows of cells, the header first, without the line below it."""
    found: list[list[list[str]]] = [[]]
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("|"):
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("|"))]
            if not all(set(cell) <= set("-: ") for cell in cells):
                found[-1].append(cells)
        elif found[-1]:
            found.append([])
    return [table for table in found if table]


def table(path: Path, *, header: str) -> list[list[str]]:
    """Read the one table whose first header cell is this; its rows without the header."""
    matching = [rows for rows in tables(path) if rows[0][0] == header]
    assert len(matching) == 1, f"{path.name} has {len(matching)} tables that begin with {header!r}"
    return matching[0][1:]


def anchors(path: Path) -> set[str]:
    """Spell the anchors of a document's headings as GitHub does; list those of its HTML, too."""
    text = path.read_text(encoding="utf-8")
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    spelled = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return spelled | set(re.findall(r'<a id="([^"]+)"></a>', text))
