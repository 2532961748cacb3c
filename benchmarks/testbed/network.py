"""Racks of nodes on this machine: network namespaces, veth pairs, bridges, and shaped uplinks.

A namespace belongs to a process that reads from a pipe which only this process holds open. If this
process ends, however it ends, the pipe closes, the process ends, and the kernel takes the namespace
away with all devices in it. No namespace has a name, so nothing is left to clean up.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from benchmarks.testbed.shaping import class_line, mark_lines, shape_lines
from metronome_opt.errors import InputError

GOODPUT = 0.964
"""Share of a link's rate that a burst of TCP carries, as measured on shaped devices."""

_TOOLS = ("ip", "tc", "nsenter", "unshare")


@dataclass(frozen=True)
class Layout:
    """Specification of a network.

    Attributes
    ----------
    nodes
        How many nodes each rack has, shape (racks,).
    uplink_mbps
        Rate of each rack's uplink, both ways, shape (racks,); None where nothing limits it.
    interface_mbps
        Rate of each node's interface, both ways; None where nothing limits it.
    queue_ms
        How long a full queue of a limited device takes to be sent.
    segments
        Most segments that a node hands over at once.
    marks
        Whether uplinks mark packets, for ECN.
    """

    nodes: tuple[int, ...]
    uplink_mbps: tuple[int | None, ...]
    interface_mbps: int | None = None
    queue_ms: int = 20
    segments: int = 44
    marks: bool = False


class Network:
    """Namespaces of a layout, for as long as they are needed.

    Raises
    ------
    InputError
        If this user or this machine cannot make network namespaces.
    """

    def __init__(self, layout: Layout) -> None:
        check_machine()
        self._layout = layout
        self._stack = ExitStack()
        self._nodes: dict[tuple[int, int], int] = {}

    def __enter__(self) -> Self:
        try:
            self._build()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def address(self, rack: int, node: int) -> str:
        """Return the address of a node."""
        return f"10.98.{rack}.{node + 1}"

    def popen(
        self, rack: int, node: int, command: Sequence[str], **options: Any
    ) -> subprocess.Popen[str]:
        """Start a program on a node."""
        return subprocess.Popen([*_inside(self._nodes[rack, node]), *command], text=True, **options)

    def shape(self, rack: int, mbps: int) -> None:
        """Let the uplink of a rack carry so much from now on, both ways."""
        for namespace, device in ((self._racks[rack], "uplink"), (self._core, f"r{rack}")):
            _tc(namespace, [f"class change {class_line(device, mbps)}"])

    def join(self) -> str:
        """Join this machine itself to the core switch; return its address there."""
        device, address = f"bed-{os.getpid()}", "10.98.255.1"
        _ip(self._core, [f"link add {device} type veth peer name root"])
        _ip(self._core, ["link set root master switch up"])
        _ip(self._core, [f"link set {device} netns {os.getpid()}"])
        _ip(os.getpid(), [f"address add {address}/16 dev {device}", f"link set {device} up"])
        return address

    def _build(self) -> None:
        layout = self._layout
        self._core = self._hold()
        self._racks = [self._hold() for _ in layout.nodes]
        core = ["link set lo up", "link add name switch type bridge", "link set switch up"]
        core_queues = []
        for rack, (namespace, rate) in enumerate(zip(self._racks, layout.uplink_mbps, strict=True)):
            _ip(self._core, [f"link add r{rack} type veth peer name uplink netns {namespace}"])
            core += [f"link set r{rack} master switch up"]
            lines = ["link set lo up", "link add name switch type bridge", "link set switch up"]
            lines += ["link set uplink master switch up"]
            queues = []
            if rate is not None:
                core_queues += shape_lines(f"r{rack}", rate, layout.queue_ms)
                self._mark(self._core, f"r{rack}", rate)
                self._mark(namespace, "uplink", rate)
                queues += shape_lines("uplink", rate, layout.queue_ms)
            _ip(namespace, lines)
            for node in range(layout.nodes[rack]):
                queues += self._add_node(rack, node)
            _tc(namespace, queues)
        _ip(self._core, core)
        _tc(self._core, core_queues)

    def _mark(self, namespace: int, device: str, mbps: int) -> None:
        layout = self._layout
        if layout.marks:
            lines = mark_lines(device, mbps, layout.queue_ms, layout.segments)
            _batch([*_inside(namespace), "nft", "-f", "-"], lines)

    def _add_node(self, rack: int, node: int) -> list[str]:
        """Join a node to its rack; return how the rack's port towards it is shaped."""
        layout = self._layout
        namespace = self._nodes[rack, node] = self._hold()
        _ip(self._racks[rack], [f"link add n{node} type veth peer name eth0 netns {namespace}"])
        _ip(self._racks[rack], [f"link set n{node} master switch up"])
        _ip(
            namespace,
            [
                "link set lo up",
                f"address add {self.address(rack, node)}/16 dev eth0",
                f"link set eth0 gso_max_segs {layout.segments}",
                "link set eth0 up",
            ],
        )
        if layout.marks:
            _batch([*_inside(namespace), "tee", "/proc/sys/net/ipv4/tcp_ecn"], ["1"])
        rate, queue_ms = layout.interface_mbps, layout.queue_ms
        if rate is None:
            return []
        _tc(namespace, shape_lines("eth0", rate, queue_ms))
        return shape_lines(f"n{node}", rate, queue_ms)

    def _hold(self) -> int:
        """Make a namespace; return the process that it belongs to."""
        holder = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", "echo; exec cat"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._stack.callback(_release, holder)
        assert holder.stdout is not None
        if not holder.stdout.read(1):
            raise InputError("unshare: no network namespace could be made; run this as root")
        return holder.pid


def check_machine() -> None:
    """Refuse a machine without the tools or the rights that namespaces need.

    Raises
    ------
    InputError
        In one line, with the remedy.
    """
    reason = missing()
    if reason is not None:
        raise InputError(reason)


def missing() -> str | None:
    """Return what this machine lacks for a test bed and how to get it; None for nothing."""
    lacking = [tool for tool in _TOOLS if shutil.which(tool) is None]
    if lacking:
        return f"{lacking[0]}: not found; on Debian: apt install iproute2 util-linux"
    if os.geteuid() != 0:
        return "network namespaces need root; run this as root"
    made = subprocess.run(["unshare", "--net", "true"], check=False, capture_output=True, text=True)
    if made.returncode:
        return f"network namespaces cannot be made here ({made.stderr.strip()})"
    return None


def _release(holder: subprocess.Popen[bytes]) -> None:
    assert holder.stdin is not None
    assert holder.stdout is not None
    holder.stdin.close()
    holder.stdout.close()
    holder.wait()


def _inside(process: int) -> list[str]:
    return ["nsenter", f"--net=/proc/{process}/ns/net"]


def _ip(namespace: int, lines: Sequence[str]) -> None:
    _batch([*_inside(namespace), "ip", "-batch", "-"], lines)


def _tc(namespace: int, lines: Sequence[str]) -> None:
    if lines:
        _batch([*_inside(namespace), "tc", "-batch", "-"], lines)


def _batch(command: Sequence[str], lines: Sequence[str]) -> None:
    done = subprocess.run(
        command, input="\n".join(lines) + "\n", check=False, capture_output=True, text=True
    )
    if done.returncode:
        fault = (done.stderr or done.stdout).strip().splitlines()
        raise InputError(f"{' '.join(command[2:3])}: {fault[0] if fault else 'failed'}")
