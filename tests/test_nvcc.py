"""Finding nvcc and keeping builds, mostly with an nvcc of our own making; one real compilation."""

import ctypes
import itertools
import multiprocessing
import os
import signal
import subprocess
import sys
import time

import pytest

from lab import nvcc
from lab.nvcc import BuildError, Unit

FAKE = """#!{python}
import sys, time, pathlib
if "--version" in sys.argv:
    print("Cuda compilation tools, release x, V{release}")
    sys.exit()
with open({calls!r}, "a") as calls:
    calls.write("call\\n")
source = pathlib.Path(next(a for a in sys.argv if a.endswith(".cu"))).read_text()
output = pathlib.Path(sys.argv[sys.argv.index("-o") + 1])
output.write_bytes(b"half")
if "slow" in source:
    time.sleep({seconds})
if "broken" in source:
    print("note: seen on the way\\nk.cu(3): error: expected a ;\\nk.cu(4): error: more")
    sys.exit(1)
output.write_bytes(b"whole")
print("ptxas info    : Compiling entry function 'f' for 'sm_80'")
print("    8 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads")
print("ptxas info    : Used 40 registers, used 1 barriers, 1024 bytes smem, 400 bytes cmem[0]")
"""


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """Puts a compiler of the given release first on PATH; its calls are counted."""
    monkeypatch.setenv("LAB_CACHE", str(tmp_path / "cache"))
    number = itertools.count()

    class Fake:
        calls_file = tmp_path / "calls"

        @property
        def calls(self):
            return len(self.calls_file.read_text().split()) if self.calls_file.exists() else 0

        def install(self, release="13.0.88", seconds=1.0):
            folder = tmp_path / f"bin{next(number)}"
            folder.mkdir()
            path = folder / "nvcc"
            path.write_text(
                FAKE.format(
                    python=sys.executable,
                    release=release,
                    calls=str(self.calls_file),
                    seconds=seconds,
                )
            )
            path.chmod(0o755)
            monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
            return path

        def unit(self, text="ordinary", *flags):
            source = tmp_path / "k.cu"
            source.write_text(text)
            return Unit(source, flags)

    return Fake()


def only(monkeypatch, *paths):
    monkeypatch.setattr(nvcc, "_candidates", lambda: iter(paths))


# Finding


def test_nvcc_on_path_comes_first(fake):
    path = fake.install("12.9.1")
    assert nvcc.find() == nvcc.Compiler(path, "12.9.1")
    assert nvcc.find().version == (12, 9)


@pytest.mark.parametrize("variable", ["CUDA_HOME", "CUDA_PATH"])
def test_cuda_home_is_looked_at(fake, monkeypatch, variable):
    path = fake.install()
    (path.parent.parent / "home/bin").mkdir(parents=True)
    moved = path.rename(path.parent.parent / "home/bin/nvcc")
    monkeypatch.setenv("PATH", str(path.parent))
    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.setenv(variable, str(moved.parent.parent))
    assert nvcc.find().path == moved


def test_missing_nvcc_names_the_fix(monkeypatch, tmp_path):
    only(monkeypatch, tmp_path / "nvcc")
    with pytest.raises(BuildError, match=r"nvcc is missing.*pip install 'nvidia-cuda-nvcc"):
        nvcc.find()


def test_old_nvcc_is_refused(fake, monkeypatch):
    only(monkeypatch, fake.install("11.8.89"))
    with pytest.raises(BuildError, match=r"nvcc 11\.8\.89 at .* is too old, 12\.3 .*pip install"):
        nvcc.find()


def test_a_newer_nvcc_further_on_is_taken(fake, monkeypatch, tmp_path):
    old, new = fake.install("12.2.140"), fake.install("12.3.52")
    junk = tmp_path / "junk"
    junk.write_text("#!/bin/sh\necho no compiler\n")
    junk.chmod(0o755)
    only(monkeypatch, junk, old, new)
    assert nvcc.find().path == new


