"""From what a question to an API server raised to one line that says what to do."""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass

import httpx2
from lightkube.core.exceptions import ApiError, ConfigError

from metronome_opt.kubernetes.cluster.failure import (
    ClusterError,
    FieldConflictError,
    ForbiddenError,
    MissingObjectError,
    RefusedError,
    UnknownKindError,
    told,
)
from metronome_opt.kubernetes.cluster.kinds import Kind

_FORBIDDEN = re.compile(
    r'User "(?P<user>[^"]*)" cannot (?P<verb>\w+) resource "(?P<plural>[^"]*)" '
    r'in API group "(?P<group>[^"]*)"'
    r'(?: in the namespace "(?P<namespace>[^"]*)"| at the cluster scope)'
)
_MANAGER = re.compile(r'conflict with "(?P<manager>[^"]*)"')
_PASSING = (408, 409, 410, 429)
# Kubernetes up to 1.20 answers these with status 500, though they are faults of the object.
_FAULTS = ("field not declared in schema", "failed to create typed patch object")


@dataclass(frozen=True)
class Asked:
    """What was asked of whom, as messages name it.

    Attributes
    ----------
    server
        The address, without credentials.
    verb, kind, name, namespace
        What was to be done with what; None where a list was asked for, or there is no namespace.
    """

    server: str
    verb: str
    kind: Kind
    name: str | None
    namespace: str | None

    def __str__(self) -> str:
        where = f"{self.namespace}/" if self.namespace else ""
        return f"{self.kind.kind} {where}{self.name}" if self.name else self.kind.resource


def explain(error: Exception, asked: Asked) -> ClusterError:
    """Return what went wrong with a question.

    Parameters
    ----------
    error
        What was raised. Its own text may hold credentials, so only what the server said is
        repeated, without what the request's Authorization header has.
    asked
        The question.
    """
    match error:
        case ApiError():
            return _refused(error, asked)
        case httpx2.HTTPStatusError():
            return _status(error.response, asked)
        case httpx2.HTTPError():
            return _broken(error, asked)
        case KeyError() if isinstance(error.__context__, httpx2.HTTPStatusError):
            return _status(error.__context__.response, asked)  # an answer without Content-Type
        case ConfigError() | OSError():
            return ClusterError(
                f"{asked.server}: the kubeconfig's credentials for it cannot be got "
                f"({type(error).__name__}); see whether kubectl can use them"
            )
        case _:
            return ClusterError(
                f"{asked.server}: not an answer of an API server ({type(error).__name__}); "
                "is the address right?",
                passing=True,
            )


def _refused(error: ApiError, asked: Asked) -> ClusterError:
    """Explain an answer that is a Status of Kubernetes."""
    status = error.status
    response: httpx2.Response | None = error.response
    code = status.code or (response.status_code if response is not None else 0)
    said = told(status.message or status.reason or "no reason given", _secret(error.request))
    if code == 401:
        return ClusterError(f"{asked.server}: does not accept these credentials; log in again")
    if code == 403:
        return _forbidden(said, asked)
    if code == 404:
        return _missing(error, said, asked)
    if code == 409:
        fields = _conflicts(error)
        if fields:
            return _conflicting(fields, asked)
    if code in (400, 422) or any(fault in said for fault in _FAULTS):
        return RefusedError(f"{asked}: refused by the server, {said}")
    passing = code in _PASSING or code >= 500
    return ClusterError(
        f"{asked.server}: {asked}: status {code}, {said}",
        passing=passing,
        wait_s=_wait(response),
    )


def _forbidden(said: str, asked: Asked) -> ClusterError:
    right = _FORBIDDEN.search(said)
    if right is not None:
        resource = right["plural"] + (f".{right['group']}" if right["group"] else "")
        user = f"user {right['user']}"
        return _lacking(user, right["verb"], resource, right["namespace"], asked.server)
    if asked.verb == "apply" and said.endswith("is forbidden:"):
        # Who may patch but not create is refused without a reason, in all releases so far.
        return _lacking("the user", "create", asked.kind.resource, asked.namespace, asked.server)
    # Not a missing right: the namespace is going away, a quota, a policy.
    return ClusterError(f"{asked.server}: {asked}: refused, {said}")


