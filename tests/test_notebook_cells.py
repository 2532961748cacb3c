"""Results and fronts show themselves in a notebook, and long calls a bar."""

from __future__ import annotations

from typing import Any

import pytest
from IPython.core.formatters import DisplayFormatter

import metronome_opt
from metronome_opt import bar, pareto, solve
from metronome_opt.notebook import show_front, show_result
from tests.builders import two_jobs


class Shell:
    """A shell of IPython in a kernel, as far as the package asks."""

    kernel = None

    def __init__(self) -> None:
        self.display_formatter = DisplayFormatter()


def test_result_has_the_gain_the_picture_and_the_jobs() -> None:
    jobs = [job.model_copy(update={"name": f"<{job.name}>"}) for job in two_jobs().jobs]
    page = show_result(solve(two_jobs().replace(jobs=jobs), "greedy"))
    gain, picture, table = (page.index(part) for part in ("mean slowdown", "<img", "<th>priority"))
    assert gain < picture < table
    assert "greedy: optimal, contention 0" in page
    assert f"&lt;{jobs[0].name[1:-1]}&gt;" in page
    assert jobs[0].name not in page


def test_front_has_its_sentence_the_picture_and_the_points() -> None:
    page = show_front(pareto(two_jobs(), ["contention", "latency"], threads=1))
    sentence, picture, table = (page.index(part) for part in ("complete", "<img", "<th>point"))
    assert sentence < picture < table
    assert "schedule" not in page


def test_a_notebook_shows_results_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    shell = Shell()
    monkeypatch.setattr(bar, "notebook", lambda: shell)
    metronome_opt._register_with_ipython()
    data, _ = shell.display_formatter.format(solve(two_jobs(), "greedy"))  # type: ignore[no-untyped-call]
    assert "<img" in data["text/html"]


def test_a_long_call_shows_a_bar_and_removes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[Any] = []

    class Handle:
        def update(self, data: Any, **_: object) -> None:
            shown.append(data)

    def display(data: Any, **_: object) -> Handle:
        shown.append(data)
        return Handle()

    monkeypatch.setattr(bar, "notebook", Shell)
    monkeypatch.setattr(bar, "_AFTER_S", 0.0)
    monkeypatch.setattr("IPython.display.display", display)
    solve(two_jobs(), "local", time_limit=0.3, threads=1)
    assert shown[0]["text/plain"].startswith("solve: local: 0 s, incumbent ")
    assert shown[-1] == {"text/plain": ""}


def test_without_a_notebook_there_is_no_bar() -> None:
    with bar.notebook_bar("solve", None) as show:
        assert show is None
