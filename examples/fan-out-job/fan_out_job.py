"""A FanOutJob in one cluster makes a Job in each cluster of its group.

python fan_out_job.py --main a --namespace default

It runs in each member. Each one reads the FanOutJobs of the member `main`, and makes its own Job at home. In `main` it
also reads the Jobs of all members, and writes the status of the FanOutJob. Nothing is written to another cluster.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import signal
from collections.abc import Iterable, Mapping
from typing import Any

from registry_controller.group import Event, Group, Key, Member, Object

FAN_OUT_JOBS = "fanoutjobs.batch.example.com"
JOBS = "jobs.batch"
LABEL = "batch.example.com/fan-out-job"
ENDS = ("Finished", "Error")
"""The states that do not change any more."""


def recorded(resource: Object) -> Mapping[str, Mapping[str, str]]:
    """Return the states of the members in the status of a FanOutJob, by name."""
    status = resource.manifest.get("status") or {}
    return {member["name"]: member for member in status.get("members") or ()}


def phase_of(states: Iterable[str]) -> str:
    """Return the phase for the states of the members."""
    found = set(states)
    if "Error" in found:
        return "Error"
    return "Finished" if found == {"Finished"} else "Running"


def make_job(resource: Object) -> dict[str, Any]:
    """Write the Job of a FanOutJob."""
    spec = resource.manifest["spec"]
    container = {"name": "job", "image": spec["image"], "command": spec["command"]}
    pod = {"restartPolicy": "Never", "automountServiceAccountToken": False, "containers": [container]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": resource.name, "namespace": resource.namespace, "labels": {LABEL: resource.name}},
        "spec": {"backoffLimit": spec["backoffLimit"], "template": {"spec": pod}},
    }


def state_of_job(job: Object) -> str:
    """Return the state of a Job by its conditions."""
    conditions = (job.manifest.get("status") or {}).get("conditions") or ()
    true = {condition["type"] for condition in conditions if condition["status"] == "True"}
    return "Error" if "Failed" in true else "Finished" if "Complete" in true else "Running"


def state_at(member: Member, resource: Object, main: Member, before: Mapping[str, str]) -> dict[str, str]:
    """Return the state of a member's Job; it is unknown while the member is silent, unless the Job had ended."""
    state, message = before.get("state", ""), before.get("message", "")
    if state not in ENDS:
        job = member.get(JOBS, resource.name, namespace=resource.namespace)
        is_ours = job is not None and member.owner_of(job) == main.as_owner(resource)
        state, message = state_of_job(job) if job is not None and is_ours else "Waiting", ""
        if state not in ENDS and member.is_stale(JOBS):
            state, message = "Unknown", f"{member.name} does not answer; the last known state was {state}"
    return {"name": member.name, "state": state, "message": message}


class FanOut:
    """The operator of one member. `main` is the name of the member that has the FanOutJobs."""

    def __init__(self, group: Group, main: str, namespace: str) -> None:
        self.group = group
        self.main = main
        self.namespace = namespace

    async def run(self) -> None:
        """Run until cancelled."""
        await self.group.wait_known()
        here = next((name for name in self.group if self.group[name].is_local), "")
        if not here:
            raise SystemExit("no Cluster of the group stands for this cluster")
        makes = self.group.controller(self.make).watches(FAN_OUT_JOBS, namespace=self.namespace)
        makes.owns(JOBS, namespace=self.namespace, label_selector=LABEL)
        async with asyncio.TaskGroup() as scope:
            scope.create_task(makes.run())
            if here == self.main:
                reports = self.group.controller(self.report).watches(FAN_OUT_JOBS, namespace=self.namespace)
                reports.watches(JOBS, namespace=self.namespace, label_selector=LABEL, keys=self.keys_of_job)
                scope.create_task(reports.run())

    def keys_of_job(self, event: Event) -> Iterable[Key]:
        """Return the FanOutJob that an event of a Job concerns; all of them where a member fell silent, or is back."""
        if event.object is not None:
            return [Key(self.main, event.object.namespace, event.object.labels[LABEL])]
        found = self.group[self.main].list(FAN_OUT_JOBS) if self.main in self.group else ()
        return [Key(self.main, resource.namespace, resource.name) for resource in found]

    async def make(self, key: Key) -> float | None:
        """Make the Job of this cluster, unless it ended before."""
        if key.member != self.main or self.main not in self.group:
            return None
        resource = self.group[self.main].get(FAN_OUT_JOBS, key.name, namespace=key.namespace)
        if resource is None or resource.is_deleting:
            return None
        here = next(name for name in self.group if self.group[name].is_local)
        has_ended = (resource.manifest.get("status") or {}).get("phase") in ENDS
        if has_ended or recorded(resource).get(here, {}).get("state") in ENDS:
            return None  # a Job that was deleted after its end does not run again
        owner = self.group[self.main].as_owner(resource)
        job = await self.group.local.get(JOBS, key.name, namespace=key.namespace)
        if job is None:
            await self.group.local.apply(make_job(resource), owner=owner)
        elif await self.group.local.owner_of(job) is None:
            message = f"is in the place of the Job of FanOutJob {key.name} in {self.main}; delete it, or rename one"
            self.group.local.event(job, type="Warning", reason="NameTaken", message=message)
            return 30.0
        return None

    async def report(self, key: Key) -> None:
        """Write the status of a FanOutJob."""
        if key.member != self.main:
            return
        resource = await self.group.local.get(FAN_OUT_JOBS, key.name, namespace=key.namespace)
        if resource is None or resource.is_deleting:
            return
        main, before = self.group[self.main], recorded(resource)
        found = {name: state_at(member, resource, main, before.get(name, {})) for name, member in self.group.items()}
        for name, reason in self.group.unreadable.items():
            found.setdefault(name, {"name": name, "state": "Unknown", "message": reason})
        phase = phase_of(member["state"] for member in found.values())
        status = {"phase": phase, "members": [found[name] for name in sorted(found)]}
        if resource.manifest.get("status") != status:
            head = {name: resource.manifest[name] for name in ("apiVersion", "kind")}
            info = {"name": resource.name, "namespace": resource.namespace}
            await self.group.local.apply_status({**head, "metadata": info, "status": status})


async def main() -> None:
    """Run the operator."""
    parser = argparse.ArgumentParser(description="Makes a Job in each member for each FanOutJob of one.")
    parser.add_argument("--main", required=True, help="the member that has the FanOutJobs")
    parser.add_argument("--namespace", default="default", help="the namespace of the FanOutJobs and of the Jobs")
    options = parser.parse_args()
    async with Group.from_cluster(operator="fan-out-job") as group:
        await FanOut(group, options.main, options.namespace).run()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as the first process of a Pod, too
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main())
