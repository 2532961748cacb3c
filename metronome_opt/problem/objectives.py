"""Objectives: one class each with its unit, direction and format, and one registration.

Presolve, solvers, tables and figures ask an objective what it depends on and how it is written;
nothing else distinguishes objectives by their names. There are five kinds. A `LayeredObjective` is
the contention of the same jobs with other weights, a `JobObjective` a sum over jobs, stretch
depends on periods alone, and a `SimulatedObjective` is a mean of slowdowns. The cushion is not a
cost: a cushion of some slots is a constraint on combinations of offsets.
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
MIXTURE = "weighted sum"
CONTENTION = "contention"
SLOWDOWN = "slowdown"
DELAY = "delay"
STRICT = "strict"
COMPLETION = "completion"

MeanWeights = tuple[Mapping[str, int], ...]
"""Weights of jobs by name, for each of several means that are minimised one after the other."""


class Objective:
    """An objective of docs/model.md.

    Attributes
    ----------
    name
        As in files.
    unit
        For people; of a percentage what it is a share of.
    percent
        Whether values are shares, to be written as percentages.
    unknown
        How a value of None is written.
    rotation_invariant
        Whether rotating jobs that meet on links, all by the same amount, leaves it as it is: then
        blocks can be solved separately, and of rotations of one another one suffices.
    maximised
        Whether more is better.
    at_given_periods
        Whether it depends on offsets; if not, it depends on periods alone.
    simulated
        Whether it is what a simulation measures, so that no schedule can be judged without one.
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
        """Return a value with some digits, as it is written in tables."""
        if value is None:
            return self.unknown
        return format_share(value, digits) if self.percent else format_number(value, digits)

    def format_exactly(self, value: Fraction | None) -> str:
        """Return a value with six significant digits, as it is written in a sentence."""
        return self.unknown if value is None else f"{float(value):,.6g}"

    def natural_size(self, instance: Instance) -> Fraction:  # noqa: ARG002 (subclasses use it)
        """Return the divisor of the objective in a weighted sum; 0 stands for 1."""
        return Fraction(1)


class LayeredObjective(Objective):
    """A contention of the same jobs with other weights.

    Contention counts what is unserved by layers, ``sum_k (v_k - v_{k-1}) * excess of the jobs of
    weight at least v_k``. Whatever counts a layer by a price, contention does with weights that do
    not fall as the jobs' own weights rise.
    """

    def weight(self, weight: int) -> int:
        """Return the weight that makes a job's contention its share of the objective."""
        raise NotImplementedError

    def share(self, traffic: Fraction) -> Fraction:  # noqa: ARG002 (subclasses use it)
        """Return the value of a Mbit/s of that contention; `traffic` is that of all jobs."""
        return Fraction(1)

    def unserved(self, instance: Instance, evaluation: Evaluation) -> Fraction:
        """Return that contention of a schedule, from the unserved bandwidth of all jobs."""
        terms = (evaluation.unserved[job.name] * self.weight(job.weight) for job in instance.jobs)
        return sum(terms, Fraction(0))


class JobObjective(Objective):
    """An objective that is a sum over jobs of costs of their offsets."""

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
    """Late bandwidth, as a share of all traffic: the lowest layer alone."""

    name, unit = "latency", "of all traffic"
    percent = True

    def weight(self, weight: int) -> int:  # noqa: ARG002 (that is the objective)
        return 1

    def share(self, traffic: Fraction) -> Fraction:
        return 1 / (traffic or Fraction(1))


class _Stretch(Objective):
    """Idle time, weighted, in shares of periods."""

    name, unit = STRETCH, "weight x share of period"
    at_given_periods = False

    def natural_size(self, instance: Instance) -> Fraction:
        return Fraction(sum(job.weight for job in instance.jobs))


class _Wait(JobObjective):
    """Slots from where jobs are ready to where they start, weighted."""

    name, unit = "wait", "weight x slots"

    def cost(self, job: Job, offset: int) -> int:
        return job.weight * ((offset - job.ready) % job.period)

    def max_cost(self, job: Job) -> int:
        return job.weight * job.period

    def natural_size(self, instance: Instance) -> Fraction:
        return Fraction(sum(map(self.max_cost, instance.jobs)))


