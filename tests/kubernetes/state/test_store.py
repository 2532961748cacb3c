"""A state outlives its process: whatever ends it, events that were applied are still there."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from metronome_opt.errors import InputError
from metronome_opt.kubernetes.state.store import Store, read_cluster_state
from metronome_opt.scenario.cluster_input import ClusterSpec
from tests.files.test_journal import at_most
from tests.kubernetes.state.events import differences, rebuilt
from tests.kubernetes.state.small import cluster, usual


def refusal(path: Path) -> str:
    """Return why a file is neither read nor opened; it stays as it is."""
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(InputError) as read:
        read_cluster_state(path)
    with pytest.raises(InputError) as opened:
        Store(path)
    assert str(read.value) == str(opened.value)
    assert "\n" not in str(read.value)
    assert before == (path.read_bytes() if path.is_file() else None)
    return str(read.value).removeprefix(f"{path}: ")


def test_a_state_is_there_again_when_it_is_opened(kept: Path) -> None:
    with Store(kept) as store:
        assert differences(store.state, usual()) == []
        store.state.unreserve("a")
    state = read_cluster_state(kept)
    assert (list(state.reservations), state.sequence) == (["b"], 5)
    assert [path.name for path in kept.parent.iterdir()] == [kept.name]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "holds no state; make one with `metronome place --cluster`"),
        (b"{}" * 1000, "cannot be read (file is not a database)"),
    ],
)
def test_a_file_without_a_state_is_refused(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "other"
    assert refusal(path).startswith("is not there; make a state with `metronome place --cluster`")
    path.write_bytes(content)
    assert refusal(path) == message
    assert refusal(tmp_path) == "is a folder; a state is a file, name one"


def test_the_database_of_another_program_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE cluster (name TEXT)")
    database.close()
    assert refusal(path) == "holds no state; make one with `metronome place --cluster`"


@pytest.mark.parametrize("size", [20, 4096, 5000, 8192, 9000, 16_384, 20_000])  # pages have 4096
def test_a_file_that_was_cut_off_is_refused(size: int, kept: Path) -> None:
    whole = kept.read_bytes()
    assert size < len(whole)
    kept.write_bytes(whole[:size])
    assert refusal(kept).startswith(("cannot be read (", "is damaged ("))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("UPDATE cluster SET format = 'metronome-state/2'", "format: must be 'metronome-state/1'"),
        ("UPDATE reservations SET reservation = '{' WHERE job = 'b'", "cannot be read (Expecting"),
        ("DELETE FROM cluster", "cannot be read ("),
        ("DROP TABLE nodes", "cannot be read (no such table: nodes)"),
        ("UPDATE capacities SET capacity = -4", "capacities.up-1: must be at least 0, got -4"),
        ("UPDATE capacities SET capacity = 1 << 30", "capacities.up-1: up-1: 1073741824 Mbit/s: m"),
        ("UPDATE capacities SET link = 'none'", "capacities.none: there is no link 'none'"),
        ("UPDATE nodes SET node = 'none'", "down[0]: there is no node 'none'"),
        # Texts in the cluster, and in the reservation of b, and what replaces them.
        ('"hyperperiod":24 -> "hyperperiod":10', "claims[0]: a: period: 12 slots do not divide"),
        ('"b" -> "a"', "claims[1]: a: is there twice"),
        ('"n2" -> "n9"', "claims[1]: b: nodes[1]: there is no node 'n9'"),
        ('"offset":7 -> "offset":8', "claims[1]: b: offset: 8 must be below the period of 8 slots"),
        ('"gpus":1 -> "gpus":2', "claims[1]: b: node n0: has less than its tasks take"),
        ('"rate":30 -> "rate":1073741824', "claims[1]: b: 1073741824 Mbit/s: must be"),
    ],
)
def test_a_contradiction_in_a_file_is_named(damage: str, message: str, kept: Path) -> None:
    old, _, new = damage.partition(" -> ")
    with sqlite3.connect(kept) as database:
        if not new:
            database.execute(damage)
        elif "hyperperiod" in old:
            database.execute("UPDATE cluster SET cluster = replace(cluster, ?, ?)", (old, new))
        else:
            revised = "UPDATE reservations SET reservation = replace(reservation, ?, ?)"
            database.execute(f"{revised} WHERE job = 'b'", (old, new))
    database.close()
    assert refusal(kept).startswith(message)


def test_a_store_that_is_closed_takes_no_more_events(kept: Path) -> None:
    with Store(kept) as store:
        state = store.state
    before = rebuilt(state)
    with pytest.raises(InputError, match=r"cannot be written \(Cannot operate on a closed"):
        state.unreserve("a")
    assert differences(state, before) == []


def test_a_state_is_not_made_over_another_file(kept: Path) -> None:
    for content in (kept.read_bytes(), b"something else" * 1000):
        kept.write_bytes(content)
        with pytest.raises(InputError, match=r"holds a database already|cannot be made a state"):
            Store.create(kept, cluster([2, 2]))
        assert kept.read_bytes() == content


def test_a_state_is_made_where_an_attempt_was_interrupted(tmp_path: Path) -> None:
    path = tmp_path / "state"
    with at_most(9000), pytest.raises(InputError, match=r"state: cannot be made a state \("):
        Store.create(path, cluster([2, 2]))
    with Store.create(path, cluster([2, 2])) as store:
        assert store.state.sequence == 0


@pytest.mark.slow
def test_a_state_has_one_writer_and_any_number_of_readers(kept: Path) -> None:
    script = f"from metronome_opt.kubernetes.state import *; {{}}({str(kept)!r})"
    write, read = (
        [sys.executable, "-c", script.format(call)] for call in ("Store", "read_cluster_state")
    )
    with Store(kept) as store:
        other = subprocess.run(write, capture_output=True, text=True, check=False)
        assert "another process is writing it" in other.stderr.splitlines()[-1]
        with pytest.raises(InputError, match="another process is writing it"):
            Store(kept)
        subprocess.run(read, check=True)
        store.state.unreserve("a")
        assert differences(read_cluster_state(kept), store.state) == []
    subprocess.run(write, check=True)


@pytest.mark.slow
@pytest.mark.parametrize("lines", [1, 7, 20])
def test_whenever_a_writer_is_killed_its_last_event_is_there(lines: int, kept: Path) -> None:
    script = f"""
