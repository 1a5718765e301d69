"""Log calls of the whole tree: a constant message, and keys in lowerCamelCase."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PACKAGE = ROOT / "registry_controller"
LEVELS = frozenset({"debug", "info", "warning", "error", "exception"})
LOGGER = re.compile(r"_?log(ger)?\Z")
KEY = re.compile(r"[a-z][a-z0-9]*([A-Z][a-z0-9]*)*\Z")
MESSAGE = re.compile(r"[^.!?:,;\s].*[^.!?:,;\s]\Z")


def problems(source: str) -> Iterator[str]:
    """List what is wrong with the log calls of a file, each with its line."""
    tree = ast.parse(source)
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and _is_log_method(node) and id(node) not in called:
            yield f"{node.lineno}: a method of a logger is not called where it stands"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _is_log_method(node.func):
            yield from (f"{node.lineno}: {problem}" for problem in _call_problems(node))


def _is_log_method(node: ast.Attribute) -> bool:
    owner = node.value
    name = owner.id if isinstance(owner, ast.Name) else owner.attr if isinstance(owner, ast.Attribute) else ""
    return node.attr in LEVELS and LOGGER.match(name) is not None


def _call_problems(call: ast.Call) -> Iterator[str]:
    message = call.args[0] if len(call.args) == 1 else None
    if not (isinstance(message, ast.Constant) and isinstance(message.value, str)):
        yield "the message is no constant"
    elif not MESSAGE.match(message.value) or message.value.isspace():
        yield f"the message ends or begins with a mark: {message.value!r}"
    for keyword in call.keywords:
        if keyword.arg is None or not KEY.match(keyword.arg):
            yield f"the key {keyword.arg} is not lowerCamelCase"
        if isinstance(keyword.value, ast.Call) and ast.unparse(keyword.value.func) == "str":
            argument = ast.unparse(keyword.value.args[0])
            if argument in {"target", "key", "secret"}:
                yield f"{argument} is the name of an object: give it without str()"


FILES = sorted(str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("name", FILES)
def test_log_calls_have_a_constant_message_and_keys_in_camel_case(name: str) -> None:
    assert list(problems((PACKAGE / name).read_text(encoding="utf-8"))) == []


def test_there_are_calls_to_check() -> None:
    texts = [(PACKAGE / name).read_text(encoding="utf-8") for name in FILES]
    assert sum(text.count("log.info(") for text in texts) > 10


@pytest.mark.parametrize(
    "source",
    [
        'log.info(f"copied {name}")',
        'log.info("copied" if new else "kept")',
        'log.info("copied %s", name)',
        'log.info("copied", retry_s=1)',
        'log.info("copied", Retry=1)',
        'log.info("copied", **values)',
        'log.info("copied: ")',
        'self._log.warning("copied", target=str(target))',
        'say = _log.warning if bad else _log.debug\nsay("copied")',
        "log.info()",
    ],
)
def test_a_call_that_breaks_the_rule_is_found(source: str) -> None:
    assert list(problems(source))


@pytest.mark.parametrize("source", ['log.info("copied", target=t, retryAfterSeconds=1)', "click.error(text)", "log.x"])
def test_what_keeps_the_rule_is_left_alone(source: str) -> None:
    assert list(problems(source)) == []
