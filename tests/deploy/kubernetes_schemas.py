"""In: JSON on stdin, {"versions": [...], "objects": [[name, object], ...]}; out: a line per violation. Runs under the tools' Python.

Strict: a field that Kubernetes does not know is a violation. Custom resources are not Kubernetes' own and are checked elsewhere.
"""

import json
import sys

import kubernetes_validate

task = json.load(sys.stdin)
for version in task["versions"]:
    for name, thing in task["objects"]:
        try:
            kubernetes_validate.validate(thing, version, strict=True)
        except (
            kubernetes_validate.ValidationError,
            kubernetes_validate.SchemaNotFoundError,
            kubernetes_validate.InvalidSchemaError,
        ) as error:
            where = "/".join(str(part) for part in getattr(error, "path", []))
            print(f"{version} {name} {where}: {getattr(error, 'message', error)}")
