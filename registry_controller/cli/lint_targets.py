"""Checks, for `lint`, the annotations by which objects name clusters, and the rules that ask for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from registry_controller.api import meta
from registry_controller.api.errors import InvalidObject
from registry_controller.api.fields import Field
from registry_controller.api.syncrule import read_rule
from registry_controller.core.rules.destinations import (
    NAMES_PATH,
    SELECTOR_PATH,
    find_lost_targets,
    read_destinations,
)
from registry_controller.core.rules.findings import Finding


def check_annotations(manifest: Mapping[str, Any]) -> Iterator[Finding]:
    """Find mistakes in the annotations by which an object of any kind names clusters."""
    try:
        annotations = Field(manifest, "")["metadata"]["annotations"].text_map()
    except InvalidObject:
        return  # it is for the API server to refuse
    if meta.TARGET_CLUSTERS not in annotations and meta.TARGET_CLUSTER_SELECTOR not in annotations:
        return
    try:
        found = read_destinations(annotations)
    except InvalidObject as error:
        yield Finding(error.path, error.message)
        return
    if found.is_empty:
        path = NAMES_PATH if found.names == () else SELECTOR_PATH
        yield Finding(path, "is empty: no cluster copies the object", is_error=False)


def warn_of_original(manifest: Mapping[str, Any], clusters: Iterable[Mapping[str, Any]]) -> Finding | None:
    """Return the warning that members may run the original controller; `clusters` are the Clusters in the files."""
    try:
        return find_lost_targets(read_rule(manifest), clusters)
    except InvalidObject:
        return None
