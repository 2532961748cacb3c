"""Requests are as the API server expects; failures are one line without secrets."""

from __future__ import annotations

import json
import re
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from lightkube.core.client import Client

from metronome_opt.errors import InputError
from metronome_opt.kubernetes.controller.claims import Assignment, pod_annotations
from metronome_opt.kubernetes.controller.client import (
    CLAIMS,
    NODES,
    PODS,
    ClusterError,
    apply,
    asking,
    connect,
    delete,
    listed,
)
from metronome_opt.kubernetes.controller.live import LiveCluster
from metronome_opt.kubernetes.reading.pods import Pod
from tests.kubernetes.prometheus.fake import Answer, Told, fake, says

TOKEN = "planted-5up3r-s3cret"
GROUP = "metronome.x-k8s.io"
CLAIM_PATH, MANAGER = "stbandwidthclaims/a-0", "fieldManager=metronome-opt"
CLAIM = {"metadata": {"name": "a-0", "namespace": "team"}, "spec": {}}
CREDENTIALS = "client.authentication.k8s.io"


NO_ITEMS = says('{"items": []}')


@pytest.fixture
def server() -> Iterator[Told]:
    with fake(NO_ITEMS) as told:
        yield told


@pytest.fixture
def client(server: Told, tmp_path: Path) -> Iterator[Client]:
    with connect(write(tmp_path / "config", server=server.url)) as made:
        yield made


def write(path: Path, *, server: str = "https://host", user: Any = None, **parts: Any) -> Path:
    """Write a kubeconfig, some of its sections replaced."""
    document: dict[str, Any] = {
        "current-context": "main",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": user or {"token": TOKEN}}],
        "contexts": [
            {"name": "main", "context": {"cluster": "c", "user": "u", "namespace": "team"}}
        ],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump({**document, **parts}))
    return path


def replies(body: Any, code: int = 200) -> Answer:
    return says(json.dumps(body), code, Content_Type="application/json")


def status(code: int, message: str = "", **fields: Any) -> Answer:
    body = {"kind": "Status", "apiVersion": "v1", "code": code, "message": message, **fields}
    return replies(body, code)


# ------------------------------------------------------------------ requests


def test_all_pages_of_a_list_are_read(server: Told, client: Client) -> None:
    first = {"items": [{"metadata": {"name": "a"}}], "metadata": {"continue": "next"}}
    server.answers[:] = replies(first), replies({"items": [{"metadata": {"name": "b"}}]})
    pods = listed(client, PODS, labels={"team": "vision"})
    own = {"apiVersion": "v1", "kind": "Pod"}
    assert pods == [{**own, "metadata": {"name": name}} for name in "ab"]
    base = "/api/v1/namespaces/team/pods?limit=500&labelSelector=team%3Dvision"
    assert [request.path for request in server.asked] == [base, f"{base}&continue=next"]


@pytest.mark.parametrize(
    ("ask", "method", "path", "body"),
    [
        (lambda of: listed(of, NODES), "GET", "/api/v1/nodes?limit=500", ""),
        (lambda of: listed(of, PODS, "*"), "GET", "/api/v1/pods?limit=500", ""),
        (
            lambda of: apply(of, CLAIMS, CLAIM),
            "PATCH",
            f"/apis/{GROUP}/v1alpha1/namespaces/team/{CLAIM_PATH}?force=true&{MANAGER}",
            json.dumps(CLAIM, separators=(",", ":")),
        ),
        (lambda of: delete(of, PODS, "a", "b"), "DELETE", "/api/v1/namespaces/b/pods/a", ""),
        (
            lambda of: delete(of, PODS, "a", "b", "uid-1"),
            "DELETE",
            "/api/v1/namespaces/b/pods/a",
            '{"preconditions":{"uid":"uid-1"}}',
        ),
    ],
)
def test_requests(
    ask: Callable[[Client], object], method: str, path: str, body: str, server: Told, client: Client
) -> None:
    ask(client)
    (request,) = server.asked
    assert (request.method, request.path, request.body) == (method, path, body)
    assert request.headers["Authorization"] == f"Bearer {TOKEN}"
    kind = {"PATCH": "application/apply-patch+yaml"}.get(method, "application/json")
    assert request.headers.get("Content-Type", "") == (kind if body else "")


