"""Slurm's topologies and tables of switches say which switches are above each node."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from metronome_opt.kubernetes.reading.fabrics import expand, read_fabric
from tests.cli.typed import Captured, error_of


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def uplink_paths(tmp_path: Path, name: str, text: str) -> dict[str, str]:
    """Return the switches above each node, from its own one up, with blanks between."""
    path = tmp_path / name
    path.write_text(dedent(text))
    found = read_fabric(path)
    assert found is not None
    return {node: " ".join(uplink_path) for node, uplink_path in found.uplink_paths.items()}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n1", "n1"),
        ("n[1-3],m", "n1 n2 n3 m"),
        ("n[08-10,1]", "n08 n09 n10 n1"),
        ("r[1-2]n[3-4]x", "r1n3x r1n4x r2n3x r2n4x"),
        ("[11-12]", "11 12"),
    ],
)
def test_short_forms_of_names(text: str, names: str) -> None:
    assert expand(text, "x") == names.split()


SLURM = {
    "topology.conf": """
        # Two leaves.
        SwitchName=s0 Nodes=n[01-02] # and more
        switchname=s1 nodes=n03,\\
        n04
        SwitchName=top Switches=s[0-1] LinkSpeed=100
        """,
    "topology.txt": """
        BlockSizes=2,4
        BlockName=b0 Nodes=n1
        """,
    "scontrol": """
        SwitchName=s0 Level=0 LinkSpeed=1 Nodes=n[1-2]
        SwitchName=s1 Level=0 LinkSpeed=1 Nodes=n3
        SwitchName=top Level=1 LinkSpeed=1 Nodes=n[1-3] Switches=s[0-1]
        """,
    "blocks": """
        BlockName=b1 BlockIndex=0 Nodes=n[1-2] BlockSize=2
        BlockName=b2 BlockIndex=1 Nodes=n3 BlockSize=2
        AggregatedBlock=b[1-2] BlockIndex=2 Nodes=n[1-3] BlockSize=4
        """,
}


def test_topologies_of_slurm(tmp_path: Path) -> None:
    found = {name: uplink_paths(tmp_path, name, text) for name, text in SLURM.items()}
    assert found == {
        "topology.conf": {"n01": "s0 top", "n02": "s0 top", "n03": "s1 top", "n04": "s1 top"},
        "topology.txt": {"n1": "b0"},
        "scontrol": {"n1": "s0 top", "n2": "s0 top", "n3": "s1 top"},
        "blocks": {"n1": "b1", "n2": "b1", "n3": "b2"},
    }


def test_tables_of_switches(tmp_path: Path) -> None:
    table = "ip,DSW,PSW,ASW\nx,G,P1,S1\ny,G,P2,S1\nz,G,P2,\n"
    assert uplink_paths(tmp_path, "t.csv", table) == {"x": "S1 P1 G", "y": "S1 P2 G", "z": "P2 G"}


def test_trees_of_slurm_without_a_common_root_are_not_connected(tmp_path: Path) -> None:
    trees = "SwitchName=a Nodes=n[1-2]\nSwitchName=b Nodes=n3\n"
    texts = {
        "two.conf": trees,
        "one.conf": f"{trees}SwitchName=top Switches=a,b",
        "blocks.conf": trees.replace("Switch", "Block"),
        "table.csv": "ip,ASW\nn1,a\nn2,a\nn3,b\n",
    }
    has_core = {}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
        found = read_fabric(tmp_path / name)
        assert found is not None
        has_core[name] = found.has_core
    assert has_core == {"two.conf": False, "one.conf": True, "blocks.conf": True, "table.csv": True}


@pytest.mark.usefixtures("here")
def test_the_topology_yaml_of_slurm_is_refused(capsys: Captured) -> None:
    tree = "tree: {switches: [{switch: s, nodes: n1}]}"
    Path("t.yaml").write_text(f"- topology: small\n  cluster_default: true\n  {tree}\n")
    said = error_of(capsys, "import t.yaml --nic-gbps 1 -o o.yaml")
    remedy = "give topology.conf, or what scontrol show topology prints"
    assert said.rstrip().endswith(f"Slurm's topology.yaml is not read; {remedy}")


BAD = [
    ("a.conf", "SwitchName=a Nod", "line 1: must be SwitchName=NAME or BlockName=NAME with Nodes="),
    ("a.conf", "\n\nSwitchName=a Nodes=n[1-", "line 3: must be names such as n[1-4,7],m1, got 'n"),
    ("a.conf", "SwitchName=a Nodes=n[9-1]", "line 1: must be a range such as 08-12, got '9-1'"),
    ("a.conf", "SwitchName=a Nodes=n[1-999999999]", "line 1: more than 100000 names, got '1-9"),
    ("a.conf", "SwitchName=a Nodes=b\nSwitchName=a Nodes=c", "line 2: 'a' is also line 1"),
    ("a.conf", "SwitchName=a", "line 1: Nodes or Switches: missing, got 'SwitchName=a'"),
    ("a.conf", "SwitchName=a \\", "line 1: ends in a backslash, and no line follows"),
    ("a.conf", "SwitchName=a Nodes=n\nSwitchName=b Nodes=n", "line 2: node 'n' is below 'a' and"),
    ("a.conf", "SwitchName=a Switches=a Nodes=n", "switches above themselves: 'a', 'a'; take one"),
    ("a.conf", "# nothing", "no nodes: the fabric names none; is it cut off?"),
    ("a.csv", "ip,rack\na,b", "line 1: must name the columns ip and ASW, PSW or DSW, got 'ip,rack"),
    ("a.csv", "ip,ASW\na,b\nc", "line 3: must have 2 columns, got 1"),
    ("a.csv", "ip,ASW\na,b\na,c", "line 3: host 'a' is below others before; remove one line"),
    ("a.csv", 'ip,ASW\n"a,b', "line 2: not a table (unexpected end of data)"),
]


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(("name", "text", "line"), BAD)
def test_bad_fabrics(name: str, text: str, line: str, capsys: Captured) -> None:
    Path(name).write_text(text)
    said = error_of(capsys, f"import {name} --nic-gbps 1 -o o.yaml")
    assert f"{name}: {line}" in said


@pytest.mark.usefixtures("here")
def test_a_fabric_needs_an_interface_and_stands_alone(capsys: Captured) -> None:
    Path("a.conf").write_text("SwitchName=a Nodes=n")
    Path("b.yaml").write_text("kind: Node")
    assert "a.conf: --nic-gbps: missing" in error_of(capsys, "import a.conf -o o.yaml")
    both = error_of(capsys, "import a.conf b.yaml --nic-gbps 1 -o o.yaml")
    assert "a.conf: a fabric beside other files; read only the fabric" in both
