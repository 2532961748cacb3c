"""Collectives at placements: how much of them crosses the network, and how long they take there."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metronome_opt.scenario import Scenario, build_scenario
from metronome_opt.scenario.cluster import Cluster
from metronome_opt.scenario.collectives import Algorithm, Collective, TrainingStep, Transfer
from metronome_opt.scenario.flows import Placement, compute_placement
from metronome_opt.scenario.job_traffic import read_traffic
from metronome_opt.scenario.nodes import LINK_SPEEDS, link_speed
from metronome_opt.scenario.placed_instance import PlacedInstance
from tests.builders import fault_of
from tests.fabrics import scene, tree
from tests.scenario.examples import one_each
from tests.tiers import examples

MBIT = 16_000  # of a buffer: 2 GB


def transfer(kind: Collective, **fields: Any) -> Transfer:
    stated = {"kind": kind, "mbit": MBIT, "ready_ms": 100, "needed_ms": 100}
    return Transfer.model_validate({**stated, **fields})


def cluster(nodes: int, gpus: int, *, racks: int = 1, **fields: Any) -> Cluster:
    """Return nodes ``n0``, ``n1`` and so on in racks with a share of them each, and their links."""
    rack_of = {f"n{node}": f"r{node * racks // nodes}" for node in range(nodes)}
    gpu = {"name": "some", "link_gbps": fields.pop("link_gbps", 10_000)}
    lifted = rack_of.values() if "uplink" in fields else ()
    above = dict.fromkeys(rack_of.values())
    document = tree(rack_of, above, lifted, **{"nic": 100_000, **fields}, gpus=gpus, gpu=gpu)
    return Cluster.model_validate(document)


def full(made: Cluster, algorithm: Algorithm, *, each: int = 1) -> Placement:
    """Return the placement of a job on all GPUs."""
    nodes = [node.name for node in made.nodes for _ in range(node.has.gpus // each)]
    rails = made.next_rails(nodes, each, Counter())
    return compute_placement(made, nodes, algorithm, task_gpus=each, rails=rails)


def out_of_node(placement: Placement, kind: Collective) -> Fraction:
    """Return what crosses the interfaces of the first node, in Mbit."""
    flows = sum(count for link, count in placement.links.items() if link.startswith("n0"))
    return flows * placement.transport.burst(transfer(kind)).volume


def duration(placement: Placement, kind: Collective) -> Fraction:
    return placement.transport.burst(transfer(kind)).duration


def placed(made: Cluster, counts: Sequence[int], algorithm: Algorithm) -> Placement:
    """Return the placement of a job with so many tasks of one GPU on each node."""
    nodes = [
        node.name for node, tasks in zip(made.nodes, counts, strict=True) for _ in range(tasks)
    ]
    return compute_placement(made, nodes, algorithm, rails=made.next_rails(nodes, 1, Counter()))


# ------------------------------------------------------------------ volumes


@pytest.mark.parametrize(
    ("nodes", "gpus", "ring", "tree", "pairs"),
    [
        (2, 1, 16_000, 16_000, 8_000),
        (4, 1, 24_000, 24_000, 12_000),
        (2, 8, 30_000, 16_000, 8 * 8 * 1000),
        (4, 8, 31_000, 24_000, 8 * 24 * 500),
    ],
)
@pytest.mark.parametrize("rails", [1, 4])
def test_volumes_out_of_a_node(
    nodes: int, gpus: int, ring: int, tree: int, pairs: int, rails: int
) -> None:
    """A ring of n sends 2 (n - 1) / n of the buffer out of each node, or half of that.

    N nodes in a double binary tree send 2 (N - 1) / N each; nothing else goes in trees. A GPU sends
    1 / n of the buffer to each of those on other nodes. Tasks with flows of their own send as if
    all their partners were there.
    """
    half, size = Fraction(ring, 2), MBIT * gpus
    expected: dict[tuple[Algorithm, Collective], Fraction | int] = {
        ("ring", "all-reduce"): ring,
        ("ring", "all-gather"): half,
        ("ring", "reduce-scatter"): half,
        ("tree", "all-reduce"): tree,
        ("tree", "all-gather"): half,
        ("all-to-all", "all-to-all"): pairs,
        ("all-to-all", "all-reduce"): ring,
        ("tasks", "all-reduce"): gpus * ring,
        ("tasks", "all-to-all"): gpus * half,
        ("tasks", "point-to-point"): size,
    }
    made = cluster(nodes, gpus, rails=rails)
    for (algorithm, kind), mbit in expected.items():
        assert out_of_node(full(made, algorithm), kind) == mbit
        if algorithm != "tasks":  # it does not matter how many GPUs a task has
            assert out_of_node(full(made, algorithm, each=gpus), kind) == mbit


@pytest.mark.parametrize("algorithm", ["ring", "tree", "tasks", "all-to-all"])
def test_volumes_on_one_node_cross_gpu_links(algorithm: Algorithm) -> None:
    placement = full(cluster(1, 8, link_gbps=160), algorithm)
    assert not placement.links
    halves: list[Collective] = ["all-gather", "reduce-scatter", "all-to-all"]
    volumes: dict[Collective, int] = {"all-reduce": 28_000, "point-to-point": 16_000}
    for kind, mbit in {**volumes, **dict.fromkeys(halves, 14_000)}.items():
        burst = placement.transport.burst(transfer(kind))
        assert [burst.volume, burst.rate] == [mbit, 160_000]


def test_a_group_sends_what_its_members_do() -> None:
    # Four of eight: 2 * 3 / 4.
    burst = one_each(8, 1000).burst(transfer("all-reduce", group=4))
    assert [burst.volume, burst.duration] == [24_000, 24_000]


# ------------------------------------------------------------------ speeds


@pytest.mark.parametrize(
    ("given_", "algorithm", "kind", "ms"),
    [
        # 30,000 Mbit leave a node of eight: through one interface, through eight, through an
        # uplink.
        ({}, "ring", "all-reduce", 300),
        ({"rails": 8}, "ring", "all-reduce", Fraction("37.5")),
        ({"racks": 2, "uplink": 50_000}, "ring", "all-reduce", 600),
        # Inside, each GPU sends as much to the next one; a PCIe box gains nothing by four rails.
        ({"link_gbps": 160}, "ring", "all-reduce", 300),
        ({"link_gbps": 160, "rails": 4}, "ring", "all-reduce", Fraction("187.5")),
        ({"link_gbps": 160, "rails": 4}, "ring", "all-gather", Fraction("93.75")),
        ({"link_gbps": 160, "rails": 4}, "tree", "all-reduce", Fraction("187.5")),
        ({"link_gbps": 1000, "rails": 4}, "ring", "all-reduce", 75),
        ({"link_gbps": 1000, "rails": 4}, "tree", "all-reduce", 40),
        # 64,000 Mbit leave it; to the 7 others of its node a GPU sends 7,000.
        ({}, "all-to-all", "all-to-all", 640),
        ({"rails": 8}, "all-to-all", "all-to-all", 80),
        ({"rails": 8, "link_gbps": 70}, "all-to-all", "all-to-all", 100),
        ({"racks": 2, "uplink": 50_000}, "all-to-all", "all-to-all", 1280),
        # Eight tasks share an interface.
        ({}, "tasks", "point-to-point", 1280),
        ({"link_gbps": 10}, "tasks", "point-to-point", 1280),
    ],
)
def test_two_nodes_of_eight_are_as_fast_as_what_limits_them(
    given_: dict[str, Any], algorithm: Algorithm, kind: Collective, ms: Fraction
) -> None:
    made = cluster(2, 8, **given_)
    assert duration(full(made, algorithm), kind) == ms
    if algorithm != "tasks":
        assert duration(full(made, algorithm, each=8), kind) == ms


def test_computing_waits_for_what_it_needs() -> None:
    """100 ms, a collective of 20 ms beside the next 10, another 30 ms, and one of 40 ms."""
    beside = transfer("point-to-point", mbit=20, needed_ms=110)
    last = transfer("point-to-point", mbit=40, ready_ms=140, needed_ms=140)
    step = TrainingStep(compute_ms=Fraction(145), transfers=(beside, last))
    exact = step.at(one_each(2, 1000))
    assert [burst.after for burst in exact.bursts] == [100, 30]
    assert [burst.duration for burst in exact.bursts] == [20, 40]
    assert [exact.duration, exact.rest] == [195, 5]
    # In half the time it is hidden.
    assert step.at(one_each(2, 2000)).duration == 145 + 20


# ------------------------------------------------------------------ kinds of GPUs


@pytest.mark.parametrize(
    ("name", "gbps"),
    [
        ("NVIDIA-H100-80GB-HBM3", 3831.2),
        ("nvidia h100", 3831.2),
        ("H100-PCIE", 160),
        ("NVIDIA A100-PCIE-40GB", 160),
        ("NVIDIA-A100-SXM4-80GB", 1852.8),
        ("Tesla V100-SXM2-32GB", 960),
        ("H200", 3840),
        ("AMD Instinct MI300X", 2552),
        ("H1000", None),
        ("L40S", None),
    ],
)
def test_links_by_name_of_the_gpu(name: str, gbps: float | None) -> None:
    assert link_speed(name) == gbps


def problem(gpu: dict[str, Any] | None, *jobs: dict[str, Any], gpus: int = 8) -> PlacedInstance:
    return build_scenario(described(gpu, *jobs, gpus=gpus))


def described(gpu: dict[str, Any] | None, *jobs: dict[str, Any], gpus: int = 8) -> Scenario:
    """Return jobs on 32 nodes of eight GPUs at 100 Gbit/s in eight racks, 2:1."""
    shape = {"topology": "leaf-spine", "nodes": 32, "gpus": gpus, "nic_gbps": 100, "gpu": gpu}
    named = ({"name": f"job-{index}", **job} for index, job in enumerate(jobs))
    return scene({**shape, "racks": 8, "oversubscription": "2:1"}, *named, slot_ms=5)


def gpu(name: str = "A100", **fields: Any) -> dict[str, Any]:
    return {"name": name, "sustained_tflops": 23, **fields}


def bert(nodes: dict[str, int]) -> dict[str, Any]:
    return {"model": "BERT", "batch": 8, "workers": sum(nodes.values()), "nodes": nodes}


BURST = {"start_ms": 50, "length_ms": 50, "rate_gbps": 1}
STATED = {"traffic": {"period_ms": 100, "phases": [BURST]}, "workers": 2}
TWO = {"node-00": 1, "node-01": 1}


def test_gpu_links_that_are_assumed_are_noted_once() -> None:
    jobs = [bert({"node-00": 4}), bert({"node-01": 4}), bert({"node-02": 4, "node-03": 4})]
    (note,) = problem(gpu("L40S"), *jobs).notes
    assert note == (
        "cluster.gpu.link_gbps: not known of 'L40S'; 160 Gbit/s inside a node are assumed"
    )
    assert f"{LINK_SPEEDS['PCIE']:g}" in note
    for known in (gpu(), gpu("L40S", link_gbps=256)):
        assert problem(known, *jobs).notes == []
    assert problem(gpu("L40S"), bert(TWO), gpus=1).notes == []  # no node has two
    assert problem(None, {**STATED, "nodes": TWO}).notes == []  # whatever is inside
    step = {"compute_ms": 1, "transfers": [sending(kind="all-reduce")]}
    (note,) = problem(None, {"traffic": step, "workers": 2, "nodes": TWO}).notes
    assert note.startswith("cluster.gpu.link_gbps: not known of GPUs that are not named; 160 Gbit")


@pytest.mark.parametrize(
    ("link", "message"),
    [
        (0, ""),
        (-1, ""),
        (25_000, ": 25000.0: no machine sends 25 Tbit/s; look at the unit"),
        (0.0001, ": 0.0001: must be a whole number of Mbit/s"),
    ],
)
def test_bad_gpu_links(link: float, message: str) -> None:
    fault = fault_of(lambda: described(gpu(link_gbps=link), bert(TWO)))
    assert fault.startswith(f"cluster.gpu.link_gbps{message}")


# ------------------------------------------------------------------ what is stated


def sending(**fields: Any) -> dict[str, Any]:
    return {"kind": "all-reduce", "mbit": 100, "ready_ms": 1, "needed_ms": 1, **fields}


def stepping(**fields: Any) -> dict[str, Any]:
    return {"traffic": {"compute_ms": 1, "transfers": [sending(**fields)]}, "workers": 2}


SHOWN = {**BURST, "collective": "all-reduce", "bytes": 1000}


def showing(**fields: Any) -> dict[str, Any]:
    return {"traffic": {"period_ms": 100, "phases": [{**SHOWN, **fields}]}, "workers": 2}


ALONE = {"workers": 1, "nodes": ["node-00"]}


@pytest.mark.parametrize(
    ("job", "message"),
    [
        ({**stepping(), **ALONE}, "traffic.transfers[0].kind: all-reduce over one worker: sends n"),
        ({**stepping(group=3), "nodes": TWO}, "traffic.transfers[0].group: 3: is larger than the"),
        ({**showing(), **ALONE}, "traffic.phases[0].collective: all-reduce over one worker: sends"),
        ({**showing(group=3), "nodes": TWO}, "traffic.phases[0].group: 3: is larger than the job,"),
        (showing(group=1), "traffic.phases[0].group: must be at least 2, got 1"),
        (showing(bytes=None), "traffic.phases[0].bytes: give collective and bytes toget"),
        (showing(bytes=0), "traffic.phases[0].bytes: must be at least 1, got 0"),
        (stepping(mbit=0), "traffic.transfers[0].mbit: must be"),
        (stepping(kind="stated"), "traffic.transfers[0].max_mbps: missing"),
        (stepping(is_idle=True), "traffic.transfers: all are idle"),
        (stepping(needed_ms=0), "traffic.transfers[0].needed_ms: 0: is before ready_ms, 1"),
        (stepping(ready_ms=2, needed_ms=2), "traffic.transfers[0].needed_ms: 2: is after the end"),
        ({**bert(TWO), "model": "DLRM", "allreduce": "tree"}, "allreduce: 'tree': what 'DLRM' sen"),
        ({**bert(TWO), "allreduce": "star"}, "allreduce: "),
    ],
)
def test_bad_collectives(job: dict[str, Any], message: str) -> None:
    assert fault_of(lambda: problem(gpu(), job)).startswith(f"jobs[0].{message}")


@pytest.mark.parametrize(
    ("job", "algorithm"),
    [
        (bert(TWO), "ring"),
        ({**bert(TWO), "allreduce": "tree"}, "tree"),
        ({**bert(TWO), "model": "DLRM"}, "all-to-all"),
        ({**bert(TWO), "model": "DLRM", "allreduce": "tasks"}, "tasks"),
        ({**STATED, "nodes": TWO}, "tasks"),
        ({**STATED, "nodes": TWO, "allreduce": "ring"}, "ring"),
        ({**showing(), "nodes": TWO}, "ring"),
        ({**stepping(kind="point-to-point"), "nodes": TWO}, "tasks"),
        ({**stepping(kind="all-to-all"), "nodes": TWO}, "all-to-all"),
    ],
)
def test_algorithms_that_are_usual(job: dict[str, Any], algorithm: Algorithm) -> None:
    (traffic,) = read_traffic(described(gpu(), job))
    assert traffic.algorithm == algorithm


def test_a_collective_that_is_stated_depends_on_the_place() -> None:
    """500 MB are 4000 Mbit, of which each of two sends as much: 40 ms at 100 Gbit/s, 4 inside."""
    shown = showing(bytes=500_000_000)
    lengths = [
        float(problem(gpu(link_gbps=1000), {**shown, "nodes": nodes}).iterations[0].duration)
        for nodes in (TWO, {"node-00": 2})
    ]
    assert lengths == [50 + 40, 50 + 4]
    # By rate alone it is as long everywhere.
    for nodes in (TWO, {"node-00": 2}):
        assert problem(gpu(), {**STATED, "nodes": nodes}).iterations[0].duration == 100


# ------------------------------------------------------------------ the best placement


def shares(tasks: int, room: list[int]) -> Iterator[list[int]]:
    """Yield all ways to put tasks on nodes."""
    if not room:
        if not tasks:
            yield []
        return
    for here in range(min(tasks, room[0]) + 1):
        yield from ([here, *rest] for rest in shares(tasks - here, room[1:]))


@examples(60)
@given(
    st.sampled_from([(2, 4, 1), (4, 2, 2), (4, 3, 2), (4, 4, 1)]),
    st.integers(2, 8),
    st.sampled_from([1, 2]),
    st.sampled_from(["ring", "tree", "tasks", "all-to-all"]),
    st.sampled_from([20_000, 50_000, 100_000, 400_000]),
    st.sampled_from([10, 100, 1000]),
)
def test_no_place_is_better_than_the_best_one(
    shape: tuple[int, int, int],
    tasks: int,
    rails: int,
    algorithm: Algorithm,
    uplink: int,
    link_gbps: int,
) -> None:
    """Where nodes are alike; all are tried. Unequal shares may suit an all-to-all better.

    Two racks of two nodes of four GPUs, and 8 tasks of which each sends 2,000 Mbit to each other
    one: 2 and 6 in a rack send 24,000 Mbit beyond it, 4 and 4 send 32,000.
    """
    nodes, gpus, racks = shape
    shares_of = {"racks": racks, "rails": rails, "uplink": uplink, "link_gbps": link_gbps}
    made = cluster(nodes, gpus, **shares_of)
    kind: Collective = "all-to-all" if algorithm == "all-to-all" else "all-reduce"
    step = {"compute_ms": 100, "transfers": [sending(kind=kind, mbit=MBIT)]}
    usual = {} if algorithm in ("ring", "all-to-all") else {"allreduce": algorithm}
    workers = min(tasks, nodes * gpus)
    job = {"name": "a", "traffic": step, "workers": workers, **usual}
    (traffic,) = read_traffic(scene(made.model_dump(mode="json"), job))
    assert traffic.algorithm == algorithm
    assert traffic.best is not None
    best = traffic.isolated(traffic.best).duration
    for counts in shares(workers, [gpus] * nodes):
        place = placed(made, counts, algorithm).transport
        least = Fraction(4, 5) * best if algorithm == "all-to-all" else best
        assert traffic.isolated(place).duration >= least
        assert traffic.best_ms(place, 10, None) <= traffic.isolated_ms(place, 10, None)


@examples(100)
@given(
    st.sampled_from([(1, 8), (2, 1), (2, 8), (4, 4)]),
    st.sampled_from(["ring", "tree", "tasks", "all-to-all"]),
    st.sampled_from(["all-reduce", "all-gather", "all-to-all", "point-to-point"]),
    st.lists(st.integers(1, 10_000), min_size=2, max_size=2),
    st.lists(st.integers(1000, 1_000_000), min_size=2, max_size=2),
)
def test_faster_links_never_make_an_iteration_longer(
    shape: tuple[int, int],
    algorithm: Algorithm,
    kind: Collective,
    links: list[int],
    nics: list[int],
) -> None:
    step = TrainingStep(
        compute_ms=Fraction(200), transfers=(transfer(kind), transfer("all-reduce"))
    )

    def length(link: int, nic: int) -> Fraction:
        made = cluster(*shape, link_gbps=link, nic=nic)
        return step.at(full(made, algorithm).transport).duration

    slow, fast = sorted(links)
    narrow, wide = sorted(nics)
    assert length(slow, narrow) >= length(fast, narrow) >= length(fast, wide) >= 200


@examples(100)
@given(
    st.lists(st.integers(0, 5), min_size=2, max_size=8),
    st.sampled_from([1, 2, 4]),
    st.sampled_from([1, 2, 4]),
)
def test_links_of_an_all_to_all_carry_what_tasks_send_beyond_them(
    counts: list[int], racks: int, rails: int
) -> None:
    """Where flows are whole numbers of pairs, just that; elsewhere less than a flow more a task."""
    racks = min(racks, len(counts))
    made = cluster(len(counts), 8, rails=rails, racks=racks, uplink=100_000)
    placement = placed(made, counts, "all-to-all")
    at, size, total = placement.nodes, Fraction(MBIT), sum(counts)
    if len(set(at)) < 2:
        assert not placement.links
        return
    volume = placement.transport.burst(transfer("all-to-all")).volume
    sent: dict[str, Fraction] = defaultdict(Fraction)
    tasks: Counter[str] = Counter()
    for name, its in zip(at, made.next_rails(at, 1, Counter()), strict=True):
        rack = made.nodes_by_name[name].rack
        beyond = sum(made.nodes_by_name[other].rack != rack for other in at)
        shares = dict.fromkeys(its, Fraction(total - at.count(name), len(its)))
        for link, share in {**shares, f"{rack}-up": Fraction(beyond)}.items():
            sent[link] += share * size / total
            tasks[link] += 1
    for link, exact in sent.items():
        carried = placement.links.get(link, 0) * volume
        assert exact <= carried < exact + tasks[link] * volume or exact == carried
    ring = placed(made, counts, "ring")
    around = ring.transport.burst(transfer("all-reduce")).volume
    beside = placement.transport.burst(transfer("all-reduce")).volume
    for link, flows in ring.links.items():  # all-reduces beside it are not less than they are
        assert placement.links[link] * beside >= flows * around
