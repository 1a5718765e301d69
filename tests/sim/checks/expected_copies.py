"""What a rule makes of a source, written a second time: marks, matching and mutations of what schedules are made of."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from registry_controller.api import meta
from registry_controller.api.meta import ObjectKey
from tests.sim.cluster.fields import Manifest, Path
from tests.sim.cluster.habits import RENEWED, Habit, Habits
from tests.sim.cluster.kinds import BY_KIND
from tests.sim.schedule.vocabulary import (
    INSTANCE,
    LEFT,
    LETS_IN,
    NEWER,
    SELECTORS,
    SUFFIX,
    TEMPLATES,
    TRACKED_BY,
    TRACKED_IN,
    TUNED,
    UNREADABLE_NAMES,
    UNREADABLE_SELECTORS,
)


class Marks(NamedTuple):
    """What an object says of where it comes from.

    `is_named` says that the marks name this very object; else only its owner can show that it is a copy. They
    `were_passed_on` when they name another one: then it has no owner.
    """

    owner: str
    provenance: Mapping[str, Any]
    frozen: bool
    is_named: bool = True
    were_passed_on: bool = False

    def is_bound_in(self, cluster_id: str) -> bool:
        """Say whether the marks are about this very object, in the cluster that has it (O11)."""
        made_in = (self.provenance.get("copy") or {}).get("cluster") or cluster_id
        return self.is_named and not self.were_passed_on and made_in == cluster_id

    @property
    def adopted(self) -> bool:
        return bool(self.owner) and (not self.provenance or bool(self.provenance.get("adopted")))


def marks_of(manifest: Manifest) -> Marks:
    """Read an object's marks; they count only on the object that they name."""
    info = manifest["metadata"]
    found = info.get("annotations") or {}
    owner, disabled, key = found.get(meta.OWNER, ""), meta.SYNC_DISABLED in found, key_of(manifest)
    if meta.GO_LAST_APPLIED in found:
        written = _unpack(found[meta.GO_LAST_APPLIED])
        if not owner or not written:
            return Marks(owner, {}, disabled, is_named=not owner)
        is_named = (written["kind"], key_of(written)) == (manifest["kind"], key)
        return Marks(owner if is_named else "", {}, disabled, were_passed_on=not is_named)
    if meta.PROVENANCE not in found:
        return Marks(owner, {}, disabled, is_named=not owner)
    provenance = json.loads(found[meta.PROVENANCE])
    named, kind = provenance["copy"], BY_KIND[manifest["kind"]]
    if (named["group"], named["kind"], named["namespace"], named["name"]) != (kind.group, kind.kind, *key):
        return Marks("", {}, disabled, were_passed_on=True)
    return Marks(provenance.get("owner") or owner, provenance, disabled and not provenance.get("inherited"))


ADDED = "added"
"""A field of provenance that only a later version knows."""


def is_of_later_version(manifest: Manifest) -> bool:
    """Say whether a later daemon wrote an object, or its marks, in a format that this one does not know."""
    info = manifest["metadata"]
    record = json.loads((info.get("annotations") or {}).get(meta.DELETED_RULES, "{}"))
    label = (info.get("labels") or {}).get(meta.LEFT_FORMAT, "1")
    return label != "1" or any(found.get("format", 1) != 1 for found in (record, marks_of(manifest).provenance))


def _unpack(text: str) -> Mapping[str, Any]:
    """Read the object that the Go original keeps in an annotation; empty where it cannot be read."""
    try:
        with zipfile.ZipFile(io.BytesIO(base64.b64decode(text))) as archive:
            return dict(json.loads(archive.read(archive.namelist()[0])))
    except zipfile.BadZipFile:
        return {}


def is_membership(manifest: Manifest) -> bool:
    """Say whether an object is a Cluster, or credentials."""
    kinds = (meta.REGISTRY_SECRET_TYPE, "kubernetes.io/service-account-token")
    return bool(manifest["kind"] == "Cluster" or manifest.get("type") in kinds)


def is_made_by_controller(manifest: Manifest) -> bool:
    """Say whether a controller made an object from a copy: with the copy's marks, and as its own (O11)."""
    owners = manifest["metadata"].get("ownerReferences") or ()
    return marks_of(manifest).were_passed_on and any(one.get("controller") for one in owners)


