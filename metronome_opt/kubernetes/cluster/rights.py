"""The objects that grant the rights which applying claims takes.

One table says which (``rbac.yaml``); what asks the server uses no other verb.
"""

from __future__ import annotations

from importlib.resources import files
from string import Template

import yaml

from metronome_opt.errors import InputError, show
from metronome_opt.kubernetes.check import Manifest
from metronome_opt.kubernetes.names import DEFAULT_GROUP, MANAGER, is_label, is_subdomain, labels


def rbac_manifests(
    group: str,
    namespace: str,
    *,
    user: str | None = None,
    account: str | None = None,
    definitions: bool = False,
) -> list[Manifest]:
    """Return the roles and bindings that give somebody just the rights needed.

    Parameters
    ----------
    group
        API group of the claims.
    namespace
        Where the claims are.
    user, account
        Who is to have the rights: a user, or else a service account, ``NAMESPACE:NAME`` or
        ``NAME``; None for the one that is called as we are.
    definitions
        Whether definitions are to be applied and deleted too.

    Raises
    ------
    InputError
        If no group or service account is called so.
    """
    if not is_subdomain(group):
        raise InputError(f"--group {show(group)}: is not an API group; use a domain")
    place, colon, name = (account or MANAGER).rpartition(":")
    place = place if colon else namespace
    if user is not None:
        title = f"user:{labels([user])[user]}"  # users may be called anything
        subject = {"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}
    elif is_label(place) and is_label(name):
        title = f"serviceaccount:{place}:{name}"
        subject = {"kind": "ServiceAccount", "name": name, "namespace": place}
    else:
        raise InputError(
            f"--serviceaccount {show(account)}: is none; give its NAME, or NAMESPACE:NAME"
        )
    own = MANAGER if group == DEFAULT_GROUP else f"{MANAGER}:{group}"
    role = f"{own}-definitions" if definitions else own
    text = Template(files(__package__).joinpath("rbac.yaml").read_text(encoding="utf-8"))
    filled = text.substitute(group=group, namespace=namespace, own=own, role=role, subject=title)
    objects: list[Manifest] = list(yaml.safe_load_all(filled))
    for item in objects:
        if item["kind"].endswith("Binding"):
            item["subjects"] = [subject]
        elif item["kind"] == "ClusterRole" and not definitions:
            del item["rules"][1:]
    return objects
