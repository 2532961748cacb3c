"""Kubernetes objects for a schedule: custom resource definitions, capacities, claims."""

from metronome_opt.kubernetes.claims.files import check_folder, write_manifests
from metronome_opt.kubernetes.claims.manifests import (
    VerificationError,
    build_manifests,
    export_claims,
)

__all__ = [
    "VerificationError",
    "build_manifests",
    "check_folder",
    "export_claims",
    "write_manifests",
]