FORBIDDEN = 'pods is forbidden: User "ann" cannot list resource "pods" in API group ""'


@pytest.mark.parametrize(
    ("reply", "passing", "words"),
    [
        (status(401), False, "does not accept these credentials"),
        (status(403, FORBIDDEN), False, FORBIDDEN),
        (
            says("404 page not found", 404, Content_Type="text/plain"),
            False,
            "knows no /api/v1/namespaces/",
        ),
        (status(404, "no", details={"name": "a"}), False, "status 404, no"),
        (status(409, "was modified\nsince"), False, "status 409, was modified since"),
        (status(422, "x" * 9999), False, "status 422, xxx"),
        (status(429, "busy"), True, "status 429, busy"),
        (says("<html>", 502, Content_Type="text/html"), True, "status 502, is it an API server?"),
        (says(f"Bearer {TOKEN}"), True, "no answer of an API server"),
        (replies({"items": 1}), True, "no answer of an API server"),
    ],
)
def test_refusals_are_one_line(
    reply: Answer, passing: bool, words: str, server: Told, client: Client
) -> None:
    server.answers[:] = [reply]
    with pytest.raises(ClusterError, match=re.escape(words)) as caught:
        listed(client, PODS)
    assert str(caught.value).startswith(f"{server.url}: ")
    assert len(str(caught.value)) < 450
    assert TOKEN not in str(caught.value)
    assert caught.value.__suppress_context__
    assert caught.value.is_transient == passing


def test_server_that_is_away_is_one_line(tmp_path: Path) -> None:
    away = connect(write(tmp_path / "config", server=f"http://user:{TOKEN}@127.0.0.1:1"))
    with pytest.raises(
        ClusterError, match=r"127\.0\.0\.1:1: no answer .*refused.*is it up"
    ) as caught:
        listed(away, PODS)
    assert TOKEN not in str(caught.value)


def test_deleting_what_is_not_there_is_no_error(server: Told, client: Client) -> None:
    server.answers[:] = [status(404, "not found", details={"name": "a"})]
    delete(client, PODS, "a", "b")
    server.answers[:] = [status(409, "the UID in the precondition does not match")]
    with pytest.raises(ClusterError, match="UID"):
        delete(client, PODS, "a", "b", "uid-1")


