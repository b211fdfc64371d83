"""The stream of changing shapes, what it counts, and when compiling pays."""

import csv

import pytest

from lab.churn import Row, ShapeRow, Stream, calls_to_pay, contenders


def test_the_stream_is_seeded_distinct_and_long_enough():
    stream = Stream()
    for op in ("geglu", "mlp"):
        requests = stream.requests(op, gpu=True)
        assert requests == Stream().requests(op, gpu=True)
        assert requests != Stream(seed=1).requests(op, gpu=True)
        shapes = set(requests)
        assert len(shapes) >= 40 and len(requests) == len(shapes) * stream.repeats
        widths = [p.n for p in requests]
        assert len(set(widths[: stream.tokens * stream.repeats])) == 1  # tokens first
        assert len(set(widths)) > stream.hidden // 2


@pytest.mark.parametrize(
    ("first", "later", "eager", "calls"),
    [
        (1000.0, 10.0, 20.0, 99),  # 990 to win back at 10 a call
        (15.0, 10.0, 20.0, 1),  # cheaper at once
        (1000.0, 20.0, 20.0, None),  # never
        (1000.0, 30.0, 20.0, None),
        (1000.0, 10.0, None, None),  # nothing to compare with
    ],
)
def test_when_compiling_pays(first, later, eager, calls):
    assert calls_to_pay(first, later, eager) == calls
    if calls and calls > 1:
        assert first + (calls - 1) * later <= calls * eager
        assert first + (calls - 2) * later > (calls - 1) * eager


@pytest.fixture(scope="module")
def churned(tmp_path_factory):
    import subprocess
    import sys

    folder = tmp_path_factory.mktemp("churn")
    words = ["churn", "geglu", "--tokens", "10", "--hidden", "0", "--out", str(folder)]
    words += ["--only", "inductor_static", "--only", "inductor_dynamic"]
    done = subprocess.run(
        [sys.executable, "-m", "lab", *words], capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, done.stderr
    with open(folder / "churn.csv") as file:
        rows = {row["contender"]: row for row in csv.DictReader(file)}
    with open(folder / "churn.shapes.csv") as file:
        return rows, list(csv.DictReader(file)), done.stdout


def test_static_compiles_each_shape_and_gives_up_at_the_limit(churned):
    rows, shapes, _ = churned
    static = rows["inductor_static"]
    assert list(static) == [f for f in Row.__dataclass_fields__]
    assert list(shapes[0]) == [f for f in ShapeRow.__dataclass_fields__]
    assert (static["graphs"], static["recompiles"]) == ("8", "7")  # Dynamo's limit is 8
    assert int(static["gave_up_at"]) > 8  # the ninth shape, silently eager from there
    assert int(rows["inductor_dynamic"]["graphs"]) < 8
    assert not rows["inductor_dynamic"]["gave_up_at"]
    assert {row["status"] for row in rows.values()} == {"ok"}


def test_every_shape_has_its_break_even(churned):
    _, shapes, text = churned
    assert len([s for s in shapes if s["contender"] == "inductor_static"]) == 10
    for shape in shapes:
        if shape["contender"] == "eager":
            assert not shape["calls_to_pay"]
    assert "inductor_static" in text and "gave up at call" in text


def test_bad_input(lab, tmp_path):
    for words, says in (
        (["conv"], "conv"),
        (["geglu", "--only", "nobody"], "no contender 'nobody'"),
        (["geglu", "--tokens", "0"], "--tokens"),
        (["geglu", "--dtype", "int8"], "no dtype 'int8'"),
    ):
        done = lab("churn", *words, "--out", tmp_path / "run")
        assert done.returncode == 2 and says in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1
    assert contenders("mlp")[0] == "eager"


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_our_kernel_compiles_in_its_first_call_alone(lab, tmp_path, dtype):
    words = ["geglu", "--dtype", dtype, "--only", "triton", "--only", "liger"]
    done = lab("churn", *words, "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    with open(tmp_path / "churn.csv") as file:
        rows = {row["contender"]: row for row in csv.DictReader(file)}
    assert {row["status"] for row in rows.values()} == {"ok"}, rows
    assert int(rows["triton"]["kernels"]) > 0 and rows["triton"]["kernels_later"] == "0"
    assert int(rows["liger"]["kernels_later"]) >= 16  # one for every new width
    assert float(rows["triton"]["total_us"]) < float(rows["liger"]["total_us"])
