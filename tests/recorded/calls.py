"""The calls that are recorded, in parts that take seconds each."""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import io
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import metronome_opt as package
from metronome_opt.__main__ import main as command
from metronome_opt.schedule import OBJECTIVES
from tests.builders import hard_instance, job, network, tangle, two_jobs

ROOT = Path(__file__).parents[2]
SUITES = ROOT / "benchmarks" / "suites"
VOLATILE = {
    "versions",
    "runtime_s",
    "time_s",
    "seconds",
    "trajectory",
    "cpu_s",
    "wall_s",
    "started",
    "machine",
    "peak_memory_mb",
    "commit",
    "python",
    "created",
}
"""Keys of documents that say when and where something ran."""

SHORT = 1500
"""Characters that are kept as they are."""

Record = dict[str, Any]
CALLS: dict[str, Callable[[], Iterable[tuple[str, Any]]]] = {}


def part(
    function: Callable[[], Iterable[tuple[str, Any]]],
) -> Callable[[], Iterable[tuple[str, Any]]]:
    """Enter a function that yields names and outcomes as a part of the record."""
    CALLS[function.__name__] = function
    return function


def record(name: str) -> Record:
    """Return the outcomes of a part by name, as JSON has them."""
    found: Record = json.loads(json.dumps(dict(CALLS[name]()), sort_keys=True, default=str))
    return found


# What is small enough for every solver, by name.
SMALL: dict[str, Callable[[], package.Instance]] = {
    "two-jobs": two_jobs,
    "single-4": lambda: package.read_instance(SUITES / "single" / "single-4-test-0.json"),
    "tangle": lambda: tangle(5, 3, 1, periods=(12, 18), lengths=(3, 6)),
    "fixed": lambda: network(
        job("a", 12, (0, 4, 60)), job("b", 18, (0, 5, 60), (9, 3, 30)), job("c", 12, (2, 3, 60))
    ),
}
LARGER: dict[str, Callable[[], package.Instance]] = {
    "paper-tune-shipped": lambda: package.load("paper-24").instance,
    "paper-test-0": lambda: package.read_instance(SUITES / "paper" / "paper-test-0.json"),
    "single-8": lambda: package.read_instance(SUITES / "single" / "single-8-test-0.json"),
    "weights": lambda: package.read_instance(sorted((SUITES / "weights").glob("*-test-0.json"))[0]),
    "coprime-5x2": lambda: package.read_instance(SUITES / "coprime" / "coprime-5x2-test-0.json"),
    "dense-8": lambda: package.read_instance(SUITES / "dense" / "dense-8-test-0.json"),
    "hard": hard_instance,
}
QUICK = ("unshifted", "random", "greedy", "cassini")


@part
def names() -> Iterator[tuple[str, Any]]:
    """Yield exported names and what they take."""
    yield "exported", list(package.__all__)
    for name in package.__all__:
        thing = getattr(package, name)
        if callable(thing) and not isinstance(thing, type):
            taken = inspect.signature(thing).parameters.values()
            yield name, [[each.name, str(each.kind), repr(each.default)] for each in taken]
    yield "solvers", {name: solver.summary for name, solver in package.SOLVERS.items()}


@part
def options() -> Iterator[tuple[str, Any]]:
    """Yield every command with its options, without the words of the help."""
    import typer

    from metronome_opt.cli.app import app

    def walk(command: Any, path: str) -> Iterator[tuple[str, Any]]:
        taken = [
            [*sorted([*each.opts, *each.secondary_opts]), bool(each.required), bool(each.multiple)]
            if each.param_type_name == "option"
            else [str(each.name), bool(each.required), each.nargs]
            for each in command.params
        ]
        yield path, sorted(taken, key=str)
        for name in sorted(getattr(command, "commands", {})):
            yield from walk(command.get_command(None, name), f"{path} {name}")

    yield from walk(typer.main.get_command(app), "metronome")


@part
def solvers() -> Iterator[tuple[str, Any]]:
    """Yield what every solver makes of contention, and of latency where it can."""
    for instance_name, make in SMALL.items():
        for solver in package.SOLVERS:
            if instance_name in ("single-4", "tangle") and solver == "milp-textbook":
                continue  # minutes
            yield f"{instance_name} {solver}", _solved(make(), solver, objectives=["contention"])
            if "latency" in package.SOLVERS[solver].objectives:
                both = ["latency", "contention"]
                yield f"{instance_name} {solver} latency", _solved(make(), solver, objectives=both)
    for instance_name, make in LARGER.items():
        for solver in QUICK:
            yield f"{instance_name} {solver}", _solved(make(), solver, objectives=["contention"])
    for name in ("single-8", "paper-test-0", "coprime-5x2", "dense-8"):
        yield f"{name} auto", _solved(LARGER[name](), "auto", objectives=["contention"])


