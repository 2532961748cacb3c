"""Run notebooks and store them with what they show: `python -m notebooks.store [NUMBER ...]`."""

from __future__ import annotations

import base64
import re
import sys
import time
from io import BytesIO
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from PIL import Image

from metronome_opt.files.documents import write_text

FOLDER = Path(__file__).parent
LONGEST_CELL_S = 600
_COLOURS = 256
_PICTURE = re.compile(r"(data:image/png;base64,)([A-Za-z0-9+/=]+)")
_NO_BAR = {"text/plain": ""}

# What any machine would write.
_METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def main(numbers: list[str]) -> None:
    """Run the notebooks whose names begin with one of these numbers, all without any."""
    for path in sorted(FOLDER.glob("*.ipynb")):
        if numbers and not path.name.startswith(tuple(numbers)):
            continue
        notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
        begin = time.monotonic()
        run(notebook)
        tidy(notebook)
        write_text(path, nbformat.writes(notebook) + "\n")  # type: ignore[no-untyped-call]
        size = path.stat().st_size / 1000
        print(f"{path.name}: {time.monotonic() - begin:.0f} s, {size:.0f} kB")


def run(notebook: Any) -> None:
    """Run all cells of a notebook afresh, in its folder; a cell that fails is an error."""
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = []
    client = NotebookClient(
        notebook,
        timeout=LONGEST_CELL_S,
        kernel_name="python3",
        coalesce_streams=True,
        record_timing=False,
        resources={"metadata": {"path": str(FOLDER)}},
    )
    client.execute()
    for cell in notebook.cells:
        if cell.cell_type == "code":  # bars of long calls leave nothing behind
            cell.outputs = [output for output in cell.outputs if output.get("data") != _NO_BAR]


def tidy(notebook: Any) -> None:
    """Leave out what tells of the machine, and make pictures small."""
    notebook.metadata = nbformat.from_dict(_METADATA)  # type: ignore[no-untyped-call]
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if "image/png" in data:
                data["image/png"] = _smaller(data["image/png"])
            if "text/html" in data:
                data["text/html"] = _PICTURE.sub(
                    lambda found: found[1] + _smaller(found[2]), data["text/html"]
                )


def _smaller(encoded: str) -> str:
    return base64.b64encode(with_few_colours(base64.b64decode(encoded))).decode()


def with_few_colours(png: bytes) -> bytes:
    """Return a picture with a palette, as plain figures need no more; less than half as large."""
    picture = Image.open(BytesIO(png)).convert("RGB")
    smaller = picture.quantize(_COLOURS, dither=Image.Dither.NONE)
    stream = BytesIO()
    smaller.save(stream, format="PNG", optimize=True)
    return stream.getvalue()


if __name__ == "__main__":
    main(sys.argv[1:])
