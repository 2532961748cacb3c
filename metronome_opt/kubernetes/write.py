"""Writing checked objects to a folder that a cluster can apply."""

from __future__ import annotations

from pathlib import Path

from metronome_opt.errors import InputError, show
from metronome_opt.kubernetes.check import KUSTOMIZATION, Manifest, Manifests, check_manifests
from metronome_opt.kubernetes.dump import dump_objects
from metronome_opt.kubernetes.folder import Replaceable

OBJECT_FILES = (
    "crds.yaml",
    "capacities.yaml",
    "appgroups.yaml",
    "networktopology.yaml",
    "claims.yaml",
)
KUSTOMIZATION_FILE = "kustomization.yaml"
SIGNATURE = "# Written by metronome-opt; the next export to this folder replaces all of it."

_ABOUT = {
    "crds.yaml": """\
What the cluster has to know of STBandwidthCapacity and STBandwidthClaim; an administrator applies
it once: kubectl apply -f crds.yaml""",
    "capacities.yaml": """\
What the links carry, bit/s: one STBandwidthCapacity for each node, called like it. A link of scope
Node is the node's own interface; one of scope Shared is the uplink of several nodes.""",
    "appgroups.yaml": """\
Which pods belong together: one AppGroup for each job. Each pod depends on the next in a ring; the
network-aware scheduler plugins, which define AppGroups, place pods by that.""",
    "networktopology.yaml": """\
What the ways between zones and between regions cost, for the network-aware scheduler plugins, which
define NetworkTopology. A zone is a rack here.""",
    "claims.yaml": """\
When each pod may use the network: one STBandwidthClaim for each task, called like its pod.
spec.traffic is what the pod sends in one iteration, the same for all pods of its job.
spec.allocation is what was decided: the pattern starts at offsetMicroseconds on a clock that all
pods of the cluster share, and again after every periodMicroseconds + stretchMicroseconds.""",
}
_HOW_TO = """\
A cluster has to know the definitions before it takes objects of their kinds, so the first time:
  kubectl apply -f crds.yaml && kubectl wait --for=condition=Established -f crds.yaml
AppGroup and NetworkTopology are defined by the network-aware scheduler plugins, installed apart.
Then, and after every new export, in this folder:
  kubectl apply -k ."""


def write_manifests(manifests: Manifests, directory: str | Path) -> list[Path]:
    """Check objects and write them, one file for each kind; all files or none.

    The files go to a temporary folder beside `directory` first, which then takes its place, so an
    interrupted export leaves the previous one whole. What was written for the same objects before
    comes out byte for byte the same.

    Parameters
    ----------
    manifests
        The objects of each file.
    directory
        The folder: missing, empty or written by an earlier export.

    Returns
    -------
    list of Path
        The files, ``kustomization.yaml`` last.

    Raises
    ------
    InputError
        If an object is not valid, or the folder cannot be written or holds files of others.
    """
    for name in manifests:
        if name not in OBJECT_FILES:
            raise InputError(f"{show(name)}: is not a file of an export; use {OBJECT_FILES[-1]}")
    check_manifests({**manifests, KUSTOMIZATION_FILE: [_index(manifests)]})
    texts = _texts(manifests)
    _folder(directory).replace(texts)
    return [Path(directory) / name for name in texts]


def is_written(manifests: Manifests, directory: str | Path) -> bool:
    """Whether a folder holds these objects as `write_manifests` would write them, and no others."""
    texts = _texts(manifests)
    try:
        found = {each.name: each.read_bytes() for each in Path(directory).iterdir()}
    except OSError:
        return False
    return found == {name: text.encode() for name, text in texts.items()}


def _index(manifests: Manifests) -> Manifest:
    return {
        "apiVersion": KUSTOMIZATION[0],
        "kind": KUSTOMIZATION[1],
        "resources": list(manifests),
    }


def _texts(manifests: Manifests) -> dict[str, str]:
    """Return what each file is to hold."""
    texts = {
        name: dump_objects(objects, header=_ABOUT[name]) for name, objects in manifests.items()
    }
    header = f"{SIGNATURE[2:]}\n\n{_HOW_TO}"
    texts[KUSTOMIZATION_FILE] = dump_objects([_index(manifests)], header=header)
    return texts


def check_folder(directory: str | Path) -> None:
    """Refuse a folder that an export could not replace, before the work that is to fill it.

    Raises
    ------
    InputError
        If it is a file or holds what no export wrote.
    """
    _folder(directory).check()


def _folder(directory: str | Path) -> Replaceable:
    names = frozenset((*OBJECT_FILES, KUSTOMIZATION_FILE))
    return Replaceable(directory, names, KUSTOMIZATION_FILE, SIGNATURE)
