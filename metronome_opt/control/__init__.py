"""Control: hold what jobs do against what they claim, and re-phase as few of them as need be."""

from metronome_opt.control.claims import Claims
from metronome_opt.control.decide import Settings, Verdict
from metronome_opt.control.detect import Finding, Kind, Tolerance, detect
from metronome_opt.control.heldup import undisturbed
from metronome_opt.control.matching import from_profile
from metronome_opt.control.memory import Memory
from metronome_opt.control.monitor import Contention, Decision, Monitor
from metronome_opt.control.observation import Observation, SeenBurst
from metronome_opt.control.plan import Plan, Step, make_plan
from metronome_opt.control.reconfigure import Reconfiguration, rephase_one, resolve

__all__ = [
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
    "SeenBurst",
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
