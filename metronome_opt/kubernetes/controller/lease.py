"""Leadership by a Lease: of several controllers one acts, the others wait."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from lightkube.core.client import Client

from metronome_opt.kubernetes.client import ClusterError, asking, merge, resource

LEASES = resource("coordination.k8s.io/v1", "Lease", "leases")


class Leadership:
    """A Lease that one holder renews.

    Clocks of two machines are never compared: a Lease has expired if, by the clock of the observer,
    it was not renewed for as long as it lasts.

    Parameters
    ----------
    client
        Of the API server.
    namespace, name
        Of the Lease.
    holder
        Identity of this controller; no two may have the same.
    lasts_s
        Seconds without renewal after which another one may take over.
    clock
        Seconds, for tests.
    """

    def __init__(
        self,
        client: Client,
        namespace: str,
        name: str,
        holder: str,
        *,
        lasts_s: int = 15,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client, self._namespace, self._name = client, namespace, name
        self._holder, self._lasts_s, self._clock = holder, lasts_s, clock
        self._seen: tuple[Any, float] = (None, 0.0)  # the last renewal of another one, and when
        self._renewed: float | None = None

    @property
    def holder(self) -> str:
        """Identity of this controller."""
        return self._holder

    @property
    def held(self) -> bool:
        """Return True if no other controller can hold it now or in the next third of the time."""
        renewed = self._renewed
        return renewed is not None and self._clock() - renewed < 2 * self._lasts_s / 3

    def keep(self, stop: threading.Event) -> None:
        """Renew the Lease from a thread of its own until `stop` is set."""

        def renew() -> None:
            while not stop.wait(self._lasts_s / 5):
                with suppress(ClusterError):
                    if not self.renew():
                        return

        threading.Thread(target=renew, name="lease", daemon=True).start()

    def renew(self) -> bool:
        """Take or renew the Lease if that is due; return whether it is ours.

        Raises
        ------
        ClusterError
            If the API server gives no answer and the Lease may be another one's by now.
        """
        begun = self._clock()
        if self._renewed is not None and begun - self._renewed < self._lasts_s / 3:
            return True
        try:
            lease = self._read()
            if lease is not None and not self._is_free(lease):
                self._renewed = None
                return False
            self._write(lease)
        except ClusterError:
            if self.held:
                return True
            raise
        self._renewed = begun
        return True

    def wait(self, stop: threading.Event, every_s: float = 2.0) -> bool:
        """Wait until the Lease is ours; return whether it is, or `stop` was set before."""
        while not stop.is_set():
            try:
                if self.renew():
                    return True
            except ClusterError:
                pass  # asked again, like everything
            stop.wait(every_s)
        return False

    def release(self) -> None:
        """Let others take over at once, if the API server can be reached."""
        self._renewed = None
        with suppress(ClusterError):
            lease = self._read()
            if lease is not None and lease["spec"].get("holderIdentity") == self._holder:
                self._merge(lease, {"holderIdentity": "", "leaseDurationSeconds": 1})

    def _read(self) -> Mapping[str, Any] | None:
        """Return the Lease as it is now; None if there is none."""
        try:
            with asking(self._client):
                lease: Mapping[str, Any] = self._client.get(
                    LEASES, self._name, namespace=self._namespace
                )
            return lease
        except ClusterError as error:
            if error.code == 404:
                return None
            raise

    def _is_free(self, lease: Mapping[str, Any]) -> bool:
        spec = lease.get("spec") or {}
        holder = spec.get("holderIdentity")
        if not holder or holder == self._holder:
            return True
        now, version = self._clock(), lease["metadata"]["resourceVersion"]
        if self._seen[0] != version:
            self._seen = version, now
        return now - self._seen[1] > (spec.get("leaseDurationSeconds") or self._lasts_s)

    def _write(self, lease: Mapping[str, Any] | None) -> None:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec: dict[str, Any] = {
            "holderIdentity": self._holder,
            "leaseDurationSeconds": self._lasts_s,
            "renewTime": now,
        }
        if lease is None:
            metadata = {"name": self._name, "namespace": self._namespace}
            new = LEASES({"metadata": metadata, "spec": {**spec, "acquireTime": now}})
            with asking(self._client):
                self._client.create(new)
            return
        if (lease.get("spec") or {}).get("holderIdentity") != self._holder:
            spec["acquireTime"] = now
        self._merge(lease, spec)

    def _merge(self, lease: Mapping[str, Any], spec: Mapping[str, Any]) -> None:
        """Change the Lease as it was seen; the first to write wins."""
        seen = {"resourceVersion": lease["metadata"]["resourceVersion"]}
        patch = {"metadata": seen, "spec": dict(spec)}
        merge(self._client, LEASES, self._name, self._namespace, patch)
