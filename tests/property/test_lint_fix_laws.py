"""Laws of `lint --fix`, over matches in braces and in lines. W1."""

from __future__ import annotations

import copy

import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from registry_controller.cli.lint_fix import fix_text
from tests.unit.cli.test_lint_fix import HEAD

WORDS = st.sampled_from(("x", "w", "on", "1", "kube-system", "a: b", "#", ""))
MATCHES = st.fixed_dictionaries(
    {},
    optional={
        "labels": st.just([{"matchLabels": {"a": "b"}}]),
        "objectKey": st.none() | st.fixed_dictionaries({}, optional={"name": WORDS, "namespace": WORDS}),
        "name": WORDS,
        "namespace": WORDS,
        "content": st.just([{"key": "a", "value": "b\nc\n"}]),
    },
)


@example([([0, 1, 2, 3, 4], {"labels": [{"matchLabels": {"a": "b"}}], "name": "#", "objectKey": {}})], False)
@given(st.lists(st.tuples(st.permutations(range(5)), MATCHES), min_size=1, max_size=3), st.booleans())
def test_every_match_that_means_one_thing_is_written_so(
    drawn: list[tuple[list[int], dict[str, object]]], flow: bool
) -> None:
    matches = []
    for order, match in drawn:
        names = [name for _, name in sorted(zip(order, match, strict=False))]
        matches.append(copy.deepcopy({name: match[name] for name in names}))
    text = HEAD + "".join(f"    {line}\n" for line in yaml.safe_dump(
        [{"match": matches}], sort_keys=False, default_flow_style=flow
    ).splitlines())  # fmt: skip
    (before,), (after,) = (yaml.safe_load(one)["spec"]["rules"] for one in (text, fix_text(text)))
    for was, now in zip(before["match"], after["match"], strict=True):
        held = was.get("objectKey") or {}
        parts = {part: was[part] for part in ("name", "namespace") if part in was}
        if any(held.get(part) not in (None, "", value) for part, value in parts.items()) or not parts:
            assert now == was
        elif not set(held) & set(parts):
            rest = {name: value for name, value in was.items() if name not in ("objectKey", *parts)}
            assert now == {**rest, "objectKey": {**held, **parts}}
