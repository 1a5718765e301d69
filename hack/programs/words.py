"""Find words and openings that this project's texts do not use: `hack/words [PATH ...]`.

Reads docstrings, comments and strings of Python files, and the lines of YAML, Markdown, text, template and shell files.
Ignores what stands in backticks: code keeps its names. Prints `file:line: word: advice` and exits 1 for a finding.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

FOLDERS: Final = ("registry_controller", "hack", "deploy")
SUFFIXES: Final = {".py", ".yaml", ".yml", ".tpl", ".md", ".txt", ".sh", ""}
IGNORED: Final = {"words.py", "go.mod", "go.sum", "LICENSE"}

OPENINGS: Final = {
    r"(?i)say(s|ing)?\b": "Return, Report or Log ...",
    r"(?i)hear(s|ing)?\b": "Handle, Receive or Record ...",
    r"(?i)(tell|speak|spell|cite)s?\b": "Return, Report or Format ...",
    r"Name\b(?! of\b| and\b)": "Return the name of ..., List ...",
    r"Looks?\b(?! up\b)": "Find, Check or Read ...",
    r"(Ask|Let|Give|Know|Listen|Want|Begin|Bring|See|Have)s?\b": "the verb for the code's work",
    r"(What|Who|Whose|Whom|Where|Why|How|Those|That|Somebody|Nobody|Something|Everything)\b": "the noun or the verb",
}
"""How a docstring does not begin."""

_PEOPLE: Final = ("user", "users", "people", "person", "administrator", "administrators", "admin", "reader")
_NO_PERSON_BEFORE: Final = "".join(f"(?<!{noun} )" for noun in _PEOPLE)

WORDS: Final = {
    # People do these things; a program reports, reads, receives, has.
    r"says?|said|saying": "report, message, state",
    r"tells?|told|telling": "report, return, show",
    r"hears?|heard|hearing|unheard": "receive, observe, read",
    r"speaks?|spoken?|speaking": "write, report, use",
    r"ears?|mouths?|pencils?|pens?|farewells?|breath|bells?|deaf|tongues?|eyes": "the part's name",
    r"(?<!by )hands?(?! over\b)": "the part's name, pass",
    r"believes?d?|believing|trusts? nobody|remembers?|remembered": "keep, record, rely on",
    r"quarrels?|rumou?rs?|gossip|hearsay|lies to|lied": "the field's noun",
    # One word for one thing.
    r"strangers?": "a rule of another cluster, a synced rule, an unknown cluster",
    r"holders?": "the relay, the member that holds it",
    r"somebody|someone|nobody|everybody|anybody|whoever|whomever": "the actor's name",
    r"others'?": "the noun",
    r"(?<!the user's )home(?! director| folder| page)": "local, the local cluster",
    r"namesakes?|newcomers?|lifelines?|leftovers?": "clone, quota, grace, orphan",
    r"fates?": "result",
    r"embargo(es)?": "not before",
    r"tickets?": "sequence",
    r"lanes?": "flow",
    r"brakes?|braked": "deletion limiter, limited",
    r"judges?|judged|judg(e?ment|ing)": "decide, decision, evaluate",
    # Nouns and actors in place of clauses.
    rf"{_NO_PERSON_BEFORE}who": "the actor's name",
    r"whom": "the actor's name",
    r"that one(?=[.,;:)]|$)|of it|those of": "the noun",
    r"what (is|are|was|were|it|they|has|have|had|the|a|an|we|does|did|comes?|came|stays?|counts?)": "the noun",
    r"(be|is|are|was|were|being) (?-i:none)": "is not a ...",
    r"(becomes?|became|comes?|came) of": "happens to, results from",
    r"sees? to it": "ensure",
    # Rare words.
    r"anew": "again",
    r"wherever|whatever|whichever": "any, every",
    r"thus|hence|thereof|therein|hitherto|ere|lest|save for": "a common word",
}
"""Words that no text uses, with the words to use. Each matches whole words, in any case."""

_CODE: Final = re.compile(r"\b[A-Z][A-Z0-9_]{2,}\b|`[^`]*`|https?://\S+|\$\{?\w+|%\(\w+\)|~/\S*")
_OPENINGS: Final = [(re.compile(pattern), advice) for pattern, advice in OPENINGS.items()]
_WORDS: Final = [
    (re.compile(rf"(?<![\w./-])(?:{pattern})(?![\w/-]|\.\w)", re.IGNORECASE), a) for pattern, a in WORDS.items()
]

Text = tuple[int, str, bool]
"""The line of a text's beginning, the text, and whether it is a docstring."""


def main(options: argparse.Namespace) -> int:
    """Print the findings; return the exit code."""
    found = 0
    for path in files([Path(name) for name in options.paths or FOLDERS]):
        for line, word, advice in sorted(findings(path.read_text(encoding="utf-8"), is_python=path.suffix == ".py")):
            found += 1
            print(f"{path}:{line}: {word}: {advice}")
    if found:
        print(f"hack/words: {found} found", file=sys.stderr)
    return 1 if found else 0


def parser() -> argparse.ArgumentParser:
    """Return the options."""
    made = argparse.ArgumentParser(prog="hack/words", description="Find words that this project's texts do not use.")
    made.add_argument("paths", nargs="*", metavar="PATH", help=f"files and folders ({', '.join(FOLDERS)})")
    return made


def files(paths: Sequence[Path]) -> Iterator[Path]:
    """Yield the files that are read, in order."""
    for path in paths:
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file() and not file.is_symlink() and not _is_hidden(file, path) and _is_text(file):
                yield file


def findings(source: str, *, is_python: bool) -> Iterator[tuple[int, str, str]]:
    """Yield line number, word and advice for each finding in a file's text."""
    for first, text, is_docstring in _texts(source) if is_python else _lines(source):
        plain = _CODE.sub(lambda code: re.sub(r"[^\n]", " ", code[0]), text)
        if is_docstring:
            for pattern, advice in _OPENINGS:
                if opening := pattern.match(plain.lstrip()):
                    yield first, f'docstring begins with "{opening[0]}"', advice
        for number, line in enumerate(plain.splitlines(), start=first):
            for pattern, advice in _WORDS:
                for word in pattern.finditer(line):
                    yield number, f'"{word[0]}"', advice


def _texts(source: str) -> Iterator[Text]:
    """Yield docstrings, comments and strings of more than one word."""
    tree = ast.parse(source)
    docstrings = {id(node) for node in _docstrings(tree)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value.strip():
            yield node.lineno, node.value, id(node) in docstrings
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string, False


def _docstrings(tree: ast.AST) -> Iterator[ast.Constant]:
    """Yield docstrings, and the strings that follow an assignment as its description."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else []:
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                yield statement.value


def _lines(source: str) -> Iterator[Text]:
    return ((number, line, False) for number, line in enumerate(source.splitlines(), start=1))


def _is_text(file: Path) -> bool:
    return file.suffix in SUFFIXES and file.name not in IGNORED


def _is_hidden(file: Path, root: Path) -> bool:
    return any(part.startswith((".", "__pycache__")) for part in file.relative_to(root).parts)


if __name__ == "__main__":
    sys.exit(main(parser().parse_args()))
