"""A connection to an API server: plain objects in and out, asked again while that may help."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

import httpx2
import tenacity
from lightkube.core.client import Client
from lightkube.core.exceptions import ConfigError
from lightkube.core.generic_client import ALL_NS
from lightkube.generic_resource import (
    GenericGlobalResource,
    GenericNamespacedResource,
    create_api_info,
)
from lightkube.types import PatchType

from metronome_opt.errors import InputError, show
from metronome_opt.kubernetes.check import Manifest
from metronome_opt.kubernetes.cluster.answer import Asked, explain
from metronome_opt.kubernetes.cluster.failure import ClusterError, MissingObjectError
from metronome_opt.kubernetes.cluster.kinds import Kind
from metronome_opt.kubernetes.cluster.kubeconfig import read_kubeconfig
from metronome_opt.kubernetes.names import LABEL_LENGTH, MANAGER, is_label

ALL_NAMESPACES = ALL_NS
DEFAULT_TIMEOUT_S = 30.0

_CHUNK = 500
_CONNECT_S = 5.0
_LONGEST_BACK_OFF_S = 10.0
_back_off = tenacity.wait_random_exponential(multiplier=0.2, max=_LONGEST_BACK_OFF_S)

Answer = TypeVar("Answer")


class Connection:
    """A connection; `connect` makes one. Several threads may use it.

    Whatever may pass is asked again, with random waits that grow exponentially or for as long as
    the server asks, until `timeout_s` is over: no answer, a broken one, status 409 without fields
    in conflict, 429 and 5xx.

    Parameters
    ----------
    client
        What speaks HTTP.
    server
        The address as messages show it.
    timeout_s
        Seconds for one question with all its repetitions.

    Attributes
    ----------
    server
        The address, without credentials.
    namespace
        The one that was asked for, else that of the context.
    """

    def __init__(self, client: Client, server: str, timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        self._client = client
        self._stopped = threading.Event()
        self._retrying = tenacity.Retrying(
            stop=tenacity.stop_before_delay(timeout_s)
            | tenacity.stop_when_event_set(self._stopped),
            wait=_pause,
            retry=tenacity.retry_if_exception(_may_pass),
            sleep=tenacity.sleep_using_event(self._stopped),
            reraise=True,
        )
        self.server = server
        self.namespace: str = client.namespace

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def stop_waiting(self) -> None:
        """From now on nothing is asked again: what fails, fails at once."""
        self._stopped.set()

    def list(
        self,
        kind: Kind,
        namespace: str | None = None,
        *,
        name: str | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> list[Manifest]:
        """Return all objects of a kind, read page by page.

        Parameters
        ----------
        kind
            The resource.
        namespace
            Where to look, `ALL_NAMESPACES` for everywhere; None for that of the connection. Of no
            meaning for kinds without namespaces.
        name, labels
            Return only the object of this name, only objects that carry these.

        Raises
        ------
        ForbiddenError
            If the user may not list them.
        UnknownKindError
            If the cluster does not know the kind.
        ClusterError
            If there is no answer that can be used.
        """
        found = self._ask(
            "list",
            kind,
            None,
            namespace,
            # Pages are asked for while they are read: if one fails, all are asked for again.
            lambda: list(
                self._client.list(
                    _resource(kind),
                    namespace=self._where(kind, namespace),
                    chunk_size=_CHUNK,
                    labels=dict(labels or {}),
                    fields={} if name is None else {"metadata.name": name},
                )
            ),
        )
        return [
            {"apiVersion": kind.api_version, "kind": kind.kind, **_plain(item)} for item in found
        ]

    def get(self, kind: Kind, name: str, namespace: str | None = None) -> Manifest | None:
        """Return one object; None if there is none. Raises as `list` does."""
        try:
            return _plain(
                self._ask(
                    "get",
                    kind,
                    name,
                    namespace,
                    lambda: self._client.get(
                        _resource(kind), name, namespace=self._where(kind, namespace)
                    ),
                )
            )
        except MissingObjectError:
            return None

    def apply(
        self, kind: Kind, manifest: Manifest, *, force: bool = False, dry_run: bool = False
    ) -> Manifest:
        """Apply an object on the server's side, as our field manager.

        Parameters
        ----------
        kind
            The resource.
        manifest
            All that we want to manage of the object.
        force
            Take fields away from other managers.
        dry_run
            Have the server check everything and change nothing.

        Returns
        -------
        dict
            The object as it is, or would be.

        Raises
        ------
        FieldConflictError
            If others manage fields with other values, and `force` is not given.
        ClusterError
            As `list` does.
        """
        name, namespace = manifest["metadata"]["name"], manifest["metadata"].get("namespace")
        return _plain(
            self._ask(
                "apply",
                kind,
                name,
                namespace,
                lambda: self._client.patch(
                    _resource(kind),
                    name,
                    manifest,
                    namespace=self._where(kind, namespace),
                    patch_type=PatchType.APPLY,
                    field_manager=MANAGER,
                    force=force,
                    dry_run=dry_run,
                ),
            )
        )

    def merge(
        self, kind: Kind, name: str, namespace: str | None, patch: Mapping[str, Any]
    ) -> Manifest:
        """Merge `patch` into an object (RFC 7396). Raises as `list` does."""
        return _plain(
            self._ask(
                "patch",
                kind,
                name,
                namespace,
                lambda: self._client.patch(
                    _resource(kind),
                    name,
                    dict(patch),
                    namespace=self._where(kind, namespace),
                    patch_type=PatchType.MERGE,
                    field_manager=MANAGER,
                ),
            )
        )

    def delete(
        self, kind: Kind, name: str, namespace: str | None = None, *, dry_run: bool = False
    ) -> bool:
        """Delete an object; return whether there was one. Raises as `list` does."""
        try:
            self._ask(
                "delete",
                kind,
                name,
                namespace,
                lambda: self._client.delete(
                    _resource(kind), name, namespace=self._where(kind, namespace), dry_run=dry_run
                ),
            )
        except MissingObjectError:
            return False
        return True

    def _where(self, kind: Kind, namespace: str | None) -> str | None:
        return (namespace or self.namespace) if kind.namespaced else None

    def _ask(
        self,
        verb: str,
        kind: Kind,
        name: str | None,
        namespace: str | None,
        question: Callable[[], Answer],
    ) -> Answer:
        asked = Asked(self.server, verb, kind, name, self._where(kind, namespace))

        def ask() -> Answer:
            try:
                return question()
            # Whatever the library, a credential plugin or a proxy's odd answer may raise: the
            # text of some of these errors holds credentials.
            except (httpx2.HTTPError, httpx2.InvalidURL, ConfigError) as error:
                raise explain(error, asked) from None
            except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
                raise explain(error, asked) from None

        return self._retrying(ask)


def connect(
    kubeconfig: str | Path | None = None,
    context: str | None = None,
    namespace: str | None = None,
    *,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    transport: httpx2.BaseTransport | None = None,
) -> Connection:
    """Make a connection; nothing is asked yet.

    Parameters
    ----------
    kubeconfig
        The file; None for what kubectl would take, see `read_kubeconfig`.
    context
        Its context; None for the current one.
    namespace
        For what does not name one; None for that of the context, else ``default``.
    timeout_s
        Seconds for one question with all its repetitions.
    transport
        What carries requests; None for HTTP.

    Raises
    ------
    InputError
        If the kubeconfig or an argument cannot be used.
    """
    if not (math.isfinite(timeout_s) and timeout_s > 0):
        raise InputError(f"--timeout {show(timeout_s)}: must be above 0")
    if namespace is not None and not is_label(namespace):
        raise InputError(
            f"--namespace {show(namespace)}: is not a namespace; use lower-case letters, digits "
            f"and dashes, at most {LABEL_LENGTH}"
        )
    config = read_kubeconfig(kubeconfig, context)
    where = f"kubeconfig: context {show(config.context_name)}"
    try:
        address = httpx2.URL(config.cluster.server)
        usable = address.scheme in {"http", "https"} and bool(address.host)
    except (httpx2.InvalidURL, ValueError, TypeError):
        usable = False
    if not usable:
        raise InputError(
            f"{where}: cluster.server: is no address; it must be like https://HOST:PORT"
        )
    limits = httpx2.Timeout(timeout_s, connect=min(_CONNECT_S, timeout_s))
    try:
        client = Client(config=config, namespace=namespace, timeout=limits, transport=transport)
    except (httpx2.InvalidURL, ImportError) as error:
        raise InputError(
            "HTTP_PROXY, HTTPS_PROXY, ALL_PROXY: one of them cannot be used "
            f"({type(error).__name__}); mend it, or name the server in NO_PROXY"
        ) from None
    except (ConfigError, OSError, ValueError, LookupError, TypeError) as error:
        # Its text may quote what is in the file.
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise InputError(
            f"{where}: certificates or credentials cannot be used ({reason}); mend the kubeconfig"
        ) from None
    return Connection(client, _shown(address), timeout_s)


def _shown(address: httpx2.URL) -> str:
    plain = address.copy_with(username=None, password=None, query=None, fragment=None)
    return str(plain).rstrip("/")


def _resource(kind: Kind) -> type[GenericNamespacedResource]:
    """Return the class by which lightkube knows a resource, whose objects stay dictionaries.

    Made here, since those that lightkube makes are kept in a registry for the whole process.
    """
    base = GenericNamespacedResource if kind.namespaced else GenericGlobalResource
    info = create_api_info(kind.group, kind.version, kind.kind, kind.plural)
    return cast("type[GenericNamespacedResource]", type(kind.kind, (base,), {"_api_info": info}))


def _plain(item: Any) -> Manifest:
    return dict(item)


def _may_pass(error: BaseException) -> bool:
    return isinstance(error, ClusterError) and error.passing


def _pause(state: tenacity.RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome else None
    asked = error.wait_s if isinstance(error, ClusterError) else None
    return max(_back_off(state), asked or 0.0)
