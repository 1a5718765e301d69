"""Writing objects as kubectl does, without a process for each write: a tenth of a second each, on two cores.

The requests are those of kubectl, with its field managers. What this does not understand, or the API server refuses,
is left to kubectl, whose messages tests expect.
"""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from hack.controlplane import ApiError, Cluster, CommandError
from tests.e2e.reading import Reading

_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_PATCHES: Final = {"merge": "application/merge-patch+json", "json": "application/json-patch+json"}
_FLAGS: Final = {"--type": "type", "-p": "patch", "--patch": "patch", "--subresource": "subresource"}
_GONE_WITHIN_S: Final = 600.0


class _Command(NamedTuple):
    """The place that a command names, its flags, and the words after the place."""

    place: tuple[str, ...]
    flags: Mapping[str, str]
    words: Sequence[str]


class Writing:
    """Writes to one cluster. Each method returns whether it has done the work: else it is for kubectl."""

    def __init__(self, cluster: Cluster, reading: Reading) -> None:
        self._cluster = cluster
        self._reading = reading

    def create(self, manifest: dict[str, Any]) -> bool:
        """Create an object."""
        return self._create(_without_history(manifest), manager="kubectl-create")

    def apply(self, manifest: dict[str, Any]) -> bool:
        """Create an object that is not there as kubectl's apply does."""
        made = copy.deepcopy(manifest)
        info = made.setdefault("metadata", {})
        resource = self._reading.resource_of(made)
        if resource is None or "name" not in info:
            return False
        if resource.namespaced:
            info.setdefault("namespace", "default")
        annotations = info["annotations"] = dict(info.get("annotations") or {})
        annotations.pop(_LAST_APPLIED, None)
        annotations[_LAST_APPLIED] = json.dumps(made, separators=(",", ":"), sort_keys=True) + "\n"
        try:
            self._cluster.api.get(self._reading.path_of(resource, info["name"], info.get("namespace", "")))
        except ApiError as error:
            return error.status == 404 and self._create(made, manager="kubectl-client-side-apply")
        return False

    def run(self, arguments: Sequence[str]) -> bool:
        """Run `delete`, `patch`, `annotate` or `label` about one object."""
        does: Mapping[str, Callable[[_Command], bool]] = {
            "delete": self._delete,
            "patch": self._patch,
            "annotate": lambda command: self._mark("annotations", command, manager="kubectl-annotate"),
            "label": lambda command: self._mark("labels", command, manager="kubectl-label"),
        }
        run = does.get(arguments[0])
        command = _parse(arguments[1:]) if run is not None else None
        try:
            return run is not None and command is not None and run(command)
        except (ApiError, CommandError):
            return False

    def _create(self, manifest: dict[str, Any], *, manager: str) -> bool:
        resource = self._reading.resource_of(manifest)
        if resource is None:
            return False
        namespace = manifest["metadata"].get("namespace", "default")
        path = f"{self._reading.path_of(resource, '', namespace)}?fieldManager={manager}&fieldValidation=Strict"
        try:
            self._cluster.api.request("POST", path, body=manifest)
        except ApiError:
            return False
        return True

    def _delete(self, command: _Command) -> bool:
        if command.flags or command.words:
            return False
        path = self._reading.path_to(*command.place)
        if path is None:
            return False
        uid = self._cluster.api.get(path)["metadata"]["uid"]
        self._cluster.api.request("DELETE", path, body={"propagationPolicy": "Background"})
        until_s = time.monotonic() + _GONE_WITHIN_S
        while time.monotonic() < until_s:
            try:
                if self._cluster.api.get(path)["metadata"]["uid"] != uid:
                    return True
            except ApiError as error:
                if error.status == 404:
                    return True
                raise
            time.sleep(0.05)
        raise AssertionError(f"{path}: not gone within {_GONE_WITHIN_S} s")

    def _patch(self, command: _Command) -> bool:
        form, text = _PATCHES.get(command.flags.get("type", "")), command.flags.get("patch")
        path = self._reading.path_to(*command.place)
        if form is None or text is None or path is None or command.words:
            return False
        part = f"/{command.flags['subresource']}" if "subresource" in command.flags else ""
        body = json.loads(text)
        self._cluster.api.request("PATCH", f"{path}{part}?fieldManager=kubectl-patch", body=body, content_type=form)
        return True

    def _mark(self, field: str, command: _Command, *, manager: str) -> bool:
        """Set annotations or labels, or remove them; one that is there with another value is for kubectl."""
        path = self._reading.path_to(*command.place)
        if path is None or command.flags.keys() - {"overwrite"} or not command.words:
            return False
        marks = dict[str, str | None]()
        for word in command.words:
            name, is_set, value = word.partition("=")
            if not is_set and not word.endswith("-"):
                return False
            marks[name if is_set else word[:-1]] = value if is_set else None
        held = self._cluster.api.get(path)["metadata"].get(field) or {}
        if "overwrite" not in command.flags and any(
            marks[name] not in (None, held[name]) for name in marks.keys() & held.keys()
        ):
            return False
        body = {"metadata": {field: marks}}
        self._cluster.api.request("PATCH", f"{path}?fieldManager={manager}", body=body, content_type=_PATCHES["merge"])
        return True


def _without_history(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return a manifest as kubectl's create sends it: one that was read is another cluster's state."""
    info = {
        key: value for key, value in manifest["metadata"].items() if key not in ("resourceVersion", "managedFields")
    }
    return {**manifest, "metadata": info}


def _parse(arguments: Sequence[str]) -> _Command | None:
    """Parse the arguments after the verb; None where they have a flag, or a form, that is not known here."""
    flags, words, namespace, rest = dict[str, str](), list[str](), list[str](), list(arguments)
    while rest:
        word = rest.pop(0)
        name, has_value, value = word.partition("=")
        if word in ("-n", "--namespace") and rest:
            namespace = ["-n", rest.pop(0)]
        elif word == "--overwrite":
            flags["overwrite"] = ""
        elif name in _FLAGS and (has_value or rest):
            flags[_FLAGS[name]] = value if has_value else rest.pop(0)
        elif word.startswith("-"):
            return None
        else:
            words.append(word)
    count = 1 if words and "/" in words[0] else 2
    if len(words) < count:
        return None
    return _Command((*words[:count], *namespace), flags, words[count:])
