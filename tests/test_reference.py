"""The committed run: complete, explained, and made by the lab's own command."""

from pathlib import Path

import pytest

from lab import experiment, record, runner
from lab.record import STATUSES
from lab.runner import Choice

RUN = Path(__file__).resolve().parent.parent / "results" / "reference" / "nvidia-h200"
NAMES = record.experiments(RUN)
TILED = ("cublas", "cutlass", "cutlass_sm80", "triton", "liger")


def rows(name):
    return record.read(RUN / f"{name}.csv")


def test_the_experiments_are_there():
    assert {"linear_seed", "linear_sweep", "geglu_sweep"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_whatever_was_planned_has_one_row(name):
    steps = runner.plan([experiment.load(name)], Choice(), gpu=True)
    planned = [(step.problem, entry.name) for step in steps for entry in step.entries]
    assert sorted(map(str, planned)) == sorted(str((r.problem, r.contender)) for r in rows(name))


@pytest.mark.parametrize("name", NAMES)
def test_nothing_failed_and_everything_is_explained(name):
    for row in rows(name):
        assert row.status in STATUSES
        assert row.status in ("ok", "unsupported"), (row.problem, row.contender, row.reason)
        assert row.status == "ok" or row.reason


@pytest.mark.parametrize("name", NAMES)
def test_unsupported_is_right(name):
    for row in rows(name):
        if row.status == "unsupported" and row.op == "linear":
            assert row.contender.startswith("cutlass") and (row.k % 8 or row.n % 8)
        if row.status == "unsupported" and row.op == "geglu":
            assert row.contender == "liger" and row.activation == "erf"


@pytest.mark.parametrize("name", NAMES)
def test_every_timed_row_says_what_ran_and_with_which_tile(name):
    for row in rows(name):
        if row.status != "ok":
            continue
        what = (str(row.problem), row.contender)
        assert row.kernel and row.kernels, what
        pointwise = row.contender == "inductor" and row.op == "geglu"
        if (row.contender.split(".")[0] in TILED and row.op in ("linear", "geglu")) or pointwise:
            assert row.tile and row.tile_from, what


@pytest.mark.parametrize("name", NAMES)
def test_the_rows_come_from_one_run_of_one_commit(name):
    noted = record.read_json(RUN / "run.json")
    assert any("sweep" in command["command"] for command in noted["commands"])
    assert {row.run_id for row in rows(name)} == {RUN.name}
    commits = {row.commit for row in rows(name)}
    assert len(commits) == 1 and not any("dirty" in c for c in commits)
    assert {row.device for row in rows(name)} == {"NVIDIA H200"}
