"""Control: hold what jobs do against what they claim, and re-phase as few of them as need be."""

from metronome_opt.control.claims import Claims
from metronome_opt.control.detect import Kind, detect
from metronome_opt.control.monitor import Decision, Memory, Monitor, Settings, Verdict
from metronome_opt.control.observation import Observation, Tolerance, from_profile, undisturbed
from metronome_opt.control.reconfigure import (
    make_plan,
    rephase_one,
    resolve,
)
from metronome_opt.profiles import Burst

__all__ = [
    "Burst",
    "Claims",
    "Decision",
    "Kind",
    "Memory",
    "Monitor",
    "Observation",
    "Settings",
    "Tolerance",
    "Verdict",
    "detect",
    "from_profile",
    "make_plan",
    "rephase_one",
    "resolve",
    "undisturbed",
]
