"""The agent of all nodes: what a kubelet does, as far as jobs of the test bed need it.

A node is a network namespace, a container a process in it, and the address of a pod that of its
node. A volume is a folder; paths in variables that lead below a mount lead into it. Nothing is
remembered but the processes, so that it does not matter when the API server is not there.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from lightkube.core.client import Client

from benchmarks.testbed.network import Network
from metronome_opt.files.documents import write_text
from metronome_opt.kubernetes.controller.client import PODS, ClusterError, asking, listed, merge

METRICS_PORT = 9400

_EVERY_S = 0.25
_ROOT = Path(__file__).parents[2]
_PHASES = {None: "Running", 0: "Succeeded"}
_FIELD = "metadata.annotations['"


class Agent:
    """Runs pods that are bound to nodes of a network.

    Parameters
    ----------
    client, namespace
        Where the pods are.
    network, places
        Racks and nodes; and which of these each Node object is.
    folder
        For volumes, what pods print, and two files that follow the pods: ``hosts.json``, their
        addresses by name, and ``targets.json``, what Prometheus is to scrape.
    """

    def __init__(
        self,
        client: Client,
        namespace: str,
        network: Network,
        places: Mapping[str, tuple[int, int]],
        folder: Path,
    ) -> None:
        self._client, self._namespace = client, namespace
        self._network, self._places, self._folder = network, places, folder
        self._running: dict[str, subprocess.Popen[str]] = {}  # by uid
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="agent", daemon=True)
        self._follow({})

    def __enter__(self) -> Agent:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        for uid in list(self._running):
            self._end(uid)

    def _run(self) -> None:
        while not self._stop.wait(_EVERY_S):
            with suppress(ClusterError):  # asked again
                self._round(listed(self._client, PODS, self._namespace))

    def _round(self, pods: list[dict[str, Any]]) -> None:
        bound = [pod for pod in pods if pod["spec"].get("nodeName") in self._places]
        self._follow({pod["metadata"]["name"]: self._address(pod) for pod in bound})
        for uid in self._running.keys() - {pod["metadata"]["uid"] for pod in bound}:
            self._end(uid)
        for pod in bound:
            metadata = pod["metadata"]
            if metadata.get("deletionTimestamp"):
                self._end(metadata["uid"])
                with asking(self._client):
                    self._client.delete(
                        PODS, metadata["name"], namespace=self._namespace, grace_period=0
                    )
                continue
            self._mount(pod)
            if metadata["uid"] not in self._running:
                self._running[metadata["uid"]] = self._start(pod)
            phase = _PHASES.get(self._running[metadata["uid"]].poll(), "Failed")
            if pod["status"].get("phase") != phase:
                status = {"phase": phase, "podIP": self._address(pod)}
                where = f"{metadata['name']}/status"
                merge(self._client, PODS, where, self._namespace, {"status": status})

    def _address(self, pod: Mapping[str, Any]) -> str:
        return self._network.address(*self._places[pod["spec"]["nodeName"]])

    def _follow(self, addresses: Mapping[str, str]) -> None:
        """Write names and addresses of pods, and what is to be scraped."""
        targets = [f"{address}:{METRICS_PORT}" for address in addresses.values()]
        _keep(self._folder / "hosts.json", json.dumps(addresses))
        _keep(self._folder / "targets.json", json.dumps([{"targets": targets}]))

    def _mount(self, pod: Mapping[str, Any]) -> None:
        """Bring the files of a pod's downward API up to date."""
        for volume in pod["spec"].get("volumes") or ():
            for item in volume.get("downwardAPI", {}).get("items") or ():
                path = self._volume(pod, volume["name"]) / item["path"]
                path.parent.mkdir(parents=True, exist_ok=True)
                _keep(path, _field(pod, item["fieldRef"]["fieldPath"]))

    def _volume(self, pod: Mapping[str, Any], name: str) -> Path:
        return self._folder / "volumes" / str(pod["metadata"]["uid"]) / name

    def _start(self, pod: Mapping[str, Any]) -> subprocess.Popen[str]:
        (container,) = pod["spec"]["containers"]
        variables = {"HOSTNAME": pod["metadata"]["name"], "PATH": os.environ["PATH"]}
        variables |= {
            "HOSTS": str(self._folder / "hosts.json"),
            "METRONOME_METRICS": f"{self._address(pod)}:{METRICS_PORT}",
            "PYTHONPATH": str(_ROOT),
        }
        for variable in container["env"]:
            value = variable.get("value", "")
            if "valueFrom" in variable:
                value = _field(pod, variable["valueFrom"]["fieldRef"]["fieldPath"])
            for mount in container.get("volumeMounts") or ():
                if value.startswith(f"{mount['mountPath']}/"):
                    below = value.removeprefix(f"{mount['mountPath']}/")
                    value = str(self._volume(pod, mount["name"]) / below)
            variables[variable["name"]] = value
        with (self._folder / f"{pod['metadata']['name']}.log").open("ab") as log:
            return self._network.popen(
                *self._places[pod["spec"]["nodeName"]],
                container["command"],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=_ROOT,
                env=variables,
            )

    def _end(self, uid: str) -> None:
        process = self._running.pop(uid, None)
        if process is not None:
            process.terminate()
            process.communicate()


def _field(pod: Mapping[str, Any], path: str) -> str:
    """Return what a fieldRef says; empty for an annotation that is not there."""
    if path.startswith(_FIELD):
        name = path.removeprefix(_FIELD).removesuffix("']")
        return str((pod["metadata"].get("annotations") or {}).get(name, ""))
    return str(pod["metadata"][path.removeprefix("metadata.")])


def _keep(path: Path, text: str) -> None:
    """Write a file whole, if it has another text."""
    if not path.exists() or path.read_text() != text:
        write_text(path, text)
