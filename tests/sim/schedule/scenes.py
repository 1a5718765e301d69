"""Scenes: steps that only mean something together, so that chance alone would rarely play them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from tests.sim.schedule import drawing, object_acts
from tests.sim.schedule.habit_acts import TO_THE_END_S
from tests.sim.schedule.stage import Step


def _three(chance: random.Random, names: str) -> tuple[str, str, str]:
    one, two, three = chance.sample(names, 3)
    return one, two, three


def _unheard_while_silent(chance: random.Random, names: str) -> list[Step]:
    """An owner deletes, or a rule changes, while its copies' cluster is cut off from it, and restarts."""
    here, owner, _ = _three(chance, names)
    kind = chance.choice(("ConfigMap", "Widget", "Region"))
    place = (kind, "" if kind == "Region" else "default", "y")
    name = f"{kind.lower()}s-1"
    return [
        Step(0.0, "rules", here, (name, (kind, "plain", "labels", "Delete", "stays"))),
        Step(0.0, "puts", owner, (place, f"v{chance.randrange(10**6)}", "sync")),
        Step(3.0, "is cut off from", here, (owner, 60.0)),
        Step(0.5, "drops", owner, (place,)),
        Step(0.0, "drops rule", here, (name,)) if chance.random() < 0.5 else Step(0.0, "turns gold", owner),
        Step(2.0, "is killed", here),
        Step(chance.choice((5.0, 40.0)), "puts", owner, (place, f"v{chance.randrange(10**6)}", "sync")),
    ]


def _forged_relay(chance: random.Random, names: str) -> list[Step]:
    """Somebody changes a silent member's address where its Secret, or its Cluster, is relayed."""
    here, relay, owner = _three(chance, names)
    cut = [Step(0.0, "is cut off from", name, (owner, 60.0)) for name in names if name != owner]
    deed = chance.choice(("forges address", "forges endpoint"))
    return [*cut, Step(40.0, deed, relay, (owner,)), Step(10.0, "restarts", here)]


def _left_and_relayed(chance: random.Random, names: str) -> list[Step]:
    """A member leaves, and one of the others does not hear of it."""
    _, deaf, owner = _three(chance, names)
    return [
        Step(0.0, "is cut off from", deaf, (owner, 60.0)),
        Step(1.0, "leaves", owner),
        Step(5.0, "restarts", chance.choice(names)),
        Step(20.0, "forgets member", deaf, (owner,)),
    ]


def shared_namespace(chance: random.Random, names: str) -> list[Step]:
    """Let a Namespace be copied, with objects of two members in it, and then not be wanted any more."""
    here, owner, third = _three(chance, names)
    name, value = chance.choice("xyz"), f"v{chance.randrange(10**6)}"
    place, policy = ("Namespace", "", name), chance.choice(("Delete", "Orphan"))
    spaces = ("namespaces-1", ("Namespace", "plain", "labels", "Delete", "stays"))
    ends = [
        Step(0.0, "drops", owner, (place,)),
        Step(0.0, "drops", owner, (place,)),
        Step(0.0, "puts", owner, (place, value, "")),
        Step(0.0, "drops rule", here, ("namespaces-1",)),
        Step(0.0, "rules", here, ("namespaces-1", (*spaces[1][:2], "name", "Delete", "stays"))),
        Step(0.0, "leaves", owner),
    ]
    lives = [Step(3.0, "lives in a copied namespace", here, (name, value))]
    silent = [Step(3.0, "is cut off from", here, (third, 200.0))]
    return [
        Step(0.0, "rules", here, spaces),
        Step(0.0, "rules", here, ("configmaps-1", ("ConfigMap", "plain", "labels", policy, "stays"))),
        Step(0.0, "puts", owner, (place, value, "sync")),
        Step(0.0, "makes namespace", third, (name,)),
        Step(3.0, "puts", owner, (("ConfigMap", name, "y"), value, "sync")),
        Step(0.0, "puts", third, (("ConfigMap", name, "z"), value, "sync")),
        *(lives if chance.random() < 0.3 else ()),
        *(silent if chance.random() < 0.3 else ()),
        Step(chance.choice((3.0, 70.0, 70.0)), "edits copy", here, (chance.randrange(1000), value)),
        chance.choice(ends),
        Step(20.0, chance.choice(("restarts", "is killed")), here),
        Step(
            40.0,
            *chance.choice((("drops rule", here, ("configmaps-1",)), ("drops", third, (("ConfigMap", name, "z"),)))),
        ),
    ]


