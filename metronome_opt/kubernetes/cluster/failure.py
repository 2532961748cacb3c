"""What goes wrong with an API server, as one line without credentials."""

from __future__ import annotations

import ssl
from typing import Any, NamedTuple

import httpx2

from metronome_opt.errors import MetronomeError, told
from metronome_opt.kubernetes.cluster.objects import Kind

_SHOWN = 300
_PASSING = (408, 409, 410, 429)
# Kubernetes up to 1.20 answers these with status 500, though they are faults of the object.
_FAULTS = ("field not declared in schema", "failed to create typed patch object")


class ClusterError(MetronomeError):
    """The API server refused, or gave no answer that can be used.

    Parameters
    ----------
    message
        The line; it is to contain no credentials.
    passing
        Asking again may bring something else.
    wait_s
        Seconds for which the server asked to be left alone; 0 where it did not say.
    """

    exit_status = 1

    def __init__(self, message: str, *, passing: bool = False, wait_s: float = 0.0) -> None:
        super().__init__(message)
        self.passing = passing
        self.wait_s = wait_s


class ForbiddenError(ClusterError):
    """The user lacks a right; the text names verb, resource and namespace."""


class UnknownKindError(ClusterError):
    """The cluster knows no such resource."""


class MissingObjectError(ClusterError):
    """There is no such object."""


class RefusedError(ClusterError):
    """The server refuses this object as it is, or others manage fields of it."""


class Question(NamedTuple):
    """What is asked of whom."""

    server: str
    verb: str
    kind: Kind
    what: str  # as messages name it: the object, or the resource if a list is asked for


def refused(response: httpx2.Response, asked: Question) -> ClusterError:
    """Return what an answer says that is no success: a Status of Kubernetes, or a proxy's page."""
    code, server = response.status_code, asked.server
    status = _status(response)
    details = status.get("details") or {}
    # Only what the server said is repeated, without what the request's Authorization header has.
    secret = response.request.headers.get("Authorization", "").rpartition(" ")[2]
    said = str(status.get("message") or status.get("reason") or "is it an API server?")
    said = told(said.replace(secret, "***") if secret else said, _SHOWN)
    if code == 401:
        return ClusterError(f"{server}: does not accept these credentials; log in again")
    # Who may patch but not create is refused without a reason, in all releases so far.
    not_create = asked.verb == "apply" and said.endswith("is forbidden:")
    if code == 403 and (not_create or '" cannot ' in said):
        right = f" the user cannot create resource {asked.kind.resource}" if not_create else ""
        return ForbiddenError(
            f"{server}: {said}{right}; an administrator can grant it, metronome claims rbac "
            "prints how"
        )
    if code == 404 and not details.get("name"):
        return UnknownKindError(f"{server}: the cluster does not know {asked.kind.resource}")
    if code == 404 and details.get("kind") == "namespaces" != asked.kind.plural:
        return ClusterError(f"{server}: {said}; kubectl create namespace {details['name']}")
    if code == 404 and details.get("kind") == asked.kind.plural:
        return MissingObjectError(f"{server}: {asked.what}: {said}")
    causes = {cause.get("reason") for cause in details.get("causes") or ()}
    if "FieldManagerConflict" in causes:
        return RefusedError(
            f"{asked.what}: others manage fields of it: {said}; let them give these up, or take "
            "them with --force"
        )
    # What is created is there already, or what is changed is not any more what was seen.
    if code == 409 and asked.verb in ("create", "merge", "delete"):
        return RefusedError(f"{asked.what}: {said}")
    if status and (code in (400, 422) or any(fault in said for fault in _FAULTS)):
        return RefusedError(f"{asked.what}: refused by the server, {said}")
    wait = response.headers.get("Retry-After", "").strip()
    return ClusterError(
        f"{server}: {asked.what}: status {code}, {said}",
        passing=code in _PASSING or code >= 500,
        wait_s=float(wait) if wait.isdecimal() else 0.0,
    )


def broken(error: Exception, asked: Question) -> ClusterError:
    """Return why there is no answer. The error's own text may hold credentials."""
    server, what = asked.server, type(error).__name__
    if isinstance(error, httpx2.TimeoutException):
        line = f"{server}: no answer in time; is it overloaded? --timeout allows more"
    elif isinstance(error.__cause__ or error.__context__, ssl.SSLError) or "SSL" in str(error):
        return ClusterError(
            f"{server}: its certificate is not trusted, or it wants another one "
            f"({told(str(error), _SHOWN)}); mend certificate-authority in the kubeconfig"
        )
    elif isinstance(error, httpx2.LocalProtocolError):
        return ClusterError(
            f"{server}: cannot be asked with the credentials of the kubeconfig: a token or "
            "password is empty or has a line break; mend it"
        )
    elif isinstance(error, httpx2.HTTPError):
        # Only what the operating system says is repeated: others quote requests and answers.
        said = told(str(error), _SHOWN) if isinstance(error, httpx2.NetworkError) else what
        line = f"{server}: cannot be reached ({said}); is it up, is the address right?"
    else:
        line = f"{server}: not an answer of an API server ({what}); is the address right?"
    return ClusterError(line, passing=True)


def _status(response: httpx2.Response) -> dict[str, Any]:
    try:
        answer = response.json()
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) and answer.get("kind") == "Status" else {}
