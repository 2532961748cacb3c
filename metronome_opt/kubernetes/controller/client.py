"""The client of a cluster's API server: lightkube's, with errors of one line.

A refused request, or one without a usable answer, is a `ClusterError`.

Needs the extra `cluster`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from metronome_opt.errors import (
    InputError,
    MetronomeError,
    MissingBackendError,
    RemoteError,
    quote,
    sanitize,
)
from metronome_opt.kubernetes.claims.names import (
    CAPACITY,
    CLAIM,
    DEFAULT_GROUP,
    MANAGER,
    VERSION,
    Manifest,
)

try:
    import httpx2
    from lightkube.config.kubeconfig import KubeConfig, SingleConfig
    from lightkube.config.models import NameValue, User
    from lightkube.core.client import Client
    from lightkube.core.exceptions import ApiError, ConfigError
    from lightkube.generic_resource import (
        GenericGlobalResource,
        GenericNamespacedResource,
        create_api_info,
    )
    from lightkube.types import PatchType
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] not in {"httpx2", "lightkube"}:
        raise
    raise MissingBackendError(
        "talking to a cluster needs lightkube, which is not installed: "
        "pip install 'metronome-opt[cluster]'"
    ) from None

ALL_NAMESPACES = "*"

# lightkube ignores these fields, and would use another identity or another server.
_UNSUPPORTED = ("proxy-url", "tls-server-name", "as", "as-uid", "as-groups", "as-user-extra")
_CREDENTIALS = "client.authentication.k8s.io"
_KUBECONFIG = Path("~/.kube/config")
_TIMEOUT = httpx2.Timeout(10.0, connect=5.0)
_PAGE = 500
_MAX_TEXT = 300  # characters of a server's message
_PASSING = (408, 410, 429)

Resource = type[Any]  # lightkube's annotations want either a global or a namespaced resource


class ClusterError(RemoteError):
    """An API server refused, or gave no usable answer.

    Attributes
    ----------
    code
        Status of the answer, such as 403 for a missing right and 404 for a missing object or kind;
        None without an answer.
    """

    def __init__(self, message: str, code: int | None = None) -> None:
        super().__init__(message, is_transient=code is None or code in _PASSING or code >= 500)
        self.code = code


def connect(kubeconfig: Path | None = None) -> Client:
    """Return a client, without a request.

    Parameters
    ----------
    kubeconfig
        The file, of which the current context counts; None for ``KUBECONFIG``, else
        ``~/.kube/config``, else the service account of a pod.

    Raises
    ------
    InputError
        If there is no kubeconfig or it cannot be used.
    """
    try:
        config = _read_config(kubeconfig)
        return Client(config, timeout=_TIMEOUT, field_manager=MANAGER)
    except MetronomeError:
        raise
    except Exception as error:  # of the library, whose text may quote the file
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise InputError(
            f"{kubeconfig or 'kubeconfig'}: cannot be used ({reason}); see whether kubectl can"
        ) from None


def server_of(client: Client) -> str:
    """Return the address of the server, without credentials."""
    url = httpx2.URL(client.config.cluster.server)
    return str(url.copy_with(username=None, password=None)).rstrip("/")


@contextmanager
def asking(client: Client) -> Iterator[None]:
    """Raise a ClusterError for any failure of a request of the client."""
    server = server_of(client)
    try:
        yield
    except MetronomeError:
        raise
    except ConfigError:  # of a credential plugin, whose output its text may hold
        raise ClusterError(
            f"{server}: the kubeconfig's credentials for it cannot be got; "
            "see whether kubectl can use them"
        ) from None
    except httpx2.HTTPStatusError as error:
        raise _refused(error, server) from None
    except httpx2.TimeoutException:
        raise ClusterError(f"{server}: no answer in time; is it overloaded?") from None
    except Exception as error:
        # Only texts of the operating system are repeated: others quote requests and answers.
        said = str(error) if isinstance(error, httpx2.NetworkError) else type(error).__name__
        raise ClusterError(
            f"{server}: no answer of an API server ({sanitize(said, _MAX_TEXT)}); is it up, are "
            "its address and its certificate-authority in the kubeconfig right?"
        ) from None


def listed(
    client: Client,
    resource: Resource,
    namespace: str | None = None,
    labels: Mapping[str, str] | None = None,
) -> list[Manifest]:
    """Return the objects of a resource, also if the server lists them in several pages.

    Parameters
    ----------
    client, resource
        The client, and the resource.
    namespace
        The namespace, `ALL_NAMESPACES`, or None for that of the client.
    labels
        Labels that the objects have; None for all objects.
    """
    selector: dict[str, Any] = {"labels": dict(labels)} if labels else {}
    if issubclass(resource, GenericNamespacedResource):
        selector["namespace"] = namespace
    own = {"apiVersion": resource._api_info.resource.api_version, "kind": resource.__name__}
    with asking(client):
        return [{**own, **item} for item in client.list(resource, chunk_size=_PAGE, **selector)]


def apply(client: Client, resource: Resource, manifest: Manifest) -> None:
    """Apply an object on the server's side, also fields that others manage."""
    where, kind = manifest["metadata"], PatchType.APPLY
    place = {"namespace": where["namespace"]} if "namespace" in where else {}
    with asking(client):
        client.patch(resource, where["name"], manifest, patch_type=kind, force=True, **place)


