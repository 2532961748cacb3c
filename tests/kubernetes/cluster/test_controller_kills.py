"""The controller and the API server killed at random while gangs come and go."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from lightkube.core.client import Client

from metronome_opt.__main__ import main
from metronome_opt.cluster.store import Store
from metronome_opt.kubernetes.pods import Pod
from tests.kubernetes.cluster.gangs import claims, make_nodes, pods, remove, remove_nodes, submit
from tests.kubernetes.cluster.server import ApiServer
from tests.kubernetes.controller.fake import GPUS, spec_of

KILLS = int(os.environ.get("METRONOME_TEST_KILLS", "12"))

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.slow,
    pytest.mark.timeout(120 + 30 * KILLS),
    pytest.mark.usefixtures("definitions"),
]


class Jobs:
    """Jobs that come and go."""

    def __init__(self, cluster: Client, namespace: str) -> None:
        self.cluster, self.namespace = cluster, namespace
        self.chance, self.count = random.Random(1), 0
        self.jobs: list[str] = []

    def change(self) -> None:
        """Let a job come, or if there are enough of them one go."""
        if len(self.jobs) > 2:
            gone = self.jobs.pop(self.chance.randrange(len(self.jobs)))
            for name, item in pods(self.cluster, self.namespace).items():
                if item["metadata"]["labels"]["job-name"] == gone:
                    remove(self.cluster, name, self.namespace)
            return
        self.jobs.append(f"job{self.count}")
        submit(self.cluster, self.namespace, self.jobs[-1], self.chance.choice([2, 3]))
        self.count += 1

    def wait(self) -> bool:
        """Wait until the latest job is being placed, or a random time; return whether it is."""
        until = time.monotonic() + self.chance.choice([self.chance.uniform(0, 3), 15])
        job = f"{self.namespace}/{self.jobs[-1]}"
        while time.monotonic() < until:
            made = claims(self.cluster, self.namespace).values()
            if any(item["spec"]["job"] == job for item in made):
                return True
            time.sleep(0.01)
        return False

    def check(self, store: Store) -> int:
        """Check that pods, claims and the state say the same; return how many gangs are placed."""
        there = [Pod.of(item) for item in pods(self.cluster, self.namespace).values()]
        assert {pod.job for pod in there if pod.place} == set(store.state.claims)
        used: Counter[str | None] = Counter()
        for job, claim in store.state.claims.items():
            mine = [pod for pod in there if pod.job == job]
            assert Counter(pod.place for pod in mine) == Counter(claim.nodes)
            used.update(pod.place for pod in mine)
        assert max(used.values()) * GPUS <= 8
        placed = {pod.name: pod.place for pod in there if pod.place}
        made = claims(self.cluster, self.namespace).items()
        assert {name: item["spec"]["allocation"]["node"] for name, item in made} == placed
        return len(store.state.claims)


def test_gangs_stay_whole_when_controller_or_server_is_killed(
    cluster: Client, api_server: ApiServer, namespace: str, tmp_path: Path
) -> None:
    state, file, log = tmp_path / "state", tmp_path / "cluster.json", tmp_path / "log"
    file.write_text(json.dumps(spec_of(4).to_dict()))
    arguments = ["controller", str(state), "--cluster", str(file), "--namespace", namespace]
    arguments += ["--kubeconfig", str(api_server.kubeconfig()), "--patience", "600"]

    def start() -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "metronome_opt", *arguments]
        with log.open("ab") as stream:
            return subprocess.Popen(command, stderr=stream)

    make_nodes(cluster)
    jobs = Jobs(cluster, namespace)
    process, at_work = start(), 0
    try:
        for kill in range(KILLS):
            for _ in range(jobs.chance.randint(1, 3)):
                jobs.change()
            at_work += jobs.wait()
            if kill % 3:
                process.kill()
                process.wait()
                process = start()
            else:
                api_server.kill()
                time.sleep(jobs.chance.uniform(0, 2))
                api_server.start()
    finally:
        process.kill()
        process.wait()
        api_server.start()
    assert at_work > 0
    assert "Traceback" not in log.read_text()
    for _ in range(2):
        assert main([*arguments, "--once"]) == 0
    with Store(state) as store:
        assert jobs.check(store) > 0
    remove_nodes(cluster, namespace)
