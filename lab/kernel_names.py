"""Reads what a GPU kernel's name says: who wrote it, its types, its tile, what it fuses.

`parse` tries the grammars of `kernel_names_other` and `kernel_names_gemm` in order; the first
that fits reads the name. A field that the grammar doesn't fix is None (or empty), and a name that
no grammar fits has the family `unknown`.

Words that are left in `other`, because what they mean isn't public or is contested:

- `bz`, `bx`, `badd`, `algo2`, `tmaAB`, `alignCD4` in nvjet names. `bz` has been read as a zero
  beta, as a batch in z and as a swizzle.
- `relu` in CUTLASS 2 and older cuBLAS names, and `bias_…`, `relu` in xmma and CUTLASS 3 names:
  these kernels run for products without an activation, too.
- `ldg8`, `f2f`, `sliced1x4`, `medium`, `interior` in older names, `segment_k_on` in xmma names,
  `1sm`, `2sm`, `o`, `q`, `vs32` in CUTLASS 3 names.

`raster` (h or v in nvjet names) is as written, and so is the third letter of nvjet's layouts in
`layout_out`: neither turns the tile round. `stages` is 0 where CUTLASS 3 chose it automatically.
"""

import re
from dataclasses import dataclass, fields
from functools import lru_cache

from lab import kernel_names_gemm, kernel_names_other
from lab.kernel_names_cpp import demangle
from lab.tile import SCHEDULERS, SCHEDULES, Tile

_GRAMMARS = (*kernel_names_other.FIRST, *kernel_names_gemm.GRAMMARS, *kernel_names_other.LAST)


@dataclass(frozen=True)
class KernelName:
    """What a name says, in its own terms; `tile()` has it in the lab's.

    `family` is the grammar: nvjet, cublas (the names before nvjet), xmma, cutlass2x, cutlass3x,
    gemv, splitk_reduce, cublas_helper, cute_dsl, trtllm_gen, tensile, cudnn, attention, inductor,
    triton, liger, aten, cub, nccl, fbgemm, vllm, memset, memcpy or unknown. `vendor` is the
    library that the kernel comes from.

    `block_m`, `block_n`, `block_k`, `cluster` and `instruction` are as named, so that for a
    `column_major` name m counts columns of a row-major y. `layout` holds the letters of A and B
    and `layout_out` those of the result: n for column-major, t for row-major. `c` is the type of
    the source that is added, where a name tells it from the result's. `split_k` says that k is
    split; no name says into how many parts. `ops` are the operators that Inductor fused. `vector`
    is the width of an access, `items` the elements of a thread, `functor` what they apply.
    """

    raw: str
    family: str = "unknown"
    vendor: str | None = None
    operation: str | None = None
    arch: str | None = None
    a: str | None = None
    b: str | None = None
    c: str | None = None
    out: str | None = None
    accumulator: str | None = None
    block_m: int | None = None
    block_n: int | None = None
    block_k: int | None = None
    stages: int | None = None
    cluster: str | None = None
    warps: int | None = None
    instruction: str | None = None
    layout: str | None = None
    layout_out: str | None = None
    column_major: bool | None = None
    alignment: int | None = None
    schedule: str | None = None
    scheduler: str | None = None
    raster: str | None = None
    split_k: bool | None = None
    epilogue: tuple[str, ...] = ()
    ops: tuple[str, ...] = ()
    vector: int | None = None
    threads: int | None = None
    items: int | None = None
    functor: str | None = None
    other: tuple[str, ...] = ()

    def known(self) -> dict[str, object]:
        """The fields that the name fixed, in order, without `raw`."""
        named = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "raw"}
        return {name: value for name, value in named.items() if value not in (None, ())}

    def tile(self) -> Tile | None:
        """The tile in the lab's words, or None for what is no matrix product.

        `block_m` counts rows of a row-major y, so column-major names are turned round, their
        cluster with them. cuBLAS always works that way; for CUTLASS kernels that were asked for
        a column-major result it means that the operands were exchanged, and `swap` says so.
        Raster and swizzle stay None: nvjet's letter is contested and the others have none.
        """
        if self.operation != "gemm" or not self.block_m or self.column_major is None:
            return None
        turned = self.column_major
        block = (self.block_m, self.block_n)
        cluster = self.cluster.split("x") if self.cluster else None
        return Tile(
            block_m=block[turned],
            block_n=block[not turned],
            block_k=self.block_k,
            stages=self.stages or None,
            warps=self.warps,
            cluster="x".join(cluster[::-1] if turned else cluster) if cluster else None,
            schedule=self.schedule if self.schedule in SCHEDULES else None,
            scheduler=self.scheduler if self.scheduler in SCHEDULERS else None,
            swap=True if turned and self.vendor == "cutlass" else None,
            epilogue="_".join(self.epilogue) or None,
        )


def parse(name: str) -> KernelName:
    """What `name` says. Never raises: an unknown name has the family `unknown`.

    Mangled symbols, the spellings of torch.profiler, Nsight Systems and Nsight Compute, and names
    that a profiler cut off or a terminal wrapped are read alike.
    """
    return _parse(name)


@lru_cache(maxsize=1 << 16)
def _parse(name: str) -> KernelName:
    text = clean(name)
    for family, vendor, regex, reader in _GRAMMARS:
        if match := regex.search(text):
            return KernelName(raw=name, **{"family": family, "vendor": vendor} | reader(match))
    return KernelName(raw=name)


def clean(name: str) -> str:
    """The name as one line of readable C++, without result type, quotes and marks of truncation."""
    text = name.strip().strip("\"'`").strip()
    text = re.sub(r"\b(void|const|unsigned|long)\s*[\r\n]+\s*", r"\1 ", text)
    text = re.sub(r"\s*[\r\n]+\s*", "", text)  # a terminal breaks a name anywhere
    text = re.sub(r",\s*", ", ", re.sub(r"\s+", " ", text)).rstrip(".… ")
    if re.fullmatch(r"[\w ]+", text) and "_" in text and not text.startswith("void "):
        text = text.replace(" ", "")  # a bare name that was wrapped or padded
    if re.match(r"_Z\w", text):
        text = demangle(text)
    text = text.replace("<unnamed>", "(anonymous namespace)")
    text = re.sub(r"\((?:int|bool|unsigned int|long|unsigned long)\)(?=-?\d)", "", text)  # Nsight
    return re.sub(r"^(?:void|std::enable_if<.*?>::type) ", "", text)