def merge(
    client: Client, resource: Resource, name: str, namespace: str | None, patch: Mapping[str, Any]
) -> None:
    """Merge a patch (RFC 7396) into an object."""
    with asking(client):
        client.patch(resource, name, patch, namespace=namespace, patch_type=PatchType.MERGE)


def delete(
    client: Client, resource: Resource, name: str, namespace: str | None, uid: str | None = None
) -> None:
    """Delete an object if it exists; with `uid`, only the object of this identity."""
    # lightkube's own `delete` has no preconditions.
    generic = client._client
    request = generic.prepare_request("delete", resource, name=name, namespace=namespace)
    if uid is not None:
        request.data = {"preconditions": {"uid": uid}}
    try:
        with asking(client):
            answer = generic.send(generic.build_adapter_request(request))
            generic.handle_response("delete", answer, request)
    except ClusterError as error:
        if error.code != 404:
            raise


# ------------------------------------------------------------------ resources


@cache
def resource(api_version: str, kind: str, plural: str, *, namespaced: bool = True) -> Resource:
    """Return a resource whose objects are plain dictionaries."""
    group, _, version = api_version.rpartition("/")
    base = GenericNamespacedResource if namespaced else GenericGlobalResource
    return type(kind, (base,), {"_api_info": create_api_info(group, version, kind, plural)})


_OURS = f"{DEFAULT_GROUP}/{VERSION}"
CLAIMS = resource(_OURS, CLAIM, "stbandwidthclaims")
CAPACITIES = resource(_OURS, CAPACITY, "stbandwidthcapacities", namespaced=False)
EVENTS = resource("v1", "Event", "events")
NODES = resource("v1", "Node", "nodes", namespaced=False)
PODS = resource("v1", "Pod", "pods")


# ------------------------------------------------------------------ kubeconfig and answers


def _read_config(path: Path | None) -> SingleConfig:
    """Return the current context of a kubeconfig, or the service account of a pod."""
    if path is None:
        path = Path(os.environ.get("KUBECONFIG") or _KUBECONFIG)
        if os.pathsep in str(path):
            raise InputError("KUBECONFIG: lists several files; give one with --kubeconfig")
        if path == _KUBECONFIG and not path.expanduser().exists():
            return _of_pod()
    path = path.expanduser()
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    files = KubeConfig.from_dict(document, path)
    name = files.current_context
    if name not in files.contexts:
        raise InputError(f"{path}: has no context {quote(name)}; kubectl config use-context NAME")
    chosen = files.contexts[name]
    for kind, of in (("cluster", chosen.cluster), ("user", chosen.user)):
        entries = [entry for entry in document.get(f"{kind}s") or () if entry["name"] == of]
        for field in (name for name in _UNSUPPORTED for entry in entries if name in entry[kind]):
            raise InputError(f"{path}: {kind}.{field}: is not supported; use a context without it")
    user = files.users[chosen.user] if chosen.user else User()
    if user.exec is not None:
        # lightkube knows only v1beta1, with answers as of v1, and sets no environment.
        version = {"apiVersion": user.exec.apiVersion, "kind": "ExecCredential"}
        request = json.dumps({**version, "spec": {"interactive": False}})
        user.exec.env = [*(user.exec.env or ()), NameValue("KUBERNETES_EXEC_INFO", request)]
        if user.exec.apiVersion == f"{_CREDENTIALS}/v1":
            user.exec.apiVersion = f"{_CREDENTIALS}/v1beta1"
    return SingleConfig(name, chosen, files.clusters[chosen.cluster], user, path)


def _of_pod() -> SingleConfig:
    with suppress(ConfigError, KeyError):
        config = KubeConfig.from_service_account().get()
        if config is not None:
            return config
    raise InputError(
        "kubeconfig: there is neither ~/.kube/config nor one that KUBECONFIG names; "
        "give --kubeconfig"
    )


def _refused(error: httpx2.HTTPStatusError, server: str) -> ClusterError:
    """Return the error of a refusal: a Status of Kubernetes, or a proxy's page."""
    status = error.status if isinstance(error, ApiError) else None
    response: httpx2.Response | None = error.response
    if response is None:  # an event of a watch
        code = (status and status.code) or 500
        return ClusterError(f"{server}: status {code}, the watch has ended", code)
    code = response.status_code
    said = (status and (status.message or status.reason)) or "is it an API server?"
    if code == 401:
        said = "does not accept these credentials; log in again"
    elif code == 404 and not (status and status.details and status.details.name):
        said = f"knows no {error.request.url.path}; is its definition applied?"
    return ClusterError(f"{server}: status {code}, {sanitize(said, _MAX_TEXT)}", code)
