"""Traces: reading anyone's, the tree, gaps and verdict, printing, diffing, capturing.

The golden summaries are of public traces that are not in the tree: SHARED says where they are
looked for. `python -m tests.test_trace` writes the golden files anew.
"""

import gzip
import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from lab import cli_trace, profiling, trace_capture
from lab.experiment import Experiment
from lab.kernel_names import parse
from lab.problem import Problem
from lab.runner import BadChoice, Choice
from lab.trace import BadTrace, Trace, read
from lab.trace_diff import compare, diff
from lab.trace_show import METADATA, compile_role, label, runs, short, summary
from lab.trace_usage import union, usage

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared" / "data" / "traces"
GOLDEN = Path(__file__).parent / "golden"
GOLDEN_OF = {  # golden file -> the public trace it summarises
    "alexnet_a100": "HolisticTraceAnalysis__critical_path__alexnet__benchmark_result_2869224_"
    "1695835535_trace.json.gz",
    "rank0_sampled": "HolisticTraceAnalysis__data__timeline_analysis__sampled_rank-0.json.gz",
    "triton_a100": "HolisticTraceAnalysis__data__triton_example__triton_example.json.gz",
    "bert_h100": "TraceLens__traces__h100__gaunernst_bert-small-uncased__1016001.json.gz",
    "compiled_mi300x": "TraceLens__traces__torch_compile_triton__trace.json.gz",
    "linear_training_2080ti": "param__tests__inputs__linear_kineto.json.gz",
}
GOLDEN_ROWS = 30
CPU, GPU, STREAM = 100, 0, 7  # process, device, stream of the synthetic traces


class Made:
    """A synthetic trace. Times are µs."""

    def __init__(self):
        self.events: list[dict] = []

    def span(self, cat, name, ts, dur, pid=CPU, tid=CPU, **args):
        event = {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur}
        self.events.append(event | {"args": args})
        return self

    def op(self, name, ts, dur, **more):
        return self.span("cpu_op", name, ts, dur, **more)

    def note(self, name, ts, dur, **more):
        return self.span("user_annotation", name, ts, dur, **more)

    def call(self, ts, dur, correlation=None, name="cudaLaunchKernel", **more):
        args = {} if correlation is None else {"correlation": correlation}
        return self.span("cuda_runtime", name, ts, dur, **more, **args)

    def kernel(self, name, ts, dur, correlation=None, cat="kernel", device=GPU, **args):
        args |= {} if correlation is None else {"correlation": correlation}
        args = {"device": device, "stream": STREAM} | args
        return self.span(cat, name, ts, dur, pid=device, tid=args["stream"], **args)

    def launch(self, name, call_at, starts, us, correlation, **more):
        """A launch call of 4 µs and its kernel."""
        return self.call(call_at, 4, correlation).kernel(name, starts, us, correlation, **more)

    def document(self, **meta) -> dict:
        return {"schemaVersion": 1, "displayTimeUnit": "ms", **meta, "traceEvents": self.events}

    def save(self, path: Path, **meta) -> Path:
        path.write_text(json.dumps(self.document(**meta)))
        return path

    def read(self, tmp_path, **meta) -> Trace:
        return read(self.save(tmp_path / "made.json", **meta))


def linear(made: Made, at=1000.0, correlation=1) -> Made:
    """One eager F.linear: a metadata op, a memset, a GEMM."""
    made.op("aten::linear", at, 60).op("aten::t", at + 2, 10).op("aten::transpose", at + 4, 5)
    made.op("aten::addmm", at + 20, 38)
    made.call(at + 25, 4, correlation, name="cudaMemsetAsync")
    made.kernel("Memset (Device)", at + 30, 1, correlation, cat="gpu_memset", bytes=64)
    gemm = "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_bias_TNT"
    shape = {"grid": [132, 1, 1], "block": [384, 1, 1]}
    shape |= {"registers per thread": 168, "shared memory": 200000}
    return made.launch(gemm, at + 40, at + 46, 55, correlation + 1, **shape)


def names(nodes) -> list:
    return [(node.name, names(node.children)) for node in nodes]


# Golden summaries of public traces


@pytest.mark.parametrize("name", GOLDEN_OF)
def test_golden_summaries(name):
    path = SHARED / GOLDEN_OF[name]
    if not path.exists():
        pytest.skip(f"the public trace {path.name} is not on this machine")
    assert summary(read(path), GOLDEN_ROWS) == (GOLDEN / f"{name}.txt").read_text()


# Reading


