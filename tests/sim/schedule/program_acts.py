"""What becomes in a schedule of a program on `registry_controller.group`."""

from __future__ import annotations

from registry_controller.api import meta
from tests.sim.cluster.member import NAMESPACE, Member
from tests.sim.cluster.operator import MADE, MADE_IN, OPERATOR, RECONCILED, WATCHED
from tests.sim.cluster.transport import Fault
from tests.sim.schedule.drawing import another
from tests.sim.schedule.stage import Stage, deed


@deed(lambda chance, who, names: (chance.choice((0.0, 2.0, 40.0)), chance.random() < 0.5), weight=0)
def restarts_its_program(stage: Stage, member: Member, away_s: float, kills: bool) -> bool:
    """Stop or kill the program here; another one starts in a while."""
    program = stage.program
    if program is None or program.name != member.name or not program.runs:
        return False
    (program.kill if kills else program.stop)()
    stage.until(away_s, program.start_again)
    return True


@deed(lambda chance, who, names: (*another(chance, who, names), chance.choice((8.0, 25.0, 60.0))), weight=0)
def misses_deletions(stage: Stage, member: Member, peer: str, duration_s: float) -> bool:
    """Delete an object of each kind that a program here follows while it cannot reach its member, and then compact.

    Only a new list shows these deletions.
    """
    wire, other = stage.group.wire(member.name, peer), stage.group[peer]
    found = [places[0] for kind in (WATCHED, RECONCILED) if (places := stage.natives(other, (kind,)))]
    if stage.program is None or stage.program.name != member.name or not found:
        return False
    wire.set(Fault.REFUSED)
    for kind, namespace, name in found:
        other.delete(kind, name, namespace=namespace)
    other.server.compact()
    stage.until(duration_s, lambda: wire.set(Fault.NONE))
    return True


@deed(lambda chance, who, names: (chance.choice(("delete", "unmark", "clone")), chance.randrange(100)), weight=0)
def meddles_with_what_a_program_made(stage: Stage, member: Member, how: str, which: int) -> bool:
    """Delete an object that a program made here, take its mark away, or copy it with its mark under another name."""
    if stage.program is None or stage.program.name != member.name:
        return False
    made = [one for one in member.list(MADE, namespace=MADE_IN) if meta.GROUP_OWNER in meta.annotations_of(one)]
    if not made:
        return False
    found = made[which % len(made)]
    info, annotations = found["metadata"], meta.annotations_of(found)
    if how == "delete":
        member.delete(MADE, info["name"], namespace=MADE_IN)
    elif how == "unmark":
        kept = {name: text for name, text in annotations.items() if name != meta.GROUP_OWNER}
        member.replace({**found, "metadata": {**info, "annotations": kept}})
    else:
        copied = {"name": f"{info['name']}-{which}", "namespace": MADE_IN, "annotations": annotations}
        member.create({"kind": MADE, "metadata": copied, "spec": found["spec"]})
    return True


def allow_collection(stage: Stage) -> None:
    """Allow the deletions that the collector of a program has halted."""
    program = stage.program
    if program is None or program.group is None:
        return
    member, name = stage.group[program.name], f"{OPERATOR}-collector"
    for cluster, halt in program.group.collector.halts.items():
        stage.observer.say(f"   {member.name} allows what its program halted at {halt.since}")
        found = member.get("ConfigMap", name, namespace=NAMESPACE)
        annotations = {**meta.annotations_of(found), f"{meta.ALLOW_DELETIONS}.{cluster}": halt.since}
        member.replace({**found, "metadata": {**found["metadata"], "annotations": annotations}})