def late_copies(chance: random.Random, names: str) -> list[Step]:
    """Let copies come into copied Namespaces, one into each, while these are looked into and go, or would go."""
    here, owner, third = _three(chance, names)
    value, spaces = f"v{chance.randrange(10**6)}", [f"late-{number}" for number in range(8)]
    places = [("Namespace", "", name) for name in spaces]
    unanswered = [Step(0.0, "has writes carried out late", here, ("DELETE", 6, chance.choice((10.0, 50.0))))]
    return [
        Step(0.0, "rules", here, ("namespaces-1", ("Namespace", "plain", "labels", "Delete", "stays"))),
        Step(0.0, "rules", here, ("configmaps-1", ("ConfigMap", "plain", "labels", "Delete", "stays"))),
        *[Step(0.0, "puts", owner, (place, value, "sync")) for place in places],
        *[Step(0.0, "makes namespace", third, (name,)) for name in spaces],
        Step(70.0, "puts", owner, (("ConfigMap", "default", "x"), value, "sync")),
        *(unanswered if chance.random() < 0.4 else []),
        *[Step(0.0, "drops", owner, (place,)) for place in places],
        *([Step(0.2, "is killed", here)] if chance.random() < 0.2 else []),
        Step(chance.uniform(0.3, 0.4), "puts", third, (("ConfigMap", spaces[0], "x"), value, "sync")),
        *[Step(0.1, "puts", third, (("ConfigMap", name, "x"), value, "sync")) for name in spaces[1:]],
    ]


def _carried_credentials(chance: random.Random, names: str) -> list[Step]:
    """A token is revoked, and the new one carried to one other member, which relays it."""
    here, _, owner = _three(chance, names)
    return [Step(0.0, "rotates", owner), Step(3.0, "carries credentials", owner, (here,)), Step(10.0, "puts", owner, (
        ("ConfigMap", "default", chance.choice("xyz")), f"v{chance.randrange(10**6)}", "sync"))]  # fmt: skip


def found_another_way(chance: random.Random, names: str) -> list[Step]:
    """Revoke what a member has published, where another one has what works under another name of it."""
    here, owner, third = _three(chance, names)
    place = ("ConfigMap", "default", chance.choice("xyz"))
    return [
        Step(7.0, "has what works under another name", here, (owner,)),
        Step(20.0, "puts", owner, (place, f"v{chance.randrange(10**6)}", "sync")),
        Step(chance.choice((0.0, 20.0)), chance.choice(("restarts", "is killed")), chance.choice((here, owner, third))),
        Step(20.0, "puts", owner, (place, f"v{chance.randrange(10**6)}", "sync")),
    ]


def chosen_by_label(chance: random.Random, names: str) -> list[Step]:
    """Let a rule be for clusters with a label, which one of them has, loses, for a moment or for long, and gets."""
    here, home, owner = _three(chance, names)
    kind = chance.choice(("ConfigMap", "Widget"))
    place = (kind, "default", chance.choice("xyz"))
    pauses_s = [chance.choice((0.3, 20.0, 40.0)) for _ in range(chance.choice((1, 2, 3)))]
    end = chance.choice(("labels its own cluster", "loses its own cluster", "restarts", "is killed"))
    return [
        Step(0.0, "labels its own cluster", here),
        Step(0.0, "rules", home, (f"{kind.lower()}s-1", (kind, "plain", "labels", "Delete", "chosen"))),
        Step(0.0, "puts", owner, (place, f"v{chance.randrange(10**6)}", "sync")),
        Step(7.0, "labels its own cluster", here),
        *(Step(pause_s, "labels its own cluster", here) for pause_s in pauses_s),
        Step(chance.choice((0.3, 20.0)), end, here),
        Step(7.0, "puts", owner, (place, f"v{chance.randrange(10**6)}", "sync")),
    ]


