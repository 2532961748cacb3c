"""State of a cluster in a folder: a snapshot, and a journal of the events since."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Self

from metronome_opt.errors import InputError, error_context, quote
from metronome_opt.files.documents import make_folder, staged
from metronome_opt.files.journal import Journal
from metronome_opt.files.records import Name, NonNegative, Record, dump_document, read_document_as
from metronome_opt.kubernetes.state.records import StateEvent
from metronome_opt.kubernetes.state.state import ClusterState
from metronome_opt.kubernetes.state.views import StateSnapshot, restore, snapshot_of
from metronome_opt.scenario.cluster_input import ClusterSpec

_SNAPSHOT = "state.json"
_JOURNAL = "journal.jsonl"
_MAX_BYTES = 2**30  # of a snapshot, far above what people write


class _Entry(Record):
    """One event as the journal has it, with its number and the name of the cluster."""

    cluster: Name
    sequence: NonNegative
    event: StateEvent


class Store:
    """A folder that holds the state of a cluster, used by one process at a time.

    An event is on the disk before it is applied. So whenever the process is killed, the state
    that is read back is the one before the event that was under way, or the one after it.

    Parameters
    ----------
    folder
        Made by `Store.create`.
    longest
        Events in the journal after which a new snapshot is made.

    Attributes
    ----------
    state
        The state; what is applied to it is kept.

    Raises
    ------
    InputError
        If the folder holds no state, another process uses it, or a file of it is damaged.
    """

    def __init__(self, folder: str | Path, *, longest: int = 10_000) -> None:
        self._longest, self._closed = longest, False
        self._snapshot, self._path = Path(folder) / _SNAPSHOT, Path(folder) / _JOURNAL
        self.check(folder)
        self._journal = Journal(self._path, _Entry, resume=True)
        try:
            _sync(self._path.parent)
            self.state = read_document_as(
                self._snapshot,
                lambda document: restore(StateSnapshot.from_dict(document)),
                max_bytes=_MAX_BYTES,
            )
            self._replay()
        except BaseException:
            self._journal.close()
            raise
        self.state.note = self._note

    @staticmethod
    def check(folder: str | Path) -> None:
        """Refuse a folder that does not look like one of a store."""
        folder = Path(folder)
        if folder.exists() and not folder.is_dir():
            raise InputError(f"{folder}: is a file; a state is a folder, name one")
        if not (folder / _SNAPSHOT).is_file():
            raise InputError(
                f"{folder}: holds no {_SNAPSHOT}; make one with `metronome place --cluster`"
            )
        if not (folder / _JOURNAL).is_file():
            raise InputError(
                f"{folder}: holds no {_JOURNAL}, without which the latest events are lost; "
                f"restore it, or make an empty file if {_SNAPSHOT} is all there is"
            )

    def _replay(self) -> None:
        """Apply the events that the snapshot does not have yet."""
        name, known, before = self.state.cluster.name, self.state.sequence, None
        for line, entry in enumerate(self._journal.records, start=1):
            where = f"{self._path}: line {line}"
            if entry.cluster != name:
                raise InputError(
                    f"{where}: is of cluster {quote(entry.cluster)}, the state of {quote(name)}"
                )
            expected = min(entry.sequence, known) if before is None else before + 1
            if entry.sequence != expected:
                raise InputError(
                    f"{where}: is event {entry.sequence}, not {expected}; "
                    "restore the file, or cut it off before this line"
                )
            before = entry.sequence
            if before < known:
                continue
            with error_context(where):
                self.state.apply(entry.event)
        if before is not None and before < known:
            self._clear()  # the process was killed after a snapshot, and before it did this

    @classmethod
    def create(cls, folder: str | Path, cluster: ClusterSpec) -> Self:
        """Make a folder with an empty cluster, and open it; `InputError` if it holds a state."""
        return cls.keep(folder, ClusterState(cluster))

    @classmethod
    def keep(cls, folder: str | Path, state: ClusterState) -> Self:
        """Make a folder with a copy of a state, and open it; errors as in `create`."""
        for name in (_SNAPSHOT, _JOURNAL):
            if (Path(folder) / name).exists():
                raise InputError(
                    f"{folder}: holds the {name} of a cluster already; name another folder"
                )
        make_folder(folder)
        _write(Path(folder) / _SNAPSHOT, state)
        try:
            (Path(folder) / _JOURNAL).touch()
        except OSError as error:
            raise InputError(f"{folder}: cannot be written ({error.strerror})") from None
        return cls(folder)

    def change_cluster(self, cluster: ClusterSpec) -> bool:
        """Go on with other nodes and links; return whether anything differs.

        All claims stay in force, and so does what is known of nodes and links that are kept.

        Raises
        ------
        InputError
            If a claim does not fit; everything is as before.
        """
        before = self.state.cluster
        cluster = cluster.model_copy(update={"name": before.name})
        if cluster == before:
            return False
        where = f"{self._path.parent}: the changed cluster does not fit the jobs there"
        if self.state.claims and cluster.slot_ms != before.slot_ms:
            raise InputError(f"{where}: slot_ms: {cluster.slot_ms}, and {before.slot_ms} until now")
        was = snapshot_of(self.state)
        links = {link.name for link in cluster.links}
        kept = {link: capacity for link, capacity in was.capacities.items() if link in links}
        down = tuple(node for node in was.down if node in cluster.nodes_by_name)
        changes = {"cluster": cluster, "capacities": kept, "down": down}
        with error_context(where):
            state = restore(was.model_copy(update=changes))
        self._check_whole()
        _write(self._snapshot, state)
        self._clear()
        state.note = self._note
        self.state = state
        return True

    def _note(self, event: StateEvent) -> None:
        self._check_whole()
        if len(self._journal) >= self._longest:
            self.compact()
        entry = _Entry(cluster=self.state.cluster.name, sequence=self.state.sequence, event=event)
        try:
            self._journal.append(entry)
        except OSError as error:
            raise self._not_written(error) from None

    def compact(self) -> None:
        """Write a new snapshot, and empty the journal; if that cannot be, nothing is lost."""
        self._check_whole()
        _write(self._snapshot, self.state)
        self._clear()

    def _clear(self) -> None:
        try:
            self._journal.clear()
        except OSError as error:
            raise self._not_written(error) from None

    def _check_whole(self) -> None:
        """Refuse to go on if it is closed, or an event was noted and not applied as a whole."""
        if self._closed:
            raise InputError(f"{self._path.parent}: is closed; open the folder again")
        last = self._journal.last
        if last is not None and last.sequence != self.state.sequence - 1:
            raise InputError(
                f"{self._path}: event {last.sequence} was interrupted; open the folder again"
            )

    def _not_written(self, error: OSError) -> InputError:
        return InputError(f"{self._path}: cannot be written ({error.strerror}); nothing changed")

    def close(self) -> None:
        """Release the folder."""
        self._closed = True
        self._journal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _write(path: Path, state: ClusterState) -> None:
    """Write a snapshot; when this returns it is on the disk, whole."""
    raw = dump_document(
        snapshot_of(state).model_dump(mode="json"), one_per_line=["claims"]
    ).encode()
    if len(raw) > _MAX_BYTES:
        raise InputError(f"{path}: would be {len(raw)} bytes, too large to be read again")
    with staged(path) as temporary, temporary.open("wb") as stream:
        stream.write(raw)
        stream.flush()
        os.fsync(stream.fileno())
    _sync(path.parent)


def _sync(folder: Path) -> None:
    """Return when the names of the files in a folder are on the disk."""
    try:
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        raise InputError(f"{folder}: cannot be written ({error.strerror})") from None
