import dataclasses
import gzip
import os
import subprocess
import sys

import pytest

from lab import files, record
from lab.problem import Problem
from lab.record import HEADER, BadRun, Kernel, Row, Sample, Table
from lab.tile import Tile

DESIGN = (  # the contract: the columns, in order
    "run_id experiment op m n k layout dtype activation seed contender source "
    "status reason err err_baseline "
    "us us_lo us_hi us_p10 us_p90 samples clock warm_us eager_us "
    "tflops gbps pct_roofline speedup speedup_lo speedup_hi best "
    "tile tile_from block_m block_n block_k stages warps cluster schedule scheduler raster "
    "swizzle split_k swap epilogue "
    "kernel kernels memops regs spill_bytes smem_bytes waves "
    "sm_mhz power_w throttled prepare_s device torch triton cutlass commit"
)
PROBLEMS = [Problem("linear", 8, n, 64, "tn") for n in (8, 16, 24)]


def row(problem, contender="cublas", **fields):
    fields = {"run_id": "r", "experiment": "e", "source": "s", "status": "ok"} | fields
    return Row.of(problem, contender=contender, **fields)


def sample(us=1.5):
    return Sample("cublas", "cold", 0, 1, us)


@pytest.fixture
def table(tmp_path):
    return Table(tmp_path, "e")


def lines(table):
    with gzip.open(table.samples, "rt") as file:
        return file.read().splitlines()


def test_the_header_is_the_contract():
    assert " ".join(HEADER) == DESIGN
    assert [f.name for f in dataclasses.fields(Row)] == list(HEADER)


def test_every_column_is_explained():
    text = (record.RESULTS / "README.md").read_text()
    missing = [name for name in HEADER if f"`{name}`" not in text]
    assert not missing


def test_round_trip(table):
    full = row(PROBLEMS[0], reason='a "quoted", \n two-line reason', us=1.5, best=True, sm_mhz=1980)
    tile = Tile(128, 256, 64, swap=True, cluster="2x1")
    full.set_tile(tile, "declared")
    table.write(PROBLEMS[0], [full, row(PROBLEMS[0], "triton", best=False)], [sample()])
    back, other = table.rows()
    assert back == dataclasses.replace(full, reason='a "quoted", two-line reason')
    assert (back.problem, Tile.parse(back.tile), back.block_m) == (PROBLEMS[0], tile, 128)
    assert (other.best, other.us, other.tile) == (False, None, None)


def test_writing_again_replaces_and_never_doubles(table):
    for problem in PROBLEMS:
        table.write(problem, [row(problem, us=1.0)], [sample(1.0)])
    table.write(PROBLEMS[1], [row(PROBLEMS[1], us=2.0)], [sample(2.0)])
    assert sorted((r.n, r.us) for r in table.rows()) == [(8, 1.0), (16, 2.0), (24, 1.0)]
    assert len(lines(table)) == 1 + 3
    assert sum(line.endswith(",2") for line in lines(table)) == 1


@pytest.mark.parametrize("cut", [1, 20, 100])
def test_a_csv_cut_in_half(table, cut):
    for problem in PROBLEMS:
        table.write(problem, [row(problem)], [sample()])
    whole = table.csv.read_bytes()
    table.csv.write_bytes(whole[: len(whole) - cut])
    assert [r.n for r in table.rows()][:1] == [8]
    table.repair()
    left = table.rows()
    assert 1 <= len(left) < 3
    assert len(lines(table)) == 1 + len(left)  # samples without rows go
    table.write(PROBLEMS[2], [row(PROBLEMS[2])], [sample()])
    assert table.rows()[-1].n == 24


def test_samples_cut_in_half(table):
    for problem in PROBLEMS:
        table.write(problem, [row(problem)], [sample()])
    data = table.samples.read_bytes()
    table.samples.write_bytes(data[:-10])
    table.repair()
    assert len(lines(table)) >= 3
    table.write(PROBLEMS[2], [row(PROBLEMS[2])], [sample(9.0)])
    assert lines(table)[-1].endswith(",9")


def test_an_empty_file_is_no_rows(table):
    table.csv.write_text("")
    table.repair()
    assert table.rows() == []
    table.write(PROBLEMS[0], [row(PROBLEMS[0])], [])
    assert len(table.rows()) == 1


def test_foreign_files_are_refused(table, tmp_path):
    table.csv.write_text("a,b\n1,2\n")
    with pytest.raises(BadRun, match="columns are not this version's"):
        table.rows()
    table.csv.write_text(",".join(HEADER) + "\n" + "x," * (len(HEADER) - 1) + "x\n")
    with pytest.raises(BadRun, match="can't be read"):
        table.rows()
    with pytest.raises(BadRun, match="no such file"):
        record.read(tmp_path / "none.csv")
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(BadRun, match="not JSON"):
        record.read_json(tmp_path / "run.json")
    with pytest.raises(BadRun, match=r"is .* a run's folder"):
        record.read_json(tmp_path / "nothing" / "run.json")


FULL_DISK = """
import sys
from pathlib import Path
import resource
from lab.record import Row, Table
from lab.problem import Problem
table = Table(Path(sys.argv[1]), "e")
def write(n, reason):
    p = Problem("linear", 8, n, 64, "tn")
    row = Row.of(p, run_id="r", experiment="e", contender="c", source="s", status="ok")
    row.reason = reason
    table.write(p, [row], [])
write(8, "short")
import signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
try:
    write(16, "long " * 2000)
except OSError as error:
    print("refused", error.errno)
"""


def test_a_full_disk_loses_nothing(table, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path)], capture_output=True, text=True
    )
    assert done.stdout.startswith("refused"), done.stderr
    assert [r.n for r in table.rows()] == [8]
    assert table.csv.read_bytes().endswith(b"\n")


def test_kernels_are_kept_where_there_are_several(table):
    def kernels(us):
        return [Kernel("eager", i, f"kernel<{i}, x>", us, None) for i in range(2)]

    table.write(PROBLEMS[0], [row(PROBLEMS[0])])
    assert not table.kernels.exists()
    table.write(PROBLEMS[1], [row(PROBLEMS[1])], [sample()], kernels(2.0))
    table.write(PROBLEMS[1], [row(PROBLEMS[1])], [sample()], kernels(3.0))
    header, *lines_ = files.read(table.kernels)
    assert header[-5:] == ["contender", "position", "name", "us", "tile"]
    assert [line[-5:] for line in lines_] == [
        ["eager", str(i), f"kernel<{i}, x>", "3", ""] for i in range(2)
    ]
    assert record.experiments(table.csv.parent) == ["e"]
    table.csv.unlink()
    table.repair()
    assert len(files.read(table.kernels)) == 1


def test_a_second_sweep_is_kept_out(tmp_path):
    busy = pytest.raises(BadRun, match="another command")
    with record.lock(tmp_path), busy, record.lock(tmp_path):
        pass
    with record.lock(tmp_path):
        pass


def test_latest_names_only_the_users_own_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(record, "RUNS", tmp_path / "runs")
    with pytest.raises(BadRun, match="no run yet"):
        record.latest()
    for name in ("one", "two"):
        (tmp_path / "runs" / name).mkdir(parents=True)
        record.point_latest(tmp_path / "runs" / name)
        assert record.latest().name == name
    (tmp_path / "elsewhere").mkdir()
    record.point_latest(tmp_path / "elsewhere")
    assert record.latest().name == "two"
    assert sorted(os.listdir(tmp_path / "runs")) == ["latest", "one", "two"]