def _lacking(
    user: str, verb: str, resource: str, namespace: str | None, server: str
) -> ForbiddenError:
    where = "in the cluster" if namespace is None else f"in namespace {namespace}"
    return ForbiddenError(
        f"{server}: {user} lacks the right to {verb} {resource} {where}; an administrator can "
        "grant it, metronome claims rbac prints how"
    )


def _missing(error: ApiError, said: str, asked: Asked) -> ClusterError:
    details = error.status.details
    name = details.name if details is not None else None
    if details is not None and details.kind == "namespaces" and asked.kind.plural != "namespaces":
        return ClusterError(
            f"{asked.server}: namespace {name} does not exist; kubectl create namespace {name}"
        )
    if name:
        return MissingObjectError(f"{asked.server}: {asked}: {said}")
    return _unknown(asked)


def _unknown(asked: Asked) -> UnknownKindError:
    return UnknownKindError(f"{asked.server}: the cluster does not know {asked.kind.resource}")


def _conflicts(error: ApiError) -> tuple[tuple[str, str], ...]:
    details = error.status.details
    causes = (details.causes or ()) if details is not None else ()
    found = []
    for cause in causes:
        if cause.reason == "FieldManagerConflict":
            manager = _MANAGER.search(cause.message or "")
            name = manager["manager"] if manager else "another manager"
            found.append((told((cause.field or "").lstrip(".")), told(name)))
    return tuple(found)


def _conflicting(fields: tuple[tuple[str, str], ...], asked: Asked) -> FieldConflictError:
    listed = ", ".join(f"{path} (managed by {manager})" for path, manager in fields)
    return FieldConflictError(
        f"{asked}: others manage {listed}; let them give it up, or take it with --force", fields
    )


def _status(response: httpx2.Response, asked: Asked) -> ClusterError:
    """Explain an answer that is no Status of Kubernetes, such as a proxy's."""
    code = response.status_code
    if code == 404:
        return _unknown(asked)
    return ClusterError(
        f"{asked.server}: {asked}: status {code}; is there an API server at this address?",
        passing=code in _PASSING or code >= 500,
        wait_s=_wait(response),
    )


def _broken(error: httpx2.HTTPError, asked: Asked) -> ClusterError:
    if isinstance(error, httpx2.TimeoutException):
        return ClusterError(
            f"{asked.server}: no answer in time; is it overloaded? --timeout allows more",
            passing=True,
        )
    if isinstance(error.__cause__ or error.__context__, ssl.SSLError) or "SSL" in str(error):
        return ClusterError(
            f"{asked.server}: its certificate is not trusted, or it wants another one "
            f"({told(str(error))}); mend certificate-authority in the kubeconfig"
        )
    if isinstance(error, httpx2.UnsupportedProtocol | httpx2.TooManyRedirects):
        return ClusterError(f"{asked.server}: is not the address of an API server")
    if isinstance(error, httpx2.LocalProtocolError):
        return ClusterError(
            f"{asked.server}: cannot be asked with the credentials of the kubeconfig: a token or "
            "password is empty or has a line break; mend it"
        )
    # Only what the operating system says is repeated: other errors quote requests and answers.
    said = told(str(error)) if isinstance(error, httpx2.NetworkError) else ""
    return ClusterError(
        f"{asked.server}: cannot be reached ({said or type(error).__name__}); "
        "is it up, is the address right?",
        passing=True,
    )


def _secret(request: httpx2.Request) -> str:
    return request.headers.get("Authorization", "").rpartition(" ")[2]


def _wait(response: httpx2.Response | None) -> float | None:
    """Return the seconds that a Retry-After names."""
    header = "" if response is None else response.headers.get("Retry-After", "")
    return float(header) if header.strip().isdecimal() else None