def named_by_objects(chance: random.Random, names: str) -> list[Step]:
    """Let objects name the clusters that copy them, and name others; one of those has a label, and loses it."""
    here, home, owner = _three(chance, names)
    kind = chance.choice(("ConfigMap", "Secret", "Widget"))
    places = [(kind, "default", name) for name in "xy"]
    wish = (kind, "plain", "labels", chance.choice(("Delete", "Delete", "Orphan")), "named")
    steps = [
        Step(0.0, "rules", home, (f"{kind.lower()}s-1", wish)),
        *(Step(0.0, "puts", owner, (place, f"v{chance.randrange(10**6)}", "sync")) for place in places),
        *(Step(0.0, "names clusters for", owner, (place, (",".join(names), None))) for place in places),
    ]
    for _ in range(chance.randint(4, 7)):
        pause_s = chance.choice((0.3, 7.0, 20.0, 40.0))
        naming = ("names clusters for", owner, (chance.choice(places), drawing.a_naming(chance, owner, names)[1]))
        deed = chance.choices(
            (naming, ("labels its own cluster", here), ("loses its own cluster", here), ("restarts", here)),
            (8, 3, 1, 1),
        )
        steps.append(Step(pause_s, *deed[0]))
    return steps


def fought_over(chance: random.Random, names: str) -> list[Step]:
    """Let a controller make copies again that the daemon deletes: their owner dropped them, or their rule went."""
    here, owner, _ = _three(chance, names)
    kind = chance.choice(("ConfigMap", "Widget"))
    places = [(kind, "default", name) for name in "xy"]
    name, value = f"{kind.lower()}s-1", f"v{chance.randrange(10**6)}"
    return [
        Step(0.0, "rules", here, (name, (kind, "plain", "labels", "Delete", "stays"))),
        *(Step(0.0, "puts", owner, (place, f"v{chance.randrange(10**6)}", "sync")) for place in places),
        Step(3.0, "has a controller that restores", here, (kind, chance.choice((0.05, 1.0, 7.0)), 90.0)),
        Step(0.3, "drops", owner, (places[0],)),
        Step(7.0, *chance.choice((("drops", owner, (places[1],)), ("puts", owner, (places[1], value, ""))))),
        Step(20.0, *chance.choice((("restarts", here), ("is killed", here), ("drops rule", here, (name,))))),
        Step(20.0, "puts", owner, (places[0], f"v{chance.randrange(10**6)}", "sync")),
    ]


def tuned(chance: random.Random, names: str) -> list[Step]:
    """Let a controller set a map and a label that a rule takes out; the source changes, a daemon begins anew."""
    here, owner, _ = _three(chance, names)
    kind, shape = chance.choice((("ConfigMap", "unlabelling"), ("Widget", "unlabelling"), ("Widget", "tuned")))
    place, name = (kind, "default", chance.choice("xyz")), f"{kind.lower()}s-1"
    values = [f"v{chance.randrange(10**6)}" for _ in range(4)]
    begun, ended = chance.choice((("plain", shape), (shape, "plain"), (shape, shape), (shape, shape)))
    return [
        Step(0.0, "rules", here, (name, (kind, begun, "labels", "Delete", "stays"))),
        Step(0.0, "puts", owner, (place, values[0], "sync suffix")),
        Step(3.0, "tunes copy", here, (chance.randrange(1000), values[0])),
        Step(3.0, "rules", here, (name, (kind, ended, "labels", "Delete", "stays"))),
        Step(2.0, "puts", owner, (place, values[1], chance.choice(("sync suffix", "sync")))),
        Step(0.3, "tunes copy", here, (chance.randrange(1000), values[2])),
        Step(7.0, chance.choice(("restarts", "is killed")), here),
        Step(7.0, "puts", owner, (place, values[3], "sync suffix")),
    ]


def _rivals(chance: random.Random, names: str) -> list[Step]:
    """Two owners of one name, with clocks that do not agree; the first one goes again."""
    here, one, two = _three(chance, names)
    kind = chance.choice(("ConfigMap", "Secret", "Widget"))
    values = [f"v{chance.randrange(10**6)}" for _ in range(3)]
    place = (kind, "default", chance.choice("xyz"))
    return [
        Step(0.0, "rules", here, (f"{kind.lower()}s-1", (kind, "marking", "labels", "", "stays"))),
        Step(0.0, "has its clock jump", one, (chance.choice((-86400.0, 3600.0)),)),
        Step(0.0, "puts by force", one, (place, values[0], "sync")),
        Step(chance.choice((0.0, 2.0)), "puts by force", two, (place, values[1], "sync")),
        Step(3.0, "drops", one, (place,)),
    ]


