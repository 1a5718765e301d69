"""`registry-controller rbac`: prints the ClusterRoles that rules need."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from registry_controller.api import meta
from registry_controller.api.errors import InvalidObject, NotServed, NotWatchable
from registry_controller.api.meta import GVK, GroupKind, Manifest
from registry_controller.api.names import CORE_RULES
from registry_controller.cli.failures import FAILED, run_to_end
from registry_controller.cli.files import STDIN, file_option
from registry_controller.cli.global_options import GlobalOptions, LocalConnection, global_options
from registry_controller.cli.output import Form, list_document, object_name, say

if TYPE_CHECKING:
    from registry_controller.api.syncrule import SyncRule
    from registry_controller.core.rules.needed_rights import NeededRight

_ROLE: Final = GroupKind("rbac.authorization.k8s.io", "ClusterRole")
_DEFINITION: Final = "CustomResourceDefinition"
_PREFIX: Final = "cluster-registry-rule"
LIST_ALL: Final = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["list"]}
"""The right to find out that nothing lives in a Namespace or CustomResourceDefinition."""


class _Kinds(NamedTuple):
    """The resources of kinds, by group and kind, and the rules that name the kinds."""

    rules: Sequence[SyncRule]
    resources: Mapping[tuple[str, str], str]


@click.command("rbac")
@file_option(help="YAML with ResourceSyncRules; default: the rules of the cluster.", required=False)
@click.option("--name", metavar="NAME", help="Beginning of the names of both ClusterRoles.")
@global_options(forms=(Form.YAML, Form.JSON, Form.NAME))
def rbac_command(*, options: GlobalOptions, files: Sequence[Path], name: str | None) -> None:
    """Print the two ClusterRoles that rules need, with no more rights than these rules need.

    The first one lets the other clusters read the kinds of the rules here, the second one lets the daemon of this
    cluster write their copies. Their labels add them to the rights that the chart grants. Apply them in every cluster
    of the group.

    For a rule that copies Namespaces or CustomResourceDefinitions with deletionPolicy Delete, the second one also lets
    the daemon list all objects here, Secrets included. A warning reports that.

    With -f alone the command needs no cluster. A custom kind is then looked up among the CustomResourceDefinitions in
    the files; otherwise its resource is guessed, and a message reports that. With --context it is read from the
    cluster.

    \b
    Examples:
      registry-controller rbac -f rule.yaml | kubectl apply -f -
      registry-controller rbac --context kind-a | kubectl --context kind-a apply -f -
      registry-controller rbac -f rules/ --name team-rules -o json
    """
    # Imported late, so that a wrong command line fails at once.
    from registry_controller.core.rules.needed_rights import list_needed_rights  # noqa: PLC0415

    given = _read_files(files)
    if not files or options.contexts or options.kubeconfig is not None:
        given = run_to_end(_ask_cluster(options.connection, given, has_files=bool(files)))
    rules = [rule for rule in given.rules if rule.name not in CORE_RULES]
    rights = list_needed_rights(rules)
    policies = _find_container_policies(rules)
    prefix = name or (f"{_PREFIX}-{rules[0].name}" if files and len(rules) == 1 else f"{_PREFIX}s")
    resources = _name_resources({right.kind for right in (*rights.reader, *rights.controller)}, given.resources)
    reader = build_role(f"{prefix}-reader", meta.READER_AGGREGATED, rights.reader, resources)
    controller = build_role(f"{prefix}-controller", meta.CONTROLLER_AGGREGATED, rights.controller, resources)
    if "Delete" in policies:
        controller = {**controller, "rules": [*controller["rules"], LIST_ALL]}
    _say_notes({right.kind for right in rights.controller})
    _say_notes_on_containers(controller, policies)
    _print_roles(options, [reader, controller])


def build_role(
    name: str, label: str, rights: Iterable[NeededRight], resources: Mapping[tuple[str, str], str]
) -> Manifest:
    """Build a ClusterRole with an aggregation label; `resources` has the resource of each group and kind."""
    grouped: dict[tuple[str, tuple[str, ...]], set[str]] = {}
    for right in rights:
        resource = resources[(right.kind.group, right.kind.kind)]
        full = f"{resource}/{right.subresource}" if right.subresource else resource
        grouped.setdefault((right.kind.group, right.verbs), set()).add(full)
    rules = [
        {"apiGroups": [group], "resources": sorted(names), "verbs": list(verbs)}
        for (group, verbs), names in sorted(grouped.items())
    ]
    metadata = {"name": name, "labels": {label: "true"}}
    return {"apiVersion": f"{_ROLE.group}/v1", "kind": _ROLE.kind, "metadata": metadata, "rules": rules}


def guess_resource(kind: str) -> str:
    """Return the plural of a kind, in lower case; it is right for every built-in kind."""
    word = kind.lower()
    if word == "endpoints":
        return word
    if word.endswith("y") and word[-2:-1] not in "aeiou":
        return f"{word[:-1]}ies"
    return f"{word}es" if word.endswith(("s", "x", "z", "ch", "sh")) else f"{word}s"


def _read_files(files: Sequence[Path]) -> _Kinds:
    """Read the rules and the CustomResourceDefinitions in files; exit 1 for a rule that is not valid."""
    from registry_controller.api.syncrule import read_rule  # noqa: PLC0415
    from registry_controller.cli.lint import examine_file  # noqa: PLC0415  it imports all readers of rules

    manifests: list[Mapping[str, Any]] = []
    errors = 0
    for file in files:
        for manifest, remarks, _ in examine_file(file, named=True):
            for remark in remarks:
                say(str(remark))
                errors += remark.finding.is_error
            manifests.append(manifest)
    if errors:
        raise click.exceptions.Exit(FAILED)
    rules = [read_rule(manifest) for manifest in manifests if manifest.get("kind") == meta.RULE.kind]
    if files and not rules:
        raise click.ClickException(f"{', '.join(map(str, files))}: there is no {meta.RULE.kind}")
    return _Kinds(rules, {kind: plural for file in files if file != STDIN for kind, plural in _read_definitions(file)})


def _read_definitions(file: Path) -> Iterator[tuple[tuple[str, str], str]]:
    """List the kinds that the CustomResourceDefinitions of a file define, with their resources."""
    from registry_controller.cli.documents import read_documents  # noqa: PLC0415  late, as above

    for document in read_documents(file.read_text(encoding="utf-8")):
        for found in (item.manifest for item in document.items):
            if found.get("kind") == _DEFINITION:
                spec = found.get("spec") or {}
                names = spec.get("names") or {}
                yield (str(spec.get("group")), str(names.get("kind"))), str(names.get("plural"))


async def _ask_cluster(connection: LocalConnection, given: _Kinds, *, has_files: bool) -> _Kinds:
    """Read the resources of kinds, and without files the rules, from a cluster."""
    from registry_controller.api.syncrule import read_rule  # noqa: PLC0415  late, as above
    from registry_controller.cli.connecting import connected  # noqa: PLC0415
    from registry_controller.core.rules.needed_rights import list_needed_rights  # noqa: PLC0415
    from registry_controller.kube.discover import Discovery  # noqa: PLC0415
    from registry_controller.local.client import command_client  # noqa: PLC0415

    rules, resources = list(given.rules), dict(given.resources)
    async with connected(connection) as writer:
        client = command_client(writer, context=connection.context)
        for manifest in () if has_files else await client.list(meta.RULES):
            try:
                rules.append(read_rule(manifest))
            except InvalidObject as error:
                say(f"{meta.RULE.kind} {meta.metadata_of(manifest).get('name')} is left out: {error}")
        discovery = Discovery(writer)
        rights = list_needed_rights(rules)
        for kind in {right.kind for right in (*rights.reader, *rights.controller)}:
            try:
                found = await client.patiently(functools.partial(discovery.resolve, kind))
                resources[(kind.group, kind.kind)] = found.resource
            except (NotServed, NotWatchable) as error:
                say(f"warning: {error}")
    return _Kinds(rules, resources)


def _name_resources(kinds: Iterable[GVK], known: Mapping[tuple[str, str], str]) -> Mapping[tuple[str, str], str]:
    """Return the resource of each kind. A custom kind that is not known is guessed, with a warning."""
    from registry_controller.kube.discover import has_definition  # noqa: PLC0415  late, as above

    found = dict(known)
    for kind in sorted(set(kinds)):
        pair = (kind.group, kind.kind)
        if pair not in found:
            found[pair] = guess_resource(kind.kind)
            if has_definition(kind):
                say(
                    f"warning: the resource of {kind.kind}.{kind.group} is guessed: {found[pair]}; give --context, or "
                    "-f with its CustomResourceDefinition, to read it"
                )
    return found


def _say_notes(kinds: Collection[GVK]) -> None:
    """Report which rights depend on more than the rules."""
    if any(kind.group == _ROLE.group for kind in kinds):
        say(
            "note: to copy a role, the daemon also needs each right in it, or the verb escalate on roles; to copy a "
            "binding, the verb bind on its role"
        )
    if any((kind.group, kind.kind) == (meta.SECRET.group, meta.SECRET.kind) for kind in kinds):
        say(
            "note: the chart grants Secrets already, unless rbac.narrowSecrets is set; where it is set, these "
            "ClusterRoles end the narrowing"
        )


def _find_container_policies(rules: Iterable[SyncRule]) -> frozenset[str]:
    """Return the deletion policies of the rules that copy Namespaces or CustomResourceDefinitions."""
    from registry_controller.core.decision.state import CUSTOM_RESOURCE_DEFINITION, NAMESPACE  # noqa: PLC0415  late
    from registry_controller.core.rules.needed_rights import WRITE, list_needed_rights  # noqa: PLC0415

    containers = (NAMESPACE, CUSTOM_RESOURCE_DEFINITION)
    return frozenset(
        rule.deletion_policy
        for rule in rules
        for right in list_needed_rights([rule]).controller
        if right.verbs == WRITE and GroupKind(right.kind.group, right.kind.kind) in containers
    )


def _say_notes_on_containers(controller: Manifest, policies: Collection[str]) -> None:
    """Report the right to list all objects, and what happens without it."""
    what = "a copied Namespace or CustomResourceDefinition"
    if "Delete" in policies:
        say(
            f"warning: ClusterRole {meta.metadata_of(controller)['name']} lets the daemon list all objects of this "
            f"cluster, Secrets included, for deletionPolicy Delete. It deletes {what} only when nothing lives in it. "
            "Remove `list` of `*` to withhold that right: then such copies stay (ContentRemains)"
        )
    elif policies:
        say(
            f"note: {what} stays (ContentRemains) after the deletion of its source, unless the daemon may list all "
            "objects in it; these ClusterRoles lack that right, because no rule has deletionPolicy Delete"
        )


def _print_roles(options: GlobalOptions, roles: Sequence[Manifest]) -> None:
    printer = options.printer
    if options.form is Form.NAME:
        printer.print_names(object_name(_ROLE, meta.metadata_of(role)["name"]) for role in roles)
    elif options.form is Form.JSON:
        printer.print_document(list_document(roles))
    else:
        printer.print_documents(roles)
