"""What happens: three clusters find each other by one swap each, and keep objects in step."""

from __future__ import annotations

from .stage import NAMESPACE, Actor, Stage

_RULE = "docs/examples/greetings-rule.yaml"
_SECRET = "docs/examples/greetings-secret.yaml"
_TEXT = "jsonpath='{.data.text}' | base64 -d"


def tell(stage: Stage) -> None:
    """Tell it; StoryError when a step does not come out as told."""
    _install(stage)
    first, second, third = stage.actors
    terminal = stage.terminal

    terminal.step(f"{first.name} and {second.name} swap: each hands its Cluster and its Secret to the other")
    _swap(stage, first, second)
    _members(stage, first, others=[second])
    _members(stage, second, others=[first])

    terminal.step(f"{third.name} joins by one swap with {first.name}")
    _swap(stage, first, third)
    terminal.say(f"{second.name} and {third.name} were never introduced. They learn of each other from {first.name}:")
    for actor in stage.actors:
        _members(stage, actor, others=[other for other in stage.actors if other is not actor])

    _sync(stage, first, second, third)
    _repair(stage, second, third)
    _be_silent(stage, first, second, third)
    _delete(stage, first, second, third)


def _install(stage: Stage) -> None:
    stage.terminal.step("Install the chart in each cluster; each has a name of its own")
    for actor in stage.actors:
        stage.install(actor)
    stage.terminal.say(
        "Each daemon makes the Cluster object of its own cluster, and a Secret with which it can be read:"
    )
    for actor in stage.actors:
        stage.wait_ready(actor)
        stage.terminal.until(
            f"{actor.kubectl} get clusters", lambda out: "Ready" in out and "Local" in out, what="the Cluster is Ready"
        )
        secret = f"{actor.kubectl} -n {NAMESPACE} get secret {actor.name}"
        stage.terminal.until(secret, lambda out: "cluster-registry-secret" in out, what="the Secret is there")


def _swap(stage: Stage, one: Actor, other: Actor) -> None:
    for giver, taker in ((one, other), (other, one)):
        for what in (f"-n {NAMESPACE} get secret {giver.name}", f"get cluster {giver.name}"):
            stage.terminal.run(f"{giver.kubectl} {what} -o yaml | {taker.kubectl} create -f -")


def _members(stage: Stage, actor: Actor, *, others: list[Actor]) -> None:
    """Show the clusters that one cluster knows, once it finds them all in order."""

    def are_in_order(out: str) -> bool:
        rows = {line.split()[0]: line.split()[1:] for line in out.splitlines()[1:] if line.split()}
        return all(rows.get(other.name, [])[:3] == ["Ready", "Peer", "True"] for other in others)

    names = " and ".join(other.name for other in others)
    stage.terminal.until(
        f"{actor.kubectl} get clusters", are_in_order, what=f"{actor.name} reads {names}", timeout_s=90
    )


def _sync(stage: Stage, first: Actor, second: Actor, third: Actor) -> None:
    terminal = stage.terminal
    terminal.step(f"A rule in {first.name}, a Secret in {second.name}")
    terminal.run(f"cat {_RULE}")
    terminal.run(f"{first.kubectl} apply -f {_RULE}")
    terminal.run(f"{second.kubectl} apply -f {_SECRET}")
    terminal.say("Rules are copied to every member, so the Secret appears everywhere:")
    for actor in (first, third):
        terminal.until(_read(actor), lambda out: "second cluster" in out, what="the copy is there")
    terminal.until(
        f"{third.kubectl} get resourcesyncrule greetings",
        lambda out: out.splitlines()[-1].split()[1:4] == ["Secret", "True", "True"],
        what="the rule says that it is in step",
    )


def _repair(stage: Stage, owner: Actor, holder: Actor) -> None:
    terminal = stage.terminal
    terminal.step("A copy is edited; it is put back, because the object is not this cluster's")
    patch = '{"stringData": {"text": "somebody was here"}}'
    terminal.run(f"{holder.kubectl} -n default patch secret hello --type merge -p '{patch}'")
    terminal.until(_read(holder), lambda out: "second cluster" in out, what="the copy is as before")
    terminal.say(f"In {owner.name}, where it was born, the same edit goes to all:")
    patch = '{"stringData": {"text": "hello again from the second cluster"}}'
    terminal.run(f"{owner.kubectl} -n default patch secret hello --type merge -p '{patch}'")
    terminal.until(_read(holder), lambda out: "hello again" in out, what="the change has arrived")


def _be_silent(stage: Stage, first: Actor, owner: Actor, third: Actor) -> None:
    silence, terminal = stage.silence(owner), stage.terminal
    if silence is None:
        return
    terminal.step(f"The API server of {owner.name} dies; what came from there stays")
    with silence:
        terminal.until(
            f"{first.kubectl} get clusters",
            lambda out: any(line.split()[:2] == [owner.name, "Failed"] for line in out.splitlines()),
            what=f"{first.name} has noticed",
        )
        terminal.run(_read(first))
    terminal.say(f"It is back, and so is {owner.name}:")
    _members(stage, first, others=[owner, third])


def _delete(stage: Stage, first: Actor, owner: Actor, third: Actor) -> None:
    terminal = stage.terminal
    terminal.step("It is deleted where it was born, and goes everywhere")
    terminal.run(f"{owner.kubectl} -n default delete secret hello")
    for actor in (first, third):
        command = f"{actor.kubectl} -n default get secrets -l demo=greeting -o name"
        terminal.until(command, lambda out: not out.strip(), what="the copy is gone")
        terminal.say("  (none)")


def _read(actor: Actor) -> str:
    return f"{actor.kubectl} -n default get secret hello -o {_TEXT}; echo"
