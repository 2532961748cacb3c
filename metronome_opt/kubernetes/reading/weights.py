"""From priority classes, whose values go up to a thousand million, to small weights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from metronome_opt.errors import InputError, show
from metronome_opt.kubernetes.reading.objects import Found

_LARGEST = 2**31 - 1
# Classes that every cluster has, whether its list of them is read or not.
_BUILT_IN = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


class Classes:
    """The priority classes of a cluster.

    Parameters
    ----------
    found
        The PriorityClass objects.

    Raises
    ------
    InputError
        If one cannot be read, or two are the default.
    """

    def __init__(self, found: Iterable[Found]) -> None:
        self._values = dict(_BUILT_IN)
        self._default: str | None = None
        for each in found:
            self._values[each.name] = (each.root / "value").integer(-_LARGEST - 1, most=_LARGEST)
            default = each.root / "globalDefault"
            if default.flag():
                if self._default is not None:
                    default.fail(f"{self._default} is the default as well; there is one at most")
                self._default = each.name

    @property
    def has_default(self) -> bool:
        """Whether pods that name no class get one."""
        return self._default is not None

    def value(self, name: str | None, where: str) -> int:
        """Return the value of a class, by its name or None for the default's.

        Raises
        ------
        InputError
            If there is no such class.
        """
        if name is None:
            return 0 if self._default is None else self._values[self._default]
        if name not in self._values:
            raise InputError(
                f"{where}: priorityClassName: there is no PriorityClass {show(name)}; read it as "
                f"well, or give its weight: --weights {name}=2"
            )
        return self._values[name]


def weights_of(values: Iterable[int]) -> Mapping[int, int]:
    """Return a weight for each value: 1 for the lowest, then twice that of the one below.

    The weights keep the order and say that a class matters more than the one below, not how much
    more: the values of classes do not say that either.
    """
    return {value: 2**rank for rank, value in enumerate(sorted(set(values)))}
