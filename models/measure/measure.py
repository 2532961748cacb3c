"""Measures training steps of the thirteen models on this machine; see README.md."""

from __future__ import annotations

import argparse
import json
import platform
import resource
import shlex
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

import torch
import torch.distributed as dist
from configurations import CONFIGURATIONS, Configuration, Setup
from torch.nn.parallel import DistributedDataParallel

FORMAT = "metronome-measured/1"
_OPTIMIZERS = {
    "sgd": ("SGD", lambda parameters: torch.optim.SGD(parameters, 1e-4)),
    "momentum": ("SGD with momentum", lambda p: torch.optim.SGD(p, 1e-4, momentum=0.9)),
    "adamw": ("AdamW", lambda parameters: torch.optim.AdamW(parameters, 1e-4)),
}
_BATCHES = {"cpu": 1, "cuda": 16}  # samples, if nothing else is said


def main() -> None:
    """Measure the models that are named, each in a process of its own."""
    arguments = _arguments()
    names = list(CONFIGURATIONS) if arguments.models == ["all"] else arguments.models
    for name in names:
        if name not in CONFIGURATIONS:
            _refuse(f"{name}: no such model; there are all, {', '.join(CONFIGURATIONS)}")
    if len(names) > 1:
        words = [word for word in sys.argv[1:] if word not in arguments.models]
        failed = [n for n in names if subprocess.call([sys.executable, __file__, n, *words])]
        raise SystemExit(f"not measured: {', '.join(failed)}" if failed else None)
    path = arguments.output / f"{names[0]}.json"
    if path.exists() and not arguments.again:
        print(f"{path}: is there already; --again measures anew")
        return
    configuration = CONFIGURATIONS[names[0]]
    torch.manual_seed(0)
    try:
        setup = configuration.build(arguments.batch, arguments.tokens, arguments.tiny)
    except ValueError as error:
        _refuse(str(error))
    record = measured(configuration, setup, arguments)
    path.parent.mkdir(parents=True, exist_ok=True)
    half = path.with_suffix(".half")
    half.write_text(json.dumps(record, indent=1) + "\n")
    half.replace(path)
    print(
        f"wrote {path}: forward {record['forward_ms']['median']} ms, "
        f"backward {record['backward_ms']['median']} ms in {len(record['buckets'])} buckets, "
        f"optimizer {record['optimizer_ms']['median']} ms"
    )


def _refuse(message: str) -> NoReturn:
    print(message, file=sys.stderr)
    raise SystemExit(2)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure training steps.")
    parser.add_argument("models", nargs="+", help="names, or all")
    parser.add_argument("--output", type=Path, required=True, help="folder of the records")
    parser.add_argument("--device", choices=["cpu", "cuda"], help="cuda if there is one")
    parser.add_argument("--batch", type=int, help="samples per step (1, 16 on a GPU)")
    parser.add_argument("--tokens", type=int, help="of a sequence, if not the workload's")
    parser.add_argument("--precision", choices=["float32", "tf32", "bfloat16"], default="float32")
    parser.add_argument("--optimizer", choices=list(_OPTIMIZERS), help="if not the model's usual")
    parser.add_argument("--steps", type=int, default=50, help="that are timed (50)")
    parser.add_argument("--warmup", type=int, default=5, help="steps before them (5)")
    parser.add_argument("--threads", type=int, help="of the CPU, if not all")
    parser.add_argument("--tiny", action="store_true", help="small models, for tests")
    parser.add_argument("--again", action="store_true", help="replace records that are there")
    arguments = parser.parse_args()
    arguments.device = arguments.device or ("cuda" if torch.cuda.is_available() else "cpu")
    for field, least in (("batch", 1), ("tokens", 1), ("steps", 2), ("warmup", 2), ("threads", 1)):
        value = getattr(arguments, field)
        if value is not None and value < least:
            parser.error(f"--{field}: {value}: must be at least {least}")
    arguments.batch = arguments.batch or _BATCHES[arguments.device]
    if arguments.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device: cuda: there is none here; say cpu")
    if arguments.device == "cpu" and arguments.precision == "tf32":
        parser.error("--precision: tf32: a CPU has none; say float32")
    return arguments


# ------------------------------------------------------------------ one model


def measured(
    configuration: Configuration, setup: Setup, arguments: argparse.Namespace
) -> dict[str, Any]:
    """Train for a while and return the record."""
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = (
        arguments.precision == "tf32"
    )
    label, make = _OPTIMIZERS[arguments.optimizer or configuration.optimizer]
    backend = "nccl" if arguments.device == "cuda" else "gloo"
    dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
    steps, sizes = _train(setup, make, arguments)
    dist.destroy_process_group()
    passes = {name: [step[name] for step in steps] for name in ("forward", "backward", "optimizer")}
    record: dict[str, Any] = {
        "format": FORMAT,
        "model": configuration.name,
        "configuration": ("tiny, for tests: " if arguments.tiny else "") + setup.about,
        "sample": setup.sample,
        "sample_share": float(setup.share),
        "batch": arguments.batch,
        "precision": arguments.precision,
        "optimizer": label,
        "parameters": sum(
            each.numel()
            for name, each in setup.module.named_parameters()
            if name not in setup.local
        ),
        "device": _device(arguments.device),
        "software": _software(),
        "command": shlex.join(["python", "models/measure/measure.py", *sys.argv[1:]]),
        "commit": _commit(),
        "warmup": arguments.warmup,
        "steps": arguments.steps,
        **{f"{name}_ms": _spread(times) for name, times in passes.items()},
        "jitter": _jitter([sum(times) for times in zip(*passes.values(), strict=True)]),
        "memory_mib": _memory(arguments.device),
        "buckets": [
            {"bytes": size, "ready_ms": _spread([step["ready"][number] for step in steps])}
            for number, size in enumerate(sizes)
        ],
    }
    if setup.exchanges:
        record["exchanges"] = [
            {
                "kind": exchange.kind,
                "bytes": exchange.size,
                "begin": exchange.begin,
                "after_ms": _spread([step["moments"][number] for step in steps])["median"],
            }
            for number, exchange in enumerate(setup.exchanges)
        ]
    if setup.stages > 1:
        record |= {"stages": setup.stages, "microbatches": setup.microbatches}
    return record


