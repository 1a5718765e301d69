"""An operator of the examples, whose Jobs run in Pods that real kubelets start."""

from __future__ import annotations

from pathlib import Path

from hack.programs.image.build import DEFAULT_TAG
from tests.e2e.group import eventually
from tests.e2e.operators import FAN_OUT, Program, expect, fan_out_job, install_fan_out
from tests.pods.member import PodMember

_OF_JOBS = "batch.kubernetes.io/job-name"


def list_pods(member: PodMember) -> list[str]:
    """List the Jobs of the Pods in the namespace of the Jobs."""
    return [pod["metadata"]["labels"][_OF_JOBS] for pod in member.get("-n", "default", "pods", "-l", _OF_JOBS)["items"]]


def test_jobs_of_each_member_run_to_their_end_and_go_with_the_resource(joined: list[PodMember], tmp_path: Path) -> None:
    main = joined[0]
    install_fan_out(joined)
    script = [str(FAN_OUT / "fan_out_job.py"), "--main", main.name]
    programs = [
        Program(member, *script, account="fan-out-job", output=tmp_path / f"{member.name}.log") for member in joined
    ]
    try:
        main.apply(fan_out_job("real", image=DEFAULT_TAG, command=["python", "-c", "print('it runs')"]))
        main.apply(fan_out_job("fails", image=DEFAULT_TAG, command=["python", "-c", "raise SystemExit(3)"]))
        expect(main, "real", "Finished", "Finished", "Finished", members=joined)
        expect(main, "fails", "Error", "Error", "Error", members=joined)
        for member in joined:
            assert sorted(list_pods(member)) == ["fails", "real"]
            assert member.kubectl("-n", "default", "logs", "job/real") == "it runs\n"
        main.kubectl("-n", "default", "delete", "fanoutjob", "real", "fails")
        for member in joined:
            eventually(lambda member=member: not list_pods(member), what=f"the Pods of {member.name} are gone")
            assert member.find("-n", "default", "job", "real") is None
    finally:
        for program in programs:
            program.stop()
