"""The story: three clusters find each other by one swap each, and synchronize objects."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .stage import NAMESPACE, Actor, Stage

_RULE = "docs/examples/greetings-rule.yaml"
_SECRET = "docs/examples/greetings-secret.yaml"
_TEXT = "jsonpath='{.data.text}' | base64 -d"


def play(stage: Stage, *, on_synced: Callable[[], None] | None = None) -> None:
    """Play the story; StoryError when a step has another result. `on_synced` is called when three are in step."""
    _install(stage)
    first, second, third = stage.actors
    terminal = stage.terminal

    terminal.step(f"{first.name} and {second.name} join by a swap: each copies its Cluster and its Secret to the other")
    _join(stage, first, second)
    _members(stage, first, others=[second])
    _members(stage, second, others=[first])

    terminal.step(f"{third.name} joins by one swap with {first.name}")
    _join(stage, first, third)
    terminal.explain(f"{second.name} and {third.name} have not swapped. They find each other through {first.name}:")
    terminal.run(status_command(stage.actors))

    _sync(stage, first, second, third)
    if on_synced is not None:
        on_synced()
    _repair(stage, second, third)
    _stop_api_server(stage, first, second, third)
    _delete(stage, first, second, third)


def _install(stage: Stage) -> None:
    stage.terminal.step("Install the chart in each cluster; each has its own name")
    for actor in stage.actors:
        stage.install(actor)
    stage.terminal.explain("Each daemon creates the Cluster object of its own cluster, and a Secret for its readers:")
    for actor in stage.actors:
        stage.wait_ready(actor)
        stage.terminal.until(
            f"{actor.kubectl} get clusters",
            lambda out: "Ready" in out and "Local" in out,
            condition="the Cluster is Ready",
        )
        secret = f"{actor.kubectl} -n {NAMESPACE} get secret {actor.name}"
        stage.terminal.until(secret, lambda out: "cluster-registry-secret" in out, condition="the Secret exists")


def _join(stage: Stage, one: Actor, other: Actor) -> None:
    stage.terminal.run(f"registry-controller join --context {one.context} --context {other.context}")


def status_command(actors: Sequence[Actor]) -> str:
    """Return the command that waits until all is well, and shows the group."""
    contexts = " ".join(f"--context {actor.context}" for actor in actors)
    return f"registry-controller status {contexts} --wait 90s"


def _members(stage: Stage, actor: Actor, *, others: list[Actor]) -> None:
    """Wait until one cluster reports all other clusters ready, and show its list."""

    def are_in_order(out: str) -> bool:
        rows = {line.split()[0]: line.split()[1:] for line in out.splitlines()[1:] if line.split()}
        return all(rows.get(other.name, [])[:3] == ["Ready", "Peer", "True"] for other in others)

    names = " and ".join(other.name for other in others)
    stage.terminal.until(
        f"{actor.kubectl} get clusters", are_in_order, condition=f"{actor.name} reads {names}", timeout_s=90
    )


def _sync(stage: Stage, first: Actor, second: Actor, third: Actor) -> None:
    terminal = stage.terminal
    terminal.step(f"A rule in {first.name}, a Secret in {second.name}")
    terminal.run(f"cat {_RULE}")
    terminal.run(f"{first.kubectl} apply -f {_RULE}")
    terminal.run(f"{second.kubectl} apply -f {_SECRET}")
    terminal.explain("Rules are copied to every member, so the Secret appears everywhere:")
    for actor in (first, third):
        terminal.until(_read(actor), lambda out: "second cluster" in out, condition="the copy exists")
    terminal.until(
        f"{third.kubectl} get resourcesyncrule greetings",
        lambda out: out.splitlines()[-1].split()[1:4] == ["Secret", "True", "True"],
        condition="the rule reports Synced",
    )


def _repair(stage: Stage, owner: Actor, keeper: Actor) -> None:
    terminal = stage.terminal
    terminal.step("A copy is edited; it is put back, because another cluster owns the object")
    patch = '{"stringData": {"text": "edited in the wrong cluster"}}'
    terminal.run(f"{keeper.kubectl} -n default patch secret hello --type merge -p '{patch}'")
    terminal.until(_read(keeper), lambda out: "second cluster" in out, condition="the copy is as before")
    terminal.explain(f"In {owner.name}, the owner, the same edit goes to all:")
    patch = '{"stringData": {"text": "hello again from the second cluster"}}'
    terminal.run(f"{owner.kubectl} -n default patch secret hello --type merge -p '{patch}'")
    terminal.until(_read(keeper), lambda out: "hello again" in out, condition="the change has arrived")


def _stop_api_server(stage: Stage, first: Actor, owner: Actor, third: Actor) -> None:
    stopped, terminal = stage.without_api_server(owner), stage.terminal
    if stopped is None:
        return
    terminal.step(f"The API server of {owner.name} stops; the copies of its objects stay")
    with stopped:
        terminal.until(
            f"{first.kubectl} get clusters",
            lambda out: any(line.split()[:2] == [owner.name, "Failed"] for line in out.splitlines()),
            condition=f"{first.name} has noticed",
        )
        terminal.run(_read(first))
    terminal.explain(f"It runs again, and {owner.name} is ready:")
    _members(stage, first, others=[owner, third])


def _delete(stage: Stage, first: Actor, owner: Actor, third: Actor) -> None:
    terminal = stage.terminal
    terminal.step("It is deleted at its owner, and all copies are deleted")
    terminal.run(f"{owner.kubectl} -n default delete secret hello")
    for actor in (first, third):
        command = f"{actor.kubectl} -n default get secrets -l demo=greeting -o name"
        terminal.until(command, lambda out: not out.strip(), condition="the copy is gone")
        terminal.explain("  (none)")


def _read(actor: Actor) -> str:
    return f"{actor.kubectl} -n default get secret hello -o {_TEXT}; echo"
