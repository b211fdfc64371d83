"""Tests marked gpu run where there is one; elsewhere Triton's kernels run in its interpreter."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # read when triton is first imported

ROOT = Path(__file__).resolve().parent.parent


def pytest_collection_modifyitems(items):
    if torch.cuda.is_available():
        return
    skip = pytest.mark.skip(reason="needs a CUDA GPU")
    for item in items:
        if "gpu" in item.keywords:
            item.add_marker(skip)


@pytest.fixture
def device():
    return "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture
def lab():
    """Runs the command as a user would: `lab("sweep", …)` gives the finished process."""

    def run(*words, **options):
        return subprocess.run(
            [sys.executable, "-m", "lab", *map(str, words)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            **options,
        )

    return run
