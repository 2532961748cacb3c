"""Markup, style and scripts of the report page, and how they are read."""

from __future__ import annotations

from importlib.resources import files


def read_asset(name: str) -> str:
    """Return the text of a file of this folder, such as ``page.css`` or ``js/model.js``."""
    return files(__name__).joinpath(name).read_text(encoding="utf-8")