def test_cutlass_headers_are_found_without_importing_them():
    code = (
        "import sys; from lab import nvcc; h = nvcc.cutlass(); print(h.release);"
        "assert all(f.is_dir() for f in h.folders); assert 'cutlass_library' not in sys.modules"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip() == "4.2.0"


def test_missing_cutlass_names_the_fix(monkeypatch):
    monkeypatch.setattr(nvcc.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(BuildError, match="pip install nvidia-cutlass"):
        nvcc.cutlass()


# The cache


def test_cache_dir(monkeypatch, tmp_path):
    monkeypatch.setenv("LAB_CACHE", "/a")
    monkeypatch.setenv("XDG_CACHE_HOME", "/b")
    monkeypatch.setenv("HOME", "/c")
    assert str(nvcc.cache_dir()) == "/a"
    monkeypatch.delenv("LAB_CACHE")
    assert str(nvcc.cache_dir()) == "/b/kernel-comparison-lab"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert str(nvcc.cache_dir()) == "/c/.cache/kernel-comparison-lab"


def test_a_build_is_made_once(fake):
    fake.install()
    (first,) = nvcc.build([fake.unit()])
    (second,) = nvcc.build([fake.unit()])
    assert first == second
    assert first.library.read_bytes() == b"whole"
    assert fake.calls == 1


def test_a_build_depends_on_source_includes_flags_and_compiler(fake, tmp_path):
    fake.install()
    beside, deeper = tmp_path / "beside.cuh", tmp_path / "deeper.cuh"
    beside.write_text('#pragma once\n#include "deeper.cuh"\n#include "beside.cuh"\n')
    deeper.write_text("one")
    text = '#include <vector>\n#include "elsewhere.h"\n  # include "beside.cuh"\n'
    libraries = {nvcc.build([fake.unit(text)])[0].library}
    deeper.write_text("two")
    libraries |= {nvcc.build([fake.unit(text)])[0].library}
    libraries |= {nvcc.build([fake.unit(text + "// changed")])[0].library}
    libraries |= {nvcc.build([fake.unit(text, "-DTILE=2")])[0].library}
    fake.install("13.1.2")
    libraries |= {nvcc.build([fake.unit(text)])[0].library}
    assert len(libraries) == fake.calls == 5


def test_a_failing_source_gives_its_first_error_and_the_log(fake):
    fake.install()
    with pytest.raises(BuildError) as caught:
        nvcc.build([fake.unit("broken")])
    message = str(caught.value)
    assert message.startswith("k.cu doesn't compile: k.cu(3): error: expected a ; (")
    assert "\n" not in message
    log = message.rsplit("(", 1)[1].rstrip(")")
    with open(log) as file:
        assert "k.cu(4): error: more" in file.read()
    assert not list(nvcc.cache_dir().glob("*.so"))
    assert not list(nvcc.cache_dir().glob("building-*"))


def test_the_other_units_of_a_failed_build_are_kept(fake, tmp_path):
    fake.install()
    good, bad = tmp_path / "good.cu", tmp_path / "bad.cu"
    good.write_text("ordinary"), bad.write_text("broken")
    with pytest.raises(BuildError, match=r"bad\.cu"):
        nvcc.build([Unit(bad, ()), Unit(good, ())])
    assert [p.name.split("-")[0] for p in nvcc.cache_dir().glob("*.so")] == ["good"]


def test_the_same_unit_twice_is_compiled_once(fake):
    fake.install(seconds=0.3)
    unit = fake.unit("slow")
    first, second = nvcc.build([unit, unit])
    assert first == second
    assert fake.calls == 1


def _build_in_process(unit, results):
    results.put(nvcc.build([unit])[0].library)


def test_processes_that_build_the_same_share_one_build(fake):
    fake.install(seconds=0.5)
    unit = fake.unit("slow")
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    processes = [context.Process(target=_build_in_process, args=(unit, results)) for _ in range(3)]
    for process in processes:
        process.start()
    libraries = {results.get(timeout=60) for _ in processes}
    for process in processes:
        process.join()
    assert len(libraries) == 1
    assert libraries.pop().read_bytes() == b"whole"
    assert fake.calls == 1


def test_a_killed_build_leaves_no_half_file_and_blocks_nobody(fake):
    fake.install(seconds=1.5)
    unit = fake.unit("slow")
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    process = context.Process(target=_build_in_process, args=(unit, results))
    process.start()
    deadline = time.monotonic() + 60
    while not list(nvcc.cache_dir().glob("building-*/*.so")) and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert list(nvcc.cache_dir().glob("building-*/*.so"))  # it was in the middle
    assert not list(nvcc.cache_dir().glob("*.so"))
    (built,) = nvcc.build([unit])
    assert built.library.read_bytes() == b"whole"


def test_what_killed_builds_left_goes_after_a_day(fake):
    fake.install()
    old, new = nvcc.cache_dir() / "building-old", nvcc.cache_dir() / "building-new"
    for folder in (old, new):
        folder.mkdir(parents=True)
        (folder / "k.so").write_bytes(b"half")
    os.utime(old, (time.time() - 90_000,) * 2)
    nvcc.build([fake.unit()])
    assert not old.exists()
    assert new.exists()


def test_a_cache_that_cannot_be_written(fake, monkeypatch, tmp_path):
    fake.install()
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LAB_CACHE", str(tmp_path / "file/below"))
    with pytest.raises(BuildError, match=r"file/below can't be written \(.*LAB_CACHE"):
        nvcc.build([fake.unit()])


def test_jobs_are_bounded_by_memory(monkeypatch):
    assert 1 <= nvcc._jobs() <= len(os.sched_getaffinity(0))
    monkeypatch.setattr(nvcc, "_JOB_BYTES", 1 << 60)
    assert nvcc._jobs() == 1


# ptxas' report


def test_entries_of_a_report(fake):
    fake.install()
    (built,) = nvcc.build([fake.unit()])
    assert built.entries == [nvcc.Entry("f", "sm_80", regs=40, spill_bytes=8, smem_bytes=1024)]


def test_entries_of_a_report_with_several_kernels():
    report = """
ptxas info    : 11 bytes gmem
ptxas info    : Compiling entry function '_Z1aPf' for 'sm_90a'
ptxas info    : Function properties for _Z1aPf
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 168 registers, used 2 barriers
ptxas info    : Compile time = 141.468 ms
ptxas info    : Compiling entry function '_Z1bPf' for 'sm_80'
ptxas info    : Function properties for _Z1bPf
    64 bytes stack frame, 60 bytes spill stores, 56 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 16 bytes smem, 592 bytes cmem[0]
"""
    assert nvcc.entries(report) == [
        nvcc.Entry("_Z1aPf", "sm_90a", 168, 0, 0),
        nvcc.Entry("_Z1bPf", "sm_80", 255, 60, 16),
    ]
    assert nvcc.entries("") == []


# The real thing


def test_a_real_compilation_loads_without_a_driver(tmp_path, monkeypatch):
    try:
        nvcc.find()
    except BuildError as error:
        pytest.skip(str(error))
    monkeypatch.setenv("LAB_CACHE", str(tmp_path / "cache"))
    source = tmp_path / "k.cu"
    source.write_text(
        "__global__ void twice(float* x) { x[threadIdx.x] *= 2; }\n"
        "#pragma GCC visibility push(default)\n"
        'extern "C" int answer() { return 42; }\n'
        'extern "C" void launch(float* x) { twice<<<1, 32>>>(x); }\n'
    )
    (built,) = nvcc.build([Unit(source, ("-gencode=arch=compute_80,code=sm_80",))])
    assert ctypes.CDLL(str(built.library)).answer() == 42
    (entry,) = built.entries
    assert (entry.arch, entry.spill_bytes, entry.smem_bytes) == ("sm_80", 0, 0)
    assert entry.regs > 0
    assert b"libcuda.so" not in _needed(built.library)


def _needed(library):
    return subprocess.run(["ldd", library], capture_output=True, check=True).stdout