@pytest.mark.slow
def test_without_the_extra_a_line_says_what_to_install(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['lightkube'] = None; from metronome_opt.__main__ import main; "
        "sys.exit(main(['controller', 'state']))"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == (
        "metronome: error: talking to a cluster needs lightkube, which is not installed: "
        "pip install 'metronome-opt[cluster]'\n"
    )


def test_pod_gets_its_node_and_slots_in_one_request(server: Told, client: Client) -> None:
    metadata = {"name": "a-0", "namespace": "team", "uid": "uid-1", "resourceVersion": "7"}
    slots = {"offset_ms": 0, "period_ms": 200}
    pod = Pod.of({"metadata": metadata, "spec": {}})
    LiveCluster(client).assign([Assignment(pod, 0, "n1")], slots)
    (request,) = server.asked
    assert request.headers["Content-Type"] == "application/merge-patch+json"
    stated = {f"{GROUP}/node": "n1", **pod_annotations(slots, "a-0")}
    assert json.loads(request.body) == {
        "metadata": {"uid": "uid-1", "resourceVersion": "7", "annotations": stated},
        "spec": {"nodeSelector": {"kubernetes.io/hostname": "n1"}, "schedulingGates": None},
    }


# ------------------------------------------------------------------ credential plugins


@pytest.mark.parametrize("text", [f"echo {TOKEN} >&2; exit 3", f"echo {TOKEN}", None])
def test_output_of_a_credential_plugin_is_hidden(
    text: str | None, server: Told, tmp_path: Path
) -> None:
    plugin = "no-such-plugin" if text is None else script(tmp_path, text)
    user = {"exec": {"apiVersion": f"{CREDENTIALS}/v1", "command": plugin}}
    with pytest.raises(ClusterError) as caught:
        listed(connect(write(tmp_path / "config", server=server.url, user=user)), PODS)
    assert TOKEN not in str(caught.value)


# Without the API version in its environment, kubelogin and others refuse to work.
@pytest.mark.parametrize("release", ["v1beta1", "v1"])
def test_credential_plugin_gets_its_environment_and_runs_again_when_its_token_expires(
    release: str, server: Told, tmp_path: Path
) -> None:
    # It writes down its environment, and its token is how often it has been run.
    text = (
        f'echo "$KUBERNETES_EXEC_INFO $MORE $1" >> {tmp_path}/runs\n'
        f'echo "{{\\"status\\": {{\\"token\\": \\"$(wc -l < {tmp_path}/runs)\\"}}}}"'
    )
    version = f"{CREDENTIALS}/{release}"
    plugin = {"apiVersion": version, "command": script(tmp_path, text), "args": ["one"]}
    user = {"exec": {**plugin, "env": [{"name": "MORE", "value": "two"}]}}
    client = connect(write(tmp_path / "config", server=server.url, user=user))
    server.answers[:] = [NO_ITEMS, NO_ITEMS, status(401), NO_ITEMS]
    for _ in range(3):
        listed(client, PODS)
    tokens = [request.headers["Authorization"] for request in server.asked]
    assert (tokens[0], tokens[-1]) == ("Bearer 1", "Bearer 2")
    first, _ = (tmp_path / "runs").read_text().splitlines()
    assert version in first
    assert first.endswith(" two one")


def script(folder: Path, text: str) -> str:
    path = folder / "plugin"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


# ------------------------------------------------------------------ kubeconfigs


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    return tmp_path


def test_named_file_goes_before_the_environment_and_that_before_the_home_folder(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match=r"neither ~/\.kube/config nor one that KUBECONFIG"):
        connect()
    write(home / ".kube" / "config", server="https://home")
    assert connect().config.cluster.server == "https://home"
    monkeypatch.setenv("KUBECONFIG", str(write(home / "env", server="https://env")))
    assert connect().config.cluster.server == "https://env"
    client = connect(write(home / "named"))
    assert (client.config.cluster.server, client.namespace) == ("https://host", "team")
    monkeypatch.setenv("KUBECONFIG", f"{home / 'env'}:{home / 'named'}")
    with pytest.raises(InputError, match="KUBECONFIG: lists several files"):
        connect()


# The second is an event, without a response: the watch of a controller must go on after it.
@pytest.mark.parametrize(
    "end",
    [
        status(410, "gone"),
        says('{"type":"ERROR","object":{"kind":"Status","code":410,"message":"too old"}}'),
        says('{"type":"ERR'),
    ],
)
def test_watch_that_breaks_is_a_cluster_error(end: Answer, server: Told, client: Client) -> None:
    server.answers[:] = [
        says('{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"7"}}}'),
        end,
    ]
    watch = client.watch(PODS, namespace="*", server_timeout=300)
    assert next(watch)[0] == "ADDED"
    with pytest.raises(ClusterError), asking(client):
        next(watch)
    assert "resourceVersion=7" in server.asked[1].path


@pytest.mark.parametrize(
    ("contents", "words"),
    [
        (None, "No such file"),
        (f"users: [token: {TOKEN}", r"cannot be used \(ParserError\)"),
        (TOKEN, r"cannot be used \(AttributeError\)"),
        ({"user": {"token": [TOKEN]}}, r"cannot be used \(ValidationError\)"),
        ({"current-context": "other"}, "has no context 'other'; kubectl config use-context"),
        ({"clusters": []}, r"cannot be used \(KeyError\)"),
        ({"user": {"as": "x"}}, "user.as: is not supported"),
        ({"user": {"client-certificate": "no", "client-key": "no"}}, "No such file"),
        (
            {"clusters": [{"name": "c", "cluster": {"proxy-url": "http://p"}}]},
            "cluster.proxy-url: is not supported",
        ),
    ],
)
def test_unusable_kubeconfig_is_one_line_without_secrets(
    contents: Any, words: str, tmp_path: Path
) -> None:
    path = tmp_path / "config"
    if isinstance(contents, dict):
        write(path, **contents)
    elif contents is not None:
        path.write_text(contents)
    with pytest.raises(InputError, match=rf"^{path}: .*{words}") as caught:
        connect(path)
    assert TOKEN not in str(caught.value)
    assert "\n" not in str(caught.value)
