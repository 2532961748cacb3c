"""State of a cluster in a file: an SQLite database that one process writes and others read."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Self

from metronome_opt.errors import InputError, error_context
from metronome_opt.files.documents import make_folder
from metronome_opt.files.journal import lock_file
from metronome_opt.files.records import parse_record
from metronome_opt.kubernetes.state.records import STATE_FORMAT, Change, StateSnapshot
from metronome_opt.kubernetes.state.state import ClusterState
from metronome_opt.scenario.cluster_input import ClusterSpec

_APPLICATION_ID = int.from_bytes(b"metr")
_SCHEMA = (
    f"PRAGMA application_id = {_APPLICATION_ID}",
    "CREATE TABLE cluster (format TEXT, cluster TEXT, sequence INTEGER)",
    "CREATE TABLE reservations (job TEXT PRIMARY KEY, reservation TEXT)",  # in order of rowid
    "CREATE TABLE capacities (link TEXT PRIMARY KEY, capacity INTEGER)",
    "CREATE TABLE nodes (node TEXT PRIMARY KEY, up INTEGER)",
)


def read_cluster_state(path: str | Path) -> ClusterState:
    """Read the state in a file, whether or not another process writes it.

    Raises
    ------
    InputError
        If the file holds no state, or is damaged.
    """
    with closing(_connect(Path(path))) as database:
        return _read(Path(path), database)


class Store(ExitStack):
    """A file that holds the state of a cluster, written by one process at a time.

    A change is on the disk before it is applied. So whenever the process is killed, the state that
    is read back is the one before the last change, or the one after it.

    Parameters
    ----------
    path
        Made by `Store.create`.

    Attributes
    ----------
    state
        The state; what is applied to it is kept.

    Raises
    ------
    InputError
        If the file holds no state or is damaged, or another process writes it.
    """

    def __init__(self, path: str | Path) -> None:
        super().__init__()
        self._path = Path(path)
        self._database = self.enter_context(closing(_connect(self._path)))
        try:
            # To close a descriptor gives back what SQLite has locked in this process: nothing
            # between two transactions.
            lock_file(self.enter_context(self._path.open("r+b")), self._path)
            self.state = _read(self._path, self._database)
        except OSError as error:
            self.close()
            raise InputError(f"{path}: cannot be written ({error.strerror})") from None
        except BaseException:
            self.close()
            raise
        self.state.note = self._note

    @classmethod
    def create(cls, path: str | Path, cluster: ClusterSpec) -> Self:
        """Make a file with an empty cluster, and open it; `InputError` if it holds anything."""
        return cls.keep(path, ClusterState(cluster))

    @classmethod
    def keep(cls, path: str | Path, state: ClusterState) -> Self:
        """Make a file with a copy of a state, and open it; errors as in `create`."""
        path = Path(path)
        make_folder(path.parent)
        try:
            with closing(sqlite3.connect(path, isolation_level=None)) as database, database:
                database.execute("PRAGMA synchronous = EXTRA")
                database.execute("BEGIN EXCLUSIVE")
                if database.execute("SELECT * FROM sqlite_master").fetchone():
                    raise InputError(f"{path}: holds a database already; name another file")
                for statement in _SCHEMA:
                    database.execute(statement)
                _write_all(database, state)
        except sqlite3.Error as error:
            raise InputError(f"{path}: cannot be made a state ({error})") from None
        return cls(path)

    def change_cluster(self, cluster: ClusterSpec) -> bool:
        """Go on with other nodes and links; return whether anything differs.

        All reservations stay in force, and so does what is known of nodes and links that are kept.

        Raises
        ------
        InputError
            If a reservation does not fit; everything is as before.
        """
        before = self.state.cluster
        cluster = cluster.model_copy(update={"name": before.name})
        if cluster == before:
            return False
        where = f"{self._path}: the changed cluster does not fit the jobs there"
        if self.state.reservations and cluster.slot_ms != before.slot_ms:
            raise InputError(f"{where}: slot_ms: {cluster.slot_ms}, and {before.slot_ms} until now")
        old, links = self.state.snapshot, cluster.capacities.keys()
        changes = {
            "cluster": cluster,
            "sequence": old.sequence + 1,
            "capacities": {link: mbps for link, mbps in old.capacities.items() if link in links},
            "down": tuple(node for node in old.down if node in cluster.nodes_by_name),
        }
        with error_context(where):
            state = ClusterState.of_snapshot(old.model_copy(update=changes))
        with self._transaction() as database:
            _write_all(database, state)
        state.note = self._note
        self.state = state
        return True

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Open a transaction for one change, if all changes before it were applied."""
        sequence = self.state.sequence
        try:
            self._database.rollback()  # what an interruption has left open
            with self._database as database:
                database.execute("BEGIN IMMEDIATE")
                if database.execute("SELECT sequence FROM cluster").fetchone() != (sequence,):
                    raise InputError(
                        f"{self._path}: change {sequence} was interrupted; open the file again"
                    )
                database.execute("UPDATE cluster SET sequence = ?", (sequence + 1,))
                yield database
        except sqlite3.Error as error:
            raise InputError(
                f"{self._path}: cannot be written ({error}); nothing changed"
            ) from None

    def _note(self, change: Change) -> None:
        with self._transaction() as database:
            _write(database, change)