def test_operators_nest_and_kernels_hang_under_their_launch_calls(tmp_path):
    trace = linear(Made()).read(tmp_path)
    (root,) = trace.roots
    assert names([root]) == [
        (
            "aten::linear",
            [
                ("aten::t", [("aten::transpose", [])]),
                ("aten::addmm", [("cudaMemsetAsync", []), ("cudaLaunchKernel", [])]),
            ],
        )
    ]
    memset, gemm = root.children[1].launched()
    assert (memset.kind, memset.bytes, memset.us) == ("memset", 64, 1)
    assert (gemm.kind, gemm.grid, gemm.block) == ("kernel", (132, 1, 1), (384, 1, 1))
    assert (gemm.regs, gemm.smem_bytes, gemm.stream) == (168, 200000, STREAM)
    assert gemm.start_us == 46  # from the trace's first event
    assert trace.kernels == [gemm] and trace.memops == [memset]
    assert not root.children[0].launched() and not trace.orphans and not trace.notes


def test_gzip_is_recognised_by_content_and_a_bare_list_is_a_trace(tmp_path):
    made = linear(Made())
    packed = tmp_path / "no_suffix"
    packed.write_bytes(gzip.compress(json.dumps(made.document()).encode()))
    bare = tmp_path / "bare.json"
    bare.write_text(json.dumps(made.events))
    assert names(read(packed).roots) == names(read(bare).roots) == names(made.read(tmp_path).roots)


def test_order_of_events_does_not_matter(tmp_path):
    made = linear(linear(Made()), at=2000.0, correlation=11)
    straight = summary(made.read(tmp_path))
    for seed in range(5):
        random.Random(seed).shuffle(made.events)
        assert summary(made.read(tmp_path)) == straight


def test_pairs_of_begin_and_end_are_spans(tmp_path):
    made, paired = linear(Made()), Made()
    for event in made.events:
        begin = {key: value for key, value in event.items() if key != "dur"}
        end = {key: event[key] for key in ("pid", "tid")}
        paired.events.append(begin | {"ph": "B"})
        paired.events.append(end | {"ph": "E", "ts": event["ts"] + event["dur"]})
    assert summary(paired.read(tmp_path)) == summary(made.read(tmp_path))
    paired.events.append({"ph": "E", "pid": 1, "tid": 1, "ts": 5000})
    paired.events.append({"ph": "B", "cat": "cpu_op", "name": "x", "pid": 1, "tid": 1, "ts": 6000})
    assert paired.read(tmp_path).notes == ["2 malformed events are left out"]


@pytest.mark.parametrize(
    ("origin", "meta", "copy", "why"),
    [
        (10**12, {}, True, "the copies' bandwidth says so"),
        (1_790_000_000 * 10**9, {}, False, "as microseconds they would lie in the far future"),
        (
            5 * 10**15,
            {"baseTimeNanoseconds": 1_790_000_000 * 10**9},
            False,
            "as microseconds they would lie in the far future",
        ),
        (10**6, {"displayTimeUnit": "ns"}, False, "displayTimeUnit is ns and all are whole"),
    ],
)
def test_nanosecond_integers_read_as_microseconds(tmp_path, origin, meta, copy, why):
    made = linear(Made())
    if copy:
        copied = {"bytes": 4000, "memory bandwidth (GB/s)": 1.0}
        made.kernel("Memcpy DtoH", 1200.0, 4, cat="gpu_memcpy", **copied)
    expected = made.read(tmp_path)
    for event in made.events:
        event["ts"] = origin + round(event["ts"] * 1000)
        event["dur"] = round(event["dur"] * 1000)
    trace = made.read(tmp_path, **meta)
    notes = [note for note in trace.notes if "launch call" not in note]
    assert notes == [f"times are read as nanoseconds: {why}"]
    times = [(e.name, round(e.start_us, 3), round(e.us, 3)) for e in expected.gpu]
    assert [(e.name, round(e.start_us, 3), round(e.us, 3)) for e in trace.gpu] == times


@pytest.mark.parametrize("meta", [{}, {"displayTimeUnit": "ns"}])
def test_microsecond_floats_stay_microseconds_whatever_the_viewer_shows(tmp_path, meta):
    made = Made().op("aten::mm", 5246385028431.701, 70.434)
    trace = made.read(tmp_path, baseTimeNanoseconds=1790857026000000000, **meta)
    assert trace.roots[0].us == 70.434 and not trace.notes


def test_flows_stand_in_for_missing_correlations(tmp_path):
    made = Made().op("aten::mm", 10, 30).call(15, 5).kernel("gemm", 25.5, 8)
    flow = {"cat": "ac2g", "name": "ac2g", "id": 77}
    made.events.append(flow | {"ph": "s", "pid": CPU, "tid": CPU, "ts": 15})
    made.events.append(flow | {"ph": "f", "pid": GPU, "tid": STREAM, "ts": 25.5, "bp": "e"})
    (root,) = made.read(tmp_path).roots
    assert [event.name for event in root.launched()] == ["gemm"]


