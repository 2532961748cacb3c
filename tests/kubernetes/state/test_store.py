"""States that outlive their process: whatever ends it, what was told is still there."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from metronome_opt.errors import InputError
from metronome_opt.kubernetes.state.store import Store
from metronome_opt.scenario.cluster_input import ClusterSpec
from tests.files.test_journal import at_most
from tests.kubernetes.state.events import differences, rebuilt
from tests.kubernetes.state.small import cluster, running, usual

C = running("c", "n1 n3", (0, 2, 30), offset=7, period=8, gpus=1)


def lines(folder: Path) -> list[str]:
    return (folder / "journal.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)


def write_lines(folder: Path, content: list[str]) -> None:
    (folder / "journal.jsonl").write_text("".join(content), encoding="utf-8")


def test_a_state_is_there_again_when_it_is_opened(folder: Path) -> None:
    with Store(folder) as store:
        assert differences(store.state, usual()) == []
        store.state.unreserve("a")
    with Store(folder) as store:
        assert list(store.state.claims) == ["b"]
        assert store.state.sequence == 5
    assert sorted(path.name for path in folder.iterdir()) == ["journal.jsonl", "state.json"]
    assert [json.loads(line)["sequence"] for line in lines(folder)] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("torn", ['{"cluster":"', "{", "\0\0"])
def test_a_line_that_was_under_way_is_left_out(torn: str, folder: Path) -> None:
    write_lines(folder, [*lines(folder), torn])
    with Store(folder) as store:
        assert differences(store.state, usual()) == []
        store.state.unreserve("b")
    with Store(folder) as store:
        assert list(store.state.claims) == ["a"]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda four: [four[0], "garbage\n", *four[1:]], "line 2: document: Invalid JSON"),
        (lambda four: [four[0], *four[2:]], "line 2: is event 2, not 1; restore the file, or cut"),
        (lambda four: four[1:], "line 1: is event 1, not 0; restore the file"),
        (lambda four: [*four, four[3]], "line 5: is event 3, not 4; restore the file"),
        (
            lambda four: [four[0], four[1].replace('"b"', '"a"'), *four[2:]],
            "line 2: a: has other claims in force already",
        ),
        (
            lambda four: [*four[:2], four[2].replace(":40", ":-4"), four[3]],
            "line 3: event.capacity.capacity: must be at least 0, got -4",
        ),
    ],
)
def test_damage_in_the_middle_is_named_by_its_line(
    damage: Callable[[list[str]], list[str]], message: str, folder: Path
) -> None:
    damaged = damage(lines(folder))
    write_lines(folder, damaged)
    with pytest.raises(InputError) as caught:
        Store(folder)
    assert str(caught.value).startswith(f"{folder / 'journal.jsonl'}: {message}")
    assert "\n" not in str(caught.value)
    assert lines(folder) == damaged


def test_the_journal_of_another_cluster_is_refused(folder: Path, tmp_path: Path) -> None:
    other = cluster([2, 2]).model_copy(update={"name": "other"})
    Store.create(tmp_path / "other", other).close()
    shutil.copy(folder / "journal.jsonl", tmp_path / "other")
    with pytest.raises(InputError, match=r"line 1: is of cluster '.*', the state of 'other'"):
        Store(tmp_path / "other")
    assert lines(tmp_path / "other") == lines(folder)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda text: text[: len(text) // 2], "not JSON"),
        (lambda text: text.replace('"offset": 7', '"offset": 8'), "claims[1]: b: offset: 8 must"),
    ],
)
def test_a_damaged_snapshot_is_named(
    damage: Callable[[str], str], message: str, folder: Path
) -> None:
    with Store(folder) as store:
        store.compact()
    path = folder / "state.json"
    damaged = damage(path.read_text(encoding="utf-8"))
    path.write_text(damaged, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        Store(folder)
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert path.read_text(encoding="utf-8") == damaged


def test_a_journal_that_is_gone_is_missed(folder: Path) -> None:
    (folder / "journal.jsonl").unlink()
    with pytest.raises(InputError, match=r"holds no journal\.jsonl, .*; restore it, or make"):
        Store(folder)
    assert [path.name for path in folder.iterdir()] == ["state.json"]


def test_a_store_that_is_closed_takes_no_more_events(folder: Path) -> None:
    with Store(folder) as store:
        state = store.state
    before = rebuilt(state)
    for call in (lambda: state.unreserve("a"), store.compact):
        with pytest.raises(InputError, match="is closed; open the folder again"):
            call()
    assert differences(state, before) == []


@pytest.mark.parametrize("name", ["state.json", "journal.jsonl"])
def test_a_state_is_not_made_over_another_one(name: str, folder: Path) -> None:
    for path in folder.iterdir():
        if path.name != name:
            path.unlink()
    before = (folder / name).read_bytes()
    with pytest.raises(InputError, match=f"holds the {name} of a cluster already; name another"):
        Store.create(folder, cluster([2, 2]))
    assert [path.read_bytes() for path in folder.iterdir()] == [before]


@pytest.mark.slow
def test_one_process_at_a_time_has_the_state(folder: Path) -> None:
    script = f"from metronome_opt.kubernetes.state.store import Store; Store({str(folder)!r})"
    command = [sys.executable, "-c", script]
    with Store(folder) as store:
        other = subprocess.run(command, capture_output=True, text=True, check=False)
        assert "another process is writing it" in other.stderr.splitlines()[-1]
        store.state.unreserve("a")
    subprocess.run(command, check=True)
    with Store(folder) as store:
        assert list(store.state.claims) == ["b"]


# ------------------------------------------------------------------ snapshots


def test_a_journal_that_was_not_emptied_after_the_snapshot_is_skipped(folder: Path) -> None:
    old = lines(folder)
    with Store(folder) as store:
        store.compact()
    write_lines(folder, old)  # as if it had been killed before
    with Store(folder) as store:
        assert differences(store.state, usual()) == []
        store.state.unreserve("a")
        after = rebuilt(store.state)
    assert [json.loads(line)["sequence"] for line in lines(folder)] == [4]
    with Store(folder) as store:
        assert differences(store.state, after) == []


def test_the_journal_does_not_grow_for_ever(folder: Path) -> None:
    lengths = []
    with Store(folder, longest=6) as store:
        for count in range(10):
            store.state.set_capacity("n0", 50 + count)
            lengths.append(len(lines(folder)))
        after = rebuilt(store.state)
    assert lengths == [5, 6, 1, 2, 3, 4, 5, 6, 1, 2]
    with Store(folder) as store:
        assert store.state.sequence == 14
        assert differences(store.state, after) == []


def test_a_snapshot_that_could_not_be_read_again_is_not_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = (folder / "state.json").stat().st_size
    monkeypatch.setattr("metronome_opt.kubernetes.state.store._MAX_BYTES", size)
    with Store(folder) as store:
        with pytest.raises(InputError, match=r"state\.json: would be \d+ bytes, too large to be"):
            store.compact()
        assert store.state.unreserve("a")
    with Store(folder) as store:
        assert list(store.state.claims) == ["b"]


# ------------------------------------------------------------------ full disks


def test_a_full_disk_refuses_events_and_nothing_else(folder: Path) -> None:
    size = (folder / "journal.jsonl").stat().st_size
    before = lines(folder)
    with Store(folder) as store:
        with at_most(size + 20), pytest.raises(InputError) as caught:
            store.state.unreserve("a")
        assert str(caught.value).endswith(
            "journal.jsonl: cannot be written (File too large); nothing changed"
        )
        assert differences(store.state, usual()) == []
        assert lines(folder) == before
        assert store.state.unreserve("a")
    with Store(folder) as store:
        assert list(store.state.claims) == ["b"]


def test_a_snapshot_that_cannot_be_written_leaves_the_one_before(folder: Path) -> None:
    with Store(folder) as store:
        with at_most(100), pytest.raises(InputError, match=r"state\.json: cannot be written"):
            store.compact()
        assert store.state.unreserve("a")
    assert sorted(path.name for path in folder.iterdir()) == ["journal.jsonl", "state.json"]
    with Store(folder) as store:
        assert list(store.state.claims) == ["b"]


# ------------------------------------------------------------------ another cluster


def test_a_changed_cluster_keeps_its_jobs(folder: Path) -> None:
    old = lines(folder)
    larger = cluster([2, 3], gpus=4)
    with Store(folder) as store:
        assert not store.change_cluster(cluster([2, 2]).model_copy(update={"name": "other"}))
        assert store.change_cluster(larger.model_copy(update={"name": "other"}))
        store.state.unreserve("b")
    for _ in range(2):
        with Store(folder) as store:
            assert store.state.cluster == larger
            assert list(store.state.claims) == ["a"]
            assert store.state.free[:, 0].tolist() == [3, 3, 4, 4, 4]
            assert store.state.capacity[store.state.link_index("up-1")] == 40
            assert store.state.up.tolist() == [True, True, True, False, True]
        later = lines(folder)
        write_lines(folder, [*old, *later])  # as if it had been killed before the journal was empty


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (cluster([2]), "claims[1]: b: nodes[1]: there is no node 'n2'"),
        (cluster([2, 2]).model_copy(update={"slot_ms": 7}), "slot_ms: 7, and 5 until now"),
    ],
)
def test_a_cluster_that_does_not_fit_its_jobs_is_refused(
    changed: ClusterSpec, message: str, folder: Path
) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with Store(folder) as store:
        with pytest.raises(InputError) as caught:
            store.change_cluster(changed)
        assert differences(store.state, usual()) == []
    where = f"{folder}: the changed cluster does not fit the jobs there: "
    assert str(caught.value).startswith(where + message)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
