"""One problem's race, in this process: what a contender's failure does to the others' rows."""

import pytest
import torch

from lab import arena, device
from lab.arena import Environment, Task
from lab.contender import Entry
from lab.problem import Problem
from tests.test_isolation import contender

PROBLEM = Problem("geglu", 8, 64, activation="tanh")
FACTS = {"device": "here", "torch": "t", "triton": "t", "cutlass": "c"}


def race(folder, baseline, **others):
    """Rows by name; every argument is the code of a contender's launch."""
    entries = []
    for name, code in {"base": baseline, "base.aa": baseline, **others}.items():
        path = contender(folder, name.replace(".", "_"), **code)
        entries.append(Entry(name, path, "source", baseline=name == "base"))
    task = Task("e", PROBLEM, tuple(entries), Environment("r", "c", FACTS, device.current()))
    said = []
    outcome = arena.run_problem(task, lambda *words: said.append(words))
    assert [row.contender for row in outcome.rows] == [e.name for e in entries]
    return {row.contender: row for row in outcome.rows}, outcome, said


RIGHT = {"launch": "return right(inputs)"}
ZEROS = {"launch": "return torch.zeros_like(right(inputs))"}


def test_all_is_well(tmp_path):
    rows, outcome, said = race(tmp_path, RIGHT, mine=RIGHT)
    assert {row.status for row in rows.values()} == {"ok"}
    assert rows["base"].speedup == 1.0 and rows["mine"].speedup_lo <= rows["mine"].speedup_hi
    assert {s.contender for s in outcome.samples} == set(rows)
    assert rows["mine"].samples == sum(
        s.contender == "mine" and s.clock == "cold" for s in outcome.samples
    )
    assert ("mine", "prepare") in said and ("mine", "time") in said


def test_a_wrong_baseline_loosens_nothing(tmp_path):
    rows, _, _ = race(tmp_path, ZEROS, mine=RIGHT, zeros=ZEROS)
    assert rows["base"].status == rows["zeros"].status == "wrong"
    assert rows["mine"].status == "ok" and rows["mine"].us
    assert rows["mine"].speedup is None and rows["mine"].best


def test_nobody_is_left(tmp_path):
    rows, outcome, _ = race(tmp_path, ZEROS, zeros=ZEROS)
    assert {row.status for row in rows.values()} == {"wrong"} and not outcome.samples


def test_a_result_that_spoils_while_it_is_timed_is_not_timed(tmp_path):
    spoils = {
        "bind": "calls = []",
        "launch": "calls.append(1); return right(inputs) * (1 if len(calls) < 20 else 2)",
    }
    rows, _, _ = race(tmp_path, RIGHT, spoils=spoils)
    assert rows["spoils"].status == "wrong" and rows["spoils"].us is None
    assert not rows["spoils"].best and rows["base"].best


def test_a_fault_while_timing_ends_one_and_the_others_race_again(tmp_path):
    breaks = {
        "bind": "calls = []",
        "launch": "calls.append(1); assert len(calls) < 20, 'worn out'; return right(inputs)",
    }
    rows, _, _ = race(tmp_path, RIGHT, breaks=breaks, mine=RIGHT)
    assert rows["breaks"].status == "error" and "worn out" in rows["breaks"].reason
    assert rows["mine"].status == "ok" and rows["mine"].samples >= 30


def test_what_does_not_fit_starts_nobody(tmp_path, monkeypatch):
    monkeypatch.setattr(arena, "_free_bytes", lambda gpu: 1000)
    rows, _, said = race(tmp_path, RIGHT, mine=RIGHT)
    assert {row.status for row in rows.values()} == {"oom"}
    assert "GiB" in rows["mine"].reason and not said


def test_compiled_only_keeps_its_tile_and_resources(tmp_path):
    path = contender(tmp_path, "built", prepare="pass")
    text = path.read_text().replace(
        "return Launch(bind)",
        "return Launch(None, Tile(128, 64, 32), 'declared', Resources(90, 0, 4096, 128))",
    )
    path.write_text(
        text.replace(
            "from lab.contender import",
            "from lab.tile import Tile\nfrom lab.contender import Resources,",
        )
    )
    task = Task(
        "e", PROBLEM, (Entry("built", path, "s"),), Environment("r", None, FACTS, device.current())
    )
    (row,) = arena.run_problem(task, lambda *_: None).rows
    assert (row.status, row.tile, row.regs, row.smem_bytes) == ("compiled", "128x64x32", 90, 4096)
    assert row.commit is None


@pytest.mark.gpu
def test_the_gpus_memory_is_given_back(tmp_path):
    race(tmp_path, RIGHT, mine=RIGHT)
    assert torch.cuda.memory_allocated() == 0


@pytest.mark.gpu
def test_a_tiny_problem_is_flushed_and_its_twin_agrees(tmp_path):
    rows, _, _ = race(tmp_path, RIGHT, mine=RIGHT)
    assert {row.clock for row in rows.values()} == {"flush"}
    assert abs(rows["base.aa"].speedup - 1) < 0.03
