"""Rules as a person writes them, for the programs of the command line."""

from __future__ import annotations

GOOD = """\
apiVersion: clusterregistry.k8s.cisco.com/v1alpha1
kind: ResourceSyncRule
metadata:
  name: good
spec:
  groupVersionKind: {version: v1, kind: ConfigMap}
  rules:
    - match:
        - objectKey: {name: a}
"""
STRAY = GOOD + "    - mutations:\n        labels: {add: {a: b}}\n"
"""Its second entry has no match."""
