"""A connection to an API server: plain objects in and out, asked again while that may help."""

from __future__ import annotations

import json
import math
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import httpx2
import tenacity
from lightkube.config.client_adapter import ConnectionParams
from lightkube.core.exceptions import ConfigError

from metronome_opt.errors import InputError, RemoteError, quote, sanitize
from metronome_opt.kubernetes.cluster.kubeconfig import PluginAuth, read_kubeconfig
from metronome_opt.kubernetes.cluster.objects import PODS, Kind
from metronome_opt.kubernetes.names import LABEL_LENGTH, MANAGER, is_label
from metronome_opt.kubernetes.schemas import Manifest

ALL_NAMESPACES = "*"

_METHODS = {
    "list": "GET",
    "get": "GET",
    "create": "POST",
    "apply": "PATCH",
    "merge": "PATCH",
    "delete": "DELETE",
}
_PATCHES = {"apply": "application/apply-patch+yaml", "merge": "application/merge-patch+json"}
_PAGE = 500
_WORKERS = 4
_CONNECT_S = 5.0
_NONSENSE = (ValueError, LookupError, TypeError, AttributeError)
_SHOWN = 300  # characters of what a server says
_PASSING = (408, 409, 410, 429)
# Kubernetes up to 1.20 answers these with status 500, though they are faults of the object.
_FAULTS = ("field not declared in schema", "failed to create typed patch object")
_back_off = tenacity.wait_random_exponential(multiplier=0.2, max=10.0)

Item = TypeVar("Item")
Answer = TypeVar("Answer")
Tell = Callable[[int, int], None]


class ClusterError(RemoteError):
    """The API server refused, or gave no answer that can be used."""


class ForbiddenError(ClusterError):
    """The user lacks a right; the text names verb, resource and namespace."""


class UnknownKindError(ClusterError):
    """The cluster knows no such resource."""


class RefusedError(ClusterError):
    """The server refuses this object as it is, or others manage fields of it."""


class _MissingObjectError(ClusterError):
    """There is no such object."""


