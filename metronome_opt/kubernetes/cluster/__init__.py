"""A real cluster: reading it, and applying claims to it through its API server.

Needs the extra `cluster`.
"""

from __future__ import annotations

from metronome_opt.errors import MissingBackendError

try:
    from metronome_opt.kubernetes.cluster.connect import (
        ALL_NAMESPACES,
        ClusterError,
        Connection,
        ForbiddenError,
        UnknownKindError,
        connect,
    )
except ModuleNotFoundError as error:
    package = (error.name or "").partition(".")[0]
    if package not in {"httpx2", "lightkube", "msgspec", "tenacity"}:
        raise
    raise MissingBackendError(
        f"talking to a cluster needs {package}, which is not installed: "
        "pip install 'metronome-opt[cluster]'"
    ) from None
from metronome_opt.kubernetes.cluster.objects import Kind

__all__ = [
    "ALL_NAMESPACES",
    "ClusterError",
    "Connection",
    "ForbiddenError",
    "Kind",
    "UnknownKindError",
    "connect",
]
