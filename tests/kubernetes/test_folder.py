"""An interrupted export is the old one or the new one, and only exports are replaced."""

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
from metronome_opt.kubernetes.files import _SIGNATURE, _Folder
from tests.kubernetes.example import two_jobs

CALLS = ("mkdir", "open", "fsync", "rename", "unlink", "rmdir")


def export(directory: Path, namespace: str = "default") -> None:
    export_claims(*two_jobs(), directory, namespace=namespace)


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


def fail_at(number: int, failure: Callable[[], Any]) -> None:
    """Let the call with this number, of all calls that touch the disk, fail."""
    left = [number]

    def wrapped(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **more: Any) -> Any:
            left[0] -= 1
            if left[0] == 0:
                failure()
            return original(*arguments, **more)

        return call

    for name in CALLS:
        setattr(os, name, wrapped(getattr(os, name)))


def test_same_export_gives_same_bytes(tmp_path: Path) -> None:
    export(tmp_path / "claims")
    first = contents(tmp_path / "claims")
    export(tmp_path / "claims")
    export(tmp_path / "a" / "b" / "claims")
    assert contents(tmp_path / "claims") == contents(tmp_path / "a" / "b" / "claims") == first
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "claims"]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_interrupted_export_leaves_previous_one_whole(
    error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claims = tmp_path / "claims"
    export(claims, "old")
    old = contents(claims)
    rename = Path.rename

    def fail_on_arrival(source: Path, target: Path) -> Path:
        if target == claims and source.name.endswith("new"):
            raise error
        return rename(source, target)

    monkeypatch.setattr(Path, "rename", fail_on_arrival)
    with pytest.raises((InputError, KeyboardInterrupt)):
        export(claims, "new")
    assert contents(claims) == old
    assert [path.name for path in tmp_path.iterdir()] == ["claims"]


def replace(directory: Path, content: str) -> None:
    """Write an export of two files, without the objects that a real one checks first."""
    _Folder(directory).replace(
        {"claims.yaml": content, "kustomization.yaml": f"{_SIGNATURE}\n{content}"}
    )


def killed_replacement(directory: Path, number: int) -> None:
    fail_at(number, lambda: os._exit(9))
    replace(directory, "new")


def test_next_export_clears_up_after_a_killed_one(tmp_path: Path) -> None:
    replace(tmp_path / "claims", "new")
    new = contents(tmp_path / "claims")
    replace(tmp_path / "claims", "old")
    old = contents(tmp_path / "claims")
    former = tmp_path / ".claims.metronome-old"
    context = multiprocessing.get_context("fork")
    seen = set()
    for number in range(1, 200):
        process = context.Process(target=killed_replacement, args=(tmp_path / "claims", number))
        process.start()
        process.join()
        whole = tmp_path / "claims" if (tmp_path / "claims").exists() else former
        found = contents(whole)
        assert found in (old, new)
        seen.add((whole.name, "old" if found == old else "new"))
        replace(tmp_path / "claims", "old")
        assert contents(tmp_path / "claims") == old
        assert [path.name for path in tmp_path.iterdir()] == ["claims"]
        if process.exitcode == 0:
            break
    else:
        pytest.fail("the export never came to its end")
    # It was killed before, between and after the two moves.
    assert seen == {("claims", "old"), (former.name, "old"), ("claims", "new")}


def test_former_export_comes_back_when_new_one_is_refused(tmp_path: Path) -> None:
    export(tmp_path / "claims")
    whole = contents(tmp_path / "claims")
    (tmp_path / "claims").rename(tmp_path / ".claims.metronome-old")
    (tmp_path / "claims").mkdir()
    (tmp_path / ".claims.metronome-new").mkdir()
    (tmp_path / ".claims.metronome-new" / "foreign.txt").touch()
    with pytest.raises(InputError, match=r"holds 'foreign.txt'"):
        export(tmp_path / "claims", "other")
    assert contents(tmp_path / "claims") == whole
    assert (tmp_path / ".claims.metronome-new" / "foreign.txt").exists()


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
    with pytest.raises(InputError, match=r"cannot be written \((File exists|Not a directory)\)"):
        export(tmp_path / "file" / "claims")
    with pytest.raises(InputError, match="name a folder below it"):
        export(Path("/"))
    with pytest.raises(InputError, match="cannot be written"):
        export(Path("/proc/self/claims"))
    assert (tmp_path / "file").read_text() == "mine"


def test_files_of_former_export_are_removed(tmp_path: Path) -> None:
    instance, schedule, deployment = two_jobs()
    export_claims(instance, schedule, deployment, tmp_path / "claims")
    assert (tmp_path / "claims" / "networktopology.yaml").exists()
    flat = type(deployment)(deployment.nodes, deployment.tasks)
    export_claims(instance, schedule, flat, tmp_path / "claims")
    assert not (tmp_path / "claims" / "networktopology.yaml").exists()
    assert "networktopology" not in (tmp_path / "claims" / "kustomization.yaml").read_text()
