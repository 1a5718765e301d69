"""The page on permissions shows the right that `rbac` adds for rules that delete Namespaces and definitions."""

from __future__ import annotations

import yaml

from registry_controller.api import meta
from registry_controller.cli.rbac import LIST_ALL
from tests.docs.documents import ROOT, blocks


def test_the_role_that_lists_all_objects_is_that_of_the_command() -> None:
    (shown,) = [block for block in blocks(ROOT / "docs" / "permissions.md") if block.tag == "rights"]
    role = yaml.safe_load(shown.text)
    assert role["metadata"]["labels"] == {meta.CONTROLLER_AGGREGATED: "true"}
    assert role["rules"] == [LIST_ALL]
