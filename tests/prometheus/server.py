"""A real Prometheus on the loopback address, for as long as a test needs it."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

needs_prometheus = pytest.mark.skipif(
    shutil.which("prometheus") is None or shutil.which("promtool") is None,
    reason="prometheus is not installed (Debian: prometheus)",
)

_READY_S = 60


@contextmanager
def prometheus(
    folder: Path,
    *,
    history: str | None = None,
    scrape: tuple[str, ...] = (),
    interval_ms: int = 200,
    prefix: str = "",
) -> Iterator[str]:
    """Start a server in an empty folder and yield its address.

    `history` is OpenMetrics text, `scrape` what is to be scraped at `interval_ms`, HOST:PORT each,
    whose own labels are kept, `prefix` the path below which everything is.
    """
    data = folder / "data"
    if history is not None:
        (folder / "history.txt").write_text(history)
        command = ["promtool", "tsdb", "create-blocks-from", "openmetrics"]
        subprocess.run([*command, folder / "history.txt", data], check=True, capture_output=True)
    (folder / "prometheus.yml").write_text(_configuration(scrape, interval_ms))
    address = f"127.0.0.1:{free_port()}"
    command = [
        "prometheus",
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={data}",
        "--storage.tsdb.retention.time=100y",
        f"--web.listen-address={address}",
        f"--web.route-prefix={prefix or '/'}",
    ]
    with (folder / "log.txt").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            _wait_until_ready(f"http://{address}{prefix}", process, folder / "log.txt")
            yield f"http://{address}"
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _configuration(scrape: tuple[str, ...], interval_ms: int) -> str:
    interval = f"{interval_ms}ms"
    text = f"global: {{scrape_interval: {interval}, scrape_timeout: {interval}}}\n"
    if scrape:
        text += "scrape_configs:\n"
        text += "  - {job_name: monitor, honor_labels: true, "
        text += f"static_configs: [{{targets: {[*scrape]}}}]}}\n"
    return text


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_until_ready(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    last = time.monotonic() + _READY_S
    while process.poll() is None and time.monotonic() < last:
        try:
            with urllib.request.urlopen(f"{url}/-/ready", timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.05)
    raise RuntimeError(f"prometheus does not become ready: {log.read_text()[-2000:]}")
