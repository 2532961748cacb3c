"""A campaign in a process of its own, to be killed: ``python -m tests.bench.fake_campaign``.

Arguments: the folder of a suite, the file for the records, the number of seeds.
"""

from __future__ import annotations

import sys

from metronome_opt.bench.campaign import local_pool, run_campaign, to_run
from metronome_opt.bench.trials import Record
from metronome_opt.journal import Journal
from tests.bench.examples import Memory, trials


def main() -> None:
    suite, output, seeds = sys.argv[1:]
    with Journal(output, Record, resume=True) as file, local_pool(2) as pool:
        run_campaign(
            to_run(trials(suite, "slow", seeds=int(seeds)), file.records), pool, file, Memory()
        )


if __name__ == "__main__":
    main()
