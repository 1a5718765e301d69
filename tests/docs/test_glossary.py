"""docs/glossary.md: its terms are in order, the linked page explains each, and other pages use it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from registry_controller import settings
from registry_controller.api import meta
from tests.docs.documents import DOCUMENTS, ROOT, table

PAGE = ROOT / "docs" / "glossary.md"
TERMS = {row[0]: row for row in table(PAGE, header="term")}


def words(path: Path) -> str:
    """Return a page without its links' targets, with single spaces."""
    text = re.sub(r"\]\([^)]*\)", "]", path.read_text(encoding="utf-8"))
    return re.sub(r"\s+", " ", text).lower()


def uses(term: str, text: str) -> bool:
    return re.search(rf"\b{re.escape(term.lower())}(?:s|es|ed|ting|ing|red)?\b", text) is not None


def test_the_terms_are_in_order() -> None:
    assert list(TERMS) == sorted(TERMS, key=str.lower)
    assert len(TERMS) == len(table(PAGE, header="term")) > 40


@pytest.mark.parametrize("term", TERMS)
def test_the_page_that_explains_a_term_uses_it(term: str) -> None:
    link = re.fullmatch(r"\[[a-z ]+\]\(([a-z-]+\.md)(?:#[\w-]+)?\)", TERMS[term][2])
    assert link is not None
    assert uses(term, words(ROOT / "docs" / link[1]))


@pytest.mark.parametrize("term", TERMS)
def test_a_term_is_used_by_two_pages(term: str) -> None:
    users = [path.name for path in DOCUMENTS if path != PAGE and uses(term, words(path))]
    assert len(users) >= 2


def test_a_meaning_is_one_line() -> None:
    assert {term for term, row in TERMS.items() if len(row[1].split()) > 20} == set()


def test_the_names_are_those_of_the_code_and_the_chart() -> None:
    names = [row[0].strip("`") for row in table(PAGE, header="name")]
    chart = yaml.safe_load((ROOT / "deploy" / "helm" / "cluster-registry" / "Chart.yaml").read_text(encoding="utf-8"))
    reader = next(option for option in settings.OPTIONS if option.environment == "READER_SERVICE_ACCOUNT_NAME")
    prefix = meta.OWNER.partition("/")[0]
    assert names == [
        meta.FIELD_MANAGER, chart["name"], reader.default.removesuffix("-reader"), reader.default, meta.GROUP, prefix
    ]  # fmt: skip
