"""Validates Kubernetes objects against the published schemas, with no field beyond them. Runs in a Python that has kubernetes-validate.

Reads a list of objects as JSON from stdin, writes a line for each complaint to stdout. A JobSet is no object of Kubernetes itself:
jobset_v1alpha2.json has the fields, types and values of its API (https://jobset.sigs.k8s.io); its Jobs are validated as Jobs.
"""

import json
import os
import sys

import jsonschema
import kubernetes_validate

# The oldest in which all the fields are stable (podReplacementPolicy), and the newest of the package.
VERSIONS = ("1.34", "1.37")


def complaints_of(thing):
    if thing["kind"] == "JobSet":
        with open(os.path.join(os.path.dirname(__file__), "jobset_v1alpha2.json"), encoding="utf-8") as file:
            schema = json.load(file)
        for error in jsonschema.Draft202012Validator(schema).iter_errors(thing):
            yield f"JobSet {error.json_path}: {error.message}"
        for replicated in thing["spec"]["replicatedJobs"]:
            yield from complaints_of({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "job"}, **replicated["template"]})
        return
    for version in VERSIONS:
        try:
            kubernetes_validate.validate(thing, version, strict=True)
        except kubernetes_validate.ValidationError as error:
            place = ".".join(map(str, error.path))
            yield f"{thing['kind']} {place} (Kubernetes {version}): {error.message}"


for one in json.load(sys.stdin):
    for complaint in complaints_of(one):
        print(complaint.replace("\n", " "))