def _adopted(chance: random.Random, names: str) -> list[Step]:
    """A copy by the Go original is here before its source is heard of, and an older rival, too."""
    here, owner, rival = _three(chance, names)
    values = [f"v{chance.randrange(10**6)}" for _ in range(3)]
    place = ("Widget", "default", chance.choice("xyz"))
    return [
        Step(0.0, "leaves a copy by go", here, (place, values[0], owner)),
        Step(0.0, "puts", rival, (place, values[1], "sync")),
        Step(0.0, "puts", owner, (place, values[2], "sync")),
        Step(0.0, "rules", here, ("widgets-1", ("Widget", "plain", "labels", "Delete", "stays"))),
        Step(5.0, "drops", owner, (place,)),
    ]


def _unclear(chance: random.Random, names: str) -> list[Step]:
    """A rule cannot be evaluated any more on a source of which there is a copy."""
    here, owner, _ = _three(chance, names)
    place = ("Widget", "default", chance.choice("xyz"))
    values = [f"v{chance.randrange(10**6)}" for _ in range(2)]
    return [
        Step(0.0, "rules", here, ("widgets-1", ("Widget", "labelled", "labels", "Delete", "stays"))),
        Step(0.0, "puts", owner, (place, values[0], "sync suffix")),
        Step(3.0, "puts", owner, (place, values[1], "sync")),
        Step(chance.choice((0.0, 2.0)), "is killed", here),
    ]


def _race(chance: random.Random, names: str, *, at_s: tuple[float, float], slow_s: float = 0.0) -> list[Step]:
    """Replace a copy by an own object at about the time at which it is to go; with `slow_s`, ways are slow then."""
    here, owner, _ = _three(chance, names)
    kind = chance.choice(("ConfigMap", "Widget"))
    place = (kind, "default", chance.choice("xyz"))
    values = [f"v{chance.randrange(10**6)}" for _ in range(2)]
    slowing = [Step(3.0, "is slow", here, (slow_s,))] if slow_s else []
    return [
        Step(0.0, "rules", here, (f"{kind.lower()}s-1", (kind, "plain", "labels", "Delete", "stays"))),
        Step(0.0, "puts", owner, (place, values[0], "sync")),
        *slowing,
        Step(0.0 if slowing else 3.0, "drops", owner, (place,)),
        Step(chance.uniform(*at_s), "puts by force", here, (place, values[1], "")),
    ]


def _raced(chance: random.Random, names: str) -> list[Step]:
    """A copy is replaced by an own object in the moment in which it is to go."""
    return _race(chance, names, at_s=(0.0, 0.12))


def race_on_slow_ways(chance: random.Random, names: str) -> list[Step]:
    """The same, where what is on its way takes long."""
    return _race(chance, names, at_s=(0.5, 4.0), slow_s=20.0)


def _late_cache(chance: random.Random, names: str) -> list[Step]:
    """A daemon starts again and is told of the past."""
    here, owner, _ = _three(chance, names)
    kind = chance.choice(("ConfigMap", "Widget"))
    place = (kind, "default", chance.choice("xyz"))
    values = [f"v{chance.randrange(10**6)}" for _ in range(3)]
    return [
        Step(0.0, "rules", here, (f"{kind.lower()}s-1", (kind, "plain", "labels", "Delete", "stays"))),
        *(Step(1.0, "puts", owner, (place, value, "sync")) for value in values),
        Step(2.0, "reads from the past of", here, (owner, chance.randrange(1, 4), 20.0)),
        Step(0.0, "is killed", here),
    ]


def _fixed(chance: random.Random, names: str) -> list[Step]:
    """A field that cannot be changed becomes another one."""
    here, owner, _ = _three(chance, names)
    kind = chance.choice(("ConfigMap", "Secret"))
    place = (kind, "default", chance.choice("xyz"))
    values = [f"v{chance.randrange(10**6)}" for _ in range(2)]
    return [
        Step(0.0, "rules", here, (f"{kind.lower()}s-1", (kind, "plain", "labels", "", "stays"))),
        Step(0.0, "puts by force", owner, (place, values[0], "sync fixed")),
        Step(3.0, "puts by force", owner, (place, values[1], "sync gold")),
    ]


