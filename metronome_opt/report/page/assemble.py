"""Scripts, styles, data and markup joined to one file that asks no network for anything."""

from __future__ import annotations

import base64
import hashlib
import html
import re
from collections.abc import Sequence

from metronome_opt.kubernetes.names import DEFAULT_GROUP, DEFAULT_NAMESPACE
from metronome_opt.report.page.assets import read_asset
from metronome_opt.report.page.claims import open_claims
from metronome_opt.report.page.data import embedded, page_data
from metronome_opt.report.page.scripts import joined_script
from metronome_opt.report.page.sources import Point
from metronome_opt.scenario import Problem


def build_page(
    problem: Problem,
    points: Sequence[Point],
    *,
    group: str = DEFAULT_GROUP,
    namespace: str = DEFAULT_NAMESPACE,
) -> str:
    """Return the page of one or more schedules as HTML.

    Parameters
    ----------
    problem
        What the schedules solve.
    points
        Schedules that are known to be true of it; see `find_problem`.
    group, namespace
        Of the claims.

    Returns
    -------
    str
        The same text for the same arguments.

    Raises
    ------
    InputError
        If numbers are too large for a browser to count with.
    """
    claims, no_claims = open_claims(problem, points[0].schedule, group=group, namespace=namespace)
    data = page_data(
        problem.instance,
        points,
        claims,
        no_claims=no_claims,
        placed=problem.placed is not None,
    )
    style, script = read_asset("page.css"), joined_script()
    fields = {
        "policy": _policy(style, script),
        "title": html.escape(f"{problem.instance.name}: schedule report"),
        "style": style,
        "data": embedded(data),
        "script": script,
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda match: fields[match[1]], read_asset("page.html"))


def _policy(style: str, script: str) -> str:
    """Return a content security policy that lets this style and this script in, nothing else."""
    return (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
