"""The group that most modules here test on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.group import CONFIG_MAP, Member, grant, joined_group, rule


@pytest.fixture(scope="module")
def members(request: pytest.FixtureRequest) -> Iterator[list[Member]]:
    """Run the group that the module's mark asks for: `pytestmark = pytest.mark.group(3, prefix="rivals")`.

    The mark takes the arguments of `joined_group`; `grants` are the resources of the core API that daemons may sync
    besides ConfigMaps.
    `everywhere` are the labels of ConfigMaps that a rule, written at the first member, copies to all.
    """
    mark = request.node.get_closest_marker("group")
    assert mark is not None, "the module says with pytest.mark.group which clusters it needs"
    options = dict(mark.kwargs)
    grants, everywhere = options.pop("grants", ()), options.pop("everywhere", None)
    with joined_group(*mark.args, **options) as found:
        for member in found:
            for resource in grants:
                grant(member, resource, [""], [resource])
        if everywhere is not None:
            found[0].apply(rule("everywhere", CONFIG_MAP, {"match": [{"labels": [{"matchLabels": everywhere}]}]}))
        yield found
