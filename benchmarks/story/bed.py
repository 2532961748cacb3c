"""The running cluster of the story, and what can happen to it."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import typer
from lightkube.core.client import Client

from benchmarks.story.agent import Agent
from benchmarks.story.jobs import JOBS, LAYOUT, NAMESPACE, RACKS, UPLINK_MBPS, cluster, pod
from benchmarks.story.nodes import prepare
from benchmarks.story.servers import Program, control_plane, prometheus
from benchmarks.testbed.network import Network
from benchmarks.testbed.run import BedError
from metronome_opt.files.documents import write_text
from metronome_opt.kubernetes.controller.client import PODS, connect, listed
from tests.kubernetes.cluster.server import ApiServer, free_ports

STEPS_FILE = "steps.json"

_PATIENCE_S = 60.0
_WRITTEN_S = 1.5  # in which ranks write what they did


class Step(NamedTuple):
    """A step of a story as it happened.

    Attributes
    ----------
    begin, end
        Seconds since the epoch.
    alone_ms
        Of each job that was there at its end, the iteration on a network of its own.
    """

    name: str
    begin: float
    end: float
    alone_ms: dict[str, float]


@dataclass
class Bed:
    """The running cluster, and what can happen to it.

    Attributes
    ----------
    gated
        Whether pods ask for windows; otherwise kube-scheduler binds them, and nobody waits.
    """

    gated: bool
    folder: Path
    server: ApiServer
    client: Client
    network: Network
    controller: Program
    prometheus: Program
    _steps: list[Step] = field(default_factory=list)
    _compute_ms: dict[str, int] = field(default_factory=dict)
    _mbps: dict[int, int] = field(default_factory=lambda: dict.fromkeys(range(RACKS), UPLINK_MBPS))

    @contextmanager
    def step(self, name: str, seconds: float) -> Iterator[None]:
        """Watch for so long what follows from what happens in the block; say that it begins."""
        typer.echo(name, err=True)
        begin = time.time()
        yield
        time.sleep(max(0.0, begin + seconds - time.time()))
        alone = {
            job: compute
            + JOBS[job].burst_ms * UPLINK_MBPS / min(self._mbps[r] for r in JOBS[job].racks)
            for job, compute in self._compute_ms.items()
        }
        self._steps.append(Step(name, begin, time.time(), alone))
        write_text(self.folder / STEPS_FILE, json.dumps(self._steps, indent=1))

    def submit(self, name: str, *, wait: bool = True) -> None:
        """Let a job come; return when its pods run."""
        job = JOBS[name]
        self.compute(name, job.compute_ms)
        for each in job.pods:
            self.client.create(PODS(pod(job, each, self.folder, gated=self.gated)))
        if wait:
            self.wait_running(name)

    def wait_running(self, name: str) -> None:
        """Wait until all pods of a job run."""

        def runs() -> bool:
            phases = self.phases()
            return all(phases.get(each) == "Running" for each in JOBS[name].pods)

        _wait(runs, f"the pods of job {name} do not run")

    def phases(self) -> dict[str, str]:
        """Return the phases of all pods."""
        pods = listed(self.client, PODS, NAMESPACE)
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
    nodes = {name: job for job in JOBS.values() for name in job.nodes}
    write_text(folder / "cluster.json", json.dumps(cluster(), indent=1))
    with ExitStack() as stack:
        network = stack.enter_context(Network(LAYOUT))
        network.join()
        server = stack.enter_context(control_plane(folder / "control-plane"))
        client = stack.enter_context(connect(server.kubeconfig()))
        prepare(client, NAMESPACE, {name: job.gpus for name, job in nodes.items()})
        places = {name: job.nodes[name] for name, job in nodes.items()}
        stack.enter_context(Agent(client, NAMESPACE, network, places, folder))
        watcher = prometheus(folder / "prometheus", port, folder / "targets.json")
        stack.callback(watcher.kill)
        watcher.start()
        controller = Program(
            [
                *(sys.executable, "-m", "metronome_opt", "controller", str(folder / "state")),
                *("--cluster", str(folder / "cluster.json")),
                *("--kubeconfig", str(server.kubeconfig()), "--namespace", NAMESPACE),
                *(option.format(prometheus=f"http://127.0.0.1:{port}") for option in options),
            ],
            folder / "controller.log",
        )
        stack.callback(controller.kill)
        if gated:
            controller.start()
            _wait(lambda: (folder / "state").exists(), "the controller does not start")
        yield Bed(gated, folder, server, client, network, controller, watcher)
        time.sleep(_WRITTEN_S)


def _wait(done: Callable[[], bool], else_say: str) -> None:
    until = time.monotonic() + _PATIENCE_S
    while not done():
        if time.monotonic() > until:
            raise BedError(f"{else_say} within {_PATIENCE_S:g} s")
        time.sleep(0.1)
