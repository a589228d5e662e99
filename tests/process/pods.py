"""Pods as Kubernetes makes them of a manifest: dlaunch as process 1 of namespaces of its own, with the manifest's flags,
variables, names, user and secret, on the network of a test. Only the program behind "--" is another one."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys

from common import DLAUNCH, PATIENCE, children_of, wait_until
from hosts import Hosts

MANIFESTS = os.path.join(os.path.dirname(__file__), "..", "..", "examples", "kubernetes")
DOMAIN = "default.svc.cluster.local"
# Debian's Python has Debian's PyYAML; another one before it on PATH may not.
TO_JSON = ("/usr/bin/python3", "-c", "import json, sys, yaml; json.dump(list(yaml.safe_load_all(sys.stdin)), sys.stdout)")

# What a container runtime sets up before it starts the container's command.
CONTAINER = """
hostname "$POD"
mount --bind "$PLACE/hosts.$POD" /etc/hosts
mount --bind "$PLACE/resolv.conf" /etc/resolv.conf
mount -t tmpfs -o size=64m none /dev/shm
mount -t tmpfs none /run
mkdir -p "$(dirname "$SECRET")"
install --mode="$SECRET_MODE" --group="$GROUP" "$PLACE/token" "$SECRET"
chown "$USER_ID" /proc/1/fd/1 /proc/1/fd/2
unset PLACE SECRET SECRET_MODE
exec setpriv --reuid="$USER_ID" --regid="$GROUP" --groups="$GROUP" --no-new-privs --inh-caps=-all --bounding-set=-all \\
  env -u GROUP -u USER_ID -u POD "$@"
