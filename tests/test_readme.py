"""The README is true: its example runs, its table is the committed run's, its commands exist."""

import re
from pathlib import Path

import pytest
import torch

from lab import record, show

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = ROOT / "results" / "reference" / "nvidia-h200"
TEXT = (ROOT / "README.md").read_text()


def test_the_example_contender_runs(lab, tmp_path):
    code = re.search(r"```python\n(.*?)```", TEXT, re.S)[1]
    run = tmp_path / "run"
    assert len(code.splitlines()) < 50
    (tmp_path / "my_geglu.py").write_text(code)
    words = ["--op", "geglu", "--m", 33, "--n", 100, "--activation", "erf", "--activation", "tanh"]
    files = ["--with", tmp_path / "my_geglu.py", "--out", run]
    done = lab("sweep", *words, "--only", "eager", *files)
    assert done.returncode == 0, done.stderr
    mine = (row for row in record.read(run / "geglu.csv") if row.contender == "my_geglu")
    rows = {row.activation: row for row in mine}
    assert rows["erf"].status == ("ok" if torch.cuda.is_available() else "verified")
    assert rows["erf"].tile == "n1024"
    assert (rows["tanh"].status, rows["tanh"].reason) == ("unsupported", "erf only")


def test_the_table_is_the_committed_runs():
    rows = [
        row
        for name in record.experiments(REFERENCE)
        for row in record.read(REFERENCE / f"{name}.csv")
    ]
    assert rows, "there is no committed run"
    assert show.put_between_markers(TEXT, show.markdown(rows)) == TEXT


@pytest.mark.parametrize("target", sorted(set(re.findall(r"(?:^|`)make (\w+)", TEXT, re.M))))
def test_make_targets_exist(target):
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.M)


@pytest.mark.parametrize("command", sorted(set(re.findall(r"\blab (\w+)", TEXT))))
def test_commands_exist(lab, command):
    assert lab(command, "--help").returncode == 0


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\(([\w./-]+)\)", TEXT))))
def test_links_lead_somewhere(link):
    assert (ROOT / link).exists()