def mass_loss(chance: random.Random, names: str) -> list[Step]:
    """Let an owner lose all that a rule copies; where deletions are braked, they are halted, over a restart, too."""
    here, owner, _ = _three(chance, names)
    kind = chance.choice(("ConfigMap", "Widget"))
    places = [(kind, "default", name) for name in "xyz"]
    return [
        Step(0.0, "rules", here, (f"{kind.lower()}s-1", (kind, "plain", "labels", "Delete", "stays"))),
        *(Step(0.0, "puts", owner, (place, f"v{chance.randrange(10**6)}", "sync")) for place in places),
        Step(7.0, "drops", owner, (places[0],)),
        *(Step(chance.choice((0.0, 2.0)), "drops", owner, (place,)) for place in places[1:]),
        Step(7.0, chance.choice(("restarts", "is killed")), here),
    ]


def comes_and_goes(chance: random.Random, names: str) -> list[Step]:
    """Let what a rule asks for come and go; where deletions are braked, they are halted."""
    here, owner, _ = _three(chance, names)
    kind = chance.choice(("ConfigMap", "Widget"))
    place, wish = (kind, "default", chance.choice("xyz")), (kind, "plain", "labels", "Delete", "gold stays")
    pauses_s = [chance.choice((3.0, 20.0, 40.0)) if chance.random() < 0.2 else 40.0 for _ in range(7)]
    return [
        Step(0.0, "rules", here, (f"{kind.lower()}s-1", wish)),
        Step(0.0, "puts", owner, (place, f"v{chance.randrange(10**6)}", "sync")),
        *(Step(pause_s, "turns gold", owner) for pause_s in pauses_s),
    ]


def _reinstalled(chance: random.Random, names: str) -> list[Step]:
    """The definition of a copied kind is deleted and installed again."""
    here, owner, _ = _three(chance, names)
    kind = chance.choice(("Widget", "Region"))
    namespace = "" if kind == "Region" else "default"
    puts = [
        Step(0.0, "puts", owner, ((kind, namespace, name), f"v{chance.randrange(10**6)}", "sync")) for name in "xyz"
    ]
    return [
        Step(0.0, "rules", here, (f"{kind.lower()}s-1", (kind, "plain", "labels", "Delete", "stays"))),
        *puts,
        Step(10.0, "has a kind reinstalled", owner, (kind, chance.choice((5.0, 40.0)))),
        Step(60.0, "puts", owner, ((kind, namespace, "x"), f"v{chance.randrange(10**6)}", "sync")),
    ]


def rules_reinstalled(chance: random.Random, names: str) -> list[Step]:
    """Delete the definition of rules, and install it again; the rules had copies there and elsewhere."""
    home, owner, _ = _three(chance, names)
    kind = chance.choice(("ConfigMap", "Widget"))
    places = [(kind, "default", name) for name in "xy"]
    times_s = chance.choice((0.5, 8.0)), chance.choice((0.3, 40.0)), chance.choice((0.3, 60.0, 60.0))
    return [
        Step(0.0, "rules", home, (f"{kind.lower()}s-1", (kind, "plain", "labels", "Delete", ""))),
        *(Step(0.0, "puts", owner, (place, f"v{chance.randrange(10**6)}", "sync")) for place in places),
        Step(3.0, "has its rules reinstalled", home, times_s),
        Step(chance.choice((5.0, 60.0)), chance.choice(("restarts", "is killed")), chance.choice(names)),
        Step(chance.choice((20.0, 60.0)), "puts", owner, (places[0], f"v{chance.randrange(10**6)}", "sync")),
    ]


def features_reinstalled(chance: random.Random, names: str) -> list[Step]:
    """Delete the definition of features, and install it again; with it go a feature that is asked for, and tombstones.

    The feature is gone for a moment, or somebody has left, or is said to have.
    """
    here, home, other = _three(chance, names)
    kind = chance.choice(("ConfigMap", "Widget"))
    places = [(kind, "default", name) for name in "xy"]
    times_s = chance.choice((0.5, 8.0)), chance.choice((0.3, 40.0)), chance.choice((0.3, 60.0, 200.0))
    said = {
        "": [],
        "leaves": [Step(3.0, "leaves", home)],
        "declares left": [Step(0.0, "is down", other, (60.0,)), Step(0.0, "declares left", home, (other,))],
        "drops rule": [Step(3.0, "drops rule", home, (f"{kind.lower()}s-1",))],
    }[chance.choice(("", "", "leaves", "declares left", "drops rule"))]
    return [
        Step(0.0, "rules", here, (f"{kind.lower()}s-1", (kind, "plain", "labels", "Delete", "gold stays"))),
        Step(0.0, "rules", home, (f"{kind.lower()}s-1", (kind, "plain", "labels", "Delete", ""))),
        Step(0.0, "turns gold", home),
        *(Step(0.0, "puts", home, (place, f"v{chance.randrange(10**6)}", "sync")) for place in places),
        *said,
        Step(chance.choice((3.0, 40.0)), "has its features reinstalled", home, times_s),
        Step(chance.choice((5.0, 60.0)), chance.choice(("restarts", "is killed")), chance.choice(names)),
        Step(chance.choice((20.0, 60.0)), "puts", home, (places[0], f"v{chance.randrange(10**6)}", "sync")),
    ]


