"""Lists and pairs as people type them: ``a,b`` and ``a=1,b=2``. Numbers stay text here."""

from __future__ import annotations

from metronome_opt.errors import InputError, show


def read_names(text: str) -> list[str]:
    """Return the names in ``a,b,c``; what nobody typed between two commas is left out."""
    return [name.strip() for name in text.split(",") if name.strip()]


def read_pairs(option: str, text: str | None) -> dict[str, str]:
    """Return the values by name in ``a=1,b=2``; nothing if the option is not given.

    Parameters
    ----------
    option
        Its name, with the dashes.
    text
        What was typed after it.

    Raises
    ------
    InputError
        If a piece is not ``name=value``, or a name is given twice.
    """
    pairs: dict[str, str] = {}
    for piece in () if text is None else text.split(","):
        name, _, value = (part.strip() for part in piece.partition("="))
        if not name or not value:
            raise InputError(f"{option}: {show(piece)} is not name=value; write name=value,...")
        if name in pairs:
            raise InputError(f"{option}: {show(name)} is given twice; name each once")
        pairs[name] = value
    return pairs
