"""What becomes in a schedule of a program on `registry_controller.group`."""

from __future__ import annotations

from tests.sim.cluster.member import Member
from tests.sim.cluster.operator import RECONCILED, WATCHED
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
