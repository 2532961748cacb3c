"""Objectives: one class per objective, with unit, direction and format.

Presolve, solvers, tables and figures ask an objective for its properties and compare no names.
There are five kinds. A `LayeredObjective` is the contention of the jobs with other weights, a
`JobObjective` a sum over jobs, stretch depends on periods only, and a `SimulatedObjective` is a
mean of slowdowns. The cushion is not a cost: a cushion of some slots is a constraint on offsets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from metronome_opt.errors import InputError, quote
from metronome_opt.problem.evaluation import Evaluation
from metronome_opt.problem.instance import Instance, Job
from metronome_opt.problem.schedule import OBJECTIVES

DEFAULT_ORDER = ("contention", "stretch", "latency", "cushion", "wait", "moves")
CUSHION = "cushion"
STRETCH = "stretch"
WEIGHTED_SUM = "weighted sum"
CONTENTION = "contention"
SLOWDOWN = "slowdown"
DELAY = "delay"
LEXICOGRAPHIC = "lexicographic"
COMPLETION = "completion"

MeanWeights = tuple[Mapping[str, int], ...]
"""Weights of jobs by name, for every mean of a lexicographic order."""


class Objective:
    """An objective of docs/model.md.

    Attributes
    ----------
    name
        Name in files.
    unit
        Unit in tables; of a percentage the whole.
    percent
        Whether values are shares, written as percentages.
    unknown
        Text for a value of None.
    rotation_invariant
        Whether shifting all jobs that share links by one number of slots changes no value: then
        blocks can be solved separately, and one schedule stands for all its rotations.
    maximised
        Whether larger values are better.
    at_given_periods
        Whether it depends on offsets; otherwise it depends on periods only.
    simulated
        Whether values are measured in simulations.
    """

    name: str
    unit: str
    percent = False
    unknown = "unknown"
    rotation_invariant = True
    maximised = False
    at_given_periods = True
    simulated = False

    def format(self, value: Fraction | None, digits: int = 1) -> str:
        """Return a value with some digits, for tables."""
        if value is None:
            return self.unknown
        return format_share(value, digits) if self.percent else format_number(value, digits)

    def format_exactly(self, value: Fraction | None) -> str:
        """Return a value with six significant digits, for sentences."""
        return self.unknown if value is None else f"{float(value):,.6g}"

    def natural_size(self, instance: Instance) -> Fraction:  # noqa: ARG002 (subclasses use it)
        """Return the divisor of the objective in a weighted sum; 0 stands for 1."""
        return Fraction(1)


class LayeredObjective(Objective):
    """The contention of the jobs with other weights.

    Contention is a sum over layers, ``sum_k (v_k - v_{k-1}) * excess of the jobs of weight at least
    v_k``. Every sum over layers with prices is a contention with weights that do not decrease in
    the weights of the jobs.
    """

    def weight(self, weight: int) -> int:
        """Return the weight of a job in the objective, by its own weight."""
        raise NotImplementedError

    def share(self, traffic: Fraction) -> Fraction:  # noqa: ARG002 (subclasses use it)
        """Return the value of one Mbit/s, if all jobs send `traffic`."""
        return Fraction(1)

    def unserved(self, instance: Instance, evaluation: Evaluation) -> Fraction:
        """Return the contention of a schedule with the weights of the objective."""
        terms = (evaluation.unserved[job.name] * self.weight(job.weight) for job in instance.jobs)
        return sum(terms, Fraction(0))


class JobObjective(Objective):
    """A sum over jobs of the costs of their offsets."""

    rotation_invariant = False

    def cost(self, job: Job, offset: int) -> int:
        """Return the cost of a job at an offset."""
        raise NotImplementedError

    def max_cost(self, job: Job) -> int:
        """Return an upper bound of the cost of a job."""
        raise NotImplementedError


class _Contention(LayeredObjective):
    """Unserved bandwidth, weighted."""

    name, unit = "contention", "weight x Mbit/s"

    def weight(self, weight: int) -> int:
        return weight

    def natural_size(self, instance: Instance) -> Fraction:
        return sum((job.weight * _traffic_of(job) for job in instance.jobs), Fraction(0))


class _Latency(LayeredObjective):
    """Unserved bandwidth as a share of all traffic: the lowest layer only."""

    name, unit = "latency", "of all traffic"
    percent = True

    def weight(self, weight: int) -> int:  # noqa: ARG002 (that is the objective)
        return 1

    def share(self, traffic: Fraction) -> Fraction:
        return 1 / (traffic or Fraction(1))


class _Stretch(Objective):
    """Weighted idle time in shares of periods."""

    name, unit = STRETCH, "weight x share of period"
    at_given_periods = False

    def natural_size(self, instance: Instance) -> Fraction:
        return Fraction(sum(job.weight for job in instance.jobs))


class _Wait(JobObjective):
    """Weighted slots from where jobs are ready to their offsets."""

    name, unit = "wait", "weight x slots"

    def cost(self, job: Job, offset: int) -> int:
        return job.weight * ((offset - job.ready) % job.period)

    def max_cost(self, job: Job) -> int:
        return job.weight * job.period

    def natural_size(self, instance: Instance) -> Fraction:
        return Fraction(sum(map(self.max_cost, instance.jobs)))


class _Moves(JobObjective):
    """Weight of the running jobs whose offsets change."""

    name, unit = "moves", "weight"

    def cost(self, job: Job, offset: int) -> int:
        return job.weight if job.current_offset not in (None, offset) else 0

    def max_cost(self, job: Job) -> int:
        return job.weight

    def natural_size(self, instance: Instance) -> Fraction:
        return Fraction(sum(job.weight for job in instance.jobs if job.current_offset is not None))


class _Cushion(Objective):
    """Slots by which all bursts can grow; None without limit."""

    name, unit = CUSHION, "slots"
    unknown = "no limit"
    maximised = True

    def natural_size(self, instance: Instance) -> Fraction:
        return Fraction(max(job.period for job in instance.jobs))


class SimulatedObjective(Objective):
    """Weighted means of simulated slowdowns, in an order; see `Instance.best_ms`."""

    unknown = "not simulated"
    simulated = True

    def mean_weights(self, weights: Mapping[str, int]) -> MeanWeights:
        """Return the weights in the means, the most important mean first."""
        return (weights,)


class _Slowdown(SimulatedObjective):
    """Weighted mean slowdown."""

    name, unit = SLOWDOWN, "iteration time over the best"


class _Completion(SimulatedObjective):
    """Weighted mean time until jobs leave, as their mean slowdown until then."""

    name, unit = COMPLETION, "iteration time over the best"


class _Delay(SimulatedObjective):
    """Unweighted mean excess of iterations over the best ones."""

    name, unit = DELAY, "of the best iteration"
    percent = True

    def mean_weights(self, weights: Mapping[str, int]) -> MeanWeights:
        return (dict.fromkeys(weights, 1),)


class _Lexicographic(SimulatedObjective):
    """Mean slowdown of the jobs of the highest weight, then of the next weight, and so on."""

    name, unit = LEXICOGRAPHIC, "iteration time over the best"

    def mean_weights(self, weights: Mapping[str, int]) -> MeanWeights:
        classes = sorted(set(weights.values()), reverse=True)
        return tuple({name: int(w == level) for name, w in weights.items()} for level in classes)


class _WeightedSum(Objective):
    """Weighted sum of other objectives."""

    name, unit = WEIGHTED_SUM, ""


_ALL: tuple[type[Objective], ...] = (
    *(_Slowdown, _Completion, _Delay, _Lexicographic),
    *(_Contention, _Latency, _Stretch, _Wait, _Moves, _Cushion),
)
BY_NAME = {objective.name: objective() for objective in _ALL}
_WEIGHTED_SUM = _WeightedSum()


# ------------------------------------------------------------------ looking them up


def find_objective(name: str, argument: str = "objectives") -> Objective:
    """Return an objective by its name.

    Raises
    ------
    InputError
        If it is not known.
    """
    if name in BY_NAME:
        return BY_NAME[name]
    if name == WEIGHTED_SUM:
        return _WEIGHTED_SUM
    raise InputError(f"{argument}: {quote(name)} is not known; choose from {', '.join(BY_NAME)}")


def check_names(names: Sequence[str], argument: str = "objectives") -> tuple[str, ...]:
    """Return the names of different objectives.

    Raises
    ------
    InputError
        If there is none, or one is simulated, unknown or given twice.
    """
    if isinstance(names, str):
        raise InputError(f"{argument}: must be a list of names, got {quote(names)}")
    known = ", ".join(OBJECTIVES)
    if not names:
        raise InputError(f"{argument}: none given; choose from {known}")
    for index, name in enumerate(names):
        if not isinstance(name, str) or name == WEIGHTED_SUM:
            raise InputError(f"{argument}: {quote(name)} is not known; choose from {known}")
        if find_objective(name, argument).simulated:
            raise InputError(f"{argument}: {name} is simulated; use `allocate`")
        if name in names[:index]:
            raise InputError(f"{argument}: {name} is given twice; name each once")
    return tuple(names)


def are_simulated(names: Sequence[str]) -> bool:
    """Return whether objectives are simulated: means of slowdowns, perhaps with delay.

    Raises
    ------
    InputError
        If they are in another order.
    """
    simulated = [name for name, objective in BY_NAME.items() if objective.simulated]
    if not names or any(name not in simulated for name in names):
        return False
    second = [] if names[0] == COMPLETION else [DELAY]
    if names[0] == DELAY or list(names[1:]) not in ([], second):
        raise InputError(
            f"objectives: {','.join(names)}: slowdown or lexicographic comes first, alone or "
            "before delay; completion stands alone"
        )
    return True


def simulated_levels(names: Sequence[str], weights: Mapping[str, int]) -> MeanWeights:
    """Return the weights of jobs in all means of objectives that `are_simulated`, in order."""
    objectives = (BY_NAME[name] for name in names)
    return tuple(
        level
        for objective in objectives
        if isinstance(objective, SimulatedObjective)
        for level in objective.mean_weights(weights)
    )


# ------------------------------------------------------------------ as text


def format_number(value: Fraction | None, digits: int = 1) -> str:
    """Return an exact number with some digits; a dash for None."""
    if value is None:
        return "-"
    # Only 0 is written as 0: reaching it is a proof.
    small = 0 < abs(value) < Fraction(1, 2 * 10**digits)
    return f"{float(value):.1g}" if small else f"{float(value):,.{digits}f}"


def format_share(value: Fraction | None, digits: int = 1) -> str:
    """Return a share in percent; a dash for None."""
    return "-" if value is None else f"{float(value):.{digits}%}"


# ------------------------------------------------------------------ as numbers


def normal(instance: Instance, name: str) -> Fraction:
    """Return the divisor of an objective in a weighted sum: its natural size, 1 if that is 0.

    Contention: the weighted traffic of all jobs on all links, Mbit/s. Latency is a share already.
    Stretch: the sum of the weights. Wait: the weighted periods, slots. Moves: the weights of the
    jobs that run. Cushion: the longest period, slots.
    """
    return find_objective(name).natural_size(instance) or Fraction(1)


def _traffic_of(job: Job) -> Fraction:
    """Return the mean traffic of an unstretched job on all its links, Mbit/s."""
    return Fraction(sum(job.links.values()) * job.volume, job.period)


def traffic(instance: Instance) -> Fraction:
    """Return the mean traffic of all unstretched jobs on all links, Mbit/s."""
    return sum(map(_traffic_of, instance.jobs), Fraction(0))
