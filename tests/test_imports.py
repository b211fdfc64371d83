"""Who may import whom, and that importing anything leaves CUDA and the user's modules alone."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from lab import contender
from lab.problem import OPS

ROOT = Path(__file__).resolve().parent.parent

MAY = {  # lab module -> the lab's modules that it may import
    "problem": set(),
    "tile": set(),
    "stats": set(),
    "device": set(),
    "nvcc": set(),
    "check": {"problem"},
    "timing": {"stats"},
    "gpu_clock": {"device", "timing"},
    "contender": {"problem", "tile"},
    "experiment": {"problem"},
    "files": set(),
    "record": {"files", "problem", "tile"},
}
KERNELS_MAY = {"problem", "tile", "contender", "device", "nvcc"}
KERNELS = sorted((ROOT / "kernels").rglob("*.py"))
EXPERIMENTS = sorted((ROOT / "experiments").glob("*.py"))


def lab_imports(path: Path) -> set[str]:
    """The lab's modules that a file imports, wherever in the file."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            if node.module == "lab":
                found |= {alias.name for alias in node.names}
            elif node.module.startswith("lab."):
                found.add(node.module.split(".")[1])
        elif isinstance(node, ast.Import):
            found |= {a.name.split(".")[1] for a in node.names if a.name.startswith("lab.")}
    return found


@pytest.mark.parametrize("name", MAY)
def test_the_core_imports_downwards(name):
    assert lab_imports(ROOT / "lab" / f"{name}.py") <= MAY[name]


@pytest.mark.parametrize("path", KERNELS, ids=lambda p: str(p.relative_to(ROOT)))
def test_kernels(path):
    assert lab_imports(path) <= KERNELS_MAY
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            names = [a.name for a in node.names] if node.module is None else [node.module]
            if node.level:  # what stands beside a contender is shared code, not another contender
                assert all(n.split(".")[-1].startswith("_") for n in names), ast.unparse(node)
            assert node.module != "kernels"


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda p: p.name)
def test_experiments_never_import_kernels(path):
    assert lab_imports(path) <= {"experiment", "expect", "problem"}


@pytest.mark.parametrize("name", ["record", "show", "stats", "tile", "cli"])
def test_reading_results_needs_no_torch(name):
    run(f"import lab.{name}, sys; assert 'torch' not in sys.modules")


def test_importing_everything_leaves_cuda_uninitialised():
    modules = ", ".join(
        f"lab.{p.stem}" for p in sorted((ROOT / "lab").glob("*.py")) if p.stem[0] != "_"
    )
    run(
        f"import {modules}, torch\n"
        "from lab import contender, experiment\n"
        "from lab.problem import OPS\n"
        "for op in OPS:\n"
        "    for path in contender.discover(op): contender.load(path)\n"
        "for name in experiment.names(): experiment.load(name)\n"
        "assert not torch.cuda.is_initialized()\n"
    )


def test_the_name_kernels_stays_the_users(tmp_path):
    """Hugging Face's package of that name, beside ours, is what `import kernels` finds."""
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "__init__.py").write_text("whose = 'theirs'\n")
    run(
        "import kernels\n"
        "from lab import contender\n"
        "assert kernels.whose == 'theirs'\n"
        "for op in ('linear', 'geglu'):\n"
        "    loaded = [contender.load(p) for p in contender.discover(op)]\n"
        "    assert loaded, op\n"
        "import triton, sys\n"
        "assert 'lab_kernels' not in triton.__file__\n"
        "assert sys.modules['kernels'].whose == 'theirs'\n"
        "assert not any(name.startswith('kernels.') for name in sys.modules)\n",
        PYTHONPATH=str(tmp_path),
    )
    assert not (ROOT / "kernels" / "__init__.py").exists()
    assert 'packages = ["lab"]' in (ROOT / "pyproject.toml").read_text()


def test_every_kernel_file_is_a_contender_of_its_folder():
    for op in OPS:
        for path in contender.discover(op):
            loaded = contender.load(path)
            assert (loaded.op, loaded.name) == (op, path.stem)
            assert all((path.parent / name).is_file() for name in loaded.files), loaded.files


def run(code: str, **environment):
    import os

    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
