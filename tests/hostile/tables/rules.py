"""Rules that a server holds, and that come here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from registry_controller.api import meta
from registry_controller.api.names import CORE_RULES
from tests.e2e.group import NAMESPACE
from tests.hostile.cases import HONEST, Case, Copy, config_map, good_name
from tests.hostile.home import REGISTRY, SECRETS, owner
from tests.hostile.server.deeds import says
from tests.hostile.server.stranger import Stranger
from tests.hostile.server.world import Manifest
from tests.hostile.shown import SERVED, Check, Claim, Sight, comes, holds, own_stays, stays, told

_RULE: Final = "rule-{}"
_RIVALS: Final = 5
_MAPS: Final = {"version": "v1", "kind": "ConfigMap"}


def _rule(server: Stranger, name: str, kind: dict[str, str], **mutations: Any) -> None:
    entry = {"match": [{}], **({"mutations": mutations} if mutations else {})}
    spec = {"groupVersionKind": kind, "rules": [entry]}
    server.put({"kind": "ResourceSyncRule", "metadata": {"name": name}, "spec": spec})


def _writes_clusters(server: Stranger) -> None:
    _rule(server, _RULE.format(server.name), {"group": meta.GROUP, "version": meta.VERSION, "kind": "Cluster"})


def _makes_rules_of_maps(server: Stranger) -> None:
    kind = {"group": meta.GROUP, "version": meta.VERSION, "kind": "ResourceSyncRule"}
    _rule(server, _RULE.format(server.name), _MAPS, groupVersionKind=kind)


def _makes_secrets_of_maps(server: Stranger) -> None:
    """A registry Secret in the daemon's own namespace, out of a ConfigMap."""
    overrides = [
        {"type": "replace", "path": "/metadata/namespace", "value": NAMESPACE},
        {"type": "replace", "path": "/type?", "value": meta.REGISTRY_SECRET_TYPE},
        {"type": "remove", "path": "/data?"},
    ]
    kind = {"version": "v1", "kind": "Secret"}
    _rule(server, _RULE.format(server.name), _MAPS, groupVersionKind=kind, overrides=overrides)


def _asks_for_too_much(server: Stranger) -> None:
    entry = {"match": [{"namespaces": [f"n{number}" for number in range(20_000)]}]}
    name = _RULE.format(server.name)
    server.put({
        "kind": "ResourceSyncRule", "metadata": {"name": name}, "spec": {"groupVersionKind": _MAPS, "rules": [entry]},
    })  # fmt: skip


def _has_dear_rules(server: Stranger) -> None:
    """Each gives every ConfigMap the name that it has, after a third of the steps that one rule may take."""
    value = "{{ range until 25000 }}{{ end }}{{ .Object.GetName }}"
    for number in range(50):
        override = {"type": "replace", "path": "/metadata/name", "value": value}
        _rule(server, f"{_RULE.format(server.name)}-{number}", _MAPS, overrides=[override])


def _has_dear_rivals(server: Stranger) -> None:
    """Each writes something else at the place of some ConfigMaps, as dear as `_has_dear_rules` says, and is older."""
    for number in range(_RIVALS):
        held = config_map(f"rival-{server.name}-{number}")
        server.put(says(held, ("metadata.labels", {"rivals": "yes"})))
    value = "{{ range until 25000 }}{{ end }}x"
    for number in range(60):
        override = {"type": "replace", "path": f"/data/x{number}?", "value": value}
        entry = {"match": [{"labels": [{"matchLabels": {"rivals": "yes"}}]}], "mutations": {"overrides": [override]}}
        info = {"name": f"{_RULE.format(server.name)}-{number}", "creationTimestamp": f"2025-01-01T00:00:{number:02}Z"}
        server.put({
            "kind": "ResourceSyncRule", "metadata": info, "spec": {"groupVersionKind": _MAPS, "rules": [entry]},
        })  # fmt: skip


