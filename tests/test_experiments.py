import pytest

from lab import experiment
from lab.experiment import BadExperiment

LOADED = {name: experiment.load(name) for name in experiment.names()}


def sizes(name):
    return {(p.m, p.n, p.k) for p in LOADED[name].problems}


def test_the_seed_shapes():
    shapes = {(1024, 64, 32), (8192, 3072, 768), (8192, 768, 3072), (4096, 4096, 4096)}
    assert sizes("linear_seed") == shapes
    assert len(LOADED["linear_seed"].problems) == 8


def test_linear_sweep_covers_what_it_says():
    problems = LOADED["linear_sweep"].problems
    assert len(sizes("linear_sweep")) >= 24
    assert {p.layout for p in problems} == {"tn", "nn"}
    assert {1, 16384} <= {p.m for p in problems}
    assert min(p.k for p in problems) == 64 and max(p.k for p in problems) == 16384
    assert any(p.n % 8 and p.k % 8 for p in problems)


def test_geglu_sweep_covers_what_it_says():
    problems = LOADED["geglu_sweep"].problems
    assert len(problems) >= 16
    assert {1, 65536} <= {p.m for p in problems}
    assert {768, 28672, 3000, 4097} <= {p.n for p in problems}
    assert {p.activation for p in problems} == {"tanh", "erf", "silu"}
    assert {p.dtype for p in problems} == {"bf16", "fp16", "fp32"}


@pytest.mark.parametrize("name", LOADED)
def test_cpu_problems_are_small_and_varied(name):
    problems = LOADED[name].cpu_problems
    assert len(problems) >= 3
    assert all(p.m * p.n * (p.k or 1) <= 2**28 for p in problems)
    if problems[0].k:  # the interpreter's dot is right on fp16, not on bf16
        assert {p.dtype for p in problems} == {"fp16"}
        assert {p.layout for p in problems} == {"tn", "nn"}


def test_some_cpu_size_is_odd():
    problems = [p for one in LOADED.values() for p in one.cpu_problems]
    assert any(p.m % 2 or p.n % 2 for p in problems)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("EXPERIMENT = 1", "docstring must state the question"),
        ('"""Why?"""\nraise OSError("no")', "OSError: no"),
        ('"""Why?"""\n', "EXPERIMENT"),
        (
            '"""Why?"""\nfrom lab.experiment import Experiment\nEXPERIMENT = Experiment((), ())',
            "problems must be a non-empty tuple",
        ),
        (
            '"""Why?"""\nfrom lab.experiment import Experiment\nfrom lab.problem import Problem\n'
            'p = Problem("geglu", 1, 8, activation="erf")\nEXPERIMENT = Experiment((p, p), (p,))',
            "without repeats",
        ),
    ],
)
def test_malformed_files_say_what_to_mend(tmp_path, monkeypatch, text, says):
    (tmp_path / "mine.py").write_text(text)
    monkeypatch.setattr(experiment, "EXPERIMENTS", tmp_path)
    with pytest.raises(BadExperiment, match=says):
        experiment.load("mine")


def test_unknown_names_list_the_known():
    with pytest.raises(BadExperiment, match=r"'linear_swep'; there are .*linear_sweep"):
        experiment.load("linear_swep")