from metronome_opt.kubernetes.state import Store
state = Store({str(kept)!r}).state
while True:
    state.set_capacity("n0", state.sequence)
    print(state.sequence, flush=True)
"""
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        for _ in range(lines):
            writer.stdout.readline()
        writer.kill()
        printed = [4 + lines, *map(int, writer.stdout)]
    state = read_cluster_state(kept)
    assert printed[-1] <= state.sequence <= printed[-1] + 1
    assert state.capacities["n0"] == state.sequence - 1
    state.set_capacity("n0", 100)
    assert differences(state, rebuilt(state)) == []


def test_a_reader_does_not_see_an_event_by_half(kept: Path) -> None:
    with Store(kept) as store, store._transaction() as database:
        database.execute("DELETE FROM reservations")
        assert differences(read_cluster_state(kept), usual()) == []


def test_a_full_disk_refuses_events_and_nothing_else(kept: Path) -> None:
    before = kept.read_bytes()
    with Store(kept) as store:
        with at_most(1000), pytest.raises(InputError) as caught:
            store.state.unreserve("a")
        assert str(caught.value).startswith(f"{kept}: cannot be written (")
        assert str(caught.value).endswith("; nothing changed")
        assert differences(store.state, usual()) == []
        assert kept.read_bytes() == before
        assert store.state.unreserve("a")
    assert list(read_cluster_state(kept).reservations) == ["b"]


# ------------------------------------------------------------------ another cluster


def test_a_changed_cluster_keeps_its_jobs(kept: Path) -> None:
    larger = cluster([2, 3], gpus=4)
    with Store(kept) as store:
        assert not store.change_cluster(cluster([2, 2]).model_copy(update={"name": "other"}))
        assert store.change_cluster(larger.model_copy(update={"name": "other"}))
        store.state.unreserve("b")
    state = read_cluster_state(kept)
    assert state.cluster == larger
    assert list(state.reservations) == ["a"]
    assert state.free[:, 0].tolist() == [3, 3, 4, 4, 4]
    assert state.capacities["up-1"] == 40
    assert state.up.tolist() == [True, True, True, False, True]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (cluster([2]), "claims[1]: b: nodes[1]: there is no node 'n2'"),
        (cluster([2, 2]).model_copy(update={"slot_ms": 7}), "slot_ms: 7, and 5 until now"),
    ],
)
def test_a_cluster_that_does_not_fit_its_jobs_is_refused(
    changed: ClusterSpec, message: str, kept: Path
) -> None:
    before = kept.read_bytes()
    with Store(kept) as store:
        with pytest.raises(InputError) as caught:
            store.change_cluster(changed)
        assert differences(store.state, usual()) == []
    where = f"{kept}: the changed cluster does not fit the jobs there: "
    assert str(caught.value).startswith(where + message)
    assert kept.read_bytes() == before
