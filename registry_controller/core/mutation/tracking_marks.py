"""The labels and annotations by which a tool knows the objects that it applied: they stay with the source (W6).

With such a mark on a copy, the tool in the copy's cluster would take the copy for its own, and delete it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Any, Final

_PREFIXES: Final = frozenset(
    (
        "meta.helm.sh",
        "argocd.argoproj.io",
        "objectset.rio.cattle.io",
        "kapp.k14s.io",
        "applyset.kubernetes.io",
        "operators.coreos.com",
        "olm.operatorframework.io",
        "configmanagement.gke.io",
        "configsync.gke.io",
    )
)
_SUFFIX: Final = ".toolkit.fluxcd.io"
_OLM: Final = "olm."
_NAMES: Final = frozenset(("config.k8s.io/owning-inventory",))
_INSTANCE: Final = "app.kubernetes.io/instance"
_MANAGED_BY: Final = "app.kubernetes.io/managed-by"
_MANAGERS: Final = frozenset(("Helm", "configmanagement.gke.io"))
_HINTS: Final = "|".join(map(re.escape, (*sorted(_PREFIXES), "app.kubernetes.io", "config.k8s.io")))
MAY_TRACK: Final = re.compile(rf"^(?:{re.escape(_OLM)}|[^\n/]*{re.escape(_SUFFIX)}/|(?:{_HINTS})/)", re.MULTILINE)
"""Finds names, one in each line, that may be tracking marks: most objects have none."""


def find_tracking_marks(texts: Mapping[str, str], *, field: str, kind: tuple[str, str]) -> dict[str, str]:
    """Return the tracking marks among the labels or annotations (`field`) of a source whose copy has this kind.

    On a Pod, the label `app.kubernetes.io/instance` is not a tracking mark: Services and controllers select by it.
    """
    found = {name: text for name, text in texts.items() if _is_tracking_name(name)}
    if field == "labels":
        if texts.get(_MANAGED_BY) in _MANAGERS:
            found[_MANAGED_BY] = texts[_MANAGED_BY]
        if _INSTANCE in texts and kind != ("", "Pod"):
            found[_INSTANCE] = texts[_INSTANCE]
    return found


def without_tracking_marks(info: Mapping[str, Any], marks: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    """Return metadata without these marks, by field; a mark whose value an override has changed stays."""
    kept = dict(info)
    for field, found in marks.items():
        texts = kept.get(field) or {}
        kept[field] = {name: text for name, text in texts.items() if found.get(name) != text}
    return kept


@functools.lru_cache(maxsize=4096)
def _is_tracking_name(name: str) -> bool:
    prefix, slash, _ = name.partition("/")
    if not slash:
        return name.startswith(_OLM)
    return name in _NAMES or prefix in _PREFIXES or prefix.endswith(_SUFFIX)
