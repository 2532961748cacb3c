"""Kubernetes objects for a schedule: custom resource definitions, capacities, claims."""

from metronome_opt.kubernetes.check import Manifest, Manifests, check_manifests
from metronome_opt.kubernetes.claims import VerificationError, build_manifests, export_claims
from metronome_opt.kubernetes.write import check_folder, is_written, write_manifests

__all__ = [
    "Manifest",
    "Manifests",
    "VerificationError",
    "build_manifests",
    "check_folder",
    "check_manifests",
    "export_claims",
    "is_written",
    "write_manifests",
]
