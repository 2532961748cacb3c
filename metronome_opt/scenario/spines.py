"""Several spines: the links of racks to and from them, and those that flows cross."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

from metronome_opt.errors import InputError, pluralise, quote
from metronome_opt.files.records import refuse
from metronome_opt.problem.instance import Link
from metronome_opt.scenario.nodes import Rack

if TYPE_CHECKING:
    from metronome_opt.scenario.cluster import Cluster


Paths = tuple[tuple[int, ...], ...]
"""Of each task: the spines by which what it sends leaves its rack, one for each of its interfaces.

None of a task that sends nothing out of its rack.
"""


class Sender(NamedTuple):
    """A task that sends: its interfaces, the task that it sends to, and the racks on its way.

    Attributes
    ----------
    left, entered
        The racks that its traffic leaves, and those that it enters.
    """

    task: int
    rails: tuple[str, ...]
    to: int
    left: Sequence[str]
    entered: Sequence[str]

    def is_between(self, cluster: Cluster) -> bool:
        """Return whether what it sends crosses a link between a rack and one of several spines."""
        return any(len(cluster.uplinks[rack]) > 1 for rack in (*self.left, *self.entered))


def both_directions(racks: Sequence[Rack], links: Sequence[Link]) -> dict[str, Any]:
    """Return racks and links with those from several spines, which files may leave out.

    Unlike numbers of uplinks are refused, and several of racks in racks.
    """
    counts = [len(rack.ups) for rack in racks if rack.ups]
    known = {link.name: link for link in links}
    full, added = [], list[Link]()
    for index, rack in enumerate(racks):
        if rack.ups and len(rack.ups) != counts[0]:
            refuse(
                f"racks[{index}].uplinks",
                f"{len(rack.ups)} of them, and other racks have {counts[0]}; give each rack one "
                "to each spine",
            )
        if counts[0] == 1:
            rack = rack.model_copy(update={"uplink": next(iter(rack.ups), None), "uplinks": None})
        elif rack.within is not None:
            fault = "several uplinks are for two tiers; leave it out"
            refuse(f"racks[{index}].within", f"{quote(rack.within)}: {fault}")
        elif rack.downlinks is None and {*rack.ups} <= known.keys() and len({*rack.ups}) > 1:
            downs = [known[up].model_copy(update={"name": f"{up}-down"}) for up in rack.ups]
            added += (link for link in downs if link.name not in known)
            rack = rack.model_copy(update={"downlinks": tuple(link.name for link in downs)})
        full.append(rack)
    return {"racks": tuple(full), "links": (*links, *added)}


def spines_of(cluster: Cluster, tasks: int, senders: Sequence[Sender], paths: Paths | str) -> Paths:
    """Return the spines of flows between racks that have several, as `flows.place` takes paths."""
    if isinstance(paths, tuple) and len(paths) != tasks:
        raise InputError(f"paths: of {pluralise(len(paths), 'task')}, and there are {tasks}")
    rails, ends = [0] * tasks, [(0, 0)] * tasks
    for each in senders:
        if each.is_between(cluster):
            rails[each.task] = len(each.rails)
            ends[each.task] = min(each.task, each.to), max(each.task, each.to)
    if isinstance(paths, str):
        spines = tuple(
            tuple(_hash(f"{paths}/{one}/{other}/{n}", cluster.spines) for n in range(count))
            for count, (one, other) in zip(rails, ends, strict=True)
        )
        return spines if any(spines) else ()
    for task, (its, count) in enumerate(zip(paths, rails, strict=True)):
        if len(its) != count:
            sends = f"it sends {pluralise(count, 'flow')} over spines; name one for each"
            raise InputError(f"paths[{task}]: {pluralise(len(its), 'spine')}, and {sends}")
    check_spines(paths, cluster.spines)
    return paths


def check_spines(paths: Paths, spines: int) -> None:
    """Refuse spines that are not there."""
    for task, its in enumerate(paths):
        for spine in its:
            if not 0 <= spine < spines:
                raise InputError(f"paths[{task}]: there is no spine {spine} of 0 to {spines - 1}")


def _hash(text: str, spines: int) -> int:
    """Return the spine that a hash gives: the first 8 bytes of SHA-256, modulo their number."""
    return int.from_bytes(sha256(text.encode()).digest()[:8], "big") % spines
