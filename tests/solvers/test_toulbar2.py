"""toulbar2 on cost networks against enumeration, and what goes wrong in its process."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given
from hypothesis import strategies as st

from metronome_opt.errors import InputError, SolverError
from metronome_opt.problem.instance import Instance
from metronome_opt.problem.result import StopReason
from metronome_opt.solvers import toulbar2
from metronome_opt.solvers.backends import solve_toulbar2
from metronome_opt.solvers.cost_network import cfn, tables
from metronome_opt.solvers.cost_network.eliminate import eliminate
from metronome_opt.solvers.cost_network.tables import build
from metronome_opt.solvers.run import SolverRun
from metronome_opt.solvers.toulbar2 import CfnProgram
from tests.builders import hard_instance
from tests.landscape import optimum
from tests.solvers.searches import searching
from tests.strategies import assigned, crowded
from tests.tiers import examples

SMALL = hard_instance(3, 3)
FALSE = """
class CFN:
    def __init__(self, verbose): self.Option = self
    def Read(self, path): ...
    def Solve(self, **_): print("Optimum: 7 in 0 backtracks and 1 nodes")
"""


@given(assigned(crowded()), st.sampled_from((3, 2**16)), st.sampled_from((0, 20, 2**22)))
@examples(100, suppress_health_check=[HealthCheck.filter_too_much])  # eliminated already
def test_networks_agree_with_enumeration(
    drawn: tuple[Instance, dict[str, int]], cells: int, entries: int
) -> None:
    """What toulbar2 reads has the optimum of the instance, or less if tables are missing."""
    pytoulbar2 = pytest.importorskip("pytoulbar2")
    search = searching(*drawn)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "SMALL", cells)
        patch.setattr(toulbar2, "_MAX_ENTRIES", entries)
        network, gone = eliminate(search, build(search), cells, 5)
        program = CfnProgram(network, gone)
    assume(not (search.proved or network.headroom < 0))
    assert search.incumbent is not None
    before = search.incumbent
    model = pytoulbar2.CFN(verbose=-1)
    with TemporaryDirectory() as folder:
        program.write(Path(folder) / "network.cfn")
        model.Read(str(Path(folder) / "network.cfn"))
    found = model.Solve()
    best = optimum(search.instance)
    if found is None:  # nothing within the limit
        assert before == best
        return
    places, units, _ = found
    value = search.offer(program.offsets({str(job): place for job, place in enumerate(places)}))
    assert int(units) * program.scale <= best <= value
    if not program.dropped:
        assert value == best == int(units) * program.scale


def unproved(instance: Instance) -> tuple[SolverRun, CfnProgram]:
    """Return a search that starts from the jobs unshifted, and its network."""
    search = searching(instance, instance.unshifted, time_limit=60)
    return search, CfnProgram(build(search), [])


def test_process_proves_optimum_and_says_whose_proof_it_is() -> None:
    pytest.importorskip("pytoulbar2")
    search, program = unproved(SMALL)
    solve_toulbar2(search, program)
    assert search.stop is StopReason.PROVED
    assert search.incumbent == search.bound == optimum(SMALL)
    assert search.notes == ["the bound is what toulbar2 states, in integers; nothing replays it"]


def test_missing_table_leaves_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pytoulbar2")
    monkeypatch.setattr(toulbar2, "_MAX_ENTRIES", 100)
    search, program = unproved(SMALL)
    assert program.dropped
    solve_toulbar2(search, program)
    assert search.bound is not None
    assert search.incumbent is not None
    assert 0 < search.bound <= optimum(SMALL) <= search.incumbent


@pytest.mark.parametrize(
    ("module", "said"),
    [
        (
            "import os\nprint('about to be killed', flush=True)\nos.kill(os.getpid(), 9)",
            r"toulbar2 ends with exit status 1: about to be killed \(exit status -9\)",
        ),
        ("raise ImportError('libgmp is not there')", "ImportError: libgmp is not there"),
        (FALSE, r"toulbar2 states 7, the offsets give \d+"),
    ],
    ids=["killed", "broken", "false"],
)
def test_failing_process_is_named_and_its_claims_are_checked(
    module: str, said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "pytoulbar2.py").write_text(module)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    search, program = unproved(SMALL)
    value = search.incumbent
    with pytest.raises(SolverError, match=said):
        solve_toulbar2(search, program)
    assert search.incumbent == value


def test_stopped_process_leaves_the_bound_that_it_printed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first, program = unproved(SMALL)
    assert first.best is not None
    network = build(first)
    search = SolverRun(  # stops as soon as the bound comes
        SMALL, time_limit=60, seed=0, threads=1, callback=lambda event: event.source == "toulbar2"
    )
    search.offer(first.best)
    printed = f"Optimality gap: [{network.floor + 1}, {network.limit}] 9 %"
    module = FALSE.replace('print("Optimum: 7 in 0 backtracks and 1 nodes")', "report()")
    report = f"def report():\n    print({printed!r}, flush=True)\n    time.sleep(600)\n"
    (tmp_path / "pytoulbar2.py").write_text(f"import time\n{report}{module}")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    solve_toulbar2(search, program)
    assert search.stop is StopReason.RULE
    assert search.bound == (network.floor + 1) * network.scale


def test_limits_beyond_its_integers_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cfn, "LARGEST", 10)
    network: Any = build(searching(SMALL, SMALL.unshifted))
    with pytest.raises(InputError, match=r"the objective of tangle may reach .* counts to 10; use"):
        cfn.cfn_text(network)