def _train(
    setup: Setup, make_optimizer: Any, arguments: argparse.Namespace
) -> tuple[list[dict[str, Any]], list[int]]:
    """Return the times of each step after the warm-up in ms, and the sizes of the buckets."""
    device, clock = arguments.device, _Clock(arguments.device)
    module = setup.module.to(device).train()
    inputs = tuple(each.detach().to(device) for each in setup.inputs)
    if setup.inputs[0].requires_grad:
        inputs[0].requires_grad_()
    alone = [*setup.local, *(name for name, _ in module.named_buffers())]  # gloo refuses masks
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(module, alone)
    model = DistributedDataParallel(module, gradient_as_bucket_view=True)
    optimizer = make_optimizer(module.parameters())
    ready: list[tuple[int, Any]] = []
    moments: dict[int, Any] = {}
    module.mark = lambda number: moments.__setitem__(number, clock.now())

    def reduced(_, bucket):  # type: ignore[no-untyped-def]  # torch refuses annotations as text
        """Note when a bucket could be all-reduced; the group has no other process."""
        ready.append((bucket.buffer().numel() * bucket.buffer().element_size(), clock.now()))
        future: Any = torch.futures.Future(devices=[0] if device == "cuda" else [])
        future.set_result(bucket.buffer())
        return future

    model.register_comm_hook(None, reduced)
    noted = []
    for number in range(arguments.warmup + arguments.steps):
        ready.clear()
        optimizer.zero_grad(set_to_none=True)
        inputs[0].grad = None
        clock.wait()
        began = clock.now()
        with torch.autocast(device, torch.bfloat16, enabled=arguments.precision == "bfloat16"):
            loss = setup.loss(model, inputs)
        forward = clock.now()
        loss.backward()
        backward = clock.now()
        optimizer.step()
        ended = clock.now()
        clock.wait()
        if number >= arguments.warmup:
            begin = {"forward": began, "backward": forward}
            noted.append(
                {
                    "forward": clock.ms(began, forward),
                    "backward": clock.ms(forward, backward),
                    "optimizer": clock.ms(backward, ended),
                    "ready": [clock.ms(forward, moment) for _, moment in ready],
                    "moments": [
                        clock.ms(begin[exchange.begin], moments[index])
                        for index, exchange in enumerate(setup.exchanges)
                    ],
                }
            )
        if sys.stderr.isatty():
            end = "\r" if number + 1 < arguments.warmup + arguments.steps else "\n"
            print(f"step {number + 1}", end=end, file=sys.stderr, flush=True)
    return noted, [size for size, _ in ready]


class _Clock:
    """Moments of a device: CUDA events, or the processor's own time."""

    def __init__(self, device: str) -> None:
        self._cuda = device == "cuda"

    def now(self) -> Any:
        """Return the moment at which all that was asked for so far is done."""
        if not self._cuda:
            return time.perf_counter_ns()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def wait(self) -> None:
        """Wait until everything is done."""
        if self._cuda:
            torch.cuda.synchronize()

    def ms(self, begin: Any, end: Any) -> float:
        """Return the time between two moments."""
        return begin.elapsed_time(end) if self._cuda else (end - begin) / 1e6


def _spread(times: list[float]) -> dict[str, float]:
    """Return the median, and the 5th and 95th percentile."""
    parts = statistics.quantiles(times, n=20, method="inclusive")
    return {
        "median": round(statistics.median(times), 3),
        "low": round(parts[0], 3),
        "high": round(parts[-1], 3),
    }


def _jitter(times: list[float]) -> float:
    """Return the standard deviation as a share of the mean, at most 1."""
    return round(min(1.0, statistics.stdev(times) / statistics.fmean(times)), 4)


# ------------------------------------------------------------------ where it was measured


def _device(kind: str) -> dict[str, Any]:
    if kind == "cuda":
        asked = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        driver = _said(asked)
        name, threads = torch.cuda.get_device_name(), None
    else:
        lines = _said(["lscpu"]) or ""
        found = [each.split(":")[1].strip() for each in lines.splitlines() if "Model name" in each]
        name, threads = (found[0] if found else platform.machine()), torch.get_num_threads()
        driver = None
    return {"kind": kind, "name": name, "threads": threads, "driver": driver}


def _software() -> dict[str, str | None]:
    versions = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda if torch.cuda.is_available() else None,
    }
    for package in ("torchvision", "transformers"):
        if package in sys.modules:
            versions[package] = sys.modules[package].__version__
    return versions


def _memory(device: str) -> int:
    """Return the peak in MiB: of the accelerator, or of the process."""
    if device == "cuda":
        return torch.cuda.max_memory_allocated() >> 20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


def _commit() -> str | None:
    return _said(["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"])


def _said(command: list[str]) -> str | None:
    """Return what a program says, None if it cannot be asked."""
    try:
        asked = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return asked.stdout.strip() or None


if __name__ == "__main__":
    main()
