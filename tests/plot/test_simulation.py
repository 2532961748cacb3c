from __future__ import annotations

import numpy as np
from matplotlib import pyplot

from metronome_opt.plot import plot_completion


def test_completion_curves_count_jobs_that_did_not_finish() -> None:
    times = {"metronome": [1.0, 3.0], "default": [2.0, np.nan, 4.0, 4.0]}
    axes = plot_completion(times)
    curves = {str(line.get_label()): np.asarray(line.get_xydata()) for line in axes.lines}
    (name,) = (label for label in curves if label.startswith("default"))
    assert name == "default (1 of 4 jobs did not finish)"
    assert curves[name].tolist() == [[0, 0], [2, 0.25], [4, 0.5], [4, 0.75]]
    assert curves["metronome"].tolist() == [[0, 0], [1, 0.5], [3, 1]]
    figure, given = pyplot.subplots()
    assert plot_completion(times, ax=given) is given
    pyplot.close(figure)
