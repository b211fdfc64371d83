"""Contenders that misbehave, and sweeps that are killed: every row is there, once."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lab import record
from lab.record import Table

ROOT = Path(__file__).resolve().parent.parent

CONTENDER = """
import ctypes, os, sys, time
import torch
from lab.contender import Contender, Launch, Unsupported
from lab.problem import Problem

def right(inputs):
    return torch.nn.functional.gelu(inputs["gate"], approximate="tanh") * inputs["up"]

def prepare(problem, inputs, tile=None):
    {prepare}
    def bind(inputs):
        {bind}
        def launch():
            {launch}
        return launch
    return Launch(bind)

CONTENDER = Contender({name!r}, "geglu", prepare)
"""

RECOMPILES = """calls = []
        def formula(inputs, late):
            return right(inputs) * (1.0 if late else 1)
        traced = torch.compile(formula, backend="eager", dynamic=False)"""

MISBEHAVING = {  # name -> (where, code, status, what the reason says)
    "raises": ("prepare", "raise KeyError('lost')", "error", "KeyError: 'lost'"),
    "exits": ("launch", "sys.exit(3)", "error", "SystemExit"),
    "ends": ("launch", "os._exit(7)", "crashed", "exited with code 7"),
    "segfaults": ("launch", "ctypes.string_at(0)", "crashed", "killed by SIGSEGV"),
    "hangs": ("launch", "time.sleep(600)", "timeout", "more than"),
    "zeros": ("launch", "return torch.zeros_like(right(inputs))", "wrong", "of the norm"),
    "nans": ("launch", "return right(inputs) * float('nan')", "wrong", "NaN"),
    "forgets": ("bind", "kept = right(inputs)", "wrong", "NaN"),
    "overwrites": ("launch", "inputs['up'].add_(1.0)", "wrong", "it writes to its inputs"),
    "declines": ("prepare", "raise Unsupported('not on Tuesdays')", "unsupported", "Tuesdays"),
    "hoards": ("prepare", "raise torch.OutOfMemoryError('too much')", "oom", "too much"),
    "recompiles": ("bind", RECOMPILES, "error", "compiled again"),
    "behaves": ("prepare", "pass", "ok", ""),
}


def contender(folder: Path, name: str, **code) -> Path:
    places = {"prepare": "pass", "bind": "pass", "launch": "pass"} | code
    if name == "forgets":
        places["launch"] = "return kept"
    elif name == "recompiles":
        places["launch"] = "calls.append(1); return traced(inputs, len(calls) > 60)"
    elif "return" not in places["launch"]:
        places["launch"] += "\n            return right(inputs)"
    path = folder / f"{name}.py"
    path.write_text(CONTENDER.format(name=name, **places))
    return path


def start(*words):
    return subprocess.Popen(
        [sys.executable, "-m", "lab", "sweep", *map(str, words)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def geglu(*rows):
    return ["--op", "geglu", "--n", 64, *[w for m in rows for w in ("--m", m)]]


def wait_for(condition, seconds=90):
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)
    return value


def rows(run):
    return Table(run, "geglu").rows()


def identities(run):
    return [(r.m, r.contender) for r in rows(run)]


def worker_of(process) -> int:
    """The spawned process that races; multiprocessing's resource tracker is the other child."""

    def find():
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        return [
            int(c) for c in children if b"spawn_main" in Path(f"/proc/{c}/cmdline").read_bytes()
        ]

    return wait_for(find)[-1]


