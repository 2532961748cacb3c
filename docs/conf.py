"""The documentation site; ``make docs`` builds it, and a warning is an error."""

from __future__ import annotations

from importlib import metadata
from typing import Any

project = "metronome-opt"
author = "The metronome-opt maintainers"
release = metadata.version("metronome-opt")

# Sources are read where they lie, so that a link between them holds on the site as in the folder.
root_doc = "docs/index"
include_patterns = [
    "README.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "benchmarks/**.md",
    "docs/**.md",
    "models/**.md",
    "notebooks/*.ipynb",
    "notebooks/README.md",
    "paper/README.md",
]
extensions = ["sphinx.ext.autodoc", "myst_nb", "numpydoc"]

html_theme = "furo"
html_show_copyright = False
html_title = f"{project} {release}"

nb_execution_mode = "off"  # notebooks are stored with what they print
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4

autodoc_typehints = "none"  # annotations of validated fields are too long to read
numpydoc_class_members_toctree = False
numpydoc_show_inherited_class_members = False


def setup(app: Any) -> None:
    """Show records with the fields that they take, by name only."""
    app.connect("autodoc-process-signature", _show_fields)


def _show_fields(*event: Any) -> tuple[str | None, str | None]:
    signature, returned = event[-2:]
    return signature and signature.replace("*unnamed, ", "*, "), returned
