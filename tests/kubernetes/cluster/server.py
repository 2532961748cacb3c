"""An API server for tests: etcd and kube-apiserver on loopback, with RBAC and a few users."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import yaml
from lightkube.core.client import Client

from metronome_opt.kubernetes.controller.client import (
    ClusterError,
    Resource,
    connect,
    listed,
    resource,
)

NAMESPACES = resource("v1", "Namespace", "namespaces", namespaced=False)
ADMIN = "admin"
ORDINARY = "ordinary"  # may do nothing but what a test grants
USERS = (ADMIN, ORDINARY)

_READY_S = 120.0


def binaries() -> Path | None:
    """Return a folder with etcd and kube-apiserver, None if there is none."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kube-apiserver"
    cached = Path(os.environ.get("KUBE_CACHE") or cache) / "bin"
    found = shutil.which("kube-apiserver")
    folders = [Path(found).parent] if found else []
    for folder in [*folders, cached]:
        if all((folder / name).is_file() for name in ("etcd", "kube-apiserver")):
            return folder
    return None


class ApiServer:
    """A running API server, or one that can be started again on what it stored.

    Parameters
    ----------
    folder
        An empty folder for everything that the two programs write.
    programs
        The folder with the programs.
    """

    def __init__(self, folder: Path, programs: Path) -> None:
        self.folder = folder
        self.programs = programs
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._port, self._etcd, self._peer = free_ports(3)
        self.url = f"https://127.0.0.1:{self._port}"
        self.certificate = folder / "server.crt"
        self.tokens = {user: secrets.token_hex(16) for user in USERS}
        self._certify()
        groups = {ADMIN: ',"system:masters"'}
        (folder / "tokens.csv").write_text(
            "".join(
                f"{token},{user},{user}{groups.get(user, '')}\n"
                for user, token in self.tokens.items()
            )
        )

    def start(self) -> None:
        """Start what is not running and wait until it answers."""
        if "kube-apiserver" in self._running:
            return
        if "etcd" not in self._running:
            self._spawn(
                "etcd",
                f"--data-dir={self.folder / 'etcd'}",
                "--unsafe-no-fsync",
                "--log-level=error",
                f"--listen-client-urls=http://127.0.0.1:{self._etcd}",
                f"--advertise-client-urls=http://127.0.0.1:{self._etcd}",
                f"--listen-peer-urls=http://127.0.0.1:{self._peer}",
                f"--initial-advertise-peer-urls=http://127.0.0.1:{self._peer}",
                f"--initial-cluster=default=http://127.0.0.1:{self._peer}",
            )
        self._spawn(
            "kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{self._etcd}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={self._port}",
            "--endpoint-reconciler-type=none",
            f"--tls-cert-file={self.certificate}",
            f"--tls-private-key-file={self.folder / 'server.key'}",
            f"--token-auth-file={self.folder / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            f"--service-account-issuer={self.url}",
            f"--service-account-signing-key-file={self.folder / 'server.key'}",
            f"--service-account-key-file={self.folder / 'server.key'}",
            "--disable-admission-plugins=ServiceAccount",
        )
        self._wait()

    def kill(self) -> None:
        """End the API server as a power failure would; what it stored stays."""
        self._end("kube-apiserver")

    def stop(self) -> None:
        """End everything."""
        for name in list(self._running):
            self._end(name)

    def kubeconfig(self, user: str = ADMIN) -> Path:
        """Return a kubeconfig of a user."""
        path = self.folder / f"kubeconfig-{user}"
        if not path.exists():
            document = {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": user,
                "clusters": [
                    {
                        "name": "test",
                        "cluster": {
                            "server": self.url,
                            "certificate-authority": str(self.certificate),
                        },
                    }
                ],
                "users": [{"name": user, "user": {"token": self.tokens[user]}}],
                "contexts": [{"name": user, "context": {"cluster": "test", "user": user}}],
            }
            path.write_text(yaml.safe_dump(document))
        return path

    def _certify(self) -> None:
        """Make a certificate that signs itself, as strict clients want it."""
        usage = "critical,digitalSignature,keyEncipherment,keyCertSign"
        command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
        for option, value in {
            "-subj": "/CN=test",
            "-keyout": str(self.folder / "server.key"),
            "-out": str(self.certificate),
        }.items():
            command += [option, value]
        for extension in ("subjectAltName=IP:127.0.0.1", f"keyUsage={usage}"):
            command += ["-addext", extension]
        subprocess.run(command, check=True, capture_output=True)

    def _spawn(self, name: str, *arguments: str) -> None:
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.folder)}
        if name == "etcd":
            machine = os.uname().machine
            environment["ETCD_UNSUPPORTED_ARCH"] = {"aarch64": "arm64"}.get(machine, machine)
        with (self.folder / f"{name}.log").open("ab") as log:
            self._running[name] = subprocess.Popen(
                [self.programs / name, *arguments],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env=environment,
                start_new_session=True,  # Ctrl-C is for the tests
            )

    def _end(self, name: str) -> None:
        process = self._running.pop(name, None)
        if process is not None:
            process.send_signal(signal.SIGKILL)
            process.wait()

    def _wait(self) -> None:
        """Wait for the first namespaces, which are made after all else."""

        def is_ready() -> bool:
            self._check_alive()
            with suppress(ClusterError):
                names = [item["metadata"]["name"] for item in listed(client, NAMESPACES)]
                return "default" in names
            return False

        with connect(self.kubeconfig()) as client:
            wait_for(is_ready)

    def _check_alive(self) -> None:
        for name, process in self._running.items():
            if process.poll() is not None:
                log = (self.folder / f"{name}.log").read_text(errors="replace")[-2000:]
                raise RuntimeError(f"{name} ended with {process.returncode}; {log}")


def wait_for(condition: Callable[[], object]) -> None:
    """Wait until something is so, at most two minutes."""
    deadline = time.monotonic() + _READY_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def wait_served(client: Client, *kinds: Resource) -> None:
    """Wait until the server knows resources and lets the client list them."""

    def served() -> bool:
        try:
            return all(listed(client, kind) is not None for kind in kinds)
        except ClusterError:
            return False

    wait_for(served)


def free_ports(count: int) -> list[int]:
    """Return free ports."""
    taken = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [server.getsockname()[1] for server in taken]
    for server in taken:
        server.close()
    return ports