class _Moves(JobObjective):
    """The weight of running jobs that leave their offsets."""

    name, unit = "moves", "weight"

    def cost(self, job: Job, offset: int) -> int:
        return job.weight if job.current_offset not in (None, offset) else 0

    def max_cost(self, job: Job) -> int:
        return job.weight

    def natural_size(self, instance: Instance) -> Fraction:
        return Fraction(sum(job.weight for job in instance.jobs if job.current_offset is not None))


class _Cushion(Objective):
    """Slots by which all bursts may grow; None where nothing limits it."""

    name, unit = CUSHION, "slots"
    unknown = "no limit"
    maximised = True

    def natural_size(self, instance: Instance) -> Fraction:
        return Fraction(max(job.period for job in instance.jobs))


class SimulatedObjective(Objective):
    """Weighted mean of simulated slowdowns, or several, in order; see `Instance.best_ms`."""

    unknown = "not simulated"
    simulated = True

    def levels(self, weights: Mapping[str, int]) -> MeanWeights:
        """Return the weights in these means, the most important mean first."""
        return (weights,)


class _Slowdown(SimulatedObjective):
    """Mean slowdown, weighted by priority."""

    name, unit = SLOWDOWN, "iteration time over the best"


class _Completion(SimulatedObjective):
    """Mean time until jobs leave, weighted by priority, as mean slowdown until then."""

    name, unit = COMPLETION, "iteration time over the best"


class _Delay(SimulatedObjective):
    """Mean time by which iterations take longer than the best ones, all jobs alike."""

    name, unit = DELAY, "of the best iteration"
    percent = True

    def levels(self, weights: Mapping[str, int]) -> MeanWeights:
        return (dict.fromkeys(weights, 1),)


class _Strict(SimulatedObjective):
    """Mean slowdown of the heaviest jobs, then that of the next ones, and so on."""

    name, unit = STRICT, "iteration time over the best"

    def levels(self, weights: Mapping[str, int]) -> MeanWeights:
        classes = sorted(set(weights.values()), reverse=True)
        return tuple({name: int(w == each) for name, w in weights.items()} for each in classes)


class _Mixture(Objective):
    """Weighted sum of other objectives."""

    name, unit = MIXTURE, ""


_ALL = (
    _Slowdown,
    _Completion,
    _Delay,
    _Strict,
    _Contention,
    _Latency,
    _Stretch,
    _Wait,
    _Moves,
    _Cushion,
)
BY_NAME: dict[str, Objective] = {objective.name: objective() for objective in _ALL}
_SUM = _Mixture()


# ------------------------------------------------------------------ looking them up


def find_objective(name: str, place: str = "objectives") -> Objective:
    """Return an objective by its name.

    Raises
    ------
    InputError
        If it is not known.
    """
    if name in BY_NAME:
        return BY_NAME[name]
    if name == MIXTURE:
        return _SUM
    raise InputError(f"{place}: {quote(name)} is not known; choose from {', '.join(BY_NAME)}")


def check_names(names: Sequence[str], place: str = "objectives") -> tuple[str, ...]:
    """Return the names if they are of objectives, each once.

    Raises
    ------
    InputError
        If there is none, or one that is simulated, not known or said twice.
    """
    if isinstance(names, str):
        raise InputError(f"{place}: must be a list of names, got {quote(names)}")
    known = ", ".join(OBJECTIVES)
    if not names:
        raise InputError(f"{place}: none given; choose from {known}")
    for index, name in enumerate(names):
        if not isinstance(name, str) or name == MIXTURE:
            raise InputError(f"{place}: {quote(name)} is not known; choose from {known}")
        if find_objective(name, place).simulated:
            raise InputError(f"{place}: {name} is simulated; use `allocate`")
        if name in names[:index]:
            raise InputError(f"{place}: {name} is given twice; name each once")
    return tuple(names)


def are_simulated(names: Sequence[str]) -> bool:
    """Return whether objectives are simulated: slowdown, completion, or strict, or with delay.

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
            f"objectives: {','.join(names)}: slowdown or strict comes first, alone or before "
            "delay; completion stands alone"
        )
    return True


def simulated_levels(names: Sequence[str], weights: Mapping[str, int]) -> MeanWeights:
    """Return the weights of jobs in the means that `are_simulated`, one after the other."""
    objectives = (BY_NAME[name] for name in names)
    each = (o.levels(weights) for o in objectives if isinstance(o, SimulatedObjective))
    return tuple(level for levels in each for level in levels)


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
