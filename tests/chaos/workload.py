"""What people do in the group while it is being broken: they make, change and delete objects, copies and rules.

Each state of an object holds a number that no other state has, so that a history can be read off its values. Law: a
workload with one seed does the same deeds in the same order, whatever becomes of them.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

from tests.chaos.bed import Site
from tests.e2e.group import API

WANTED = {"sync": "yes"}
MERGE = "application/merge-patch+json"
KINDS = {"cm": ("ConfigMap", "configmaps"), "secret": ("Secret", "secrets")}
_NAMES = 6


def path_of(kind: str, name: str = "", namespace: str = "default") -> str:
    """Where an object is, by the short name of its kind."""
    return f"/api/v1/namespaces/{namespace}/{KINDS[kind][1]}" + (f"/{name}" if name else "")


def work_rule(name: str, kind: str, *, text: str = "t0", label: str = "yes") -> dict[str, Any]:
    """A rule as the workload edits it: one field is overridden with a text, and what is not wanted any more goes."""
    entry: dict[str, Any] = {"match": [{"labels": [{"matchLabels": {"sync": label}}]}]}
    if kind == "ConfigMap":
        entry["mutations"] = {"overrides": [{"type": "replace", "path": "/data/text?", "value": text}]}
    return {
        "apiVersion": API,
        "kind": "ResourceSyncRule",
        "metadata": {"name": name},
        "spec": {"groupVersionKind": {"version": "v1", "kind": kind}, "rules": [entry], "deletionPolicy": "Delete"},
    }


class Workload:
    """Random deeds at some sites. `canary` is part of all Secrets' data, and of nothing else."""

    def __init__(self, sites: list[Site], *, seed: int, canary: str) -> None:
        self.sites = sites
        self.done: Counter[str] = Counter()
        self.chance = random.Random(seed)
        self._canary = canary
        self._number = 0
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def begin(self) -> None:
        """Apply the rules at the first site."""
        self.sites[0].apply(work_rule("work", "ConfigMap"), work_rule("work-secrets", "Secret"))

    def start(self, *, pause_s: float = 0.15, gentle: bool = False) -> None:
        """Do deeds in a thread of its own until `stop`. gentle: only at owners, and no rules."""
        self._stop.clear()
        self._thread = threading.Thread(target=self._run, args=(pause_s, gentle), name="workload", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def number(self) -> str:
        """A number that no other state has."""
        with self._lock:
            self._number += 1
            return str(self._number)

    def _run(self, pause_s: float, gentle: bool) -> None:
        deeds: list[tuple[Callable[[], str], int]] = [(self.put, 60), (self.delete, 12), (self.offer_both, 4)]
        if not gentle:
            deeds += [(self.edit_copy, 8), (self.delete_copy, 5), (self.edit_rule, 2)]
        while not self._stop.wait(self.chance.uniform(0.2, 1.8) * pause_s):
            deed = self.chance.choices([one for one, _ in deeds], [weight for _, weight in deeds])[0]
            self.done[deed()] += 1

    def put(self, site: Site | None = None, name: str = "", kind: str = "", **data: str) -> str:
        """Make an object, or change it; the word says what became of it."""
        site = site or self.chance.choice(self.sites)
        kind = kind or self.chance.choices(list(KINDS), [3, 1])[0]
        name = name or f"{site.name}-{self.chance.randrange(_NAMES)}"
        values = {"n": self.number(), **data}
        if kind == "secret":
            values["secret"] = self._canary + values["n"]
        field = "stringData" if kind == "secret" else "data"
        body = {field: values, "metadata": {"labels": WANTED}}
        if site.write("PATCH", path_of(kind, name), body, content_type=MERGE, timeout_s=5) is not None:
            return "changed"
        info = {"name": name, "namespace": "default", "labels": WANTED}
        made = {"apiVersion": "v1", "kind": KINDS[kind][0], "metadata": info, field: values}
        return "made" if site.write("POST", path_of(kind), made, timeout_s=5) is not None else "not made"

    def delete(self, site: Site | None = None, name: str = "", kind: str = "") -> str:
        """Delete an object that may be there."""
        site = site or self.chance.choice(self.sites)
        kind = kind or self.chance.choices(list(KINDS), [3, 1])[0]
        name = name or f"{site.name}-{self.chance.randrange(_NAMES)}"
        return "deleted" if site.write("DELETE", path_of(kind, name), timeout_s=5) is not None else "not there"

    def offer_both(self) -> str:
        """Make or change an object under a name that several owners use."""
        return self.put(self.chance.choice(self.sites), f"shared-{self.chance.randrange(2)}", "cm")

    def edit_copy(self) -> str:
        """Change an object of somebody else."""
        site, owner = self.chance.sample(self.sites, 2)
        name = f"{owner.name}-{self.chance.randrange(_NAMES)}"
        body = {"data": {self.chance.choice(["n", "text", "extra"]): "edited"}}
        answer = site.write("PATCH", path_of("cm", name), body, content_type=MERGE, timeout_s=5)
        return "copy edited" if answer is not None else "no copy"

    def delete_copy(self) -> str:
        """Delete an object of somebody else."""
        site, owner = self.chance.sample(self.sites, 2)
        name = f"{owner.name}-{self.chance.randrange(_NAMES)}"
        return "copy deleted" if site.write("DELETE", path_of("cm", name), timeout_s=5) is not None else "no copy"

    def edit_rule(self, **more: str) -> str:
        """Change what the rule for ConfigMaps makes of them."""
        text = more or {"text": f"t{self.number()}"}
        spec = work_rule("work", "ConfigMap", **text)["spec"]
        path = "/apis/clusterregistry.k8s.cisco.com/v1alpha1/resourcesyncrules/work"
        answer = self.sites[0].write("PATCH", path, {"spec": spec}, content_type=MERGE, timeout_s=5)
        return "rule edited" if answer is not None else "rule not edited"