@part
def objectives() -> Iterator[tuple[str, Any]]:
    """Yield orders, sums, limits, tolerances, cushions, stretches and fronts."""
    asked: dict[str, dict[str, Any]] = {
        "all": {"objectives": list(OBJECTIVES)},
        "latency": {"objectives": ["latency", "moves"]},
        "strict": {"objectives": ["contention"], "strict": True},
        "cushion": {"objectives": ["cushion", "wait"]},
        "reserved": {"objectives": ["contention"], "cushion_slots": 1},
        "wait": {"objectives": ["wait", "contention"]},
        "moves": {"objectives": ["moves", "contention", "wait"]},
        "sum": {"weights": {"contention": "1/2", "wait": "1/2"}},
        "limit": {"objectives": ["wait"], "epsilon": {"contention": 100_000}},
        "tolerance": {"objectives": ["contention", "wait"], "tolerance": {"contention": "1/20"}},
        "stretch": {"objectives": ["contention", "stretch"]},
        "stretch first": {"objectives": ["stretch", "contention"]},
    }
    for instance_name, make in SMALL.items():
        for name, arguments in asked.items():
            yield f"{instance_name} {name}", _solved(make(), "auto", **arguments)
        for pair in (["contention", "latency"], ["contention", "wait"], ["contention", "cushion"]):
            yield f"{instance_name} front {' '.join(pair)}", _front(make(), pair)
    for name in ("coprime-5x2", "weights"):
        for key in ("cushion", "wait"):
            yield f"{name} {key}", _solved(LARGER[name](), "auto", **asked[key])
    yield (
        "paper-test-0 order",
        _solved(LARGER["paper-test-0"](), "auto", objectives=["contention", "latency"]),
    )


@part
def slowdowns() -> Iterator[tuple[str, Any]]:
    """Yield what `solve` does by default, and the problems of jobs that fit."""
    for name in ("two-jobs", "single-4", "tangle", "fixed"):
        yield name, _solved(SMALL[name](), "auto")
        yield f"{name} tcp", _solved(SMALL[name](), "auto", sharing="tcp", stretch_limit="1/5")
    for name in ("paper-test-0", "kept-mixture-6x3-test-0"):
        path = SUITES / name.split("-", maxsplit=1)[0] / f"{name}.json"
        for extra in ([], ["--drop"], ["--stretch-limit", "20%"]):
            arguments = ["fit", str(path), "--json", "--workers", "1", *extra]
            yield " ".join(["fit", name, *extra]), _call(arguments)
    yield (
        "kept default",
        _solved(package.read_instance(SUITES / "kept" / "kept-planted-6x3-test-0.json"), "auto"),
    )


@part
def judged() -> Iterator[tuple[str, Any]]:
    """Yield what the judge says of stored instances unshifted, and of false statements."""
    for path in sorted(SUITES.glob("*/*.json")):
        if path.stat().st_size > 400_000 or path.name == "index.json":
            continue
        try:
            instance = package.read_instance(path)
        except package.MetronomeError as error:
            yield path.stem, str(error)
            continue
        yield (
            path.stem,
            _digest(
                str(
                    package.evaluate(
                        instance, dict.fromkeys((each.name for each in instance.jobs), 0)
                    )
                )
            ),
        )
    instance = two_jobs()
    with _folder() as folder:
        package.write_instance(instance, folder / "two.json")
        _call(["solve", "two.json", "--solver", "greedy", "--output", "s.json"])
        stated = json.loads((folder / "s.json").read_text())
        yield "schedule", sorted(stated)
        wrong: Any
        for key in stated:
            for wrong in (None, 1, "x", [], {}, "none of it"):
                if wrong == "none of it":
                    document = {name: each for name, each in stated.items() if name != key}
                else:
                    document = {**stated, key: wrong}
                (folder / "wrong.json").write_text(json.dumps(document))
                told = _call(["verify", "two.json", "wrong.json"])
                yield f"verify {key} as {wrong!r}", told