def stored_otherwise(chance: random.Random, names: str) -> list[Step]:
    """Let an API server make something else of a copy than what it is sent; or somebody edit the copy's status."""
    here, owner, _ = _three(chance, names)
    place = ("Widget", "default", chance.choice("xyz"))
    habit = chance.choice(
        ("NORMALISES", "NORMALISES", "STAMPS", "RENEWS", "REFUSES_DRY_RUNS", "DENIES_DRY_RUNS", "", "", "")
    )
    happen = Step(0.0, "has a habit", here, (habit,))
    if not habit:
        happen = Step(0.0, "has an old definition", here, (chance.choice((30.0, TO_THE_END_S, TO_THE_END_S)),))
    edits = [
        Step(3.0, "edits status of copy", here, (chance.randrange(1000), f"p{chance.randrange(10**6)}"))
        for _ in range(2)
    ]
    return [
        happen,
        Step(0.0, "rules", here, ("widgets-1", ("Widget", "status", "labels", "Delete", "stays"))),
        Step(0.0, "puts", owner, (place, f"v{chance.randrange(10**6)}", "sync gold")),
        Step(7.0, "restarts", here),
        *edits,
    ]


def _everything(chance: random.Random, names: str) -> list[Step]:
    """A rule asks for everything of a kind, of which a cluster keeps some to itself."""
    here, owner, _ = _three(chance, names)
    return [
        Step(0.0, "has what stays at home", owner, ("team", f"v{chance.randrange(10**6)}")),
        Step(0.0, "rules", here, ("configmaps-2", ("ConfigMap", "plain", "all", "Delete", "stays"))),
        Step(2.0, "has what stays at home", owner, ("team", f"v{chance.randrange(10**6)}")),
    ]


def _another_kind(chance: random.Random, names: str) -> list[Step]:
    """A rule has copies, and reads another kind from then on; its daemon may be down meanwhile."""
    here, owner, _ = _three(chance, names)
    kind, other = chance.sample(("ConfigMap", "Widget", "Secret"), 2)
    name, place = f"{kind.lower()}s-1", (kind, "default", chance.choice("xyz"))
    policy = chance.choice(("Delete", "Delete", "Orphan"))
    down = [Step(3.0, "is down", here, (8.0,))] if chance.random() < 0.4 else []
    return [
        Step(0.0, "rules", here, (name, (kind, "plain", "labels", policy, "stays"))),
        Step(0.0, "puts", owner, (place, f"v{chance.randrange(10**6)}", "sync")),
        *down,
        Step(3.0, "rules", here, (name, (other, "plain", "labels", chance.choice(("Delete", "Orphan")), "stays"))),
    ]


def _altered_rule(chance: random.Random, names: str) -> list[Step]:
    """A rule has copies at several members, and its copy at one of them is edited, or loses a field there."""
    here, home, owner = _three(chance, names)
    kind = chance.choice(("ConfigMap", "Widget"))
    wish = (kind, "plain", "labels", "Delete", chance.choice(("", "targets")))
    edited = Step(3.0, "edits a rules copy", here, (chance.randrange(1000), chance.randrange(4)))
    lost = [
        Step(0.0, "drops a field of rules", here, (("targetClusters",), 60.0)),
        Step(0.0, "rules", home, (f"{kind.lower()}s-1", (*wish[:4], "targets"))),
    ]
    silent = [Step(0.0, "is cut off from", here, (home, 60.0))] if chance.random() < 0.5 else []
    return [
        Step(0.0, "rules", home, (f"{kind.lower()}s-1", wish)),
        Step(0.0, "puts", owner, ((kind, "default", chance.choice("xyz")), f"v{chance.randrange(10**6)}", "sync")),
        *(lost if chance.random() < 0.4 else [*silent, edited]),
        Step(3.0, chance.choice(("restarts", "is killed")), here),
        Step(5.0, "puts", owner, ((kind, "default", chance.choice("xyz")), f"v{chance.randrange(10**6)}", "sync")),
    ]


