"""A campaign in a process of its own, to be killed: ``python -m tests.bench.fake_campaign``.

Arguments: the folder of a suite, the file for the records, the number of seeds.
"""

from __future__ import annotations

import sys

from metronome_opt.bench.campaign import local_pool, remaining_cases, run_campaign
from metronome_opt.bench.solver_runs import SolverRecord
from metronome_opt.journal import Journal
from tests.bench.examples import Memory, solver_cases


def main() -> None:
    suite, output, seeds = sys.argv[1:]
    with Journal(output, SolverRecord, resume=True) as file, local_pool(2) as pool:
        run_campaign(
            remaining_cases(solver_cases(suite, "slow", seeds=int(seeds)), file.records),
            pool,
            file,
            Memory(),
        )


if __name__ == "__main__":
    main()
