"""Bad input: one line that names the fix, exit code 2."""

import os
import re
from pathlib import Path

import pytest

from lab import record, show

ROOT = Path(__file__).resolve().parent.parent
ADHOC = ["sweep", "--op", "geglu", "--m", "8", "--n", "64"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["sweep", "linear_swep"], "no experiment 'linear_swep'; there are .*linear_sweep"),
        (["sweep", "geglu_sweep", "--only", "tritan"], "no contender 'tritan'.*triton"),
        (["sweep", "geglu_sweep", "--tile", "128y64"], "'128y64' is not understood"),
        (["sweep", "geglu_sweep", "--with", "none.py"], "none.py: no such file"),
        ([*ADHOC, "--dtype", "fp8"], "dtype is one of bf16, fp16, fp32"),
        ([*ADHOC, "--activation", "relu"], "activation is one of tanh, erf, silu"),
        ([*ADHOC, "--k", "8"], "geglu has neither k nor layout"),
        (["sweep", "--op", "geglu", "--m", "0", "--n", "8"], "--m.*1"),
        (["sweep", "--op", "geglu", "--m", "-4", "--n", "8"], "--m.*1"),
        (["sweep", "--op", "geglu", "--m", "few", "--n", "8"], "--m.*valid int"),
        (["sweep", "--op", "geglu", "--m", "8"], "geglu also needs --n"),
        (["sweep", "--m", "8"], "linear also needs --n and --k"),
        (["sweep", "--op", "conv", "--m", "8", "--n", "8"], "no op 'conv'"),
        (["sweep", "geglu_sweep", "--m", "12345"], "no problem of geglu_sweep has these sizes"),
        (["sweep", "--resume", "--out", "/nowhere"], "no such file; is /nowhere a run's folder"),
        (["sweep", "--frobnicate"], "No such option.*--frobnicate"),
        (["show", "/nowhere"], "/nowhere: no run's folder"),
        (["swep"], "No such command"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input(lab, words, says):
    done = lab(*words)
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert re.search(says, done.stderr)
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x = 1", "has no CONTENDER = Contender"),
        ("CONTENDER = 1", "CONTENDER is a int, not a Contender"),
        ("def broken(:", "SyntaxError"),
        ("import nothing_of_the_kind", "ModuleNotFoundError"),
        ("import torch\ntorch.nonsense", "AttributeError"),
        (
            "from lab.contender import Contender\nCONTENDER = Contender('a', 'conv', None)",
            "op 'conv' is none of",
        ),
        (
            "from lab.contender import Contender\nCONTENDER = Contender('triton', 'geglu', None)",
            "two contenders of geglu are named 'triton'",
        ),
        (
            "from lab.contender import Contender\n"
            "CONTENDER = Contender('a', 'geglu', None, baseline=True)",
            "needs one baseline",
        ),
    ],
)
def test_malformed_contenders(lab, tmp_path, text, says):
    path = tmp_path / "mine.py"
    path.write_text(text)
    done = lab(*ADHOC, "--with", path, "--out", tmp_path / "run")
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert re.search(says, done.stderr)
    assert not (tmp_path / "run").exists()


def test_a_folder_that_cannot_be_made(lab, tmp_path):
    (tmp_path / "file").write_text("")
    done = lab(*ADHOC, "--out", tmp_path / "file" / "run")
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert "Not a directory" in done.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_no_permission(lab, tmp_path):
    tmp_path.chmod(0o555)
    done = lab(*ADHOC, "--out", tmp_path / "run")
    assert done.returncode == 2 and "Permission denied" in done.stderr


def test_a_problem_too_large_for_memory_is_rows_not_an_end(lab, tmp_path):
    done = lab(
        *("sweep", "--op", "geglu", "--m", 2**21, "--n", 2**21, "--out", tmp_path / "run"),
    )
    assert done.returncode == 0, done.stderr
    assert "oom" in done.stdout and "GiB" in done.stdout


def test_list(lab):
    done = lab("list")
    assert done.returncode == 0
    for word in ("linear_seed", "geglu_sweep", "cublas", "baseline", "inductor_max", "slow"):
        assert word in done.stdout


def test_show(lab, tmp_path):
    run = tmp_path / "run"
    assert lab(*ADHOC, "--only", "triton", "--out", run).returncode == 0
    assert "eager" in lab("show", run).stdout
    table = lab("show", run, "--columns", "contender,status,us", "--contender", "triton").stdout
    assert re.search(r"triton\s+(verified|ok)", table) and "eager" not in table
    for words, says in (
        (["--columns", "contender,microseconds"], "no column 'microseconds'; there are run_id"),
        (["--experiment", "linear"], "has no experiment 'linear'; it has geglu"),
        (["--contender", "cutlass"], "has no contender 'cutlass'; it has"),
        (["--into", tmp_path / "none.md"], "No such file"),
    ):
        done = lab("show", run, *words)
        assert done.returncode == 2 and says in done.stderr, done.stderr


def test_single_tiles_of_a_tunable_contender(lab, tmp_path):
    run = tmp_path / "run"
    tiles = ["--tile", "n512-w4", "--tile", "n2048", "--tile", "128x256x64"]
    assert lab(*ADHOC, "--only", "triton", *tiles, "--out", run).returncode == 0
    rows = {row.contender: row for row in record.read(run / "geglu.csv")}
    names = [f"triton@{t}" for t in ("n512-w4", "n2048", "128x256x64")]
    assert list(rows) == ["eager", "eager.aa", *names]
    assert rows["triton@n512-w4"].status in ("ok", "verified")
    assert rows["triton@n512-w4"].tile == "n512-w4"
    assert rows["triton@n2048"].tile.startswith("n2048-w")  # what was left out is filled in
    assert rows["triton@128x256x64"].status == "unsupported"
    assert "has no block_m" in rows["triton@128x256x64"].reason


def test_the_markers():
    text = f"before\n{show.START}\nold\n{show.END}\nafter"
    assert show.put_between_markers(text, "new") == text.replace("old", "new")
    with pytest.raises(ValueError, match="to put the table between"):
        show.put_between_markers("no markers", "new")
