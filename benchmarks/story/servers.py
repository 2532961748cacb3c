"""Programs that the story kills and starts again: control plane, controller and Prometheus."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from metronome_opt.errors import InputError
from metronome_opt.kubernetes.claims.names import read_shipped
from metronome_opt.kubernetes.controller.client import CAPACITIES, CLAIMS, apply, connect, resource
from tests.kubernetes.cluster.server import ApiServer, binaries, wait_served

_SCRAPE = "500ms"


class Program:
    """A program that can be killed and started again; it ends with this process at the latest."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self._command, self._log = command, log
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; it adds to its log."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *self._command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for the story
            )

    def kill(self) -> None:
        """End it as a power failure would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


def lacking() -> str | None:
    """Return what this machine lacks beside a network, and how to get it; None for nothing."""
    programs = binaries()
    if programs is None or not (programs / "kube-scheduler").is_file():
        return (
            "etcd, kube-apiserver and kube-scheduler: not found together; put Kubernetes 1.27 or "
            "later on PATH, or name in KUBE_CACHE a folder with bin/ that has them"
        )
    command = [str(programs / "kube-apiserver"), "--version"]
    said = subprocess.run(command, capture_output=True, text=True).stdout.strip()
    found = re.match(r"Kubernetes v1\.(\d+)", said)
    if found is not None and int(found[1]) < 27:
        return f"{programs}: is {said}, whose pods have no scheduling gates; give 1.27 or later"
    if shutil.which("prometheus") is None:
        return "prometheus: not found; on Debian: apt install prometheus"
    return None


@contextmanager
def control_plane(folder: Path) -> Iterator[ApiServer]:
    """Start etcd, kube-apiserver and kube-scheduler; the cluster knows claims.

    Raises
    ------
    InputError
        If one of them is not on this machine.
    """
    reason, programs = lacking(), binaries()
    if reason is not None or programs is None:
        raise InputError(reason or "")
    folder.mkdir()
    server = ApiServer(folder, programs)
    with ExitStack() as stack:
        stack.callback(server.stop)
        server.start()
        command = [
            str(programs / "kube-scheduler"),
            f"--kubeconfig={server.kubeconfig()}",
            "--leader-elect=false",
            "--secure-port=0",
        ]
        scheduler = Program(command, folder / "kube-scheduler.log")
        stack.callback(scheduler.kill)
        scheduler.start()
        kind = "CustomResourceDefinition"
        definitions = resource(
            "apiextensions.k8s.io/v1", kind, f"{kind.lower()}s", namespaced=False
        )
        with connect(server.kubeconfig()) as client:
            for item in read_shipped("crds.yaml"):
                apply(client, definitions, item)
            wait_served(client, CLAIMS, CAPACITIES)
        yield server


def prometheus(folder: Path, port: int, targets: Path) -> Program:
    """Return a Prometheus that scrapes what a file of targets names, with their own labels."""
    folder.mkdir()
    (folder / "prometheus.yml").write_text(
        f"global: {{scrape_interval: {_SCRAPE}, scrape_timeout: {_SCRAPE}}}\n"
        "scrape_configs:\n"
        "  - job_name: gates\n"
        "    honor_labels: true\n"
        f"    file_sd_configs: [{{files: ['{targets}'], refresh_interval: 2s}}]\n"
    )
    command = [
        "prometheus",
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    return Program(command, folder / "prometheus.log")
