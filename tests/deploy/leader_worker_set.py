"""The fields of a LeaderWorkerSet (leaderworkerset.x-k8s.io/v1) as a JSON Schema, closed everywhere.

Its CRD is in none of the registries that the other schemas come from. This is read off the API's types (kubernetes-sigs/lws,
api/leaderworkerset/v1/leaderworkerset_types.go, November 2026): names, required fields, enums and bounds. Pod templates are left to
Kubernetes' own schemas. `kubectl apply --dry-run=server` against a cluster with the controller checks the rest: its defaults and webhooks.
"""

from __future__ import annotations

from typing import Any


def _closed(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


_COUNT = {"type": "integer", "minimum": 0}
_COUNT_OR_SHARE = {"anyOf": [_COUNT, {"type": "string", "pattern": r"^\d+%$"}]}
_POD_TEMPLATE = {"type": "object", "required": ["spec"]}
_ROLLING_UPDATE = _closed({"partition": _COUNT, "maxUnavailable": _COUNT_OR_SHARE, "maxSurge": _COUNT_OR_SHARE})
_TEMPLATE = _closed(
    {
        "leaderTemplate": _POD_TEMPLATE,
        "workerTemplate": _POD_TEMPLATE,
        "size": {"type": "integer", "minimum": 1},
        "restartPolicy": {"enum": ["Default", "RecreateGroupOnPodRestart", "RecreateGroupAfterStart", "None"]},
        "subGroupPolicy": _closed(
            {"subGroupPolicyType": {"enum": ["LeaderWorker", "LeaderExcluded"]}, "subGroupSize": _COUNT}
        ),
        "volumeClaimTemplates": {"type": "array"},
        "persistentVolumeClaimRetentionPolicy": {"type": "object"},
    },
    "workerTemplate",
)
SCHEMA = _closed(
    {
        "apiVersion": {"const": "leaderworkerset.x-k8s.io/v1"},
        "kind": {"const": "LeaderWorkerSet"},
        "metadata": {"type": "object", "required": ["name"]},
        "spec": _closed(
            {
                "replicas": _COUNT,
                "leaderWorkerTemplate": _TEMPLATE,
                "rolloutStrategy": _closed(
                    {"type": {"const": "RollingUpdate"}, "rollingUpdateConfiguration": _ROLLING_UPDATE}, "type"
                ),
                "startupPolicy": {"enum": ["LeaderCreated", "LeaderReady"]},
                "networkConfig": _closed({"subdomainPolicy": {"enum": ["Shared", "UniquePerReplica"]}}),
            },
            "leaderWorkerTemplate",
        ),
    },
    "apiVersion",
    "kind",
    "metadata",
    "spec",
)
# What its controller sets in every container; nothing else that begins with LWS_ exists.
VARIABLES = {"LWS_LEADER_ADDRESS", "LWS_GROUP_SIZE", "LWS_WORKER_INDEX"}