@part
def simulations() -> Iterator[tuple[str, Any]]:
    """Yield simulations of stored studies, byte for byte."""
    runs = [
        ("snapshot", "mix=three-0.60", "tcp", "default,metronome,cassini,proposal,exclusive,ideal"),
        ("snapshot", "mix=four-1.00", "fair", "default,metronome-greedy,shifted-local"),
    ]
    for study, cells, sharing, policies in runs:
        with _folder() as folder:
            arguments = ["simulate", study, "--cells", cells, "--seeds", "1", "--jobs", "1"]
            arguments += ["--policy", policies, "--set", f"sharing={sharing}", "--json"]
            (folder / "benchmarks").symlink_to(ROOT / "benchmarks")
            outcome = _call(arguments)
            yield f"{study} {cells} {sharing}", outcome
            for line in (folder / "simulation" / "simulations.jsonl").read_text().splitlines():
                document = json.loads(line)
                key = [document.get(each) for each in ("cell", "policy", "seed")]
                yield f"{study} {cells} {sharing} {key}", _kept(document)
            frames = sorted((folder / "simulation").glob("*.csv"))
            yield f"{study} {cells} {sharing} tables", {each.name: None for each in frames}


@part
def cluster() -> Iterator[tuple[str, Any]]:
    """Yield an imported cluster, claims of it, and jobs that are placed."""
    with _folder() as folder:
        shutil.copytree(ROOT / "docs" / "example-cluster", folder / "example")
        for arguments in (
            ["import", "example", "--output", "scenario.yaml"],
            ["import", "example", "--json"],
            ["solve", "scenario.yaml", "--solver", "greedy", "--output", "s.json"],
            ["solve", "scenario.yaml", "--solver", "auto", "--workers", "1", "--claims", "gated"],
            ["verify", "scenario.yaml", "s.json"],
            ["claims", "scenario.yaml", "s.json", "--output", "claims"],
            ["claims", "write", "scenario.yaml", "s.json", "--output", "claims"],
            ["claims", "rbac"],
            ["import", "example", "claims", "--output", "again.yaml"],
            ["place", "state", "--cluster", "scenario.yaml", "--with-jobs", "--json"],
            ["place", "state", "--json"],
            ["place", "state", "--remove", "vgg19", "--json"],
            ["place", "state", "--down", "gpu-0", "--json"],
            ["place", "plan", "--cluster", "paper-24", "--with-jobs", "--json"],
            ["place", "plan", "--remove", "vgg16", "--json"],
        ):
            yield " ".join(arguments), _call(arguments)
        documents = {
            "one.yaml": {
                "format": "metronome-job/1",
                "name": "new",
                "tasks": 3,
                "each": {"gpus": 1},
                "period": 300,
                "phases": [{"start": 0, "length": 90, "rate": 20_000}],
            },
            "large.yaml": {
                "format": "metronome-job/1",
                "name": "large",
                "tasks": 3000,
                "each": {"gpus": 1},
                "period": 300,
                "phases": [{"start": 0, "length": 90, "rate": 20_000}],
            },
        }
        for name, document in documents.items():
            (folder / name).write_text(json.dumps(document))
            for search in ("tree", "greedy", "beam", "cpsat"):
                shutil.rmtree("copy", ignore_errors=True)
                shutil.copytree("plan", "copy")
                arguments = ["place", "copy", name, "--search", search, "--json"]
                yield " ".join(arguments), _call(arguments)
        yield "files", _files(folder)


@part
def exports() -> Iterator[tuple[str, Any]]:
    """Yield models, pages and scenarios as files."""
    with _folder() as folder:
        package.write_instance(two_jobs(), folder / "two.json")
        for form in ("lp", "mps", "cpsat", "mzn", "none"):
            for problem in ("two.json", "paper-24"):
                arguments = ["export", problem, "--format", form]
                yield " ".join(arguments), _call(arguments)
        scenario = package.load("paper-24")
        yield "instance", _digest(scenario.instance.model_dump_json())
        yield "traffic", _digest(scenario.traffic_frame().to_csv())
        yield "files", _files(folder)