def moved_in_vain(chance: random.Random, names: str) -> list[Step]:
    """Let a rule give its copies other names that cannot be made for a while; the source changes or goes meanwhile."""
    here, owner, _ = _three(chance, names)
    kind = chance.choice(("ConfigMap", "Widget"))
    places = [(kind, "default", name) for name in "xy"]
    then = "drops" if chance.random() < 0.3 else "puts"
    return [
        Step(
            0.0,
            "rules",
            here,
            (f"{kind.lower()}s-1", (kind, "plain", "labels", chance.choice(("", "Delete")), "stays")),
        ),
        *(Step(0.0, "puts", owner, (place, f"v{chance.randrange(10**6)}", "sync")) for place in places),
        Step(3.0, "moves copies in vain", here, (0, chance.choice(("no namespace", "taken", "refused")), 40.0)),
        Step(3.0, then, owner, (places[0], f"v{chance.randrange(10**6)}", "sync")[: 1 if then == "drops" else 3]),
        Step(chance.choice((0.0, 40.0)), chance.choice(("restarts", "is killed")), here),
    ]


def _restored(chance: random.Random, names: str) -> list[Step]:
    """The etcd of a cluster is put back: states of sources, or of copies, are lost, and an edit of a rule."""
    here, owner, _ = _three(chance, names)
    kind = chance.choice(("ConfigMap", "Widget"))
    places = [(kind, "default", name) for name in "xy"]
    values = [f"v{chance.randrange(10**6)}" for _ in range(4)]
    name = f"{kind.lower()}s-1"
    edit = Step(0.3, "rules", here, (name, (kind, chance.choice(("marking", "plain")), "labels", "Delete", "stays")))
    return [
        Step(0.0, "rules", here, (name, (kind, "plain", "labels", "Delete", "stays"))),
        *(Step(0.0, "puts", owner, (place, value, "sync")) for place, value in zip(places, values[:2], strict=True)),
        Step(3.0, "has its etcd restored", chance.choice((here, here, owner)), (7.0, chance.choice((0, 10**6)))),
        *(Step(0.3, "puts", owner, (place, value, "sync")) for place, value in zip(places, values[2:], strict=True)),
        *([edit] if chance.random() < 0.7 else []),
        Step(20.0, "puts", owner, (places[0], values[0], "sync")),
    ]


def _misplaced_name(chance: random.Random, names: str) -> list[Step]:
    """A rule has its name one level too high, as the Go original's first README; its owner has other objects, too."""
    here, owner, _ = _three(chance, names)
    kind = chance.choice(("ConfigMap", "Widget"))
    puts = [(kind, "default", name) for name in "xy"]
    return [
        Step(0.0, "rules", here, (f"{kind.lower()}s-2", (kind, "plain", "misplaced", "Delete", "stays"))),
        *(Step(1.0, "puts", owner, (place, f"v{chance.randrange(10**6)}", "sync")) for place in puts),
    ]


def _refused(chance: random.Random, names: str) -> list[Step]:
    """What a rule copies is refused for a while, as by a quota; or a copy waits for a finalizer."""
    here, owner, _ = _three(chance, names)
    kind, reason = chance.choice(("ConfigMap", "Widget")), chance.choice(sorted(object_acts.REFUSED))
    place = (kind, "default", chance.choice("xyz"))
    values = [f"v{chance.randrange(10**6)}" for _ in range(2)]
    return [
        Step(0.0, "rules", here, (f"{kind.lower()}s-1", (kind, "plain", "labels", "Delete", "stays"))),
        Step(0.0, "puts", owner, (place, values[0], "sync")),
        Step(3.0, "refuses copies", here, (reason, place[2], 30.0)),
        Step(0.0, "puts", owner, (place, values[1], "sync")),
        Step(7.0, "holds copy while it goes", here, (chance.randrange(1000), 20.0)),
    ]


SCENES: Sequence[Callable[[random.Random, str], list[Step]]] = (
    _unheard_while_silent, _forged_relay, _left_and_relayed, shared_namespace, _carried_credentials, _rivals,
    _adopted, _unclear, _fixed, _raced, _late_cache, mass_loss, _everything, comes_and_goes, _reinstalled,
    _another_kind, _altered_rule, moved_in_vain, _restored, _misplaced_name, _refused,
)  # fmt: skip
