"""Which controllers a cluster has, and where the deployment controller may write.

Law: the stand-in kubelet alone runs the Deployment of its namespace, and reports its status. So the deployment
controller reads everything, and writes in the namespace `default` only.
"""

from __future__ import annotations

from typing import Any

from .api import MERGE_PATCH, Api
from .errors import ApiError

# Controllers whose work a client notices: ServiceAccounts, tokens, aggregated roles, namespaces, owners, CAs,
# mirrored EndpointSlices, and the types in policies.
ALWAYS = (
    "serviceaccount-controller",
    "serviceaccount-token-controller",
    "clusterrole-aggregation-controller",
    "namespace-controller",
    "garbage-collector-controller",
    "root-ca-certificate-publisher-controller",
    "endpointslice-mirroring-controller",
    "validatingadmissionpolicy-status-controller",
)
WORKLOADS = (
    "deployment-controller",
    "replicaset-controller",
    "job-controller",
    "ttl-after-finished-controller",
    "resourcequota-controller",
)
"""The controllers of Deployments, ReplicaSets, Jobs and quotas: for groups that ask for them, as they cost time."""

_DEPLOYMENT = "deployment-controller"
_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_ROLE = f"system:controller:{_DEPLOYMENT}"
_SUBJECT = {"kind": "ServiceAccount", "name": _DEPLOYMENT, "namespace": "kube-system"}
_READ = ("get", "list", "watch")
_APPS = {"apiGroups": ["apps"], "resources": ["deployments", "replicasets"]}
_ALL = {"apiGroups": ["", "apps", "events.k8s.io"], "resources": ["*"], "verbs": ["*"]}


def confine(api: Api) -> None:
    """Restrict the writes of the deployment controller to the namespace `default`, for good."""
    rules = [{**_APPS, "verbs": list(_READ)}, {"apiGroups": [""], "resources": ["pods"], "verbs": list(_READ)}]
    kept = {"annotations": {"rbac.authorization.kubernetes.io/autoupdate": "false"}}
    role = f"{_RBAC}/clusterroles/{_ROLE}"
    api.request("PATCH", role, body={"metadata": kept, "rules": rules}, content_type=MERGE_PATCH)
    info = {"name": _DEPLOYMENT, "namespace": "default"}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": _DEPLOYMENT}
    _create(api, "roles", {"metadata": info, "rules": [_ALL]})
    _create(api, "rolebindings", {"metadata": info, "roleRef": reference, "subjects": [_SUBJECT]})


def _create(api: Api, resource: str, manifest: dict[str, Any]) -> None:
    try:
        api.request("POST", f"{_RBAC}/namespaces/default/{resource}", body=manifest)
    except ApiError as error:
        if error.status != 409:  # it is there since the last start
            raise
