"""Programs on disk equal those that the scheduler returns, and names differ wherever Programs may."""

from __future__ import annotations

import random

import pytest

from weft.devices import get_device
from weft.devices.cpu.device import CPUDevice
from weft.devices.cpu.native import code_key
from weft.dtypes.formats import FLOAT32
from weft.graph.node import Graph, Node
from weft.graph.primitives import TABLE, bind, constant, input_leaf
from weft.runtime import program_files
from weft.schedule.build import build


def draw_graph(seed: int) -> Graph:
    """Return a random graph with products, reductions and a loop. Equal seeds give equal graphs."""
    rng = random.Random(seed)
    rows = rng.randint(2, 9)
    leaf = input_leaf((rows, 4), FLOAT32)
    nodes: list[Node] = [leaf]
    for _ in range(rng.randint(30, 60)):
        a, b = rng.choice(nodes), rng.choice(nodes)
        nodes.append(bind(TABLE[rng.choice(("add", "multiply", "maximum"))], a, b))
        nodes.append(bind(TABLE["multiply"], nodes[-1], constant(rng.choice((0.5, -0.0, 1e-3)), leaf.dtype)))
    total = bind(TABLE["reduce_sum"], nodes[-1], axes=(1,), keepdims=False)
    return Graph([leaf], [total, nodes[-2]])


def test_programs_survive_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program_files, "MIN_NODES", 1)
    cpu = get_device("cpu")
    for _ in range(5):
        seed = random.randrange(1 << 40)
        print(f"seed {seed}")
        graph, again, other = [draw_graph(seed + k) for k in (0, 0, 1)]
        names = [program_files.name_of(g, g.key(), cpu) for g in (graph, again, other)]
        assert names[0] is not None and names[0] == names[1] != names[2]
        program = build(graph)
        program_files.write(cpu, names[0], program)
        assert repr(program_files.read(cpu, names[0])) == repr(program)
        assert program_files.read(cpu, names[2]) is None


def test_small_graphs_and_formats_of_users_are_not_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu, x = get_device("cpu"), input_leaf((3,), FLOAT32)
    graph = Graph([x], [bind(TABLE["negative"], x)])
    assert program_files.name_of(graph, graph.key(), cpu) is None
    monkeypatch.setattr(program_files, "MIN_NODES", 1)
    assert program_files.name_of(graph, graph.key(), cpu) is not None
    assert program_files.name_of(graph, (graph.key(), object()), cpu) is None


def test_sources_are_part_of_the_name_and_edited_ones_store_nothing(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    from weft.devices.cache import Cache

    device = CPUDevice(Cache(tmp_path / "c"), threads=1)
    device.write_program("0" * 64, b"one")
    assert device.read_program("0" * 64) == b"one" and device.read_program("1" * 64) is None
    monkeypatch.setattr(code_key, "source_hash", lambda places: "others")
    assert device.read_program("0" * 64) is None
    monkeypatch.setattr(code_key, "_START_TIME", 0.0)
    code_key._unchanged_since.cache_clear()
    device.write_program("1" * 64, b"two")
    assert device.read_program("1" * 64) is None