def _has_heavy_rules(server: Stranger) -> None:
    """A hundred of 1 MiB, which are accepted: the value of an override may be long, where it is no template."""
    override = {"type": "replace", "path": "/data/none?", "value": "x" * 1_000_000}
    entry = {"match": [{"objectKey": {"name": "none"}}], "mutations": {"overrides": [override]}}
    spec = {"groupVersionKind": _MAPS, "rules": [entry]}
    for number in range(100):
        name = f"{_RULE.format(server.name)}-{number}"
        server.put({"kind": "ResourceSyncRule", "metadata": {"name": name}, "spec": spec})


def _takes_a_core_rules_name(server: Stranger) -> None:
    _rule(server, sorted(CORE_RULES)[0], {"version": "v1", "kind": "Secret"})


def _rules_here(sight: Sight) -> list[Manifest]:
    found = sight.home.maps(f"{REGISTRY}/resourcesyncrules")
    return [rule for rule in found if owner(rule) == sight.server.uid]


def _rules(least: int, most: int) -> Check:
    def check(sight: Sight) -> None:
        count = len(_rules_here(sight))
        assert least <= count <= most, f"{count} rules came"

    return check


def _made_nothing(sight: Sight) -> None:
    """Look for what the rule would have made of the honest object, which has come."""
    name = good_name(sight.server)
    for path in (f"{REGISTRY}/clusters", f"{REGISTRY}/resourcesyncrules", SECRETS):
        assert not any(found["metadata"]["name"] == name for found in sight.home.maps(path)), path


_RESERVED: Final = "never writes the registry's own objects"
_COMES: Final = comes("the rule comes", _rules(1, 1))
_MAKES_NOTHING: Final = holds("it writes nothing", _made_nothing)


def _row(
    does: str,
    claims: tuple[Claim, ...],
    arm: Callable[[Stranger], None],
    *said: str | tuple[str, ...],
    brings: str = _RULE,
    copied: tuple[Copy, ...] = (),
) -> Case:
    return Case(does, claims, arm, said=said, copied=(*HONEST, *copied), brings=brings)


RULES: Final = (
    _row("has a rule that would write Clusters", (_COMES, _MAKES_NOTHING), _writes_clusters, _RESERVED),
    _row(
        "has a rule that would make rules out of ConfigMaps",
        (_COMES, _MAKES_NOTHING),
        _makes_rules_of_maps,
        _RESERVED,
    ),
    _row(
        "has a rule that would make registry Secrets out of ConfigMaps",
        (_COMES, _MAKES_NOTHING),
        _makes_secrets_of_maps,
        _RESERVED,
    ),
    _row(
        "has a rule that asks for 20,000 namespaces",
        (_COMES, told("it is not accepted")),
        _asks_for_too_much,
        "spec: holds more than 20000 values",
    ),
    _row(
        "has 50 rules with templates that take long",
        (told("what they may take of an object together is limited"), SERVED),
        _has_dear_rules,
        "together with what the other rules of its cluster ask of this object",
        brings=f"{_RULE}-*",
    ),
    _row(
        "has 60 rules that write the same objects, each otherwise, with templates that take long",
        (stays("the oldest writes"), told("the status explains why the other rules do not write"), SERVED),
        _has_dear_rivals,
        "which is older, wants it otherwise",
        brings=f"{_RULE}-*",
        copied=tuple(Copy(f"rival-{{}}-{number}", {"text": "x", "x0": "x"}) for number in range(_RIVALS)),
    ),
    _row(
        "has 100 rules of 1 MiB each",
        (comes("up to 8 come, and the rest are left", _rules(1, 8)),),
        _has_heavy_rules,
        # The stream is full first, or the list that is asked for while its peer is slow to open one.
        ("offers more than 8 MiB of the kind ResourceSyncRule", "the answer is larger than 8 MiB"),
        brings=f"{_RULE}-*",
    ),
    _row(
        "has a rule of a core rule's name",
        (holds("the core rule stays as it is", own_stays),),
        _takes_a_core_rules_name,
        brings="",
    ),
)