class Connection:
    """A connection; `connect` makes one. Several threads may use it.

    Whatever may pass is asked again, with random waits that grow exponentially or for as long as
    the server asks, until `timeout_s` seconds are over: no answer, a broken one, status 409 without
    fields in conflict, 429 and 5xx. All methods raise a ClusterError if there is no answer that can
    be used: a ForbiddenError if the user lacks a right, an UnknownKindError if the cluster does not
    know the kind, a RefusedError if the server does not take an object.

    Attributes
    ----------
    server
        The address, without credentials.
    namespace
        Where to look for what does not name a namespace.
    """

    def __init__(self, client: httpx2.Client, namespace: str, timeout_s: float) -> None:
        self._client = client
        self._stopped = threading.Event()
        self._retrying = tenacity.Retrying(
            stop=tenacity.stop_before_delay(timeout_s)
            | tenacity.stop_when_event_set(self._stopped),
            wait=_wait,
            retry=tenacity.retry_if_exception(lambda error: getattr(error, "passing", False)),
            sleep=tenacity.sleep_using_event(self._stopped),
            reraise=True,
        )
        plain = client.base_url.copy_with(username=None, password=None, query=None, fragment=None)
        self.server = str(plain).rstrip("/")
        self.namespace = namespace

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
        """Return all objects of a kind, or those of this name and with these labels.

        They are looked for in a namespace, `ALL_NAMESPACES`, or (None) that of the connection.
        """
        query = {"limit": str(_PAGE)}
        if name is not None:
            query["fieldSelector"] = f"metadata.name={name}"
        if labels:
            query["labelSelector"] = ",".join(f"{key}={value}" for key, value in labels.items())
        items = self._ask("list", kind, None, namespace, query)["items"]
        return [{"apiVersion": kind.api_version, "kind": kind.kind, **item} for item in items]

    def get(self, kind: Kind, name: str, namespace: str | None = None) -> Manifest | None:
        """Return one object; None if there is none."""
        try:
            return self._ask("get", kind, name, namespace)
        except _MissingObjectError:
            return None

    def apply(
        self, kind: Kind, manifest: Manifest, *, force: bool = False, dry_run: bool = False
    ) -> Manifest:
        """Apply an object on the server's side, as our field manager; return what it is then.

        With `force` fields are taken away from other managers; a dry run changes nothing.
        """
        where = manifest["metadata"]
        query = {"fieldManager": MANAGER} | ({"force": "true"} if force else {}) | _dry(dry_run)
        return self._ask("apply", kind, where["name"], where.get("namespace"), query, manifest)

    def merge(
        self, kind: Kind, name: str, namespace: str | None, patch: Mapping[str, Any]
    ) -> Manifest:
        """Merge a patch (RFC 7396) into an object; return what it is then."""
        return self._ask("merge", kind, name, namespace, {"fieldManager": MANAGER}, patch)

    def create(self, kind: Kind, manifest: Manifest) -> Manifest:
        """Create an object; a RefusedError if it is there."""
        namespace = manifest["metadata"].get("namespace")
        return self._ask("create", kind, None, namespace, body=manifest)

    def bind(self, pod: Mapping[str, Any], node: str, annotations: Mapping[str, str]) -> None:
        """Bind a pod to a node as its scheduler; it gets these annotations in the same step."""
        metadata = {name: pod["metadata"][name] for name in ("name", "namespace", "uid")}
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {**metadata, "annotations": dict(annotations)},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        where = f"{metadata['name']}/binding"
        self._ask("create", PODS, where, metadata["namespace"], body=binding)

    def delete(
        self,
        kind: Kind,
        name: str,
        namespace: str | None = None,
        *,
        dry_run: bool = False,
        uid: str | None = None,
        now: bool = False,
    ) -> bool:
        """Delete an object, if `uid` is given that one alone; return whether there was one.

        With `now` it gets no time to end.
        """
        options: dict[str, Any] = {"preconditions": {"uid": uid}} if uid else {}
        if now:
            options["gracePeriodSeconds"] = 0
        try:
            self._ask("delete", kind, name, namespace, _dry(dry_run), options or None)
        except _MissingObjectError:
            return False
        return True

    def watch(self, kind: Kind, namespace: str, timeout_s: float) -> Iterator[None]:
        """Yield whenever objects of a kind change, until the watch ends or breaks."""
        space = None if namespace == ALL_NAMESPACES else f"namespaces/{namespace}"
        root = "apis" if kind.group else "api"
        path = "/".join(filter(None, (root, kind.api_version, space, kind.plural)))
        params = {"watch": "true", "timeoutSeconds": str(math.ceil(timeout_s))}
        with (
            suppress(httpx2.HTTPError, OSError, ConfigError),
            self._client.stream("GET", path, params=params, timeout=timeout_s) as response,
        ):
            for _ in response.iter_lines() if response.is_success else ():
                yield

    def _ask(
        self,
        verb: str,
        kind: Kind,
        name: str | None,
        namespace: str | None,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Ask until there is an answer; if one page of a list fails, all are asked for again."""
        where = (namespace or self.namespace) if kind.namespaced else None
        space = f"namespaces/{where}" if where not in (None, ALL_NAMESPACES) else None
        root = "apis" if kind.group else "api"
        path = "/".join(filter(None, (root, kind.api_version, space, kind.plural, name)))
        sent: dict[str, Any] = {}
        if body is not None:
            syntax = _PATCHES.get(verb, "application/json")
            sent = {"content": json.dumps(body), "headers": {"Content-Type": syntax}}

        def send(more: Mapping[str, str]) -> dict[str, Any]:
            params = {**(query or {}), **more}
            response = self._client.request(_METHODS[verb], path, params=params, **sent)
            if not response.is_success:
                place = f"{where}/" if where else ""
                what = f"{kind.kind} {place}{name}" if name else kind.resource
                raise _refused(response, self.server, verb, kind, what) from None
            answer: dict[str, Any] = response.json()
            if not isinstance(answer["metadata"], dict):
                raise TypeError("what Kubernetes answers has metadata")
            return answer

        def attempt() -> dict[str, Any]:
            try:
                answer = send({})
                items = list(answer["items"] or ()) if verb == "list" else []
                while verb == "list" and answer["metadata"].get("continue"):
                    answer = send({"continue": answer["metadata"]["continue"]})
                    items += answer["items"] or ()
                return {"items": items} if verb == "list" else answer
            except (ConfigError, OSError) as error:  # of our plugin, or of a token file
                raise ClusterError(
                    f"{self.server}: the kubeconfig's credentials for it cannot be got ({error}); "
                    "see whether kubectl can use them"
                ) from None
            # Whatever the library or a proxy's odd answer may raise: the text of some of these
            # errors holds credentials.
            except (httpx2.HTTPError, httpx2.InvalidURL, *_NONSENSE) as error:
                raise _broken(error, self.server) from None

        return self._retrying(attempt)


def connect(
    kubeconfig: str | Path | None = None,
    context: str | None = None,
    namespace: str | None = None,
    *,
    timeout_s: float = 30.0,
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
        raise InputError(f"--timeout {quote(timeout_s)}: must be above 0")
    if namespace is not None and not is_label(namespace):
        raise InputError(
            f"--namespace {quote(namespace)}: is not a namespace; use lower-case letters, digits "
            f"and dashes, at most {LABEL_LENGTH}"
        )
    config = read_kubeconfig(kubeconfig, context)
    where = f"kubeconfig: context {quote(config.context_name)}"
    limits = httpx2.Timeout(timeout_s, connect=min(_CONNECT_S, timeout_s))
    try:
        address = httpx2.URL(config.cluster.server)
        if address.scheme not in {"http", "https"} or not address.host:
            raise InputError(
                f"{where}: cluster.server: is no address; it must be like https://HOST:PORT"
            )
        options = ConnectionParams(timeout=limits, transport=transport).httpx_params(config)
        if config.user is not None and config.user.exec is not None:
            options["auth"] = PluginAuth(config.user.exec, timeout_s)
        client = httpx2.Client(**options)
    except InputError:
        raise
    except (httpx2.InvalidURL, ImportError, ConfigError, OSError, *_NONSENSE) as error:
        # Its text may quote what is in the file, or the password of a proxy.
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise InputError(
            f"{where}: its address, certificates or credentials, or a proxy that HTTP_PROXY, "
            f"HTTPS_PROXY or ALL_PROXY names, cannot be used ({reason}); mend them"
        ) from None
    return Connection(client, namespace or config.namespace, timeout_s)


def each(
    question: Callable[[Item], Answer], items: Sequence[Item], tell: Tell | None = None
) -> list[Answer]:
    """Return the answers for all items, in their order, asked for by several threads.

    Most of the time is spent on waiting for the server. If `question` raises, what has not begun is
    not asked any more, and the first error is raised; `tell` hears how many of how many are done.
    """
    answers = []
    with ThreadPoolExecutor(max_workers=_WORKERS) as pool:
        for answer in pool.map(question, items):  # which cancels what is left when it is left
            answers.append(answer)
            if tell is not None:
                tell(len(answers), len(items))
    return answers


def _dry(dry_run: bool) -> dict[str, str]:
    return {"dryRun": "All"} if dry_run else {}


def _wait(state: tenacity.RetryCallState) -> float:
    """Return the seconds to wait before asking again, at least as many as the server asked for."""
    error = state.outcome.exception() if state.outcome else None
    return max(_back_off(state), getattr(error, "wait_s", 0.0))


def _refused(
    response: httpx2.Response, server: str, verb: str, kind: Kind, what: str
) -> ClusterError:
    """Return what an answer says that is no success: a Status of Kubernetes, or a proxy's page."""
    code = response.status_code
    try:
        status = response.json()
    except ValueError:
        status = {}
    if not isinstance(status, dict) or status.get("kind") != "Status":
        status = {}
    details = status.get("details") or {}
    # Only what the server said is repeated, without what the request's Authorization header has.
    secret = response.request.headers.get("Authorization", "").rpartition(" ")[2]
    said = str(status.get("message") or status.get("reason") or "is it an API server?")
    said = sanitize(said.replace(secret, "***") if secret else said, _SHOWN)
    if code == 401:
        return ClusterError(f"{server}: does not accept these credentials; log in again")
    # Who may patch but not create is refused without a reason, in all releases so far.
    not_create = verb == "apply" and said.endswith("is forbidden:")
    if code == 403 and (not_create or '" cannot ' in said):
        right = f" the user cannot create resource {kind.resource}" if not_create else ""
        return ForbiddenError(
            f"{server}: {said}{right}; an administrator can grant it, metronome claims rbac "
            "prints how"
        )
    if code == 404 and not details.get("name"):
        return UnknownKindError(f"{server}: the cluster does not know {kind.resource}")
    if code == 404 and details.get("kind") == "namespaces" != kind.plural:
        return ClusterError(f"{server}: {said}; kubectl create namespace {details['name']}")
    if code == 404 and details.get("kind") == kind.plural:
        return _MissingObjectError(f"{server}: {what}: {said}")
    causes = {cause.get("reason") for cause in details.get("causes") or ()}
    if "FieldManagerConflict" in causes:
        return RefusedError(
            f"{what}: others manage fields of it: {said}; let them give these up, or take "
            "them with --force"
        )
    # What is created is there already, or what is changed is no longer as it was seen.
    late = code == 409 and verb in ("create", "merge", "delete")
    if status and (late or code in (400, 422) or any(fault in said for fault in _FAULTS)):
        return RefusedError(f"{what}: refused by the server, {said}")
    wait = response.headers.get("Retry-After", "").strip()
    return ClusterError(
        f"{server}: {what}: status {code}, {said}",
        passing=code in _PASSING or code >= 500,
        wait_s=float(wait) if wait.isdecimal() else 0.0,
    )


def _broken(error: Exception, server: str) -> ClusterError:
    """Return why there is no answer. The error's own text may hold credentials."""
    what = type(error).__name__
    if isinstance(error, httpx2.TimeoutException):
        line = f"{server}: no answer in time; is it overloaded? --timeout allows more"
    elif isinstance(error.__cause__ or error.__context__, ssl.SSLError) or "SSL" in str(error):
        return ClusterError(
            f"{server}: its certificate is not trusted, or it wants another one "
            f"({sanitize(str(error), _SHOWN)}); mend certificate-authority in the kubeconfig"
        )
    elif isinstance(error, httpx2.LocalProtocolError):
        return ClusterError(
            f"{server}: cannot be asked with the credentials of the kubeconfig: a token or "
            "password is empty or has a line break; mend it"
        )
    elif isinstance(error, httpx2.HTTPError):
        # Only what the operating system says is repeated: others quote requests and answers.
        said = sanitize(str(error), _SHOWN) if isinstance(error, httpx2.NetworkError) else what
        line = f"{server}: cannot be reached ({said}); is it up, is the address right?"
    else:
        line = f"{server}: not an answer of an API server ({what}); is the address right?"
    return ClusterError(line, passing=True)
