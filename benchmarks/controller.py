"""Gangs placed in a running cluster, beside plain kube-scheduler: pods a second, and memory."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from lightkube.core.client import Client

from benchmarks.registry import Figure, benchmark
from metronome_opt.kubernetes.client import (
    NODES,
    PODS,
    apply,
    connect,
    delete,
    listed,
    merge,
    resource,
)
from metronome_opt.kubernetes.pods import SCHEDULING_GATE

_GROUP = "metronome.x-k8s.io"
_NODES, _GANGS, _TASKS, _WAVES = 500, 125, 8, 10
_FEW = (8, 2, 4, 2)
_GPUS = 8
_HAS = {"cpu": "64", "memory": "256Gi", "pods": "110"}
_TRAFFIC = {
    "periodMicroseconds": 200_000,
    "phases": [{"startMicroseconds": 100_000, "lengthMicroseconds": 60_000, "rate": "6G"}],
}
_PATIENCE_S = 600
_WORKERS = 4
Item = TypeVar("Item")


@benchmark("How fast are 1,000 pods of 125 gangs placed, beside kube-scheduler alone?")
def controller_speed(small: bool) -> Iterator[Figure]:
    """Place gangs on nodes that exist as objects only; memory as waves of them come and go."""
    kubeconfig = os.environ.get("KUBECONFIG")
    if not kubeconfig:
        sys.stderr.write(
            "controller-speed: needs KUBECONFIG of a cluster of 1.27 or later with its scheduler, "
            "the definitions of claims, and no other pods\n"
        )
        return
    nodes, gangs, tasks, waves = _FEW if small else (_NODES, _GANGS, _TASKS, _WAVES)
    namespace = f"speed-{secrets.token_hex(4)}"
    with connect(Path(kubeconfig)) as client, tempfile.TemporaryDirectory() as folder:
        names = [f"{namespace}-{index}" for index in range(nodes)]
        prepare(client, namespace, dict.fromkeys(names, _GPUS))
        _write_cluster(Path(folder) / "cluster.json", names)
        pods = gangs * tasks
        alone = _placed_in(client, namespace, gangs, tasks, ours=False)
        process = _start(Path(folder), kubeconfig, namespace)
        try:
            times, peaks = [], []
            for _ in range(waves):
                times.append(_placed_in(client, namespace, gangs, tasks, ours=True))
                peaks.append(_megabytes(process))
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()
        _each(lambda name: delete(client, NODES, name, None), names)
    yield Figure(f"pods a second, kube-scheduler alone, {pods} pods", pods / alone, "1/s")
    yield Figure(f"pods a second, {gangs} gangs with nodes and slots", pods / min(times), "1/s")
    yield Figure("of the first wave", pods / times[0], "1/s")
    yield Figure("memory after the first wave", peaks[0], "MB")
    yield Figure(f"memory after {waves * pods} pods came and went", peaks[-1], "MB")


def prepare(client: Client, namespace: str, nodes: Mapping[str, int]) -> None:
    """Make a namespace in which pods may be made, and ready nodes with so many GPUs each."""
    spaces = resource("v1", "Namespace", "namespaces", namespaced=False)
    accounts = resource("v1", "ServiceAccount", "serviceaccounts")
    metadata = {"name": namespace}
    apply(client, spaces, {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    account = {"name": "default", "namespace": namespace}
    apply(client, accounts, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account})
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "message": "",
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
    }

    def make(name: str) -> None:
        has = {**_HAS, "nvidia.com/gpu": str(nodes[name])}
        status = {"capacity": has, "allocatable": has, "conditions": [ready]}
        labels = {"kubernetes.io/hostname": name, "pool": namespace}
        metadata = {"name": name, "labels": labels}
        apply(client, NODES, {"apiVersion": "v1", "kind": "Node", "metadata": metadata})
        merge(client, NODES, f"{name}/status", None, {"status": status})
        merge(client, NODES, name, None, {"spec": {"taints": None}})

    _each(make, [*nodes])


def _each(action: Callable[[Item], object], items: Sequence[Item]) -> None:
    with ThreadPoolExecutor(max_workers=_WORKERS) as pool:
        list(pool.map(action, items))


def _write_cluster(path: Path, names: list[str]) -> None:
    racks = range(-(-len(names) // 16))
    has = {"gpus": _GPUS, "cpu_millicores": 64_000, "memory_mib": 262_144}
    document = {
        "format": "metronome-cluster/1",
        "name": "speed",
        "slot_ms": 5,
        "hyperperiod": 240,
        "nodes": [
            {"name": name, "has": has, "interface": f"if-{name}", "rack": f"r{index // 16}"}
            for index, name in enumerate(names)
        ],
        "links": [
            *({"name": f"if-{name}", "capacity": 50_000} for name in names),
            *({"name": f"up-{rack}", "capacity": 400_000} for rack in racks),
        ],
        "racks": [{"name": f"r{rack}", "uplink": f"up-{rack}"} for rack in racks],
    }
    path.write_text(json.dumps(document), encoding="utf-8")


def _start(folder: Path, kubeconfig: str, namespace: str) -> subprocess.Popen[bytes]:
    options = ["--cluster", str(folder / "cluster.json"), "--kubeconfig", kubeconfig]
    command = [sys.executable, "-m", "metronome_opt", "controller", str(folder / "state")]
    process = subprocess.Popen([*command, *options, "--namespace", namespace])
    _wait(lambda: (folder / "state").exists(), "the controller to start")
    return process


def _placed_in(client: Client, namespace: str, gangs: int, tasks: int, *, ours: bool) -> float:
    """Return after how many seconds all pods are bound; they are gone then."""
    names = [(gang, task) for gang in range(gangs) for task in range(tasks)]

    def make(name: tuple[int, int]) -> None:
        gang, task = name
        pod: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"gang-{gang}-{task}",
                "namespace": namespace,
                "labels": {"job-name": f"gang-{gang}"},
            },
            "spec": {
                "containers": [
                    {"name": "a", "image": "a", "resources": {"limits": {"nvidia.com/gpu": "4"}}}
                ],
                "nodeSelector": {"pool": namespace},
            },
        }
        if ours:
            pod["spec"]["schedulingGates"] = [{"name": SCHEDULING_GATE}]
            pod["metadata"]["annotations"] = {
                f"{_GROUP}/tasks": str(tasks),
                f"{_GROUP}/traffic": json.dumps(_TRAFFIC),
            }
        client.create(PODS(pod))

    def bound() -> bool:
        pods = listed(client, PODS, namespace)
        return len(pods) == len(names) and all(pod["spec"].get("nodeName") for pod in pods)

    begun = time.perf_counter()
    _each(make, names)
    _wait(bound, "all pods to be bound")
    seconds = time.perf_counter() - begun
    _each(
        lambda name: client.delete(
            PODS, f"gang-{name[0]}-{name[1]}", namespace=namespace, grace_period=0
        ),
        names,
    )
    _wait(lambda: not listed(client, PODS, namespace), "all pods to go")
    return seconds


def _wait(done: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + _PATIENCE_S
    while not done():
        if time.monotonic() > end:
            raise TimeoutError(f"waited {_PATIENCE_S} s in vain for {what}")
        time.sleep(0.25)


def _megabytes(process: subprocess.Popen[bytes]) -> float:
    status = Path(f"/proc/{process.pid}/status").read_text(encoding="ascii")
    (line,) = [line for line in status.splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1]) / 1024
