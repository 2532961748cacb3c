"""The cluster of the story: four racks in a ring, four jobs of which neighbours share an uplink.

Every node has its own number of GPUs, and every job has only two nodes that suit it when it comes.
So kube-scheduler and the controller choose the same nodes, and what differs is slots alone.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.controller import prepare
from benchmarks.story.agent import Agent
from benchmarks.story.servers import Program, control_plane, prometheus
from benchmarks.testbed.network import GOODPUT, Layout, Network
from metronome_opt.documents import write_text
from metronome_opt.kubernetes.cluster import Connection, connect
from metronome_opt.kubernetes.cluster.objects import PODS
from metronome_opt.kubernetes.inject import GATE, MOUNT, VARIABLES, VOLUME
from metronome_opt.kubernetes.names import DEFAULT_GROUP
from tests.kubernetes.cluster.server import ApiServer, free_ports

NAMESPACE = "story"
UPLINK_MBPS = 200
PERIOD_MS, ALONE_MS = 400, 392

_RACKS = 4
_SLOT_MS, _HYPERPERIOD_MS = 5, 2400
_INTERFACE_MBPS = 1000
_PATIENCE_S = 60.0
_STOP_S = 5.0


@dataclass(frozen=True)
class Job:
    """A job of two ranks.

    Attributes
    ----------
    racks
        One of its ranks is in each.
    gpus
        Of each rank; there are nodes with just as many.
    burst_ms
        What a burst takes on an uplink that it has to itself; the rest is computing.
    """

    name: str
    racks: tuple[int, int]
    gpus: int
    burst_ms: int

    @property
    def compute_ms(self) -> int:
        """How long it computes, unless it is told otherwise."""
        return ALONE_MS - self.burst_ms

    @property
    def pods(self) -> list[str]:
        """Names of its pods."""
        return [f"{self.name}-{index}" for index, _ in enumerate(self.racks)]


JOBS = {
    job.name: job
    for job in (
        Job("a", (0, 1), 8, 180),
        Job("b", (1, 2), 4, 170),
        Job("c", (2, 3), 2, 180),
        Job("d", (0, 3), 1, 170),
    )
}


@dataclass
class Bed:
    """The running cluster, and what can happen to it.

    Attributes
    ----------
    gated
        Whether pods ask for slots; otherwise kube-scheduler binds them, and nobody waits.
    """

    gated: bool
    folder: Path
    server: ApiServer
    connection: Connection
    network: Network
    controller: Program
    prometheus: Program
    _compute_ms: dict[str, int] = field(default_factory=dict)
    _mbps: dict[int, int] = field(default_factory=lambda: dict.fromkeys(range(_RACKS), UPLINK_MBPS))

    @property
    def alone_ms(self) -> dict[str, float]:
        """The iteration of each job that is there, if it had the network to itself."""
        return {
            name: compute
            + JOBS[name].burst_ms * UPLINK_MBPS / min(self._mbps[r] for r in JOBS[name].racks)
            for name, compute in self._compute_ms.items()
        }

    def submit(self, name: str, *, wait: bool = True) -> None:
        """Let a job come; return when its pods run."""
        job = JOBS[name]
        self.compute(name, job.compute_ms)
        for pod in job.pods:
            self.connection.create(PODS, _pod(job, pod, self.folder, gated=self.gated))
        if wait:
            self.wait_running(name)

    def wait_running(self, name: str) -> None:
        """Wait until all pods of a job run."""
        until = time.monotonic() + _PATIENCE_S
        while not all(self.phases().get(pod) == "Running" for pod in JOBS[name].pods):
            if time.monotonic() > until:
                raise TimeoutError(f"pods of job {name} do not run: {self.phases()}")
            time.sleep(0.1)

    def phases(self) -> dict[str, str]:
        """Return the phases of all pods."""
        pods = self.connection.list(PODS, NAMESPACE)
        return {pod["metadata"]["name"]: pod["status"].get("phase", "") for pod in pods}

    def compute(self, name: str, length_ms: int) -> None:
        """Let a job compute for so long in each iteration from now on."""
        self._compute_ms[name] = length_ms
        self._order(name, done=False)

    def finish(self, name: str) -> None:
        """Let a job end after its iteration."""
        self._order(name, done=True)
        del self._compute_ms[name]

    def shape(self, rack: int, mbps: int) -> None:
        """Let the uplink of a rack carry so much from now on."""
        self._mbps[rack] = mbps
        self.network.shape(rack, mbps)

    def _order(self, name: str, *, done: bool) -> None:
        order = {"compute_ms": self._compute_ms[name], "done": done}
        write_text(self.folder / f"{name}.json", json.dumps(order))


@contextmanager
def bed(folder: Path, *, gated: bool, options: Sequence[str] = ()) -> Iterator[Bed]:
    """Start a cluster with empty nodes.

    Parameters
    ----------
    folder
        For everything that is written; it must not be there.
    options
        More options of the controller; ``{prometheus}`` in them is the address of Prometheus.
    """
    folder = folder.resolve()
    folder.mkdir(parents=True)
    (port,) = free_ports(1)
    places = {
        f"rack-{rack}-gpus-{job.gpus}": (rack, sum(rack in other.racks for other in before))
        for before, job in ((list(JOBS.values())[:i], job) for i, job in enumerate(JOBS.values()))
        for rack in job.racks
    }
    with ExitStack() as stack:
        layout = Layout(nodes=(2,) * _RACKS, uplink_mbps=(UPLINK_MBPS,) * _RACKS)
        network = stack.enter_context(Network(layout))
        network.join()
        server = stack.enter_context(control_plane(folder / "control-plane"))
        connection = stack.enter_context(connect(server.kubeconfig(), timeout_s=30))
        prepare(connection, NAMESPACE, {name: int(name.split("-")[-1]) for name in places})
        agent_connection = stack.enter_context(connect(server.kubeconfig(), timeout_s=2))
        stack.enter_context(Agent(agent_connection, NAMESPACE, network, places, folder))
        watcher = prometheus(folder / "prometheus", port, folder / "targets.json")
        stack.callback(watcher.stop)
        watcher.start()
        controller = Program(
            [
                *(sys.executable, "-m", "metronome_opt", "controller", str(folder / "state")),
                *("--cluster", str(_write_cluster(folder, places))),
                *("--kubeconfig", str(server.kubeconfig()), "--namespace", NAMESPACE),
                *("--interval", "2"),
                *(option.format(prometheus=f"http://127.0.0.1:{port}") for option in options),
            ],
            folder / "controller.log",
        )
        stack.callback(controller.stop)
        if gated:
            controller.start()
        yield Bed(gated, folder, server, connection, network, controller, watcher)


def _write_cluster(folder: Path, places: Mapping[str, tuple[int, int]]) -> Path:
    """Write the cluster as the controller is to know it."""
    document = {
        "format": "metronome-cluster/1",
        "name": NAMESPACE,
        "slot_ms": _SLOT_MS,
        "hyperperiod": _HYPERPERIOD_MS // _SLOT_MS,
        "nodes": [
            {
                "name": name,
                "has": {"gpus": int(name.split("-")[-1])},
                "interface": f"interface-{name}",
                "rack": f"rack-{rack}",
            }
            for name, (rack, _) in places.items()
        ],
        "racks": [{"name": f"rack-{rack}", "uplink": f"uplink-{rack}"} for rack in range(_RACKS)],
        "links": [
            *({"name": f"interface-{name}", "capacity": _INTERFACE_MBPS} for name in places),
            *(
                {"name": f"uplink-{rack}", "capacity": round(GOODPUT * UPLINK_MBPS)}
                for rack in range(_RACKS)
            ),
        ],
    }
    path = folder / "cluster.json"
    path.write_text(json.dumps(document, indent=1))
    return path


def _pod(job: Job, name: str, folder: Path, *, gated: bool) -> dict[str, Any]:
    rate = GOODPUT * UPLINK_MBPS
    env = {
        "PEERS": ",".join(job.pods),
        "ORDER": str(folder / f"{job.name}.json"),
        "BURST_BYTES": str(round(job.burst_ms * rate * 1000 / 8)),
        "RANK": str(job.pods.index(name)),
        "METRONOME_RECORD": str(folder / f"{name}.jsonl"),
    }
    container: dict[str, Any] = {
        "name": "rank",
        "image": "rank",
        "command": [sys.executable, "-S", "-m", "benchmarks.story.rank"],
        "env": [{"name": key, "value": value} for key, value in env.items()],
        "resources": {"limits": {"nvidia.com/gpu": str(job.gpus)}},
    }
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": NAMESPACE,
        "labels": {"job-name": job.name},
    }
    spec: dict[str, Any] = {"containers": [container]}
    if gated:
        burst = {
            "startMicroseconds": 1000 * (PERIOD_MS - job.burst_ms),
            "lengthMicroseconds": 1000 * job.burst_ms,
            "rate": f"{round(rate)}M",
        }
        traffic = {"periodMicroseconds": 1000 * PERIOD_MS, "phases": [burst]}
        metadata["annotations"] = {
            f"{DEFAULT_GROUP}/tasks": str(len(job.racks)),
            f"{DEFAULT_GROUP}/task": env["RANK"],
            f"{DEFAULT_GROUP}/traffic": json.dumps(traffic),
        }
        spec |= {"schedulingGates": [{"name": GATE}], "volumes": [VOLUME]}
        container["volumeMounts"] = [MOUNT]
        container["env"] += VARIABLES
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
