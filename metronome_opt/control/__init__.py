"""Control: hold what jobs do against what they claim, and re-phase as few of them as need be."""

from metronome_opt.control.claims import Claims
from metronome_opt.control.contention import undisturbed
from metronome_opt.control.decide import Memory, Settings, Verdict
from metronome_opt.control.detect import Finding, Kind, Tolerance, detect
from metronome_opt.control.monitor import Contention, Decision, Monitor
from metronome_opt.control.observation import Observation, from_profile
from metronome_opt.control.plan import Plan, Step, make_plan
from metronome_opt.control.reconfigure import Reconfiguration, rephase_one, resolve
from metronome_opt.profiles import Burst

__all__ = [
    "Burst",
    "Claims",
    "Contention",
    "Decision",
    "Finding",
    "Kind",
    "Memory",
    "Monitor",
    "Observation",
    "Plan",
    "Reconfiguration",
    "Settings",
    "Step",
    "Tolerance",
    "Verdict",
    "detect",
    "from_profile",
    "make_plan",
    "rephase_one",
    "resolve",
    "undisturbed",
]
