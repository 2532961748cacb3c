"""Finding and reading kubeconfig files, as kubectl does.

What they hold is never shown: messages name files, contexts and fields, no values of users.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import httpx2
import msgspec
import yaml
from lightkube.config.kubeconfig import KubeConfig, SingleConfig
from lightkube.config.models import Cluster, Context, User, UserExec
from lightkube.core.exceptions import ConfigError

from metronome_opt.errors import InputError, quote

# To leave these out silently would be to act as somebody else, or to talk to somebody else.
_UNSUPPORTED: tuple[str, ...] = ("proxy-url", "tls-server-name")
_UNSUPPORTED += ("as", "as-uid", "as-groups", "as-user-extra", "auth-provider")
_PATHS = ("certificate-authority", "client-certificate", "client-key", "tokenFile")

Content = TypeVar("Content", Cluster, Context, User)


class _Entry(msgspec.Struct):
    name: str
    cluster: dict[str, Any] = {}
    context: dict[str, Any] = {}
    user: dict[str, Any] = {}


class _File(msgspec.Struct):
    clusters: list[_Entry] | None = None
    contexts: list[_Entry] | None = None
    users: list[_Entry] | None = None
    current: str | None = msgspec.field(name="current-context", default=None)


_Entries = Mapping[tuple[str, str], dict[str, Any]]


def read_kubeconfig(path: str | Path | None, context: str | None) -> SingleConfig:
    """Return one context of the kubeconfig.

    Parameters
    ----------
    path
        The file; None for those that ``KUBECONFIG`` lists, merged like kubectl does it (of what
        has the same name the first counts), else ``~/.kube/config``, else what a pod finds inside
        a cluster.
    context
        Name of the context; None for the current one.

    Raises
    ------
    InputError
        If there is none, it cannot be read, lacks what is named, or uses what is not supported.
    """
    files = _files(path)
    if not files and "KUBERNETES_SERVICE_HOST" in os.environ and context is None:
        return _of_pod()
    if not files:
        raise InputError(
            "kubeconfig: there is neither ~/.kube/config nor a file that KUBECONFIG lists; "
            "give --kubeconfig"
        )
    entries: dict[tuple[str, str], dict[str, Any]] = {}
    for file in files:
        document = _read(file)
        context = context if context is not None else document.current or None
        for content in ("cluster", "context", "user"):
            for entry in getattr(document, f"{content}s") or ():
                fields = _absolute(getattr(entry, content), file.parent)
                entries.setdefault((content, entry.name), fields)
    if context is None:
        raise InputError(f"{files[0]}: has no current context; give --context")
    if ("context", context) not in entries:
        known = ", ".join(sorted(name for content, name in entries if content == "context"))
        raise InputError(
            f"--context {quote(context)}: is not in the kubeconfig; it has {known or 'none'}"
        )
    where = f"kubeconfig: context {quote(context)}"
    chosen = _get(entries, "context", context, Context, where)
    cluster = _get(entries, "cluster", chosen.cluster, Cluster, where)
    user = _get(entries, "user", chosen.user, User, where) if chosen.user else User()
    return SingleConfig(context, chosen, cluster, user, files[0])


def _files(path: str | Path | None) -> list[Path]:
    if path is not None:
        return [Path(path).expanduser()]
    listed = [name for name in os.environ.get("KUBECONFIG", "").split(os.pathsep) if name]
    candidates = [Path(name).expanduser() for name in listed or ["~/.kube/config"]]
    return [candidate for candidate in candidates if candidate.exists()]


def _of_pod() -> SingleConfig:
    try:
        config = KubeConfig.from_service_account().get()
    except (ConfigError, KeyError, OSError):
        config = None
    if config is None:
        raise InputError(
            "kubeconfig: the service account of this pod cannot be read; "
            "mount it, or give --kubeconfig"
        )
    return config


def _read(file: Path) -> _File:
    try:
        return msgspec.convert(yaml.safe_load(file.read_text(encoding="utf-8")), _File)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise InputError(f"{file}: cannot be read ({reason})") from None
    except msgspec.ValidationError as error:  # it names types and places, no values
        raise InputError(f"{file}: is no kubeconfig: {error}; mend it") from None
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{file}: line {mark.line + 1}" if mark is not None else f"{file}"
        raise InputError(f"{where}: is not YAML, so no kubeconfig; mend it") from None


def _absolute(fields: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return an entry in which paths count from the folder of its file, as kubectl has them."""
    made = dict(fields)
    for name in _PATHS:
        if isinstance(made.get(name), str) and made[name]:
            made[name] = str(folder / made[name])
    plugin = made.get("exec")
    if isinstance(plugin, dict) and os.sep in str(plugin.get("command")):
        made["exec"] = {**plugin, "command": str(folder / str(plugin["command"]))}
    return made


def _get(entries: _Entries, content: str, name: str, type_: type[Content], where: str) -> Content:
    if (content, name) not in entries:
        raise InputError(f"{where}: names a {content} that is not there; mend the kubeconfig")
    fields = entries[content, name]
    for field in _UNSUPPORTED:
        if field in fields:
            raise InputError(
                f"{where}: {content}.{field}: is not supported; use a context without it"
            )
    try:
        return msgspec.convert(fields, type_)
    except msgspec.ValidationError as error:
        raise InputError(f"{where}: {content}: {error}; mend the kubeconfig") from None


class PluginAuth(httpx2.Auth):
    """A credential plugin's token; the plugin is run again if the server refuses it.

    lightkube's own would wait for a plugin that hangs, and tells it nothing of what is expected.
    """

    def __init__(self, plugin: UserExec, timeout_s: float) -> None:
        self._plugin = plugin
        self._timeout_s = timeout_s
        self._token: str | None = None

    def auth_flow(
        self, request: httpx2.Request
    ) -> Generator[httpx2.Request, httpx2.Response, None]:
        """Put the token into a request."""
        if self._token is not None:
            request.headers["Authorization"] = f"Bearer {self._token}"
            if (yield request).status_code != 401:
                return
        self._token = self._run()
        request.headers["Authorization"] = f"Bearer {self._token}"
        yield request

    def _run(self) -> str:
        asked = {"apiVersion": self._plugin.apiVersion, "kind": "ExecCredential"}
        environment = {
            **os.environ,
            **{variable.name: variable.value for variable in self._plugin.env or ()},
            "KUBERNETES_EXEC_INFO": json.dumps({**asked, "spec": {"interactive": False}}),
        }
        try:
            done = subprocess.run(  # noqa: S603 (to run it is what the kubeconfig asks for)
                [self._plugin.command, *(self._plugin.args or ())],
                env=environment,
                capture_output=True,
                check=True,
                timeout=self._timeout_s,
            )
            return str(json.loads(done.stdout)["status"]["token"])
        except subprocess.TimeoutExpired:
            reason = f"their plugin has not ended after {self._timeout_s:g} s"
        except (OSError, subprocess.SubprocessError, ValueError, LookupError, TypeError) as error:
            reason = type(error).__name__  # its text may hold what the plugin said
        raise ConfigError(reason)
