"""Questions to a server that answers what the test wants: what is repeated, and what is said."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml

from metronome_opt.__main__ import main
from metronome_opt.errors import InputError
from metronome_opt.kubernetes.cluster import ClusterError, Connection, UnknownKindError, connect
from metronome_opt.kubernetes.cluster.connect import ForbiddenError, RefusedError
from metronome_opt.kubernetes.cluster.objects import claims_of
from tests.kubernetes.cluster.exports import GROUP, claim

TOKEN = "planted-5up3r-s3cret"
CLAIMS = claims_of(GROUP)
Reply = httpx2.Response | Exception


def kubeconfig(folder: Path, **user: Any) -> Path:
    path = folder / "kubeconfig"
    document = {
        "current-context": "here",
        "clusters": [{"name": "c", "cluster": {"server": "https://host:6443"}}],
        "users": [{"name": "u", "user": user or {"token": TOKEN}}],
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
    }
    path.write_text(yaml.safe_dump(document))
    return path


class Server(httpx2.BaseTransport):
    """Gives one reply after the other, the last one for ever."""

    def __init__(self, *replies: Reply) -> None:
        self.replies = list(replies)
        self.requests: list[httpx2.Request] = []

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        if isinstance(reply, Exception):
            raise reply
        return httpx2.Response(
            reply.status_code, headers=dict(reply.headers), content=reply.content
        )


def status(code: int, message: str = "", **fields: Any) -> httpx2.Response:
    body = {"kind": "Status", "apiVersion": "v1", "code": code, "message": message, **fields}
    return httpx2.Response(code, json=body)


def page(*items: dict[str, Any], go_on: str = "") -> httpx2.Response:
    return httpx2.Response(200, json={"metadata": {"continue": go_on}, "items": list(items)})


@pytest.fixture
def talk(tmp_path: Path) -> Iterator[Callable[..., Connection]]:
    opened = []

    def start(server: Server, timeout_s: float = 5.0, **user: Any) -> Connection:
        path = kubeconfig(tmp_path, **user)
        opened.append(connect(path, timeout_s=timeout_s, transport=server))
        return opened[-1]

    yield start
    for connection in opened:
        connection.__exit__(None, None, None)


Talk = Callable[..., Connection]


@pytest.mark.parametrize(
    "passing",
    [
        status(429),
        status(500, "etcdserver: request timed out"),
        status(503),
        status(409, "the object has been modified"),
        httpx2.Response(502, text="<html>bad gateway</html>"),
        httpx2.Response(200, text="<html>hello</html>"),
        httpx2.ConnectError("Connection refused"),
        httpx2.ReadTimeout("slow"),
        httpx2.RemoteProtocolError("Server disconnected"),
    ],
)
def test_what_may_pass_is_asked_again(talk: Talk, passing: Reply) -> None:
    server = Server(passing, page(claim("a", 0)))
    (found,) = talk(server).list(CLAIMS)
    assert found["metadata"]["name"] == "a-0"
    assert len(server.requests) == 2


@pytest.mark.parametrize("code", [400, 401, 403, 404, 405, 422])
def test_what_will_not_pass_is_asked_once(talk: Talk, code: int) -> None:
    server = Server(status(code, "no"))
    with pytest.raises(ClusterError):
        talk(server).list(CLAIMS)
    assert len(server.requests) == 1


def test_the_server_says_how_long_to_wait(talk: Talk) -> None:
    busy = status(429, "busy")
    busy.headers["Retry-After"] = "60"
    server = Server(busy)
    # A minute is more than the five seconds there are, so waiting is not even begun.
    with pytest.raises(ClusterError, match=r"https://host:6443: .*: status 429, busy"):
        talk(server).list(CLAIMS)
    assert len(server.requests) == 1


def test_asking_ends_in_time(talk: Talk) -> None:
    server = Server(httpx2.ConnectError("[Errno 111] Connection refused"))
    with pytest.raises(ClusterError, match=r"cannot be reached .*Connection refused.*is it up"):
        talk(server, timeout_s=0.5).list(CLAIMS)
    assert len(server.requests) > 1


def test_who_has_stopped_waiting_asks_once(talk: Talk) -> None:
    server = Server(status(503))
    connection = talk(server)
    connection.stop_waiting()
    with pytest.raises(ClusterError):
        connection.list(CLAIMS)
    assert len(server.requests) == 1


def test_all_pages_are_read_and_if_one_fails_all_again(talk: Talk) -> None:
    server = Server(
        page(claim("a", 0), go_on="next"),
        status(410, "continue token expired"),
        page(claim("a", 0), go_on="next"),
        page(claim("a", 1)),
    )
    names = [item["metadata"]["name"] for item in talk(server).list(CLAIMS)]
    assert names == ["a-0", "a-1"]
    assert [request.url.params.get("continue") for request in server.requests] == [
        None,
        "next",
        None,
        "next",
    ]


def test_applying_says_who_we_are_and_never_forces_untold(talk: Talk) -> None:
    server = Server(httpx2.Response(200, json=claim("a", 0)))
    connection = talk(server)
    connection.apply(CLAIMS, claim("a", 0), dry_run=True)
    connection.apply(CLAIMS, claim("a", 0), force=True)
    tried, forced = server.requests
    assert tried.method == "PATCH"
    assert tried.url.path == (f"/apis/{GROUP}/v1alpha1/namespaces/default/stbandwidthclaims/a-0")
    assert tried.headers["Content-Type"] == "application/apply-patch+yaml"
    assert dict(tried.url.params) == {"fieldManager": "metronome-opt", "dryRun": "All"}
    assert dict(forced.url.params) == {"fieldManager": "metronome-opt", "force": "true"}
    assert json.loads(tried.content) == claim("a", 0)


def test_a_missing_right_is_told_by_verb_resource_and_namespace(talk: Talk) -> None:
    message = (
        f'stbandwidthclaims.{GROUP} "a-0" is forbidden: User "ann" cannot patch resource '
        f'"stbandwidthclaims" in API group "{GROUP}" in the namespace "default"'
    )
    with pytest.raises(ForbiddenError) as caught:
        talk(Server(status(403, message))).apply(CLAIMS, claim("a", 0))
    told = str(caught.value)
    assert told.startswith("https://host:6443: ")
    assert message in told
    assert "metronome claims rbac" in told


def test_conflicts_are_told_by_field_and_manager_and_asked_once(talk: Talk) -> None:
    message = (
        'Apply failed with 2 conflicts: conflicts with "kubectl" using v1:\n'
        '- .spec.job\nconflicts with "operator" using v1:\n- .spec.task'
    )
    causes = [{"reason": "FieldManagerConflict", "message": "", "field": ".spec.job"}]
    server = Server(status(409, message, reason="Conflict", details={"causes": causes}))
    with pytest.raises(RefusedError, match="--force") as caught:
        talk(server).apply(CLAIMS, claim("a", 0))
    assert len(server.requests) == 1
    for part in ("STBandwidthClaim default/a-0: ", '"kubectl"', ".spec.job", '"operator"'):
        assert part in str(caught.value)


def test_a_kind_the_cluster_does_not_know(talk: Talk) -> None:
    with pytest.raises(UnknownKindError, match="does not know stbandwidthclaims"):
        talk(Server(httpx2.Response(404, text="404 page not found"))).list(CLAIMS)


def test_an_object_that_is_not_there_is_none_and_need_not_be_deleted(talk: Talk) -> None:
    details = {"name": "a-0", "kind": "stbandwidthclaims"}
    connection = talk(Server(status(404, "not found", details=details)))
    assert connection.get(CLAIMS, "a-0") is None
    assert connection.delete(CLAIMS, "a-0") is False


@pytest.mark.slow
def test_without_the_extra_a_line_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['lightkube'] = None; from metronome_opt.__main__ import main; "
        "sys.exit(main(['claims', 'status']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == (
        "metronome: error: talking to a cluster needs lightkube, which is not installed: "
        "pip install 'metronome-opt[cluster]'\n"
    )


# ------------------------------------------------------------------ secrets


@pytest.mark.parametrize(
    "reply",
    [
        status(400, f"what is {TOKEN}?"),
        status(403, f"{TOKEN} may not"),
        status(500, f"echo Bearer {TOKEN}"),
        httpx2.Response(400, text=f"Authorization: Bearer {TOKEN}"),
        httpx2.Response(200, text=f"Authorization: Bearer {TOKEN}"),
        httpx2.RemoteProtocolError(f"illegal status line: Authorization: Bearer {TOKEN}"),
    ],
)
def test_a_token_that_a_server_repeats_is_not_shown(talk: Talk, reply: Reply) -> None:
    server = Server(reply)
    with pytest.raises(ClusterError) as caught:
        talk(server, timeout_s=0.3).list(CLAIMS)
    assert server.requests[0].headers["Authorization"] == f"Bearer {TOKEN}"
    assert TOKEN not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_a_token_that_no_request_can_carry_is_not_shown(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, token=f"{TOKEN}\nmore")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        path.write_text(path.read_text().replace("https://host:6443", address))
        with connect(path) as connection, pytest.raises(ClusterError) as caught:
            connection.list(CLAIMS)
    assert "a token or password is empty or has a line break" in str(caught.value)
    assert TOKEN not in str(caught.value)


@pytest.mark.parametrize("proxy", [f"http://user:{TOKEN}@:port", f"socks5://user:{TOKEN}@host:1"])
def test_a_proxy_of_the_environment_that_cannot_be_used_is_one_line(
    proxy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "socksio", None)
    monkeypatch.setenv("ALL_PROXY", proxy)
    with pytest.raises(InputError, match="ALL_PROXY names, cannot be used") as caught:
        connect(kubeconfig(tmp_path))
    assert TOKEN not in str(caught.value)


PLUGIN = {"apiVersion": "client.authentication.k8s.io/v1", "command": "x", "args": [TOKEN]}
BROKEN: dict[str, Any] = {
    "not yaml": f"users: [token: {TOKEN}",
    "a tag": f"!!python/object:{TOKEN} x",
    "users no list": {"users": TOKEN},
    "user no mapping": {"users": [{"name": "u", "user": TOKEN}]},
    "current context a list": {"current-context": [TOKEN]},
    "token no text": {"user": {"token": [TOKEN]}},
    "certificate no base64": {"cluster": {"certificate-authority-data": TOKEN}},
    "key no certificate": {
        "user": {"client-certificate-data": f"{TOKEN}AA", "client-key-data": f"{TOKEN}AA"}
    },
    "variables of a plugin no list": {"user": {"exec": {**PLUGIN, "env": 5}}},
    "user a list": {"context": {"user": ["u"]}},
    "name a list": {"clusters": [{"name": ["c"], "cluster": {"server": "https://h"}}]},
    "address no address": {"cluster": {"server": TOKEN}},
}


def broken(fault: Any) -> str:
    """Return a kubeconfig with a fault: text, sections, or what is put into its one entry."""
    if isinstance(fault, str):
        return fault
    entries = {
        "cluster": {"server": "https://h", **fault.get("cluster", {})},
        "user": {"token": TOKEN, **fault.get("user", {})},
        "context": {"cluster": "c", "user": "u", **fault.get("context", {})},
    }
    names = {"cluster": "c", "user": "u", "context": "here"}
    sections = {f"{key}s": [{"name": names[key], key: of}] for key, of in entries.items()}
    more = {key: value for key, value in fault.items() if key not in entries}
    return yaml.safe_dump({"current-context": "here", **sections, **more})


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_kubeconfig_is_one_line_without_what_it_holds(
    fault: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "broken"
    path.write_text(broken(BROKEN[fault]))
    assert main(["claims", "status", "--kubeconfig", str(path)]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert TOKEN not in told
    assert str(path) in told or "context 'here'" in told


PLUGINS = {
    "fails": f"echo {TOKEN} >&2; echo {TOKEN}; exit 3",
    "says nonsense": f"echo {TOKEN}",
    "gives no token": f'echo \'{{"status": {{"other": "{TOKEN}"}}}}\'',
}


@pytest.mark.parametrize("fault", [*PLUGINS, "is not there"])
def test_what_a_credential_plugin_says_is_not_shown(talk: Talk, tmp_path: Path, fault: str) -> None:
    plugin = script(tmp_path, PLUGINS[fault]) if fault in PLUGINS else "no-such-plugin"
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": plugin}}
    with pytest.raises(ClusterError, match=r"6443: .*credentials for it cannot be got") as caught:
        talk(Server(page()), timeout_s=0.5, **user).list(CLAIMS)
    assert TOKEN not in str(caught.value)


# Killed, the shell leaves a child that still has its output.
@pytest.mark.parametrize("hanging", ["exec sleep 60", "sleep 60 & echo {}"])
def test_a_credential_plugin_that_hangs_ends_with_the_time_for_a_question(
    talk: Talk, tmp_path: Path, hanging: str
) -> None:
    plugin = script(tmp_path, hanging)
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": plugin}}
    begin = time.monotonic()
    with pytest.raises(ClusterError, match=r"their plugin has not ended after 0\.5 s"):
        talk(Server(page()), timeout_s=0.5, **user).list(CLAIMS)
    assert time.monotonic() - begin < 10


@pytest.mark.parametrize("release", ["v1beta1", "v1"])
def test_a_credential_plugin_is_told_what_is_asked_and_run_again_when_its_token_expires(
    release: str, talk: Talk, tmp_path: Path
) -> None:
    # It writes down what it is told, and its token is how often it has been run.
    plugin = script(
        tmp_path,
        f'echo "$KUBERNETES_EXEC_INFO $MORE $1" >> {tmp_path}/told\n'
        f'echo "{{\\"status\\": {{\\"token\\": \\"$(wc -l < {tmp_path}/told)\\"}}}}"',
    )
    version = f"client.authentication.k8s.io/{release}"
    user = {
        "apiVersion": version,
        "command": plugin,
        "args": ["one"],
        "env": [{"name": "MORE", "value": "two"}],
    }
    server = Server(page(), page(), status(401), page())
    connection = talk(server, exec=user)
    for _ in range(3):
        connection.list(CLAIMS)
    tokens = [request.headers["Authorization"] for request in server.requests]
    assert (tokens[0], tokens[-1]) == ("Bearer 1", "Bearer 2")
    first, _ = (tmp_path / "told").read_text().splitlines()
    assert version in first
    assert first.endswith(" two one")


def script(folder: Path, text: str) -> str:
    path = folder / "plugin"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return os.fspath(path)
