"""Which watch of a kind at a peer shows which selection.

Laws: a selection that is a part of another one needs no watch of its own, once the wider watch has shown everything ·
while the wider watch cannot show everything, the narrow one has its own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from registry_controller.api.selection import Selection
from registry_controller.core.rules.list_options import list_wider


def plan_covers(
    asked: Collection[Selection], *, before: Mapping[Selection, Selection], is_usable: Callable[[Selection, bool], bool]
) -> Mapping[Selection, Selection]:
    """Map each selection that is asked for to the one whose watch shows its objects, which may be itself.

    `before` is the last plan. `is_usable` returns true if the watch of a selection shows everything that it should;
    its second argument is true if that watch already stands for the narrower one: then it stays while it can.
    """
    covers: dict[Selection, Selection] = {}
    within = {one: [wider for wider in list_wider(one) if wider in asked] for one in asked}
    for one in sorted(asked, key=lambda one: (len(within[one]), one)):  # the widest first
        usable = (
            wider
            for wider in sorted(within[one], key=lambda wider: (before.get(one) != wider, wider))
            if covers.get(wider) == wider and is_usable(wider, before.get(one) == wider)
        )
        covers[one] = next(usable, one)
    return covers
