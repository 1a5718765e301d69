"""Templates and what Go makes of them: the rows of gotemplate_rows.yaml.

tests/property/test_oracle_templates.py asks Go itself about the same rows.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from registry_controller.api.errors import InvalidObject
from registry_controller.gotemplate import compile_template
from tests.property import templates

_FILE = Path(__file__).with_name("gotemplate_rows.yaml")
ROWS = [(row["template"], row["go"]) for row in yaml.safe_load(_FILE.read_text(encoding="utf-8"))]


@pytest.mark.parametrize(("source", "text"), ROWS)
def test_a_template_is_rendered_as_go_renders_it(source: str, text: str | None) -> None:
    """W1."""
    data = templates.data(None)
    if text is None:
        with pytest.raises(InvalidObject):
            compile_template(source, path="value").render(data)
    else:
        assert compile_template(source, path="value").render(data) == text