def _connect(path: Path) -> sqlite3.Connection:
    """Open a file that is there; a reader may have to finish what a killed writer left."""
    if path.is_dir():
        raise InputError(f"{path}: is a folder; a state is a file, name one")
    if not path.exists():
        raise InputError(f"{path}: is not there; make a state with `metronome place --cluster`")
    try:
        uri = f"{path.absolute().as_uri()}?mode=rw"
        database = sqlite3.connect(uri, uri=True, isolation_level=None)
        database.execute("PRAGMA synchronous = EXTRA")
    except sqlite3.Error as error:
        raise InputError(f"{path}: cannot be read ({error})") from None
    return database


def _read(path: Path, database: sqlite3.Connection) -> ClusterState:
    """Return the state in a database."""
    try:
        with database:
            database.execute("BEGIN")
            if database.execute("PRAGMA application_id").fetchone() != (_APPLICATION_ID,):
                raise InputError(
                    f"{path}: holds no state; make one with `metronome place --cluster`"
                )
            (fault,) = database.execute("PRAGMA integrity_check(1)").fetchone()
            if fault != "ok":
                raise InputError(f"{path}: is damaged ({fault}); restore a copy")
            tag, cluster, sequence = database.execute("SELECT * FROM cluster").fetchone()
            rows = database.execute("SELECT reservation FROM reservations ORDER BY rowid")
            document = {
                "format": tag,
                "cluster": json.loads(cluster),
                "sequence": sequence,
                "claims": [json.loads(row) for (row,) in rows],
                "capacities": dict(database.execute("SELECT * FROM capacities").fetchall()),
                "down": [
                    node for (node,) in database.execute("SELECT node FROM nodes WHERE NOT up")
                ],
            }
    except (sqlite3.Error, json.JSONDecodeError, TypeError) as error:
        raise InputError(f"{path}: cannot be read ({error})") from None
    with error_context(path):
        return ClusterState.of_snapshot(parse_record(StateSnapshot, document, STATE_FORMAT))


def _write_all(database: sqlite3.Connection, state: ClusterState) -> None:
    """Write a whole state in place of what is there."""
    snapshot = state.snapshot
    for table in ("cluster", "reservations", "capacities", "nodes"):
        database.execute(f"DELETE FROM {table}")  # noqa: S608
    row = snapshot.format, snapshot.cluster.model_dump_json(), snapshot.sequence
    database.execute("INSERT INTO cluster VALUES (?, ?, ?)", row)
    down = dict.fromkeys(snapshot.down, False)
    _write(database, Change(state.reservations, snapshot.capacities, down))


def _write(database: sqlite3.Connection, change: Change) -> None:
    """Write a change; a revised reservation keeps its row, and so the order of all of them."""
    for job, reservation in change.reservations.items():
        if reservation is None:
            database.execute("DELETE FROM reservations WHERE job = ?", (job,))
        else:
            database.execute(
                "INSERT INTO reservations VALUES (?, ?) "
                "ON CONFLICT DO UPDATE SET reservation = excluded.reservation",
                (job, reservation.model_dump_json()),
            )
    capacities, nodes = change.capacities.items(), change.up.items()
    database.executemany("INSERT OR REPLACE INTO capacities VALUES (?, ?)", capacities)
    database.executemany("INSERT OR REPLACE INTO nodes VALUES (?, ?)", nodes)
