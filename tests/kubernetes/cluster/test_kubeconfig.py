"""Which kubeconfig is read, and what of it counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from metronome_opt.errors import InputError
from metronome_opt.kubernetes.cluster.kubeconfig import read_kubeconfig


@pytest.fixture(autouse=True)
def _nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)


def write(path: Path, **parts: Any) -> Path:
    document: dict[str, Any] = {
        "current-context": "main",
        "clusters": [{"name": "c", "cluster": {"server": f"https://{path.name}"}}],
        "users": [{"name": "u", "user": {"token": f"of-{path.name}"}}],
        "contexts": [
            {"name": "main", "context": {"cluster": "c", "user": "u", "namespace": "team"}},
            {"name": "bare", "context": {"cluster": "c"}},
        ],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump({**document, **parts}))
    return path


def test_the_file_that_is_named_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(write(tmp_path / "listed")))
    config = read_kubeconfig(write(tmp_path / "named"), None)
    assert (config.cluster.server, config.namespace) == ("https://named", "team")


def test_the_home_folder_has_the_last_word(tmp_path: Path) -> None:
    write(tmp_path / ".kube" / "config")
    assert read_kubeconfig(None, None).cluster.server == "https://config"


def test_listed_files_are_merged_and_the_first_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = write(tmp_path / "first", contexts=[], **{"current-context": ""})
    second = write(tmp_path / "second")
    missing = tmp_path / "missing"
    monkeypatch.setenv("KUBECONFIG", f"{missing}:{first}:{second}")
    config = read_kubeconfig(None, None)
    # Context and current context are from the second, cluster and user from the first.
    assert config.context_name == "main"
    assert config.cluster.server == "https://first"
    assert config.user is not None
    assert config.user.token == "of-first"


def test_paths_count_from_the_folder_of_their_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = {"server": "https://h", "certificate-authority": "ca.crt"}
    path = write(tmp_path / "deep" / "one", clusters=[{"name": "c", "cluster": cluster}])
    monkeypatch.setenv("KUBECONFIG", str(path))
    assert read_kubeconfig(None, None).cluster.certificate_auth == str(tmp_path / "deep/ca.crt")


def test_a_context_without_user_or_namespace(tmp_path: Path) -> None:
    config = read_kubeconfig(write(tmp_path / "one"), "bare")
    assert config.user is not None
    assert config.user.token is None
    assert config.namespace == "default"


def test_there_is_none() -> None:
    with pytest.raises(InputError, match=r"neither ~/\.kube/config nor a file that"):
        read_kubeconfig(None, None)


@pytest.mark.parametrize(
    ("parts", "context", "message"),
    [
        ({}, "other", "--context 'other': is not in the kubeconfig; it has bare, main"),
        ({"current-context": None}, None, "has no current context; give --context"),
        ({"clusters": []}, None, "context 'main': names a cluster that is not there"),
        ({"users": []}, None, "context 'main': names a user that is not there"),
        ({"contexts": [{"name": "main"}]}, None, "context: .* missing required field `cluster`"),
        ({"users": [{"name": "u", "user": {"as": "x"}}]}, None, "user.as: is not supported"),
        (
            {"clusters": [{"name": "c", "cluster": {"proxy-url": "http://p"}}]},
            None,
            "cluster.proxy-url: is not supported",
        ),
    ],
)
def test_what_cannot_be_used_is_told_with_its_place(
    parts: dict[str, Any], context: str | None, message: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=message):
        read_kubeconfig(write(tmp_path / "one", **parts), context)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        read_kubeconfig(tmp_path / "nothing", None)