def _command(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except FileNotFoundError:
        return False


@pytest.fixture(scope="module")
def misbehaved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("contenders")
    files = [
        word
        for name, (where, code, _, _) in MISBEHAVING.items()
        for word in ("--with", contender(folder, name, **{where: code}))
    ]
    run = folder / "run"
    process = start(*geglu(8), "--only", "eager", *files, "--out", run, "--timeout", 25)
    out, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    return {row.contender: row for row in rows(run)}, out


@pytest.mark.parametrize("name", MISBEHAVING)
def test_a_contender_that(misbehaved, name):
    row = misbehaved[0][name]
    _, _, status, says = MISBEHAVING[name]
    assert row.status == status, row.reason
    assert says in (row.reason or "")
    assert (row.us is not None) == (status == "ok")
    assert not (row.best and status != "ok")


def test_a_nan_output_has_no_error_but_nan(misbehaved):
    err = misbehaved[0]["nans"].err
    assert err != err


def test_the_others_ran_all_the_same(misbehaved):
    by_name, summary = misbehaved
    assert by_name["eager"].status == by_name["eager.aa"].status == "ok"
    assert by_name["behaves"].speedup is not None
    for name, (_, _, status, _) in MISBEHAVING.items():
        assert status == "ok" or name in summary  # each with its reason


def test_a_killed_parent_resumes_where_it_was(tmp_path, lab):
    run = tmp_path / "run"
    process = start(*geglu(8, 16, 24, 32), "--only", "eager", "--out", run)
    wait_for(lambda: len({r.m for r in rows(run)}) >= 2)
    worker = worker_of(process)
    process.kill()
    process.wait()
    wait_for(lambda: not alive(worker), 10)
    before = {(r.m, r.contender): r.us for r in rows(run)}
    assert len({m for m, _ in before}) < 4
    done = lab("sweep", "--resume", "--out", run)
    assert done.returncode == 0, done.stderr
    assert sorted(identities(run)) == sorted(
        (m, c) for m in (8, 16, 24, 32) for c in ("eager", "eager.aa")
    )
    after = {(r.m, r.contender): r.us for r in rows(run)}
    assert before.items() <= after.items()  # what was finished was not timed again
    commands = record.read_json(run / "run.json")["commands"]
    assert len(commands) == 2 and "--resume" in commands[1]["command"]


def test_a_killed_worker_costs_one_row(tmp_path):
    run = tmp_path / "run"
    process = start(
        *geglu(8, 16), "--only", "eager", "--with", contender(tmp_path, "mine"), "--out", run
    )
    wait_for(lambda: rows(run))
    os.kill(worker_of(process), signal.SIGKILL)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert sorted(identities(run)) == sorted(
        (m, c) for m in (8, 16) for c in ("eager", "eager.aa", "mine")
    )
    crashed = [r for r in rows(run) if r.status == "crashed"]
    assert len(crashed) <= 1  # none, if it was killed between contenders
    assert all("SIGKILL" in r.reason for r in crashed)


def test_ctrl_c_leaves_a_valid_csv_and_says_how_to_go_on(tmp_path, lab):
    run = tmp_path / "run"
    process = start(*geglu(8, 16, 24), "--only", "eager", "--out", run)
    wait_for(lambda: rows(run))
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert f"lab sweep --resume --out {run}" in err
    assert "Traceback" not in err
    count = len(rows(run))
    assert 0 < count < 6
    assert lab("sweep", "--resume", "--out", run).returncode == 0
    assert len(rows(run)) == len(set(identities(run))) == 6


def test_a_changed_contender_is_raced_again_with_all_its_rivals(tmp_path, lab):
    run, mine = tmp_path / "run", contender(tmp_path, "mine")
    words = ["sweep", *geglu(8, 16), "--only", "eager", "--with", mine, "--out", run]
    assert lab(*words).returncode == 0
    first = {(r.m, r.contender): (r.source, r.us) for r in rows(run)}
    again = lab(*words)
    assert again.returncode == 2 and "--resume" in again.stderr
    assert lab(*words, "--resume").returncode == 0
    assert {(r.m, r.contender): (r.source, r.us) for r in rows(run)} == first
    mine.write_text(mine.read_text() + "\n# changed\n")
    assert lab(*words, "--resume").returncode == 0
    second = {(r.m, r.contender): (r.source, r.us) for r in rows(run)}
    assert second.keys() == first.keys()
    assert all(second[key][0] != first[key][0] for key in first if key[1] == "mine")
    assert all(second[key][1] != first[key][1] for key in first)  # ratios are paired in rounds


def test_a_second_sweep_in_the_same_folder_is_refused(tmp_path, lab):
    run = tmp_path / "run"
    process = start(*geglu(*range(8, 16)), "--only", "eager", "--out", run)
    wait_for(lambda: (run / "run.json").exists())
    second = lab("sweep", "--resume", "--out", run)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert second.returncode == 2
    assert "another command is writing here" in second.stderr
    assert len(second.stderr.splitlines()) == 1
