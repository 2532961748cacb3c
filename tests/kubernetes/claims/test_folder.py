"""Files of an export are whole at any moment, and read back equal; only exports are replaced."""

from __future__ import annotations

import multiprocessing
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from metronome_opt.errors import InputError
from metronome_opt.kubernetes import export_claims
from metronome_opt.kubernetes.claims.files import dump_objects
from tests.kubernetes.claims.example import cluster_of, two_jobs
from tests.tiers import THOROUGH, examples

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


# ------------------------------------------------------------------ YAML

PRINTABLE = st.text(alphabet=st.characters(exclude_categories=["C", "Z"]), max_size=150)
VALUES = st.recursive(
    st.booleans() | st.integers() | PRINTABLE,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(PRINTABLE, inner, max_size=3),
    max_leaves=12,
)


@examples(40)  # long texts are slow to draw
@given(st.lists(st.dictionaries(PRINTABLE, VALUES, max_size=4), max_size=3))
def test_dump_reads_back_unchanged(objects: list[dict[str, Any]]) -> None:
    assert list(yaml.safe_load_all(dump_objects(objects, header="two\nlines"))) == objects


@pytest.mark.parametrize(
    "text",
    # Numbers and truth values to some reader: YAML 1.1, YAML 1.2 or the one of Kubernetes.
    [
        *("1", "1.0", "1e3", "1_000", "0x1F", "0o17", ".1e3", ".5", "-1", "+1", "1:30", "50G"),
        *("2026-01-31", "y", "N", "yes", "No", "on", "off", "true", "null", "~", ".inf", "=", ""),
    ],
)
def test_ambiguous_text_is_quoted(text: str) -> None:
    assert re.search(r"^key: (['\"]).*\1$", dump_objects([{"key": text}]), re.MULTILINE)