def test_external_ids_stand_in_for_missing_calls_but_not_when_they_repeat_the_correlation(tmp_path):
    made = (
        Made().op("aten::mm", 10, 30, **{"External id": 5}).op("other", 50, 5, **{"External id": 9})
    )
    made.kernel("gemm", 25, 8, 400, **{"External id": 5}).kernel(
        "old", 60, 8, 9, **{"External id": 9}
    )
    trace = made.read(tmp_path)
    assert [event.name for event in trace.roots[0].launched()] == ["gemm"]
    assert [event.name for event in trace.orphans] == ["old"]
    assert trace.notes == ["1 GPU events have no launch call or operator in the trace"]
    assert "no verdict: the trace has no launch calls" in summary(trace)


def test_ranks_of_a_merged_trace_are_kept_apart_although_correlations_repeat(tmp_path):
    made = Made()
    for rank, shift in ((0, 0.0), (1, 7.0)):
        process, device = CPU + rank, rank
        for index in range(5):
            at = shift + 100.0 * index
            made.op("aten::mm", at, 20, pid=process, tid=process)
            made.call(at + 5, 4, index, pid=process, tid=process)
            # Both start after both calls: only the device as a whole tells whose they are.
            made.kernel(f"rank{rank}", at + (40 if rank == 0 else 20), 10, index, device=device)
    made.op("aten::add", 600, 20, pid=CPU, tid=CPU).call(605, 4, 50).kernel("rank0", 612, 5, 50)
    trace = made.read(tmp_path, distributedInfo={"rank": 0, "world_size": 2})
    assert trace.devices == [0, 1]
    for root in trace.roots:
        assert {event.name for event in root.launched()} == {f"rank{root.pid - CPU}"}
    text = summary(trace)
    assert "rank 0 of 2" in text and "GPU 0: busy" in text and "GPU 1: busy" in text


def test_malformed_events_are_left_out_and_counted(tmp_path):
    made = linear(Made())
    expected = summary(made.read(tmp_path)).split("\n", 1)[1]
    made.events += [
        None,
        7,
        {"ph": "X", "cat": "cpu_op", "name": "no time", "dur": 1},
        {"ph": "X", "cat": "kernel", "name": "nan", "ts": float("nan"), "dur": 1, "pid": 0},
        {"ph": "X", "cat": "cpu_op", "name": "word", "ts": "soon", "dur": 1, "pid": 0, "tid": 0},
    ]
    text = summary(made.read(tmp_path))
    assert "5 malformed events are left out" in text
    assert text.split("\n", 2)[2] == expected


def test_odd_events_are_read(tmp_path):
    made = linear(Made())
    made.events += [
        {"ph": "X", "cat": "cpu_op", "name": "no\nargs", "ts": "1500.5", "dur": "3", "pid": "p"},
        {"ph": "X", "cat": "cpu_op", "name": "negative", "ts": 1600, "dur": -1, "pid": 1, "tid": 1},
        {"ph": "X", "cat": "cpu_op", "name": 5, "ts": 1700, "pid": 1, "tid": 1, "args": [1]},
        {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "python"}},
        {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "ts": 3, "pid": 1, "tid": 1},
        {"ph": "X", "cat": "python_function", "name": "f.py(1): f", "ts": 1, "dur": 9, "pid": 1},
    ]
    trace = made.read(tmp_path)
    found = {root.name: root.us for root in trace.roots}
    assert found["no\nargs"] == 3 and found["negative"] == 0 and found["5"] == 0
    assert trace.notes == ["1 Python frames are left out"]


def test_categories_of_old_profilers(tmp_path):
    made = Made().span("Operator", "aten::mm", 10, 30).span("Runtime", "cudaLaunchKernel", 15, 5)
    made.events[-1]["args"] = {"correlation": 3}
    made.kernel("gemm", 25, 8, 3, cat="Kernel").kernel("Memset", 40, 1, 4, cat="Memset")
    trace = made.read(tmp_path)
    assert [event.name for event in trace.roots[0].launched()] == ["gemm"]
    assert [event.kind for event in trace.gpu] == ["kernel", "memset"]


# Bad files


