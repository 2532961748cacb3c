"""Scripts, styles, data and markup in one file that needs no network."""

from __future__ import annotations

import base64
import hashlib
import html
import re
from collections.abc import Sequence
from dataclasses import replace
from importlib.resources import files

from metronome_opt.output.page.data import embed_json, page_data
from metronome_opt.output.page.sources import Point
from metronome_opt.output.tables import CUSHION_LEGEND
from metronome_opt.scenario.placed_instance import PlacedInstance
from metronome_opt.verify import comparable_part

# In the order of their imports: a module uses only those above it.
MODULES = (
    "rational",
    "format",
    "dom",
    "pattern",
    "judge",
    "model",
    "documents",
    "looks",
    "circle",
    "timeline",
    "summary",
    "front",
    "links",
    "stage",
    "jobs",
    "page",
)
_IMPORT = re.compile(r'^import (\{[^}]*\}) from "\./(\w+)\.js";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:const|function|class) (\w+))", re.MULTILINE)


def build_page(problem: PlacedInstance, points: Sequence[Point]) -> str:
    """Return the page of one or more schedules as HTML.

    Parameters
    ----------
    problem
        The problem that the schedules solve.
    points
        Verified schedules; see `find_problem`.

    Returns
    -------
    str
        The same text for the same arguments.

    Raises
    ------
    InputError
        If numbers are too large for a browser to count with.
    """
    title = f"{problem.instance.name}: schedule report"
    part, schedule = comparable_part(problem.instance, points[0].schedule)
    if part is not problem.instance and len(points) == 1:
        title += " (gated jobs only)"
        problem, points = PlacedInstance(part), [replace(points[0], schedule=schedule)]
    style = read_asset("page.css")
    # One script without imports and exports: browsers load no modules from disk.
    script = "".join(_wrap_module(name, read_asset(f"js/{name}.js")) for name in MODULES)
    fields = {
        # A content security policy that lets this style and this script in, nothing else.
        "policy": (
            f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; "
            "img-src data:; base-uri 'none'; form-action 'none'"
        ),
        "title": html.escape(title),
        "style": style,
        "data": embed_json(page_data(problem, points)),
        "script": script,
        "cushion": CUSHION_LEGEND,
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda field: fields[field[1]], read_asset("page.html"))


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _wrap_module(name: str, source: str) -> str:
    exports = ", ".join(_EXPORT.findall(source))
    body = _EXPORT.sub("", _IMPORT.sub(r"const \1 = $\2;", source)).strip()
    return f"const ${name} = (() => {{\n{body}\nreturn {{ {exports} }};\n}})();\n"


def read_asset(name: str) -> str:
    """Return a file of the folder `assets`, such as ``page.css`` or ``js/model.js``."""
    return files(__package__).joinpath("assets", name).read_text(encoding="utf-8")