def key_of(manifest: Manifest) -> ObjectKey:
    """Name an object."""
    return ObjectKey(manifest["metadata"].get("namespace", ""), manifest["metadata"]["name"])


def source_named_by(copy: Manifest) -> tuple[str, ObjectKey]:
    """Return the kind and key of a copy's source: from its provenance, else from the marks of the Go original.

    Where neither names a part, it is the copy's own.
    """
    named, info, own = marks_of(copy).provenance.get("source"), copy["metadata"], key_of(copy)
    if named:
        return named["kind"], ObjectKey(named["namespace"], named["name"])
    annotations, labels = info.get("annotations") or {}, info.get("labels") or {}
    kind = annotations.get(meta.ORIGINAL_GVK, "").partition(".")[0] or copy["kind"]
    namespace = labels.get(meta.ORIGINAL_NAMESPACE) or own.namespace
    return kind, ObjectKey(namespace, labels.get(meta.ORIGINAL_NAME) or own.name)


class Place(NamedTuple):
    """Where an object is, or is to be."""

    kind: str
    key: ObjectKey

    def __str__(self) -> str:
        return f"{self.kind} {self.key}"


@dataclass(frozen=True)
class Rule:
    """A rule as one cluster has it."""

    manifest: Manifest
    rank: tuple[str, str, str]

    @property
    def name(self) -> str:
        return str(self.manifest["metadata"]["name"])

    @property
    def uid(self) -> str:
        """Tell the uid where it was made."""
        made_of = marks_of(self.manifest).provenance.get("source") or self.manifest["metadata"]
        return str(made_of["uid"])

    @property
    def written(self) -> str:
        """Tell the digest of the spec as the rule's owner wrote it; empty where its marks do not say."""
        return str((marks_of(self.manifest).provenance.get("spec") or {}).get("digest", ""))

    @property
    def revision(self) -> str:
        """Tell the resourceVersion at its owner of what a copy of a rule was made of; empty for no copy."""
        return str((marks_of(self.manifest).provenance.get("source") or {}).get("resourceVersion", ""))

    @property
    def is_idle(self) -> bool:
        """Say whether it does nothing: by its own word, because it is altered here, or because it is of the future."""
        return bool(self.spec.get("suspend") or NEWER in self.spec or self.is_altered)

    @property
    def is_altered(self) -> bool:
        """Say whether it is a copy that is not as its owner wrote it, and is not to be obeyed (A8)."""
        marks = marks_of(self.manifest)
        written = marks.provenance.get("spec")
        if not written or marks.frozen or written["resourceVersion"] != marks.provenance["source"]["resourceVersion"]:
            return False
        text = json.dumps(self.manifest["spec"], sort_keys=True, separators=(",", ":"))
        return bool(written["digest"] != hashlib.blake2b(text.encode(), digest_size=16).hexdigest())

    @property
    def spec(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.manifest["spec"]
        return found

    @property
    def kind(self) -> str:
        return str(self.spec["groupVersionKind"]["kind"])

    def override_paths(self, source: Manifest) -> list[str]:
        """List the paths of its overrides for a source that it matches."""
        entries = [entry.get("mutations") or {} for entry in self.matching(source)]
        return [str(override["path"]) for mutations in entries for override in mutations.get("overrides") or ()]

    @property
    def asks_for_names(self) -> bool:
        """Say whether it copies only what names the cluster that copies it."""
        return self.spec.get("objectTargets") == "Required"

    @property
    def deletes(self) -> bool:
        return self.spec.get("deletionPolicy") == "Delete"

    def matching(self, source: Manifest) -> list[Mapping[str, Any]]:
        """List the entries that match."""
        return [
            entry
            for entry in self.spec["rules"]
            if any(_matches(match, source) for match in entry.get("match") or [{}])
        ]


def names_cluster(source: Manifest, name: str, labels: Mapping[str, str]) -> bool | None:
    """Say whether an object names a cluster in its annotations; None where they cannot be read (W9)."""
    found = source["metadata"].get("annotations") or {}
    names, selector = found.get(meta.TARGET_CLUSTERS), found.get(meta.TARGET_CLUSTER_SELECTOR)
    if names in UNREADABLE_NAMES or selector in UNREADABLE_SELECTORS:
        return None
    if names is None and selector is None:
        return False
    is_named = names is None or name in names.split(",")
    return is_named and (selector is None or SELECTORS[selector](labels))


def asks_for_all(rule: Rule) -> bool:
    """Say whether a rule names, selects and filters nothing."""
    return any(not match for entry in rule.spec["rules"] for match in entry.get("match") or [{}])


def stays_at_home(source: Manifest) -> bool:
    """Say whether an object is left out where everything is asked for (W7)."""
    return key_of(source).namespace.startswith("kube-") or is_to_be_named(source)


def is_to_be_named(source: Manifest) -> bool:
    """Say whether Kubernetes makes it by itself in every cluster: it is copied for a match that names it (W7)."""
    own = {"ConfigMap": ("kube-root-ca.crt",), "Namespace": ("default", "kube-system", "kube-public")}
    return key_of(source).name in own.get(source["kind"], ())


def _matches(match: Mapping[str, Any], source: Manifest) -> bool:
    key, labels = key_of(source), source["metadata"].get("labels") or {}
    if not match:
        return not stays_at_home(source)
    named = {part: match[part] for part in ("name", "namespace") if part in match} | (match.get("objectKey") or {})
    if is_to_be_named(source) and "name" not in named:
        return False
    if source.get("type") == LETS_IN and not any(content["key"] == "type" for content in match.get("content") or ()):
        return False
    if named.get("name", key.name) != key.name or named.get("namespace", key.namespace) != key.namespace:
        return False
    if match.get("namespaces") and key.namespace and key.namespace not in match["namespaces"]:
        return False
    if match.get("labels") and not any(_selects(selector, labels) for selector in match["labels"]):
        return False
    return all(_at(source, content["key"]) == content["value"] for content in match.get("content") or ())


def _selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    wanted = selector.get("matchLabels") or {}
    among = selector.get("matchExpressions") or []
    return all(labels.get(name) == value for name, value in wanted.items()) and all(
        labels.get(one["key"]) in one["values"] for one in among
    )


def _at(manifest: Any, path: str) -> Any:
    for step in path.split("."):
        manifest = manifest.get(step) if isinstance(manifest, Mapping) else None
    return manifest


@dataclass(frozen=True)
class Copy:
    """What a rule makes of a source. `content` is all but metadata and status; None as `status` was not asked for.

    `left` names a field that is left to the copy's cluster, and the map that has it; empty for none. `unlabelled` are
    the labels that are.
    """

    place: Place
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    content: Mapping[str, Any]
    status: Mapping[str, Any] | None
    left: tuple[str, ...] = ()
    unlabelled: tuple[str, ...] = ()

    def holds_the_same(self, other: Copy) -> bool:
        """Say whether another rule makes the same copy; labels of other writers stay under every rule (W2)."""
        return replace(self, unlabelled=()) == replace(other, unlabelled=())

    def differs(self, found: Manifest) -> str:
        """Say in what an object is not this copy; empty where it is."""
        info = found["metadata"]
        for which, wanted in (("labels", self.labels), ("annotations", self.annotations)):
            held = info.get(which) or {}
            for name, text in wanted.items():
                if held.get(name) != text:
                    return f"its {which[:-1]} {name} is {held.get(name)!r} and not {text!r}"
        for name in self.unlabelled:
            is_ours = not _managers_of(found, ("metadata", "labels", name))
            if is_ours and (info.get("labels") or {}).get(name) == SUFFIX:  # a copy made anew has the cluster's again
                return f"it has the label {name}, which its rule takes out, and nobody else has set it here"
        held, wanted = (without_left(content, self.left) for content in (content_of(found), self.content))
        if held != wanted:
            return f"it holds {held} and not {wanted}"
        if self.status is not None and (found.get("status") or {}) != self.status:
            return f"its status is {found.get('status')} and not {self.status}"
        return ""


def stored_forms(copy: Copy, habits: Habits, over: Manifest | None) -> Iterator[Copy]:
    """Spell a copy as it may be stored: as it is wanted, and as the server spells it now; `over` is what is there.

    What admission writes anew at each write may be anything.
    """
    yield copy
    sent = {**copy.content, "metadata": {"labels": copy.labels}, "status": copy.status}
    made = habits.stored_form(copy.place.kind, sent, over)
    annotations = copy.annotations
    if habits.has(copy.place.kind, Habit.RENEWS):
        annotations = {name: text for name, text in annotations.items() if name != RENEWED}
    yield replace(
        copy,
        content=content_of(made),
        labels=made["metadata"]["labels"],
        annotations=annotations,
        status=made["status"],
    )


def content_of(manifest: Manifest) -> dict[str, Any]:
    """Take what an object is about."""
    left_out = ("apiVersion", "kind", "metadata", "status")
    return {name: value for name, value in manifest.items() if name not in left_out}


def _managers_of(manifest: Manifest, path: Path) -> set[str]:
    """List who beside the daemon has set a field."""
    found = set()
    for entry in manifest["metadata"].get("managedFields") or ():
        held = entry.get("fieldsV1") or {}
        for step in path:
            held = held.get(f"f:{step}") if held is not None else None
        found |= {entry["manager"]} if held is not None else set()
    return found - {meta.FIELD_MANAGER}


def without_left(content: Mapping[str, Any], left: tuple[str, ...]) -> Mapping[str, Any]:
    """Take out of a copy what is left to its cluster; an empty map is like none."""
    if not left:
        return content
    body, field = left
    below = {name: value for name, value in (content.get(body) or {}).items() if name != field}
    return {**{name: value for name, value in content.items() if name != body}, **({body: below} if below else {})}


_STAYS_BEHIND = (
    meta.OWNER, meta.PROVENANCE, meta.ORIGINAL_NAME, meta.ORIGINAL_NAMESPACE, meta.ORIGINAL_GVK, meta.GO_LAST_APPLIED,
    meta.ALLOW_DELETIONS, meta.TARGET_CLUSTERS, meta.TARGET_CLUSTER_SELECTOR,
)  # fmt: skip


def _rendered(value: str, source: Manifest, *, owner: str, local: str) -> str | None:
    return TEMPLATES[value](source, owner, local) if value in TEMPLATES else value


def _is_there(path: list[str], content: Mapping[str, Any], *, namespace: str) -> bool:
    """Say whether an override finds its place; only the last part of a path is optional."""
    if path == ["metadata", "namespace"]:
        return bool(namespace)  # it is written without a mark that it is optional
    return path[0] == "metadata" or path[0] in content


def make_copy(source: Manifest, rule: Rule, *, owner: str, owner_id: str, local: str) -> Copy | None:
    """Make of a source what a rule says; None where that cannot be told. The rule matches it."""
    info, kind = source["metadata"], str(source["kind"])
    namespace, name = key_of(source)
    labels = {key: text for key, text in (info.get("labels") or {}).items() if key not in _STAYS_BEHIND}
    annotations = {key: text for key, text in (info.get("annotations") or {}).items() if key not in _STAYS_BEHIND}
    content = {"spec": {"finalizers": ["kubernetes"]}} if kind == "Namespace" else content_of(source)
    status, left, unlabelled = None, tuple[str, ...](), list[str]()
    labels = {key: text for key, text in labels.items() if key not in TRACKED_BY or (key == INSTANCE and kind == "Pod")}
    annotations = {key: text for key, text in annotations.items() if key not in TRACKED_IN}
    for entry in rule.matching(source):
        mutations = entry.get("mutations") or {}
        kind = (mutations.get("groupVersionKind") or {}).get("kind") or kind
        labels |= (mutations.get("labels") or {}).get("add") or {}
        unlabelled += (mutations.get("labels") or {}).get("remove") or ()
        status = source.get("status") or {} if mutations.get("syncStatus") else status
        for override in mutations.get("overrides") or ():
            text = _rendered(override.get("value", ""), source, owner=owner, local=local)
            path = override["path"].strip("?").split("/")[1:]
            if text is None or not _is_there(path, content, namespace=namespace):
                return None
            match path:
                case ["metadata", "name"]:
                    name = text
                case ["metadata", "namespace"]:
                    namespace = text
                case [body, where] if override["type"] == "remove":
                    assert where in (LEFT, TUNED)
                    content, left = without_left(content, (body, where)), (body, where)
                case [body, where]:
                    content = {**content, body: {**(content.get(body) or {}), where: text}}
    labels = {key: text for key, text in labels.items() if key not in unlabelled}
    labels[meta.OWNER] = annotations[meta.OWNER] = owner_id
    if name != info["name"]:
        labels[meta.ORIGINAL_NAME] = info["name"]
    if namespace != info.get("namespace", ""):
        labels[meta.ORIGINAL_NAMESPACE] = info["namespace"]
    return Copy(Place(kind, ObjectKey(namespace, name)), labels, annotations, content, status, left, tuple(unlabelled))
