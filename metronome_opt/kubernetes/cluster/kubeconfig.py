"""Finding and reading kubeconfig files, as kubectl does.

What they hold is never shown: messages name files, contexts and fields, no values of users.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import yaml
from lightkube.config.kubeconfig import KubeConfig, SingleConfig
from lightkube.core.exceptions import ConfigError

from metronome_opt.errors import InputError, show

DEFAULT_PATH = "~/.kube/config"

_SECTIONS = {"clusters": "cluster", "contexts": "context", "users": "user"}
_PATHS = {
    "cluster": ("certificate-authority",),
    "user": ("client-certificate", "client-key", "tokenFile"),
}
# To leave these out silently would be to act as somebody else, or to talk to somebody else.
_UNSUPPORTED = {
    "cluster": ("proxy-url", "tls-server-name"),
    "user": ("as", "as-uid", "as-groups", "as-user-extra", "auth-provider"),
}
_EXEC = "client.authentication.k8s.io"
_EXEC_READ = f"{_EXEC}/v1beta1"  # what lightkube reads; an answer of v1 has the same fields


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
        try:
            return _chosen(KubeConfig.from_service_account())
        except (ConfigError, KeyError, OSError):
            raise InputError(
                "kubeconfig: the service account of this pod cannot be read; "
                "mount it, or give --kubeconfig"
            ) from None
    if not files:
        raise InputError(
            f"kubeconfig: there is neither {DEFAULT_PATH} nor a file that KUBECONFIG lists; "
            "give --kubeconfig"
        )
    return _select(_merge(files), context, str(files[0]))


def _files(path: str | Path | None) -> list[Path]:
    if path is not None:
        return [Path(path).expanduser()]
    listed = [name for name in os.environ.get("KUBECONFIG", "").split(os.pathsep) if name]
    candidates = [Path(name).expanduser() for name in listed or [DEFAULT_PATH]]
    return [candidate for candidate in candidates if candidate.exists()]


def _merge(files: list[Path]) -> dict[str, Any]:
    merged: dict[str, Any] = {section: {} for section in _SECTIONS}
    for file in files:
        document = _read(file)
        merged.setdefault("current-context", document.get("current-context") or None)
        if merged["current-context"] is None:
            del merged["current-context"]
        for section, content in _SECTIONS.items():
            for name, fields in _entries(document, file, section, content):
                merged[section].setdefault(name, _absolute(fields, content, file.parent))
    return merged


def _read(file: Path) -> dict[str, Any]:
    try:
        document = yaml.safe_load(file.read_text(encoding="utf-8"))
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise InputError(f"{file}: cannot be read ({reason})") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{file}: line {mark.line + 1}" if mark is not None else f"{file}"
        raise InputError(f"{where}: is not YAML, so no kubeconfig; mend it") from None
    if not isinstance(document, dict):
        raise InputError(f"{file}: is no kubeconfig; its top level must be a mapping")
    return document


def _entries(
    document: Mapping[str, Any], file: Path, section: str, content: str
) -> Iterator[tuple[str, dict[str, Any]]]:
    entries = document.get(section) or []
    if not isinstance(entries, list):
        raise InputError(f"{file}: {section}: must be a list")
    for index, entry in enumerate(entries):
        name = entry.get("name") if isinstance(entry, dict) else None
        fields = entry.get(content) if isinstance(entry, dict) else None
        if not isinstance(name, str) or not isinstance(fields, dict):
            raise InputError(f"{file}: {section}[{index}]: must have a name and a {content}")
        yield name, fields


def _absolute(fields: Mapping[str, Any], content: str, folder: Path) -> dict[str, Any]:
    """Return an entry in which paths count from the folder of its file, as kubectl has them."""
    result = dict(fields)
    for field in _PATHS.get(content, ()):
        if isinstance(result.get(field), str) and result[field]:
            result[field] = str(folder / result[field])
    plugin = result.get("exec")
    if isinstance(plugin, dict):
        result["exec"] = _plugin(plugin, folder)
    return result


def _plugin(plugin: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return a credential plugin as lightkube can run it, told what is expected of it."""
    result = dict(plugin)
    version, command = result.get("apiVersion"), result.get("command")
    if isinstance(command, str) and os.sep in command:
        result["command"] = str(folder / command)
    if version == f"{_EXEC}/v1":
        asked = {"apiVersion": version, "kind": "ExecCredential", "spec": {"interactive": False}}
        told = {"name": "KUBERNETES_EXEC_INFO", "value": json.dumps(asked)}
        result["apiVersion"] = _EXEC_READ
        result["env"] = [*(result.get("env") or []), told]
    return result


def _select(merged: Mapping[str, Any], context: str | None, file: str) -> SingleConfig:
    name = context if context is not None else merged.get("current-context")
    if not isinstance(name, str):
        raise InputError(f"{file}: has no current context; give --context")
    found = merged["contexts"].get(name)
    if found is None:
        known = ", ".join(sorted(merged["contexts"])) or "none"
        raise InputError(f"--context {show(name)}: is not in the kubeconfig; it has {known}")
    where = f"kubeconfig: context {show(name)}"
    cluster = merged["clusters"].get(found.get("cluster"))
    if cluster is None:
        raise InputError(f"{where}: names a cluster that is not there; mend the kubeconfig")
    user = merged["users"].get(found.get("user"), {} if not found.get("user") else None)
    if user is None:
        raise InputError(f"{where}: names a user that is not there; mend the kubeconfig")
    for content, fields in (("cluster", cluster), ("user", user)):
        for field in _UNSUPPORTED[content]:
            if field in fields:
                raise InputError(
                    f"{where}: {content}.{field}: is not supported; use a context without it"
                )
    document = {
        "current-context": name,
        "clusters": [{"name": "cluster", "cluster": cluster}],
        "users": [{"name": "user", "user": user}],
        "contexts": [
            {"name": name, "context": {**found, "cluster": "cluster", "user": "user"}},
        ],
    }
    try:
        return _chosen(KubeConfig.from_dict(document, fname=file))
    except msgspec.ValidationError as error:  # it names types and places, no values
        raise InputError(f"{where}: {error}; mend the kubeconfig") from None


def _chosen(config: KubeConfig) -> SingleConfig:
    chosen = config.get()
    if chosen is None:
        raise ConfigError("no current context")
    return chosen