@part
def refusals() -> Iterator[tuple[str, Any]]:
    """Yield what is said of bad input."""
    with _folder() as folder:
        package.write_instance(two_jobs(), folder / "two.json")
        (folder / "empty.json").write_text("")
        (folder / "list.json").write_text("[]")
        (folder / "job.yaml").write_text("format: metronome-job/1\n")
        good = json.loads((folder / "two.json").read_text())
        for key in good:
            (folder / f"no-{key}.json").write_text(
                json.dumps({name: value for name, value in good.items() if name != key})
            )
        for key in good["jobs"][0]:
            jobs = [{name: v for name, v in good["jobs"][0].items() if name != key}]
            (folder / f"no-job-{key}.json").write_text(json.dumps({**good, "jobs": jobs}))
            jobs = [{**good["jobs"][0], key: "nonsense"}]
            (folder / f"bad-job-{key}.json").write_text(json.dumps({**good, "jobs": jobs}))
        for path in sorted(folder.glob("*-*.json")):
            yield f"solve {path.name}", _call(["solve", path.name])
        for text in (
            "",
            "nonsense",
            "solve",
            "solve missing.json",
            "solve empty.json",
            "solve list.json",
            "solve two.json --solver nobody",
            "solve two.json --time-limit -1",
            "solve two.json --objectives beauty",
            "solve two.json --objectives contention,contention",
            "solve two.json --tolerance contention=-1",
            "solve two.json --tolerance contention",
            "solve two.json --weights contention=0",
            "solve two.json --epsilon wait=x",
            "solve two.json --solver greedy --objectives cushion",
            "solve two.json --workers 0",
            "solve two.json --objectives contention --weights wait=1",
            "solve two.json --output two.json",
            "solve two.json --plot picture.doc",
            "solve two.json --sharing rudely",
            "solve two.json --stretch-limit -1%",
            "solve two.json --cushion-slots -1",
            "solve two.json --hyperperiod-limit 1",
            "fit two.json --drop --stretch-limit 5%",
            "fit two.json --solver nobody",
            "pareto two.json --objectives contention",
            "pareto two.json --objectives a,b",
            "verify two.json two.json",
            "verify two.json missing.json",
            "report two.json",
            "export two.json",
            "export two.json --format none",
            "simulate nowhere",
            "simulate two.json",
            "simulate snapshot --policy nobody",
            "simulate snapshot --cells mix=none",
            "simulate snapshot --set none=1",
            "place state",
            "place state job.yaml",
            "place state --cluster two.json",
            "place state --cluster paper-24 --remove nobody",
            "import missing",
            "import two.json",
            "profile two.json",
            "profile missing.csv",
            "monitor",
            "monitor --state missing",
            "bench",
            "bench run",
            "bench run --suite none",
            "bench report",
            "claims",
            "claims two.json",
            "claims apply missing",
            "claims status missing",
            "claims delete",
            "claims diff missing",
            "claims apply two.json --kubeconfig missing",
        ):
            yield f"metronome {text}", _call(text.split())
        yield "files", _files(folder)


def _solved(instance: package.Instance, solver: str, **arguments: Any) -> Any:
    try:
        found = package.solve(instance, solver, time_limit=None, workers=1, **arguments)
    except package.MetronomeError as error:
        return f"{type(error).__name__}: {error}"
    return _kept(json.loads(found.schedule.model_dump_json()) | {"notes": list(found.notes)})


def _front(instance: package.Instance, pair: list[str]) -> Any:
    try:
        front = package.pareto(instance, pair, time_limit=None, workers=1)
    except package.MetronomeError as error:
        return f"{type(error).__name__}: {error}"
    return [
        [str(front.complete), len(front.points)],
        [_kept(json.loads(each.model_dump_json())) for each in front.points],
    ]


def _call(arguments: list[str]) -> Any:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = command(arguments)
    told: Any = out.getvalue()
    with contextlib.suppress(ValueError):
        told = _kept(json.loads(told))
    if isinstance(told, str):
        told = _told(told)
    elif len(json.dumps(told)) > SHORT:
        told = _digest(json.dumps(told, sort_keys=True))
    return {"status": status, "out": told, "err": _told(err.getvalue())}


def _told(text: str) -> str:
    """Return a text without what differs from run to run."""
    text = re.sub(r"\d+(\.\d+)? ?(ms|s|min|MB)\b", "TIME", text.replace(str(Path.cwd()), "."))
    return text if len(text) <= SHORT else f"{text[:200]} ... {_digest(text)}"


def _kept(value: Any) -> Any:
    """Return a document without what says when and where it was made."""
    if isinstance(value, dict):
        return {name: _kept(each) for name, each in value.items() if name not in VOLATILE}
    if isinstance(value, list):
        short = [_kept(each) for each in value]
        text = json.dumps(short, sort_keys=True)
        return short if len(text) <= SHORT else _digest(text)
    return value


def _files(folder: Path) -> Record:
    """Return digests of all files below `folder`; documents without what is volatile."""
    found: Record = {}
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or path.is_symlink() or path.suffix in (".db", ".lock"):
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        with contextlib.suppress(ValueError):
            text = json.dumps(_kept(json.loads(text)), sort_keys=True)
        found[str(path.relative_to(folder))] = _digest(text)
    return found


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    """Yield an empty folder that is the current one."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as name:
        os.chdir(name)
        try:
            yield Path(name)
        finally:
            os.chdir(before)
