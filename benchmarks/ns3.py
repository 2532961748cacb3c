"""Periodic jobs on one link, packet by packet in ns-3, beside what the engine says of them.

``python -m benchmarks.ns3`` needs ``pip install ns3``, which nothing else here does. Jobs like
those of ``testbed/queues.yaml`` send bursts over DCQCN through one link of 10 Gbit/s; free, or in
windows by the rules of `metronome_opt.gate`.

DCQCN is the algorithm of Zhu et al., Congestion Control for Large-Scale RDMA Deployments, SIGCOMM
2015, without priority flow control: queues have no limit. Constants of senders are those of
Broadcom/csg-htsim, ``dcqcn.cpp``. The link marks from 4 to 16 kB for each Gbit/s, with a
probability of up to 0.2, as in the simulations of HPCC (Li et al., SIGCOMM 2019).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer

from benchmarks.evaluation.recorded import machine_in_words
from benchmarks.program import run_program
from benchmarks.testbed.agreement import SEEDS
from benchmarks.testbed.cases import CUSHION_MS, Case
from benchmarks.testbed.lasting import Times, comes_apart, mean_iteration
from benchmarks.testbed.modes import Mode, begins_at, plan
from benchmarks.testbed.simulated import play_case
from benchmarks.testbed.worker import factors
from metronome_opt.bench.process import describe_machine, find_commit
from metronome_opt.gate.windows import Claim, WindowTracker
from metronome_opt.problem.instance import Sharing

TABLE = Path(__file__).parent / "reported" / "ns3.csv"

_MBPS = 10_000
_PACKET = 4096  # payload, the largest of RoCE
_HEADERS = 30  # of IP, UDP and the link
_DELAY_US = 5  # of each of three links
_MARKED_BYTES, _MARKED_SHARE = (4 * _MBPS, 16 * _MBPS), 0.2
_MODES: tuple[Mode, ...] = ("free", "even")
_SHARING: tuple[Sharing, ...] = ("fair", "tcp")
_LEAD_MS = 50  # for handshakes
_NS = 1_000_000  # of a ms

_BURSTS: Mapping[str, tuple[int, list[tuple[int, int]]]] = {
    "together": (102, [(100, 45), (100, 45)]),
    "three": (102, [(100, 30), (100, 30), (100, 30)]),
    "unlike": (104, [(97, 42), (103, 42)]),
}
"""Periods of windows, and periods and bursts of jobs, in ms: a quarter of those of queues.yaml."""

_CODE = r"""
#include <vector>
namespace bench {
using namespace ns3;

std::vector<int> ended;  // flows whose bursts have arrived

struct Flow {
  int index;
  uint64_t left = 0, missing = 0;  // bytes to send, and to arrive
  Ptr<Socket> out, in;
  virtual ~Flow() {}
  virtual void Go() = 0;
  void Begin(double ns, uint64_t size) {
    Simulator::Schedule(NanoSeconds(uint64_t(ns)) - Simulator::Now(), &Flow::Start, this, size);
  }
  void Start(uint64_t size) { left = missing = size; Go(); }
  void Arrive(uint64_t size) {
    missing -= std::min(size, missing);
    if (!missing) { ended.push_back(index); Simulator::Stop(); }
  }
};

struct Dcqcn : Flow {
  double line, rate, target, alpha = 1;  // bytes a second
  uint64_t counted = 0, packet;
  int times = 0, counts = 0;
  bool warned = false, busy = false;
  Time notified = Seconds(-1);
  Dcqcn(int number, Ptr<Node> from, Ptr<Node> to, Ipv4Address address, Ipv4Address back,
        double bytes_a_second, uint64_t payload) {
    index = number; line = rate = target = bytes_a_second; packet = payload;
    in = Socket::CreateSocket(to, UdpSocketFactory::GetTypeId());
    in->Bind(InetSocketAddress(Ipv4Address::GetAny(), 9)); in->SetIpRecvTos(true);
    in->Connect(InetSocketAddress(back, 9));
    in->SetRecvCallback(MakeCallback(&Dcqcn::Read, this));
    out = Socket::CreateSocket(from, UdpSocketFactory::GetTypeId());
    out->Bind(InetSocketAddress(Ipv4Address::GetAny(), 9)); out->SetIpTos(2);
    out->Connect(InetSocketAddress(address, 9));
    out->SetRecvCallback(MakeCallback(&Dcqcn::Reduce, this));
    Fade(); Tick();
  }
  void Read(Ptr<Socket>) {
    while (Ptr<Packet> got = in->Recv()) {
      SocketIpTosTag tag;
      if (got->RemovePacketTag(tag) && (tag.GetTos() & 3) == 3 &&
          Simulator::Now() - notified >= MicroSeconds(50)) {
        notified = Simulator::Now();
        in->Send(Create<Packet>(10));
      }
      Arrive(got->GetSize());
    }
  }
  void Reduce(Ptr<Socket>) {
    while (out->Recv()) {
      target = rate; rate *= 1 - alpha / 2; alpha = alpha * 255 / 256 + 1.0 / 256;
      rate = std::max(rate, line / 1000);
      times = counts = 0; counted = 0; warned = true;
    }
  }
  void Fade() {
    if (!warned) alpha = alpha * 255 / 256;
    warned = false;
    Simulator::Schedule(MicroSeconds(55), &Dcqcn::Fade, this);
  }
  void Tick() {
    times++; Increase();
    Simulator::Schedule(MicroSeconds(55), &Dcqcn::Tick, this);
  }
  void Increase() {
    if (std::min(times, counts) > 5) target += line / 10;
    else if (std::max(times, counts) > 5) target += line / 20;
    target = std::min(target, line);
    rate = (rate + target) / 2;
  }
  void Go() override { if (!busy) Send(); }
  void Send() {
    busy = left > 0;
    if (!busy) return;
    uint64_t size = std::min(left, packet);
    out->Send(Create<Packet>(size));
    left -= size; counted += size;
    if (counted >= 10000000) { counted = 0; counts++; Increase(); }
    Simulator::Schedule(Seconds(size / rate), &Dcqcn::Send, this);
  }
};
}
"""


def _case(name: str, seconds: int) -> Case:
    slots, bursts = _BURSTS[name]
    return Case.model_validate(
        {
            "name": name,
            "split": "test",
            "network": "bottleneck",
            "seconds": seconds,
            "jitter": 0.02,
            "random_begins": name != "together",
            "slots_ms": slots,
            "uplink_mbps": _MBPS,
            "jobs": [{"period": period, "bursts": [[0, length]]} for period, length in bursts],
        }
    )


def _link(ns: Any, flows: int, wire_bps: float) -> tuple[Any, Any]:
    """Build senders and receivers on either side of a link; return their ends, and its queue."""
    rate, helper = ns.StringValue(f"{wire_bps:.0f}bps"), ns.PointToPointHelper()
    helper.SetDeviceAttribute("DataRate", rate)
    helper.SetDeviceAttribute("Mtu", ns.UintegerValue(9000))
    helper.SetChannelAttribute("Delay", ns.StringValue(f"{_DELAY_US}us"))
    nodes = ns.NodeContainer()
    nodes.Create(2 * flows + 2)
    ns.InternetStackHelper().Install(nodes)
    left, right = nodes.Get(2 * flows), nodes.Get(2 * flows + 1)
    addresses, control = ns.Ipv4AddressHelper(), ns.TrafficControlHelper()

    def join(one: Any, other: Any, number: int, queue: int) -> tuple[Any, Any]:
        helper.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize", ns.StringValue(f"{queue}p"))
        devices = helper.Install(one, other)
        addresses.SetBase(ns.Ipv4Address(f"10.0.{number}.0"), ns.Ipv4Mask("255.255.255.0"))
        given = addresses.Assign(devices)
        control.Uninstall(devices)  # the default queue on top of that of the device
        return devices, given

    middle, _ = join(left, right, 0, 2)
    made = []
    for index in range(flows):
        sender, receiver = nodes.Get(index), nodes.Get(flows + index)
        _, back = join(sender, left, 2 * index + 1, 100_000)
        _, to = join(receiver, right, 2 * index + 2, 100_000)
        made.append((index, sender, receiver, to.GetAddress(0), back.GetAddress(0)))
    ns.Ipv4GlobalRoutingHelper.PopulateRoutingTables()
    low, high = _MARKED_BYTES
    for name, value in {
        "MaxSize": ns.StringValue("1000000000B"),
        "MinTh": ns.DoubleValue(low),
        "MaxTh": ns.DoubleValue(high),
        "LInterm": ns.DoubleValue(1 / _MARKED_SHARE),
        "QW": ns.DoubleValue(1.0),
        "UseEcn": ns.BooleanValue(True),
        "UseHardDrop": ns.BooleanValue(False),
        "MeanPktSize": ns.UintegerValue(_PACKET),
        "LinkBandwidth": rate,
    }.items():
        ns.Config.SetDefault(f"ns3::RedQueueDisc::{name}", value)
    control.SetRootQueueDisc("ns3::RedQueueDisc")
    return made, control.Install(middle).Get(0)


def _run(ns: Any, case: Case, mode: Mode, repeat: int) -> Times:
    """Return the iteration times of each job in ms, without the first one."""
    ns.RngSeedManager.SetRun(repeat + 1)
    byte_rate = case.rate_mbps * 1e6 / 8
    ends, queue = _link(ns, len(case.jobs), 8 * byte_rate * (1 + _HEADERS / _PACKET))
    made = ns.cppyy.gbl.bench
    flows = [made.Dcqcn(*end, byte_rate, _PACKET) for end in ends]
    planned, begins = plan(case, mode), begins_at(case, repeat)
    trackers: list[WindowTracker | None] = [None] * len(flows)
    if planned is not None:
        trackers = [
            WindowTracker(
                Claim(
                    offset_ns=(_LEAD_MS + planned.offsets[name]) * _NS,
                    period_ns=planned.periods[name] * _NS,
                    cushion_ns=CUSHION_MS * _NS,
                )
            )
            for name in case.job_names
        ]
    draws = [factors(case.seed(name, repeat), case.jitter or 0.0) for name in case.job_names]
    starts = [(_LEAD_MS + begins[name]) * _NS for name in case.job_names]
    times: list[list[float]] = [[] for _ in flows]

    def begin(index: int, ready_ns: int) -> None:
        tracker, (_, length) = trackers[index], case.jobs[index].bursts[0]
        at = ready_ns if tracker is None else tracker.take(ready_ns)[0]
        flows[index].Begin(at, round(length / 1000 * byte_rate))

    for index, start in enumerate(starts):
        begin(index, start)
    now = 0
    while now < (_LEAD_MS + 1000 * case.seconds) * _NS:
        ns.Simulator.Run()
        now = ns.Simulator.Now().GetNanoSeconds()
        for index in list(made.ended):
            job = case.jobs[index]
            ready = now + round((job.period - job.bursts[0][1]) * next(draws[index]) * _NS)
            times[index].append((ready - starts[index]) / _NS)
            starts[index] = ready
            begin(index, ready)
        made.ended.clear()
    if lost := queue.GetStats().nTotalDroppedPackets:
        raise RuntimeError(f"{case.name}, {mode}: the link lost {lost} packets")
    ns.Simulator.Destroy()
    ns.Ipv4AddressGenerator.Reset()
    return {name: np.array(kept[1:]) for name, kept in zip(case.job_names, times, strict=True)}


def _engine(case: Case, mode: Mode, sharing: Sharing, seed: int) -> Times:
    planned = plan(case, mode)
    offsets, periods = (planned.offsets, planned.periods) if planned else (None, None)
    played = play_case(case, mode, offsets, sharing, seed, periods=periods)
    return {name: job.times_ms[1:] for name, job in played.items()}


def _row(case: Case, network: str, free: Sequence[Times], even: Sequence[Times]) -> dict[str, Any]:
    """Return means of iterations over periods, over jobs and runs, with those of single runs."""
    single = [mean_iteration(case, [times]) for times in free]
    apart = [comes_apart(case, times) for times in free]
    return {
        "case": case.name,
        "network": network,
        "runs": len(free),
        "free": fmean(single),
        "free, least": min(single),
        "free, most": max(single),
        "free, last third": mean_iteration(case, free, begin=2 / 3),
        "apart": sum(each is not None for each in apart),
        "slots": mean_iteration(case, even),
        "period of slots": fmean((case.slots_ms or 0) / job.period for job in case.jobs),
    }


def main(
    output: Annotated[Path, typer.Option(metavar="FILE", help="A table, CSV.")] = TABLE,
    seconds: Annotated[int, typer.Option(min=3, help="Length of a run.")] = 6,
    repeats: Annotated[int, typer.Option(min=1, help="Runs of each kind.")] = 1,
) -> None:
    """Compare jobs over packets with jobs in the engine, and write a table."""
    from ns import ns

    ns.cppyy.cppdef(_CODE)
    rows = []
    for case in [_case(name, seconds) for name in _BURSTS]:
        runs = ([_run(ns, case, mode, repeat) for repeat in range(repeats)] for mode in _MODES)
        rows.append(_row(case, "dcqcn", *runs))
        for sharing in _SHARING:
            runs = (
                [_engine(case, mode, sharing, seed) for seed in range(SEEDS)] for mode in _MODES
            )
            rows.append(_row(case, sharing, *runs))
    table = pd.DataFrame(rows)
    typer.echo(table.round(3).to_string(index=False))
    command = f"python -m benchmarks.ns3 --seconds {seconds} --repeats {repeats}"
    made_by = (
        f"# made by: {command} at commit {find_commit()}, {machine_in_words(describe_machine())}, "
        f"ns-3 {version('ns3')}\n"
    )
    output.write_text(made_by + table.to_csv(index=False, float_format="%.4f"))


if __name__ == "__main__":
    run_program(main)
