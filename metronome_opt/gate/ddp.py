"""A communication hook of PyTorch's DistributedDataParallel whose all-reduces wait for windows.

>>> from metronome_opt.gate import Gate, ddp
>>> ddp.register(model, Gate.from_environment())

What it computes is bit for bit what the built-in hook ``allreduce_hook`` does. It was tested with
gloo on CPUs; the lines for accelerators follow PyTorch's documentation and were not run on one.
"""

from __future__ import annotations

import atexit
import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import torch.distributed as dist

_LAST_S = 5.0  # at the end of the process, for what is under way

if TYPE_CHECKING:
    from metronome_opt.gate.burst import Burst
    from metronome_opt.gate.gate import Gate


def register(model: Any, gate: Gate, *, first_buckets: tuple[int, ...] = (0,)) -> None:
    """Let all gradients of a model go through a gate.

    Parameters
    ----------
    model
        A DistributedDataParallel without a hook.
    first_buckets
        Indices from 0 of the buckets with which bursts begin: as many as an iteration of the claim
        has bursts.
    """
    paced = _Paced(gate, frozenset(first_buckets))
    try:
        paced.start()
    except RuntimeError as error:  # no thread starts
        gate.warn(f"{error}; gradients do not wait")
        return
    # DDP wants annotations that are these very types, or none.
    model.register_comm_hook(paced, lambda state, bucket: state.reduce(bucket))


class _Bucket(NamedTuple):
    tensor: Any
    number: int
    is_last: bool
    ready: Any  # an event of an accelerator, None on a CPU
    reduced: Any  # the future


class _Paced:
    """Buckets in the order in which DDP hands them over, the same on all processes.

    One thread takes them, waits for windows and launches reductions, so that backward goes on
    meanwhile, and buckets that follow one another are under way together.
    """

    def __init__(self, gate: Gate, first: frozenset[int]) -> None:
        self._gate = gate
        self._first = {number: phase for phase, number in enumerate(sorted(first))}
        self._group = dist.group.WORLD
        self._size = dist.get_world_size(self._group)
        self._queue: SimpleQueue[_Bucket | None] = SimpleQueue()
        self._burst: Burst | None = None
        self._sent = 0
        self._works: list[Any] = []
        self._thread = threading.Thread(target=self._run, name="metronome-gate-ddp", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()
        atexit.register(self._stop)

    def reduce(self, bucket: Any) -> Any:
        """Return a future of the mean over all processes; called by backward."""
        tensor = bucket.buffer()
        tensor.div_(self._size)  # before it is reduced, as allreduce_hook does
        ready, devices = None, []
        if tensor.is_cuda:
            ready = torch.cuda.Event()
            ready.record(torch.cuda.current_stream(tensor.device))
            devices = [tensor.device]
        reduced = torch.futures.Future(devices=devices)
        self._queue.put(_Bucket(tensor, bucket.index(), bucket.is_last(), ready, reduced))
        return reduced.then(lambda done: done.value())  # a future that can fail, as `reduced` not

    def _run(self) -> None:
        while True:
            bucket = self._queue.get()
            if bucket is None:
                return
            try:
                self._launch(bucket)
            except Exception as error:
                bucket.reduced.set_exception(error)
            if bucket.is_last:
                self._close(bucket.tensor)

    def _stop(self) -> None:
        """End the thread before the interpreter does: one that still holds tensors would abort."""
        self._queue.put(None)
        self._thread.join(_LAST_S)

    def _launch(self, bucket: _Bucket) -> None:
        """Begin to reduce a bucket, in its window if a burst begins with it."""
        if bucket.ready is not None:
            torch.cuda.set_device(bucket.tensor.device)
            bucket.ready.synchronize()
        if bucket.number in self._first:
            self._close(bucket.tensor)
            self._burst = self._gate.burst(phase=self._first[bucket.number])
            self._burst.begin()
        work = dist.all_reduce(bucket.tensor, group=self._group, async_op=True)
        self._works.append(work)
        size = bucket.tensor.numel() * bucket.tensor.element_size()
        self._sent += 2 * (self._size - 1) * size // self._size  # a ring

        def settle(done: Any) -> None:
            try:
                bucket.reduced.set_result(done.value()[0])
            except Exception as error:
                bucket.reduced.set_exception(error)

        work.get_future().add_done_callback(settle)

    def _close(self, tensor: Any) -> None:
        """End the burst when all that it holds is reduced."""
        works, self._works = self._works, []
        try:
            for work in works:
                work.wait()
            if tensor.is_cuda:
                torch.cuda.current_stream(tensor.device).synchronize()
        except Exception as error:  # backward has it from the future
            self._gate.warn(f"a bucket was not reduced: {error}")
        if self._burst is not None:
            self._burst.sent_bytes = self._sent
            self._burst.end()
        self._burst, self._sent = None, 0
