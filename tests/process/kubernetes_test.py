#!/usr/bin/env python3
"""The manifests of examples/kubernetes/: valid by Kubernetes' own schemas, and what they start runs as they say.

    DLAUNCH_BIN_DIR=build/bin kubernetes_test.py [Class.test ...]

There is no Kubernetes here. Its schemas come from the package kubernetes-validate (scripts/test installs it), those of JobSet
from a file beside this one. The pods run in namespaces (pods.py). Every wait is for an event and has a deadline.
"""

import copy
import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest

from common import PATIENCE, main, wait_until
from pods import Pods, PodTemplate, read_manifest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
VALIDATOR = os.path.join(ROOT, "build", "kubernetes", "bin", "python3")
VALIDATE = os.path.join(os.path.dirname(__file__), "kubernetes_schemas.py")

STOP_TIMEOUT = 30  # seconds: the default of --stop-timeout
MARGIN = 10  # for preStop, and to report the end


class Kubernetes(unittest.TestCase):
    """What all begin with."""

    MANIFESTS = ("indexed-job.yaml", "jobset.yaml")

    @classmethod
    def documents(cls, name):
        try:
            return read_manifest(name)
        except FileNotFoundError as missing:
            raise unittest.SkipTest(str(missing)) from missing


class Schemas(Kubernetes):
    def complaints(self, documents):
        if not os.path.exists(VALIDATOR):
            self.skipTest(f"{VALIDATOR} is not here (scripts/test makes it)")
        done = subprocess.run([VALIDATOR, VALIDATE], input=json.dumps(documents), capture_output=True, text=True, timeout=PATIENCE, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.splitlines()

    def test_the_manifests_are_valid(self):
        for name in self.MANIFESTS:
            with self.subTest(name):
                self.assertEqual(self.complaints(self.documents(name)), [])

    def test_what_is_not_valid_is_found(self):
        """Were it not so, the test above would say nothing."""
        def path_to(*keys, value):
            def change(documents):
                place = documents[-1]
                for key in keys[:-1]:
                    place = place[key]
                place[keys[-1]] = value
            return change
        in_job = [("indexed-job.yaml", ("spec",)), ("jobset.yaml", ("spec", "replicatedJobs", 0, "template", "spec"))]
        cases = [(name, path_to(*place, *keys, value=value)) for name, place in in_job for keys, value in (
            (("completions",), "four"), (("parallelisms",), 4), (("backoffLimit",), "many"),
            (("template", "spec", "containers", 0, "livenessProbe", "httpGet", "ports"), 1),
            (("template", "spec", "containers", 0, "lifecycle"), {"preStart": {}}))]
        cases += [("jobset.yaml", path_to("spec", *keys, value=value)) for keys, value in (
            (("networks",), {}), (("coordinator",), {"jobIndex": 0}), (("failurePolicy", "rules", 0, "action"), "Restart"),
            (("failurePolicy", "maxRestarts"), "3"), (("replicatedJobs", 0, "name"), None))]
        for number, (name, change) in enumerate(cases):
            documents = copy.deepcopy(self.documents(name))
            change(documents)
            with self.subTest(number):
                self.assertNotEqual(self.complaints(documents), [])


class Agreement(Kubernetes):
    """What no schema says: parts of a manifest that must agree with each other, and with dlaunch."""

    def test_names_lead_to_pods(self):
        service, job = self.documents("indexed-job.yaml")
        template = PodTemplate([job])
        self.assertEqual(service["spec"]["clusterIP"], "None")
        self.assertTrue(service["spec"]["publishNotReadyAddresses"], "the pods find each other before they are ready")
        self.assertEqual(service["metadata"]["name"], template.subdomain)
        self.assertLessEqual(service["spec"]["selector"].items(), template.labels.items())
        hosts = re.search(r"--rdzv-endpoint=(\S+)", " ".join(template.command(0, []))).group(1).split(",")
        self.assertEqual(hosts, [f"{template.host(i)}.{template.subdomain}" for i in range(len(hosts))])
        self.assertGreater(2 * len(hosts), template.count, "or a minority could be without any endpoint")
        (jobset,) = self.documents("jobset.yaml")
        self.assertTrue(jobset["spec"]["network"]["publishNotReadyAddresses"])
        template = PodTemplate([jobset])
        self.assertEqual(template.variables(3)["PET_RDZV_ENDPOINT"], f"{template.host(0)}.{template.subdomain}")

    def test_there_is_time_to_end_before_kubernetes_kills(self):
        for name in self.MANIFESTS:
            template = PodTemplate(self.documents(name))
            words = " ".join(template.command(0, []))
            notice = re.search(r"--preempt-signal=\w+@(\d+)", words)
            self.assertNotIn("--stop-timeout", words)
            needed = (int(notice.group(1)) if notice else 0) + STOP_TIMEOUT + MARGIN
            self.assertGreaterEqual(template.pod["terminationGracePeriodSeconds"], needed, name)

    def test_all_that_a_pod_relies_on_is_there(self):
        for name in self.MANIFESTS:
            template = PodTemplate(self.documents(name))
            container = template.container
            self.assertEqual(int(template.variables(0)["TORCHELASTIC_HEALTH_CHECK_PORT"]), template.port("health"), name)
            self.assertEqual(template.port("rendezvous"), 29400, "c10d's default")
            self.assertLessEqual({"startupProbe", "livenessProbe", "readinessProbe"}, container.keys())
            words = template.command(0, [])
            (mount,), (volume,) = container["volumeMounts"], template.pod["volumes"]
            self.assertIn(f"--token-file={mount['mountPath']}/token", words)
            self.assertEqual(mount["name"], volume["name"])
            self.assertNotIn("--preempt-ok", words, "a pod that was evicted would count as completed")
            # What the API server checks beyond its schemas.
            self.assertEqual(template.pod["restartPolicy"], "Never", "or podFailurePolicy is rejected")
            self.assertEqual(template.job["podReplacementPolicy"], "Failed", "or podFailurePolicy is rejected")
            self.assertEqual((template.job["completionMode"], template.job["completions"]), ("Indexed", template.job["parallelism"]))
            codes = template.job["podFailurePolicy"]["rules"][1]["onExitCodes"]
            self.assertEqual((codes["containerName"], codes["values"]), (container["name"], sorted({137, 143})))


class Running(Kubernetes):
    """Pods with the manifests' flags, variables, names and users."""

    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="dlaunch_kubernetes_test.")
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)

    def pods(self, manifest, more_hosts=0):
        pods = self.all_pods = Pods(self, manifest, self.dir, more_hosts)
        pods.start_name_server()
        return pods

    def came(self, name):
        return os.path.exists(os.path.join(self.dir, "work", name))

    def touch(self, name):
        with open(os.path.join(self.dir, "work", name), "w", encoding="utf-8"):
            pass

    def wait_for_ranks(self, name, count):
        try:
            wait_until(lambda: all(self.came(f"{name}.{rank}") for rank in range(count)), f"ranks 0 to {count - 1} have written {name}")
        except AssertionError as late:
            raise AssertionError(f"{late}\n{self.all_pods.last_words()}") from None

    def check_that_they_are_one_job(self, pods, before_names):
        """DNS knows no name until all agents run, as it may be when pods start."""
        count = pods.template.count
        started = [pods.start(i, ["sh", "-c", "echo $(hostname) $GROUP_RANK $RANK of $WORLD_SIZE"]) for i in range(count)]
        for pod in started:
            wait_until(lambda pod=pod: pods.is_healthy(pod.host), "the probe succeeds")
        before_names()
        pods.publish({i: i for i in range(count)})
        ends = [pod.end() for pod in started]
        self.assertEqual([code for code, _, _ in ends], [0] * count, ends)
        lines = sorted(line for _, out, _ in ends for line in out.splitlines())
        self.assertEqual(lines, sorted(f"{pods.template.host(i)} {i} {2 * i + j} of {2 * count}" for i in range(count) for j in (0, 1)))

    def test_the_pods_of_an_indexed_job_are_one_job_by_their_indexes(self):
        """DNS does not even answer when they start."""
        pods = Pods(self, "indexed-job.yaml", self.dir)
        self.check_that_they_are_one_job(pods, pods.start_name_server)

    def test_the_pods_of_a_jobset_are_one_job_by_their_indexes(self):
        self.check_that_they_are_one_job(self.pods("jobset.yaml"), lambda: None)

    # Each round leaves a file for each rank. In the first, rank 5 fails when the test wants it; the last ends then.
    ROUNDS = """
    trap ': > saved.$RANK' USR1
    : > world.$WORLD_SIZE.$TORCHELASTIC_RESTART_COUNT.$RANK
    until [ -e done ]; do
      [ -e fail ] && [ $RANK.$TORCHELASTIC_RESTART_COUNT = 5.0 ] && exit 9
      sleep 0.01
    done
    """

    def test_workers_restart_in_place_and_a_lost_pod_is_replaced(self):
        pods = self.pods("indexed-job.yaml", more_hosts=1)
        started = [pods.start(i, ["sh", "-c", self.ROUNDS]) for i in range(4)]
        pods.publish({i: i for i in range(4)})
        self.wait_for_ranks("world.8.0", 8)
        agents = [pod.process_1() for pod in started]
        self.touch("fail")
        self.wait_for_ranks("world.8.1", 8)
        self.assertEqual([pod.process_1() for pod in started], agents, "no pod was restarted")
        started[0].kill()  # it leads the job
        self.assertNotEqual(started[0].end()[0], 0)
        self.wait_for_ranks("world.6.1", 6)
        for rank in range(8):
            os.unlink(os.path.join(self.dir, "work", f"world.8.1.{rank}"))
        # Its successor has another address, of which DNS does not know yet.
        started[0] = pods.start(0, ["sh", "-c", self.ROUNDS], host=4)
        self.wait_for_ranks("world.8.1", 8)
        pods.publish({0: 4})
        self.touch("done")
        ends = [pod.end() for pod in started]
        self.assertEqual([code for code, _, _ in ends], [0] * 4, ends)

    def test_a_pod_that_is_evicted_gives_notice_and_leaves(self):
        pods = self.pods("indexed-job.yaml")
        started = [pods.start(i, ["sh", "-c", self.ROUNDS]) for i in range(4)]
        pods.publish({i: i for i in range(4)})
        self.wait_for_ranks("world.8.0", 8)
        hook = started[3].run_inside(pods.template.container["lifecycle"]["preStop"]["exec"]["command"])
        self.assertEqual((hook.returncode, hook.stdout, hook.stderr), (0, "", ""))
        started[3].terminate()
        self.wait_for_ranks("saved", 8)  # on all nodes
        started[3].terminate()  # in place of the minute that it waits
        code, _, log = started[3].end()
        self.assertEqual(code, 143, log)
        self.assertRegex(log, rf"(?m)^.*{PodTemplate.UID}.*$", "the hook's output is in the pod's log")
        self.wait_for_ranks("world.6.0", 6)
        self.touch("done")
        ends = [pod.end() for pod in started[:3]]
        self.assertEqual([code for code, _, _ in ends], [0] * 3, ends)

    def test_a_lost_coordinator_of_a_jobset_comes_back(self):
        pods = self.pods("jobset.yaml", more_hosts=1)
        started = [pods.start(i, ["sh", "-c", self.ROUNDS]) for i in range(4)]
        pods.publish({i: i for i in range(4)})
        self.wait_for_ranks("world.8.0", 8)
        started[0].kill()
        self.assertNotEqual(started[0].end()[0], 0)
        for rank in range(8):
            os.unlink(os.path.join(self.dir, "work", f"world.8.0.{rank}"))
        started[0] = pods.start(0, ["sh", "-c", self.ROUNDS], host=4)
        pods.publish({0: 4})
        self.wait_for_ranks("world.8.0", 8)
        self.touch("done")
        ends = [pod.end() for pod in started]
        self.assertEqual([code for code, _, _ in ends], [0] * 4, ends)


if __name__ == "__main__":
    main()
