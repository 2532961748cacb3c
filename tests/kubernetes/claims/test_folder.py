"""Files of an export are whole at any moment, and only exports are replaced."""

from __future__ import annotations

import multiprocessing
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from metronome_opt.errors import InputError
from metronome_opt.kubernetes import export_claims
from tests.kubernetes.claims.example import cluster_of, two_jobs
from tests.tiers import THOROUGH

CALLS = ("mkdir", "open", "chmod", "replace", "unlink")


def export(directory: Path, namespace: str = "default") -> None:
    export_claims(*two_jobs(), directory, namespace=namespace)


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


def killed_export(directory: Path, number: int) -> None:
    """Export until the call with this number, of all calls that touch the disk."""
    left = [number]

    def wrapped(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **more: Any) -> Any:
            left[0] -= 1
            if left[0] == 0:
                os._exit(9)
            return original(*arguments, **more)

        return call

    for name in CALLS:
        setattr(os, name, wrapped(getattr(os, name)))
    export(directory, "new")


@pytest.mark.slow
def test_files_are_whole_after_a_kill_and_next_export_completes_them(tmp_path: Path) -> None:
    export(tmp_path / "new", "new")
    new = contents(tmp_path / "new")
    claims = tmp_path / "claims"
    export(claims, "old")
    old = contents(claims)
    context = multiprocessing.get_context("fork")
    seen = set()
    for number in range(1, 200, 1 if THOROUGH else 7):
        process = context.Process(target=killed_export, args=(claims, number))
        process.start()
        process.join()
        left = {name: text for name, text in contents(claims).items() if name in new}
        assert all(text in (old[name], new[name]) for name, text in left.items())
        seen.add(sum(text == new[name] for name, text in left.items()))
        export(claims, "old")
        assert contents(claims) == old
        if process.exitcode == 0:
            break
    else:
        pytest.fail("the export never came to its end")
    assert len(seen) > 2  # it was killed before, between and after files


@pytest.mark.parametrize(
    ("exported", "name", "text"),
    [
        (True, "notes.txt", "mine"),
        (False, ".notes", "mine"),
        (False, "claims.yaml", "mine"),  # our name, but nothing is signed
        (False, "kustomization.yaml", "resources: []\n"),
        (False, "crds.yaml", None),  # a folder
        (True, "crds.yaml", "a link"),
    ],
)
def test_foreign_files_are_kept_and_named(
    exported: bool, name: str, text: str | None, tmp_path: Path
) -> None:
    claims = tmp_path / "claims"
    claims.mkdir()
    if exported:
        export(claims)
    if text is None:
        (claims / name).mkdir()
    elif text == "a link":
        (claims / name).rename(tmp_path / "elsewhere.yaml")
        (claims / name).symlink_to(tmp_path / "elsewhere.yaml")
    else:
        (claims / name).write_text(text)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InputError, match=re.escape(f"holds '{name}', which no export wrote")):
        export(claims)
    assert sorted(tmp_path.rglob("*")) == before


def test_empty_folder_and_link_to_folder_are_used(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "claims").symlink_to(tmp_path / "real")
    export(tmp_path / "claims")
    export(tmp_path / "claims")
    assert (tmp_path / "claims").is_symlink()
    assert (tmp_path / "real" / "claims.yaml").is_file()


def test_file_in_the_way_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InputError, match="is a file; name a folder"):
        export(tmp_path / "file")
    with pytest.raises(InputError, match=r"cannot be made a folder \(Not a directory\)"):
        export(tmp_path / "file" / "claims")
    with pytest.raises(InputError, match="cannot be made a folder"):
        export(Path("/proc/self/claims"))
    assert (tmp_path / "file").read_text() == "mine"


def test_files_of_former_export_are_removed(tmp_path: Path) -> None:
    instance, schedule, deployment = two_jobs()
    export_claims(instance, schedule, deployment, tmp_path / "claims")
    assert (tmp_path / "claims" / "networktopology.yaml").exists()
    flat = type(deployment)(cluster_of({"node-0": "r", "node-1": "r"}), deployment.tasks)
    export_claims(instance, schedule, flat, tmp_path / "claims")
    assert not (tmp_path / "claims" / "networktopology.yaml").exists()
    assert "networktopology" not in (tmp_path / "claims" / "kustomization.yaml").read_text()
