"""What becomes in a schedule of a program on `registry_controller.group`."""

from __future__ import annotations

from tests.sim.cluster.member import Member
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