"""


def read_manifest(name):
    """Its documents."""
    with open(os.path.join(MANIFESTS, name), encoding="utf-8") as file:
        done = subprocess.run(TO_JSON, stdin=file, capture_output=True, text=True, check=False)
    if "No module named 'yaml'" in done.stderr:
        raise FileNotFoundError("python3-yaml is not here")
    return json.loads(done.stdout)


class PodTemplate:
    """What the controllers of Job and JobSet make of a manifest."""

    UID = "8a3c0c5e-9b1f-4a5e-8f0e-3d0a7d9f2b11"

    def __init__(self, documents):
        document = documents[-1]
        self.annotations = {}
        name = document["metadata"]["name"]
        if document["kind"] == "JobSet":
            (replicated,) = document["spec"]["replicatedJobs"]
            coordinator = document["spec"]["coordinator"]
            self.subdomain = document["spec"]["network"].get("subdomain", name)
            self.job = replicated["template"]["spec"]
            self.annotations["jobset.sigs.k8s.io/coordinator"] = (
                f"{name}-{coordinator['replicatedJob']}-{coordinator.get('jobIndex', 0)}-{coordinator.get('podIndex', 0)}.{self.subdomain}")
            name = f"{name}-{replicated['name']}-0"
        else:
            self.job = document["spec"]
            self.subdomain = self.job["template"]["spec"]["subdomain"]
        self.name = name
        self.pod = self.job["template"]["spec"]
        (self.container,) = self.pod["containers"]
        self.labels = {"batch.kubernetes.io/controller-uid": self.UID, "batch.kubernetes.io/job-name": name}
        self.count = self.job["completions"]

    def host(self, index):
        return f"{self.name}-{index}"

    def full_name(self, index):
        return f"{self.host(index)}.{self.subdomain}.{DOMAIN}"

    def _field(self, path):
        part, key = re.fullmatch(r"metadata\.(annotations|labels)\['(.*)'\]", path).groups()
        return {"annotations": self.annotations, "labels": self.labels}[part][key]

    def variables(self, index):
        named = {one["name"]: one["value"] if "value" in one else self._field(one["valueFrom"]["fieldRef"]["fieldPath"])
                 for one in self.container["env"]}
        return {**named, "JOB_COMPLETION_INDEX": str(index), "KUBERNETES_SERVICE_HOST": "10.96.0.1", "HOSTNAME": self.host(index)}

    def command(self, index, program):
        variables = self.variables(index)
        words = [re.sub(r"\$\((\w+)\)", lambda found: variables[found.group(1)], word)
                 for word in self.container["command"] + self.container["args"]]
        return [*words[:words.index("--") + 1], *program]

    def port(self, name):
        return next(port["containerPort"] for port in self.container["ports"] if port["name"] == name)


class Pods:
    """The pods of a manifest on a network; pod i has the address of host i unless start() is given another host. They are
    removed with the test."""

    def __init__(self, test, manifest, place, more_hosts=0):
        try:
            self.template = PodTemplate(read_manifest(manifest))
        except FileNotFoundError as missing:
            test.skipTest(str(missing))
        self.test = test
        self.place = place
        self.hosts = Hosts(test, self.template.count + more_hosts)
        os.chmod(place, 0o755)
        os.mkdir(self.path("bin"))
        shutil.copy(DLAUNCH, self.path("bin"))
        for folder in ("work", "tmp"):
            os.mkdir(self.path(folder))
            os.chmod(self.path(folder), 0o777)
        self.write("token", "a secret of this test\n")
        self.write("resolv.conf", f"nameserver {Hosts.SWITCH_ADDRESS}\nsearch {DOMAIN} svc.cluster.local cluster.local\noptions ndots:5\n")
        self.records = {}
        self.started = []
        self.publish({})

    def start_name_server(self):
        """Until then nothing answers there."""
        server = subprocess.Popen([*self.hosts.on_switch(), sys.executable, os.path.join(os.path.dirname(__file__), "name_server.py"),
                                   Hosts.SWITCH_ADDRESS, self.path("records")], stdout=subprocess.PIPE, text=True)
        self.test.addCleanup(self._finish, server)
        self.test.assertEqual(server.stdout.readline(), "answering\n")

    def path(self, name):
        return os.path.join(self.place, name)

    def write(self, name, text):
        with open(self.path(name) + ".new", "w", encoding="utf-8") as file:
            file.write(text)
        os.rename(self.path(name) + ".new", self.path(name))

    def publish(self, hosts):
        """In DNS from now on: the address of the host on which each of these pods is."""
        self.records.update({self.template.full_name(index): self.hosts.addresses[host] for index, host in hosts.items()})
        self.write("records", "".join(f"{address} {name}\n" for name, address in self.records.items()))

    def start(self, index, program, host=None):
        host = index if host is None else host
        name, template = self.template.host(index), self.template
        self.write(f"hosts.{name}", f"127.0.0.1\tlocalhost\n{self.hosts.addresses[host]}\t{template.full_name(index)}\t{name}\n")
        tmp = os.path.join(self.path("tmp"), f"{name}.{host}")
        os.mkdir(tmp)
        os.chmod(tmp, 0o777)
        (volume,) = template.pod["volumes"]
        (mount,) = template.container["volumeMounts"]
        security = template.pod["securityContext"]
        setting = {"POD": name, "PLACE": self.place, "SECRET": os.path.join(mount["mountPath"], "token"),
                   "SECRET_MODE": f"{volume['secret']['defaultMode']:04o}", "USER_ID": str(security["runAsUser"]),
                   "GROUP": str(security["fsGroup"])}
        variables = {"PATH": f"{self.path('bin')}:{os.environ['PATH']}", "TMPDIR": tmp, **template.variables(index)}
        command = [*self.hosts.on(host), "unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "--uts", "sh", "-ec", CONTAINER,
                   "container", *template.command(index, program)]
        process = subprocess.Popen(command, cwd=self.path("work"), env={**variables, **setting}, text=True, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.test.addCleanup(self._finish, process)
        self.started.append(Pod(self, process, host))
        return self.started[-1]

    def last_words(self):
        """Ends all pods; what they and their programs have left, for the message of a test that failed."""
        text = f"files in the pods' folder: {' '.join(sorted(os.listdir(self.path('work'))))}\n"
        for pod in self.started:
            if pod.process.poll() is None:
                pod.kill()
            if not pod.process.stdout.closed:
                code, out, err = pod.end()
                text += f"pod on host {pod.host} ended with {code}:\n{out}{err}\n"
        return text

    @staticmethod
    def _finish(process):
        # Process 1 has changed its user, and would outlive its parent.
        for pid in [*(children_of(process.pid) if process.poll() is None else []), process.pid]:
            if process.returncode is None:
                os.kill(pid, signal.SIGKILL)
        process.communicate()

    def is_healthy(self, host):
        """What the manifest's probe finds, as a kubelet asks."""
        (path, port), *others = {(probe["httpGet"]["path"], probe["httpGet"]["port"])
                                 for key, probe in self.template.container.items() if key.endswith("Probe")}
        self.test.assertEqual(others, [])
        ask = "import sys, urllib.request; sys.exit(urllib.request.urlopen(sys.argv[1], timeout=5).status != 200)"
        url = f"http://{self.hosts.addresses[host]}:{self.template.port(port)}{path}"
        return subprocess.run([*self.hosts.on_switch(), sys.executable, "-c", ask, url], capture_output=True, check=False).returncode == 0


class Pod:
    """A pod that was started."""

    def __init__(self, pods, process, host):
        self.pods, self.process, self.host = pods, process, host

    def process_1(self):
        """Its pid outside."""
        found = []
        def is_there():
            found[:] = children_of(self.process.pid)
            return bool(found)
        wait_until(is_there, "the container has been started")
        return found[0]

    def terminate(self):
        os.kill(self.process_1(), signal.SIGTERM)

    def kill(self):
        os.kill(self.process_1(), signal.SIGKILL)

    def run_inside(self, command):
        """As kubectl exec and the hooks of a container do."""
        security = self.pods.template.pod["securityContext"]
        enter = ["nsenter", "--target", str(self.process_1()), "--pid", "--mount", "--net", "--uts", "--setuid", str(security["runAsUser"]),
                 "--setgid", str(security["fsGroup"])]
        return subprocess.run([*enter, *command], env={"PATH": f"{self.pods.path('bin')}:{os.environ['PATH']}"}, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=PATIENCE, check=False)

    def end(self):
        """Exit code, stdout, stderr."""
        out, err = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, out, err