def bad_files(folder: Path) -> dict[str, tuple[Path, str]]:
    whole = linear(Made()).save(folder / "whole.json").read_bytes()
    packed = gzip.compress(whole)
    damaged = bytearray(packed)
    damaged[len(damaged) // 2] ^= 0xFF
    browser = {"traceEvents": [{"ph": "X", "cat": "devtools", "name": "Paint", "ts": 1, "dur": 2}]}
    contents = {
        "empty": (b"", "empty"),
        "blank": (b" \n\n", "empty"),
        "packed_empty": (gzip.compress(b""), "empty"),
        "cut": (whole[: len(whole) // 2], "truncated"),
        "cut_packed": (packed[: len(packed) // 2], "truncated"),
        "damaged": (bytes(damaged), "damaged gzip"),
        "text": (b"experiment,op,m\nlinear_seed,linear,1024\n", "not JSON"),
        "image": (b"\x89PNG\r\n\x1a\n\x00\x00", "not JSON"),
        "number": (b"42", "not JSON"),
        "other_json": (b'{"name": "x", "version": 1}', "JSON without traceEvents"),
        "no_list": (b'{"traceEvents": {"a": 1}}', "JSON without traceEvents"),
        "nothing": (b'{"traceEvents": []}', "none of its 0 events"),
        "browser": (json.dumps(browser).encode(), "none of its 1 events"),
        "broken": (b'{"traceEvents": [{"ph": "X" "cat": "cpu_op"}], "more": "of it"}', "not valid"),
        "no_colon": (b'{"traceEvents" [1, 2, 3, 4, 5, 6, 7, 8]}', "not valid"),
        "deep": (b'{"traceEvents": [' + b"[" * 200_000, "nested too deeply"),
    }
    for name, (content, _) in contents.items():
        (folder / name).write_bytes(content)
    found = {name: (folder / name, why) for name, (_, why) in contents.items()}
    return found | {
        "missing": (folder / "no_such", "No such file"),
        "folder": (folder, "directory"),
    }


def test_bad_files_get_one_line_and_exit_code_2(tmp_path):
    for name, (path, why) in bad_files(tmp_path).items():
        with pytest.raises(BadTrace, match=why) as caught:
            read(path)
        assert str(caught.value).startswith(f"{path}: "), name
        done = CliRunner().invoke(cli_trace.app, ["read", str(path)])
        assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (2, "", 1), name
        assert why in done.stderr


def test_every_truncation_is_seen(tmp_path):
    text = json.dumps(linear(Made()).document(traceName="t.json"), indent=1)
    path = tmp_path / "cut.json"
    for size in range(1, len(text) - 1, 7):
        path.write_text(text[:size])
        with pytest.raises(BadTrace, match=r"truncated|empty"):
            read(path)


_WORDS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=4), st.just([1])
)
_EVENTS = st.fixed_dictionaries(
    {"ph": st.sampled_from("XBEsfM"), "cat": st.sampled_from(["cpu_op", "kernel", "ac2g", "x"])},
    optional={
        "name": _WORDS,
        "ts": _WORDS,
        "dur": _WORDS,
        "pid": _WORDS,
        "tid": _WORDS,
        "id": _WORDS,
        "args": st.dictionaries(
            st.sampled_from(["correlation", "External id", "grid", "bytes", "device", "stream"]),
            _WORDS,
        ),
    },
)


@given(events=st.lists(_EVENTS, max_size=8), meta=st.dictionaries(st.text(max_size=3), _WORDS))
def test_any_events_are_printed_or_refused(tmp_path_factory, events, meta):
    path = tmp_path_factory.mktemp("any") / "any.json"
    path.write_text(json.dumps(meta | {"traceEvents": events}))
    try:
        assert summary(read(path))
    except BadTrace as error:
        assert "none of its" in str(error)


@given(cut=st.integers(0, 2000), byte=st.integers(0, 255))
def test_any_damaged_byte_is_survived(tmp_path_factory, cut, byte):
    path = linear(Made()).save(tmp_path_factory.mktemp("damaged") / "damaged.json")
    content = bytearray(path.read_bytes())
    content[cut % len(content)] = byte
    path.write_bytes(content)
    try:
        assert summary(read(path))
    except BadTrace as error:
        assert str(error).startswith(str(path)) and "\n" not in str(error)


# The tree, as printed


def test_the_tree_marks_what_launches_nothing_and_names_compiled_code(tmp_path):
    made = linear(Made())
    made.op("TorchDynamo Cache Lookup", 900, 20).op("Torch-Compiled Region: 0/0", 920, 75)
    made.op("Pregraph bytecode", 925, 3)
    made.note(f"## Call CompiledFxGraph {'abcdefgh' * 6} ##", 930, 60).op("aten::empty", 940, 5)
    text = summary(made.read(tmp_path))
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert "10.0 aten::t · metadata, launches nothing" in lines
    assert "5.0 aten::empty · launches nothing" in lines
    assert "38.0 56.0 aten::addmm" in lines
    assert "1.0 ▸ Memset (Device)" in lines
    graph = "## Call CompiledFxGraph abcdefgh… ##"
    assert f"60.0 {graph} · compiled: Inductor's generated code" in lines
    assert f"{graph} Inductor's generated code 1 60.0" in lines
    assert "Pregraph bytecode Dynamo's bytecode ahead of the graph 1 3.0" in lines
    assert "Memset (Device) 64 1 1.0" in lines
    (row,) = [line for line in lines if line.startswith("1 0 7 55.0 0.0")]
    assert row.endswith("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_bias_TNT")
    assert str(parse(row.split()[-1]).tile()) in row


def test_without_gpu_events_only_known_metadata_ops_are_marked(tmp_path):
    made = Made().op("aten::t", 1, 5).op("aten::mm", 10, 50).op("Guards", 70, 2)
    text = summary(made.read(tmp_path))
    assert "aten::t  · metadata, launches nothing" in text
    assert "aten::mm\n" in text and "No GPU events" in text and "guards are checked" in text


def test_repeated_steps_are_printed_once(tmp_path):
    made = Made()
    for step in range(12):
        at = 1000.0 * step
        made.note(f"ProfilerStep#{step}", at, 900)
        linear(made, at + 10, 10 * step + 10)
        made.op("aten::view", at + 200, 2).op("aten::view", at + 210, 4)
    lines = [" ".join(line.split()) for line in summary(made.read(tmp_path)).splitlines()]
    assert sum("aten::linear" in line for line in lines) == 1
    assert "900.0 56.0 ProfilerStep × 12" in lines
    assert "3.0 aten::view × 2 · metadata, launches nothing" in lines
    assert lines[0].endswith("72 operators, 12 kernels, 12 memsets and memcpys, 12 steps")


def test_a_repeated_block_is_printed_once(tmp_path):
    made = Made()
    for index in range(10):
        made.op("aten::mm", 100.0 * index, 20).op("aten::relu", 100.0 * index + 30, 10)
    lines = [" ".join(line.split()) for line in summary(made.read(tmp_path)).splitlines()]
    assert "× 10: the next 2" in lines and "20.0 aten::mm" in lines


@given(st.lists(st.integers(0, 3), max_size=60))
def test_runs_expand_to_the_sequence(sequence):
    expanded = []
    for start, period, repeats in runs(sequence):
        assert start == len(expanded)
        expanded += sequence[start : start + period] * repeats
    assert expanded == sequence


def test_limits_are_kept_and_said(tmp_path):
    made = Made()
    for index in range(200):
        at = 100.0 * index
        made.op(f"op{index}", at, 40).call(at + 5, 4, index).kernel(f"k{index}", at + 20, 9, index)
    trace = made.read(tmp_path)
    text = summary(trace, limit=10)
    assert len(text.splitlines()) < 50
    assert "390 more lines; --limit 0 prints all" in text and "190 more kernel names" in text
    assert "more" not in summary(trace, limit=0)


def test_deep_trees_are_cut(tmp_path):
    made = Made()
    for depth in range(3000):
        made.op(f"op{depth}", depth, 10_000 - 2 * depth)
    text = summary(made.read(tmp_path), limit=0)
    assert "op60" in text and "op100" not in text


def test_short_names_keep_both_ends():
    gelu = (
        "void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl("
        "at::TensorIteratorBase&)::{lambda()#1}, std::array<char*, 2ul> >(int, int)"
    )
    assert short(gelu) == "vectorized_elementwise_kernel<4, GeluCUDAKernelImpl"
    add = "void at::native::f<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >(int)"
    assert short(add) == "f<4, CUDAFunctor_add<float> >"
    assert short("a" * 50 + "b" * 50, 21) == "a" * 11 + "…" + "b" * 9
    assert short("") == "" and short("(x)") and short("nvjet_tst") == "nvjet_tst"
    assert label("aten::mm") == "aten::mm"
    assert "aten::as_strided" in METADATA and "aten::copy_" not in METADATA
    assert compile_role("aten::mm") is None


# Gaps, busy share and verdict


def chain(host_us: float, kernel_us: float, count: int = 20) -> Made:
    """Operators of `host_us`, each launching one kernel; the GPU runs them in order."""
    made, free = Made(), 0.0
    for index in range(count):
        at = index * host_us
        starts = max(free, at + host_us)
        made.op("aten::op", at, host_us).call(at + host_us - 4, 4, index)
        made.kernel("k", starts, kernel_us, index)
        free = starts + kernel_us
    return made


def test_launch_bound(tmp_path):
    found = usage(chain(host_us=10, kernel_us=2).read(tmp_path), GPU)
    assert found.verdict == "launch-bound"
    assert (found.waited, found.queued) == (20, 0)
    assert found.span_us == 202 and found.busy_us == 40 and found.busy_share == 40 / 202
    assert found.host_us == 200 and found.launch_us == 4 and found.latency_us == 4
    assert len(found.gaps) == 19 and {gap.us for gap in found.gaps} == {8}
    assert not any(gap.queued for gap in found.gaps)


def test_kernel_bound(tmp_path):
    found = usage(chain(host_us=10, kernel_us=30).read(tmp_path), GPU)
    assert found.verdict == "kernel-bound"
    assert (found.waited, found.queued) == (1, 19)
    assert found.busy_us == 600 and found.span_us == 610 and not found.gaps


def test_the_border_is_the_slower_pace(tmp_path):
    # The GPU is busy most of the time, yet faster kernels would gain nothing.
    assert usage(chain(host_us=10, kernel_us=9).read(tmp_path), GPU).verdict == "launch-bound"
    assert usage(chain(host_us=10, kernel_us=11).read(tmp_path), GPU).verdict == "kernel-bound"


def test_a_single_kernel_is_judged_by_the_host_time_before_it(tmp_path):
    trace = linear(Made()).read(tmp_path)
    found = usage(trace, GPU)
    assert found.host_us == 44 and found.busy_us == 56 and found.verdict == "kernel-bound"
    assert "kernel-bound: host 44.0 µs ≤ GPU 56.0 µs" in summary(trace)


def test_waiting_for_the_gpu_is_not_the_hosts_pace(tmp_path):
    made = Made().op("aten::mm", 0, 20).launch("gemm", 10, 20, 500, 1)
    made.op("aten::item", 30, 495).call(35, 487, 2, name="cudaMemcpyAsync")
    made.kernel("Memcpy DtoH", 520, 1, 2, cat="gpu_memcpy")
    made.op("aten::mm", 530, 20).launch("gemm", 540, 550, 500, 3)
    made.call(560, 495, name="cudaDeviceSynchronize")
    trace = made.read(tmp_path)
    found = usage(trace, GPU)
    assert found.blocked_us == 487 and found.host_us == 544 - 487
    assert found.verdict == "kernel-bound"
    assert "cudaDeviceSynchronize  · the host waits" in summary(trace)


def test_allocating_is_told_apart(tmp_path):
    made = Made().op("aten::mm", 0, 900).call(10, 800, name="cudaMalloc")
    found = usage(made.launch("gemm", 880, 890, 50, 1).read(tmp_path), GPU)
    assert found.allocating_us == 800 and found.verdict == "launch-bound"


def test_kernels_of_one_graph_launch_are_queued(tmp_path):
    made = Made().call(0, 30, 1, name="cudaGraphLaunch")
    for index in range(4):
        made.kernel("k", 10 + 6 * index, 5, 1)
    found = usage(made.read(tmp_path), GPU)
    assert (found.waited, found.queued) == (1, 3)
    assert [gap.queued for gap in found.gaps] == [True] * 3


def test_the_span_begins_with_the_step(tmp_path):
    made = Made().op("aten::setup", 0, 100).launch("early", 50, 60, 5, 1)
    made.note("ProfilerStep#3", 1000, 200)
    trace = linear(made, at=1020, correlation=5).read(tmp_path)
    assert usage(trace, GPU).span_us == 1121 - 60  # work before the step still counts
    alone = linear(Made().note("ProfilerStep#3", 1000, 200), at=1020, correlation=5)
    assert usage(alone.read(tmp_path), GPU).span_us == 121


def test_streams_overlap_and_each_has_its_own_account(tmp_path):
    made = Made().op("aten::mm", 0, 30).call(0, 2, 1).call(5, 2, 2).call(10, 2, 3)
    made.kernel("a", 10, 20, 1).kernel("b", 15, 25, 2, stream=8).kernel("c", 50, 10, 3)
    trace = made.read(tmp_path)
    found = usage(trace, GPU)
    assert found.busy_us == 40 == union(trace.gpu)
    assert [(s.stream, s.events, s.busy_us, s.idle_us) for s in found.streams] == [
        (7, 2, 30, 20),
        (8, 1, 25, 0),
    ]
    assert [(gap.us, gap.queued) for gap in found.gaps] == [(10, True)]
    assert "though it was queued" in summary(trace)


# Two traces


def test_diff_tells_what_changed_and_what_stayed(tmp_path):
    a = linear(Made()).launch("mul", 1200, 1210, 30, 21).launch("add", 1300, 1310, 10, 22)
    a.launch("add", 1350, 1360, 10, 23)
    b = linear(Made()).launch("fused", 1200, 1210, 31, 21).launch("add", 1300, 1310, 20, 22)
    b.events = [event for event in b.events if event["name"] != "aten::t"]
    left = read(a.save(tmp_path / "a.json"))
    right = read(b.save(tmp_path / "b.json"))
    found = {change.name: change for change in compare(left, right)}
    verdicts = {name: change.verdict for name, change in found.items()}
    assert verdicts["mul"] == "vanishes" and verdicts["fused"] == "appears"
    assert verdicts["add"] == "count" and verdicts["aten::t"] == "vanishes"
    assert verdicts["aten::linear"] == "same" == verdicts["Memset (Device)"]
    assert found["fused"].ratio is None and found["mul"].ratio == 0
    assert (found["add"].count_a, found["add"].count_b, found["add"].ratio) == (2, 1, 1.0)
    done = CliRunner().invoke(cli_trace.app, ["diff", str(left.path), str(right.path)])
    assert done.exit_code == 0 and done.stdout.strip() == diff(left, right).strip()
    assert "kernels: appears: 1, vanishes: 1, count: 1, same: 1" in done.stdout


@pytest.mark.parametrize(
    ("us", "verdict"), [(104, "same"), (96, "same"), (106, "slower"), (94, "faster")]
)
def test_diff_of_times(tmp_path, us, verdict):
    a = read(Made().launch("k", 0, 5, 100, 1).save(tmp_path / "a.json"))
    b = read(Made().launch("k", 0, 5, us, 1).save(tmp_path / "b.json"))
    assert [change.verdict for change in compare(a, b)] == [verdict]
    assert {change.verdict for change in compare(a, a)} == {"same"}


def test_diff_looks_through_graph_hashes_and_notes_other_step_counts(tmp_path):
    a, b = Made(), Made()
    a.note(f"## Call CompiledFxGraph {'a' * 52} ##", 5, 10).note("ProfilerStep#1", 0, 50)
    b.note(f"## Call CompiledFxGraph {'b' * 52} ##", 5, 10)
    left, right = read(a.save(tmp_path / "a.json")), read(b.save(tmp_path / "b.json"))
    assert [change.verdict for change in compare(left, right)] == ["same"]
    assert "A has 1 steps and B 0" in diff(left, right)


# Size


def test_large_traces_are_read_in_time_and_memory(tmp_path):
    """25 MB in a quarter of what 100 MB may take: 20 s and 2 GB.

    Measured at 100 MB with 680,000 events: 10 s of CPU time and 0.4 GB.
    """
    path = tmp_path / "large.json"
    big(path, 25)
    # The peak is the kernel's VmHWM: ru_maxrss would begin with what this process had at the fork.
    code = (
        "import re, sys, time; from lab import trace, trace_show; "
        "trace_show.summary(trace.read(sys.argv[1])); "
        "peak = re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1]; "
        "print(time.process_time(), peak)"
    )
    command = [sys.executable, "-c", code, str(path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    seconds, kilobytes = map(float, done.stdout.split())
    assert seconds < 5 and kilobytes < 0.5e6


def big(path: Path, megabytes: int) -> None:
    """A training-like trace of about that size: nested operators, flows, Python frames, kernels."""
    functor = "at::native::CUDAFunctor_add<c10::BFloat16>"
    name = f"void at::native::vectorized_elementwise_kernel<4, {functor}, std::array<char*, 3ul> >"
    with open(path, "w") as file:
        file.write('{"schemaVersion": 1, "displayTimeUnit": "ms", "traceEvents": [\n')
        index = 0
        while file.tell() < megabytes * 1e6:
            made, at = Made(), 5_246_385_028_402.001 + 40 * index
            made.op("aten::linear", at, 30, **{"External id": 3 * index, "Ev Idx": index})
            made.op("aten::t", at + 1, 4).op("aten::as_strided", at + 2, 1)
            made.span("python_function", "torch/nn/modules/linear.py(114): forward", at, 31)
            shape = {"grid": [1024, 1, 1], "block": [128, 1, 1], "registers per thread": 40}
            made.op("aten::addmm", at + 8, 20).call(at + 12, 6, index)
            made.kernel(f"{name}(int, {index % 97})", at + 16, 12.5, index, **shape)
            flow = {"ph": "s", "cat": "ac2g", "name": "ac2g", "id": index, "pid": CPU, "tid": CPU}
            made.events.append(flow | {"ts": at + 12})
            file.write("".join(json.dumps(event, indent=1) + ",\n" for event in made.events))
            index += 1
        file.write('{"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "python"}}]}')


def test_reading_needs_no_torch():
    code = "import sys; import lab.cli_trace; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


# Capturing

STUB = """
import os
import torch
from lab.contender import Contender, Launch, Unsupported

def prepare(problem, inputs, tile=None):
    {body}
    def bind(inputs):
        return lambda: inputs["gate"] * inputs["up"]
    return Launch(bind)

CONTENDER = Contender({name!r}, "geglu", prepare)
"""
PROBLEM = Problem("geglu", 64, 96, dtype="fp32", activation="tanh")
EXPERIMENT = Experiment((PROBLEM,), (PROBLEM,), name="made", question="Made for a test.")


def stubs(folder: Path, **bodies: str) -> Choice:
    for name, body in bodies.items():
        (folder / f"{name}.py").write_text(STUB.format(name=name, body=body))
    files = tuple(str(folder / f"{name}.py") for name in bodies)
    return Choice(only=tuple(bodies), files=files)


def test_capture_survives_what_contenders_do(tmp_path):
    choice = stubs(
        tmp_path,
        a_raises="raise ValueError('no such tile')",
        b_dies="os._exit(3)",
        c_compiled="return Launch(None)",
        d_unsupported="raise Unsupported('odd sizes')",
        e_works="pass",
    )
    out = tmp_path / "out"
    found = {one.contender: one for one in trace_capture.capture(EXPERIMENT, out, choice=choice)}
    reasons = {name: one.reason for name, one in found.items()}
    assert list(reasons) == sorted(choice.only)  # in order, and without the baseline
    assert reasons["a_raises"] == "ValueError: no such tile"
    assert reasons["b_dies"].startswith("crashed: the process exited with code 3")
    assert reasons["c_compiled"].startswith("compiled for a GPU")
    assert reasons["d_unsupported"] == "unsupported: odd sizes"
    assert reasons["e_works"] == ""
    path = found["e_works"].path
    assert path.name == "geglu-64x96-fp32-tanh.e_works.json.gz"
    assert sorted(out.glob("*.json.gz")) == [path]
    trace = read(path)
    assert [node.name for node in trace.nodes() if node.kind == "op"] == ["aten::mul"]
    assert trace.meta["lab"] == {"problem": str(PROBLEM), "contender": "e_works", "tile": ""}
    assert not {"host_name", "traceName"} & set(trace.meta)
    assert summary(trace).startswith(f"{path.name} · {PROBLEM} by e_works")


def test_capture_of_nothing_names_what_there_is(tmp_path):
    choice = stubs(tmp_path, mine="pass")
    with pytest.raises(BadChoice, match=r"no problem contains 12x34; there are 'geglu 64x96"):
        list(trace_capture.capture(EXPERIMENT, tmp_path, choice=choice, problems=("12x34",)))


def test_the_experiments_name_needs_no_command():
    for args in (["no_such", "--problem", "x"], ["run", "no_such"], ["--only", "x", "no_such"]):
        done = CliRunner().invoke(cli_trace.app, args)
        assert done.exit_code == 2 and done.stderr.startswith("lab: no experiment 'no_such'")
    shown = CliRunner().invoke(cli_trace.app, ["--help"])
    assert shown.exit_code == 0 and "diff" in shown.stdout


def test_profile_once_tells_failures_apart():
    import torch

    def broken():
        raise RuntimeError("no\nkernel")

    device = "cuda" if torch.cuda.is_available() else "cpu"
    x = torch.ones(64, device=device)
    events, failures = profiling.profile_once({"good": lambda: x + x, "bad": broken})
    assert failures == {"bad": "RuntimeError: no kernel"}
    assert len(events.pop("good")) == (device == "cuda") and not events


@pytest.mark.gpu
def test_profile_once_sees_kernels_and_memsets_in_order():
    import torch

    x = torch.ones(1 << 20, device="cuda")
    events, failures = profiling.profile_once({"two": lambda: (torch.zeros_like(x), x.sin())})
    assert not failures
    kinds = [event.kind for event in events["two"]]
    assert kinds in (["memset", "kernel"], ["kernel", "kernel"])
    sin = events["two"][-1]
    assert sin.us > 0 and sin.block and sin.regs and sin.grid[0] * sin.block[0] > 1000


@pytest.mark.gpu
def test_a_captured_step_holds_its_kernels_and_a_verdict(tmp_path):
    choice = stubs(tmp_path, mine="pass")
    (one,) = trace_capture.capture(EXPERIMENT, tmp_path / "out", choice=choice)
    assert not one.reason
    trace = read(one.path)
    assert len(trace.kernels) == 1 and not trace.orphans
    assert usage(trace, trace.devices[0]).verdict == "launch-bound"  # 6,144 elements
    assert one.path.stat().st_size < 50_000


if __name__ == "__main__":
    GOLDEN.mkdir(exist_ok=True)
    for golden, source in GOLDEN_OF.items():
        (GOLDEN / f"{golden}.txt").write_text(summary(read(SHARED / source), GOLDEN_ROWS))
    print(f"{len(GOLDEN_OF)} golden files written to {GOLDEN}", file=sys.stderr)
