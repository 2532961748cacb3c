"""The modules of the page as one script: each keeps a scope of its own and hands on its exports."""

from __future__ import annotations

import re

from metronome_opt.report.page.assets import read_asset

# In the order of their imports: each uses only what stands above it.
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
    "claims",
    "page",
)
_IMPORT = re.compile(r'^import (\{[^}]*\}) from "\./(\w+)\.js";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:const|function|class) (\w+))", re.MULTILINE)


def joined_script() -> str:
    """Return all modules as one script without imports and exports.

    A file of its own for each would need a server: browsers load no modules from disk.
    """
    return "".join(_scoped(name, read_asset(f"js/{name}.js")) for name in MODULES)


def _scoped(name: str, source: str) -> str:
    exports = ", ".join(_EXPORT.findall(source))
    body = _EXPORT.sub("", _IMPORT.sub(r"const \1 = $\2;", source)).strip()
    return f"const ${name} = (() => {{\n{body}\nreturn {{ {exports} }};\n}})();\n"
