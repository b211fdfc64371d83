import pytest
import torch

from lab.problem import Problem

SMALL = [
    Problem("linear", 5, 16, 24, "tn"),
    Problem("linear", 5, 16, 24, "nn", "fp16"),
    Problem("geglu", 7, 33, activation="erf", dtype="fp32"),
    Problem("gate_up", 5, 16, 24, "tn", activation="silu"),
    Problem("gate_up", 5, 16, 24, "nn", activation="tanh"),
    Problem("mlp", 5, 16, 24, "tn", activation="tanh"),
    Problem("mlp", 5, 16, 24, "nn", activation="erf"),
]


def formula(p, x):
    """The ops in torch's own words, in float64."""
    x = {name: t.double() for name, t in x.items()}
    act = {
        "tanh": lambda t: torch.nn.functional.gelu(t, approximate="tanh"),
        "erf": torch.nn.functional.gelu,
        "silu": torch.nn.functional.silu,
        None: None,
    }[p.activation]
    if p.op == "geglu":
        return act(x["gate"]) * x["up"]

    def times(a, w):
        return torch.nn.functional.linear(a, w) if p.layout == "tn" else a @ w

    if p.op == "linear":
        return times(x["x"], x["w"]) + x["b"]
    h = act(times(x["x"], x["wg"])) * times(x["x"], x["wu"])
    return times(h, x["wd"]) if p.op == "mlp" else h


@pytest.mark.parametrize("problem", SMALL, ids=str)
def test_reference(problem, monkeypatch):
    inputs = problem.inputs("cpu")
    assert {n: tuple(t.shape) for n, t in inputs.items()} == problem.shapes
    whole = problem.reference(inputs)
    assert tuple(whole.shape) == problem.out_shape
    torch.testing.assert_close(whole.double(), formula(problem, inputs), rtol=1e-6, atol=1e-6)
    monkeypatch.setattr("lab.problem._CHUNK_BYTES", 1)  # a row at a time
    torch.testing.assert_close(problem.reference(inputs), whole, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("problem", SMALL, ids=str)
def test_inputs_are_seeded_scaled_and_differ_by_draw(problem):
    first, again, other = (problem.inputs("cpu", d) for d in (0, 0, 1))
    for name, tensor in first.items():
        assert torch.equal(tensor, again[name])
        assert not torch.equal(tensor, other[name])
        assert (tensor != 0).any()
    problem.refill(other, 0)
    assert all(torch.equal(other[n], first[n]) for n in first)
    another = problem.with_(seed=1).inputs("cpu")
    assert not torch.equal(another[name], first[name])


def test_operands_are_not_copies_of_each_other():
    gate_up = Problem("gate_up", 5, 16, 24, "tn", activation="tanh").inputs("cpu")
    assert not torch.equal(gate_up["wg"], gate_up["wu"])


def test_weights_keep_outputs_near_unit_variance():
    p = Problem("mlp", 256, 512, 256, "tn", "fp32", "tanh")
    inputs = p.inputs("cpu")
    assert abs(inputs["wg"].std().item() * 256**0.5 - 1) < 0.02
    assert abs(inputs["wd"].std().item() * 512**0.5 - 1) < 0.02


def test_costs():
    linear = Problem("linear", 8192, 3072, 768, "tn")
    assert linear.flops == 2 * 8192 * 3072 * 768
    assert linear.min_bytes == 2 * (8192 * 768 + 3072 * 768 + 3072 + 8192 * 3072)
    geglu = Problem("geglu", 8192, 3072, activation="tanh")
    assert (geglu.flops, geglu.min_bytes) == (0, 3 * 2 * 8192 * 3072)
    mlp = Problem("mlp", 64, 256, 128, "tn", activation="tanh")
    assert mlp.flops == 3 * 2 * 64 * 256 * 128
    assert mlp.out_shape == (64, 128)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"op": "conv", "m": 1, "n": 1}, "op is one of"),
        ({"op": "linear", "m": 0, "n": 8, "k": 8, "layout": "tn"}, "m is a whole number"),
        ({"op": "linear", "m": 8, "n": -8, "k": 8, "layout": "tn"}, "n is a whole number"),
        ({"op": "linear", "m": 8, "n": 8, "layout": "tn"}, "k is a whole number"),
        ({"op": "linear", "m": 8, "n": 8, "k": 2**31, "layout": "tn"}, "k is a whole number"),
        ({"op": "linear", "m": 8, "n": 8, "k": 8, "layout": "tt"}, "layout is one of"),
        ({"op": "linear", "m": 8, "n": 8, "k": 8, "layout": "tn", "dtype": "fp8"}, "dtype"),
        (
            {"op": "linear", "m": 8, "n": 8, "k": 8, "layout": "tn", "activation": "erf"},
            "activation",
        ),
        ({"op": "geglu", "m": 8, "n": 8}, "activation"),
        ({"op": "geglu", "m": 8, "n": 8, "k": 8, "activation": "erf"}, "neither k nor layout"),
        ({"op": "geglu", "m": 8, "n": 8, "activation": "erf", "seed": -1}, "seed"),
    ],
)
def test_bad_problems(fields, says):
    with pytest.raises(ValueError, match=says):
        Problem(**fields)
