"""The names of matrix products: cuBLAS, nvjet, xmma, CUTLASS and their like.

Each reader takes the match of its grammar's regex and returns fields of KernelName by name. The
grammars are not published; they are read off names whose configuration is known:

    legacy   {arch}_[{out}_]{acc}{inst}gemm[_{in}]_{M}x{N}…_stages_{K}x{S}_{layout}
    nvjet    nvjet[_{arch}]_{types}_{M}x{N}_{K}x{S}_{cluster}[_2cta]_{h|v}…_{letters}
             nvjet[_{arch}]_{types}_mma_{M}x{N}x{K}_{S}_{warp tile}…_{letters}
    xmma     {arch}_xmma_gemm_{in}{out}_{math}{acc}_{…}_{layout}_{D}_tilesize{M}x{N}x{K}_stage{S}…
    CUTLASS  as its `cutlass_library/gemm_operation.py` writes them; cuBLAS adds the architecture

`column_major` says that a name speaks of a column-major result: its M counts what a caller with
row-major tensors calls columns.
"""

import math
import re

from lab.kernel_names_cpp import Template, template

NVJET_IS_COLUMN_MAJOR = True
"""An nvjet name's first number counts rows of cuBLAS' column-major result: y's columns.

Settled by grids, as tests/test_profiling.py has it on a GPU. On an H200 torch's linear of 64 rows
to 14336 columns runs `144x64…TNN` as 100 CTAs, which is ⌈14336/144⌉ × ⌈64/64⌉, not 1 × 224, and of
one row to 3072 columns `64x8…TNT` as 48. It holds whatever the third letter is.
"""

SIZE = r"[1-9]\d{0,5}"
ARCH_WORDS = "kepler|maxwell|pascal|volta|turing|ampere|ada|hopper|blackwell"
_DTYPE = (
    r"(?:bf16|fp16|fp32|fp64|tf32|f16|f32|f64|int8(?:x\d+)?|int32|[su](?:2|4|8|16|32|64)|b1|e\dm\d)"
)
# fmt: off
_OPERANDS = {  # words of names and of C++ -> the lab's
    "f16": "fp16", "f32": "fp32", "f64": "fp64", "s8": "int8", "u8": "uint8", "s32": "int32",
    "s4": "int4", "u4": "uint4", "s16": "int16", "s64": "int64", "bfloat16_t": "bf16",
    "half_t": "fp16", "tfloat32_t": "tf32", "float": "fp32", "double": "fp64",
    "BFloat16": "bf16", "__nv_bfloat16": "bf16", "Half": "fp16", "__half": "fp16",
    "half": "fp16", "int": "int32", "long": "int64",
    "signed char": "int8", "int8_t": "int8", "unsigned char": "uint8", "uint8_t": "uint8",
    "short": "int16", "long long": "int64", "bool": "bool", "float_e4m3_t": "e4m3",
    "float_e5m2_t": "e5m2", "float_e2m1_t": "e2m1", "Float8_e4m3fn": "e4m3",
    "Float8_e5m2": "e5m2", "__nv_fp8_e4m3": "e4m3", "__nv_fp8_e5m2": "e5m2", "void": "void",
}
# fmt: on
# The letter before an instruction's shape: BLAS' for what is accumulated in.
_ACCUMULATORS = {"s": "fp32", "d": "fp64", "h": "fp16", "i": "int32", "c": "cf32", "z": "cf64"}
# nvjet's letters; q and o are an 8-bit and a 4-bit float, which one the letter doesn't say.
_NVJET_TYPES = {"t": "bf16", "h": "fp16", "s": "fp32", "d": "fp64", "q": "fp8", "o": "fp4"}
# fmt: off
_INSTRUCTIONS = {  # digits run together -> m x n x k
    "884": "8x8x4", "1688": "16x8x8", "16816": "16x8x16", "16832": "16x8x32",
    "16864": "16x8x64", "161616": "16x16x16", "32816": "32x8x16", "83216": "8x32x16",
    "8816": "8x8x16", "8832": "8x8x32", "88128": "8x8x128", "168128": "16x8x128",
    "168256": "16x8x256", "1684": "16x8x4",
}
# fmt: on


def operand(word: str) -> str | None:
    """The lab's word for an operand type of a name or of C++; None for anything else."""
    word = word.rpartition("::")[2].removesuffix(" const")
    word = _OPERANDS.get(word, word)
    known = r"(c?(bf16|fp\d+|tf32)|u?int\d+|bool|b1|cf\d+|u?e\dm\d|void|(u?e\dm\d)x\w+)(x\d+)?"
    return word if re.fullmatch(known, word) else None


def _integer(text: str | None) -> int | None:
    return int(text) if text else None


def _cluster(text: str | None) -> str | None:
    """`2x1x1` and `2x1` are the same cluster; there is none that is deep in k."""
    found = re.fullmatch(rf"({SIZE}x{SIZE})(?:x1)?", text or "")
    return found[1] if found else None


def _tokens(text: str | None) -> list[str]:
    return [token for token in (text or "").split("_") if token]


def legacy(match: re.Match) -> dict:
    """cuBLAS' and cuDNN's hand-written kernels of the years from Kepler to Ampere."""
    accumulator = _ACCUMULATORS.get(match["acc"][-1])
    plain = accumulator if not match["inst"] or match["acc"] == "h" else None
    operands = operand(match["a"]) if match["a"] else plain
    fields = {
        "arch": match["arch"],
        "operation": "gemm" if match["op"] == "gemm" else "conv",
        "a": operands,
        "b": operands,
        "out": operand(match["out"]) if match["out"] else accumulator,
        "accumulator": accumulator,
        "instruction": _INSTRUCTIONS.get(match["inst"] or ""),
        "block_m": int(match["m"]),
        "block_n": int(match["n"]),
        "column_major": match["op"] == "gemm" or None,
    }
    library = (match["library"] or "").split("_")[0]
    cudnn = library == "cudnn" or match["op"] == "cudnn"
    fields |= {"family": "cudnn"} if cudnn else {}
    fields["vendor"] = "cudnn" if cudnn else {"trt": "tensorrt"}.get(library, "cublas")
    rest = match["rest"]
    if stages := re.search(rf"_stages_({SIZE})x({SIZE})", rest):
        fields |= {"block_k": int(stages[1]), "stages": int(stages[2])}
        rest = rest.replace(stages[0], "")
    tokens = _tokens(match["algorithm"]) + _tokens(rest)
    fields["layout"] = next((t for t in tokens if re.fullmatch("[tn]{2}", t)), None)
    fields["split_k"] = True if "splitK" in tokens else None
    fields["other"] = tuple(t for t in tokens if t not in (fields["layout"], "splitK"))
    return fields


def nvjet(match: re.Match) -> dict:
    letters = match["types"]
    a, b, accumulator, out = {
        3: (letters[0], letters[0], letters[1:2], letters[2:3]),
        5: (letters[0], letters[1:2], letters[3:4], letters[4:5]),
    }.get(len(letters), ("", "", "", ""))
    variants = _tokens(match["variant"])
    fields = {
        "arch": match["arch"],
        "operation": "gemm",
        "a": _NVJET_TYPES.get(a),
        "b": _NVJET_TYPES.get(b),
        "accumulator": _NVJET_TYPES.get(accumulator),
        "out": _NVJET_TYPES.get(out),
        "block_m": int(match["m"]),
        "block_n": int(match["n"]),
        "block_k": _integer(match["k"] or match["mma_k"]),
        "stages": _integer(match["stages"] or match["mma_stages"]),
        "cluster": match["cluster"],
        "raster": match["raster"],
        "column_major": NVJET_IS_COLUMN_MAJOR,
    }
    epilogue, other = [], [*variants]
    other += ["warptile" + match["warp_tile"]] if match["warp_tile"] else []
    other += ["2cta"] if match["two_cta"] else []
    for token in _tokens(match["rest"]):
        if re.fullmatch("[TN]{3,4}", token):
            fields |= {"layout": token[:2].lower(), "layout_out": token[2:].lower()}
        elif token in ("bias", "relu", "gelu"):
            epilogue.append(token)
        elif token == "splitK":
            fields["split_k"] = True
        else:
            fields |= {"schedule": "cooperative"} if token in ("coopA", "coopB") else {}
            other.append(token)
    return fields | {"epilogue": tuple(epilogue), "other": tuple(other)}


def xmma(match: re.Match) -> dict:
    types = [operand(t) for t in re.findall(_DTYPE, match["types"])]
    fields = {
        "arch": match["arch"],
        "operation": match["op"],
        "a": types[0],
        "b": types[0],
        "out": types[1],
        "accumulator": types[3] if len(types) > 4 else types[2],
        "block_m": int(match["m"]),
        "block_n": int(match["n"]),
        "block_k": int(match["k"]),
        "layout": match["layout"],
        "layout_out": match["layout_out"],
        "column_major": match["layout_out"] == "n" if match["op"] == "gemm" else None,
    }
    other = []
    rest = re.sub("segment_k_(on|off)", r"segment-k-\1", match["rest"].replace("split_k", "splitk"))
    for token in _tokens(rest):
        name, number = re.fullmatch(r"([a-z]*)(.*)", token).groups()
        if token in ("execute", "kernel", "5x"):
            continue
        if name in ("cublas", "cudnn", "trt"):
            fields["vendor"] = {"trt": "tensorrt"}.get(name, name)
        elif name == "stage" and number.isdigit():
            fields["stages"] = int(number[:6])
        elif name == "tensor" and number:
            fields["instruction"] = number
        elif name == "cgasize" and number:
            fields["cluster"] = _cluster(number)
        elif name == "warpsize" and re.fullmatch("[1-9]x[1-9]x[1-9]", number):
            fields["warps"] = int(number[0]) * int(number[2]) * int(number[4])
        elif name == "splitk":
            fields["split_k"] = True
        else:
            other.append(token.replace("-", "_"))
    return fields | {"other": tuple(t for t in other if t not in ("infer", "train"))}


def cutlass2(match: re.Match) -> dict:
    """CUTLASS' library names; a number behind `cutlass_` marks those built into cuBLAS.

    A type that isn't named is the accumulator's. `relu` is not taken for an epilogue: cuBLAS runs
    such kernels for plain products, too.
    """
    accumulator = _ACCUMULATORS.get(match["acc"][-1])
    space = match.string[: match.start()]
    a = operand(match["a"]) if match["a"] else accumulator
    layout = match["layout"]
    variant = _tokens(match["variant"])
    return {
        "vendor": "cudnn" if "cudnn" in space else "cublas" if match["arch"] else "cutlass",
        "arch": "sm" + match["arch"] if match["arch"] else None,
        "operation": "gemm" if match["op"].endswith("gemm") else match["op"],
        "a": a,
        "b": operand(match["b"]) if match["b"] else a,
        "out": operand(match["out"]) if match["out"] else accumulator,
        "accumulator": accumulator,
        "instruction": _INSTRUCTIONS.get(match["inst"] or ""),
        "block_m": int(match["m"]),
        "block_n": int(match["n"]),
        "block_k": _integer(match["k"]),
        "stages": _integer(match["stages"]),
        "layout": layout,
        "alignment": _integer(match["align"]),
        "column_major": match["op"].endswith("gemm") or None,
        "other": tuple([match["unit"]] * (match["unit"] != "tensorop") + variant),
    }


def cutlass3(match: re.Match) -> dict:
    a, b, accumulator, c, out = (operand(t) for t in match["types"].split("_"))
    layout = match["layout"]
    fields = {
        "arch": match["arch"],
        "operation": "gemm",
        "a": a,
        "b": b,
        "accumulator": accumulator,
        "c": c,
        "out": out,
        "instruction": match["inst"],
        "block_m": int(match["m"]),
        "block_n": int(match["n"]),
        "block_k": int(match["k"]),
        "cluster": _cluster(match["cluster"]),
        "stages": _integer(match["stages"]),
        "layout": layout and layout[:2],
        "layout_out": layout and layout[2:],
        "alignment": _integer(match["align"]),
        "column_major": layout[2:] == "n" if layout else None,
    }
    other = [match["unit"]] * (match["unit"] != "tensorop") + [match["vs"]] * bool(match["vs"])
    suffix = (match["suffix"] or "").replace("stream_k", "streamk").replace("epi_", "epi-")
    for token in _tokens(suffix):
        if token in ("pingpong", "cooperative"):
            fields["schedule"] = token
        elif token == "warpspecialized":
            fields.setdefault("schedule", "warp_specialized")
        elif token == "streamk":
            fields["scheduler"] = "stream_k"
        else:
            other.append(token.replace("epi-", "epi_"))
    return fields | {"other": tuple(other)}


def _epilogue(text: str) -> tuple[str, ...]:
    """What the classes of a CUTLASS epilogue compute after the product."""
    words = {
        "bias": r"PerColBias|PerRowBias|RowBroadcast|ColBroadcast",
        "gelu": r"\bGELU",
        "relu": r"\bReLU|\bReLu|LinearCombinationRelu",
        "silu": r"\bSiLu|LinearCombinationSilu",
    }
    return tuple(word for word, pattern in words.items() if re.search(pattern, text))


def _letter(stride: Template | None) -> str | None:
    """t for a row-major operand, n for a column-major one; the stride 1 tells."""
    if stride is None:
        return None
    if stride.base in ("RowMajor", "ColumnMajor"):
        return "t" if stride.base == "RowMajor" else "n"
    ones = [i for i, arg in enumerate(stride.args) if arg.args and arg.number() == 1]
    return {0: "n", 1: "t"}.get(ones[0]) if ones else None


def _product(mode: Template) -> int:
    """Elements along one mode, which may be nested: `tuple<C<96>, C<2>>` is 192."""
    return math.prod(part.number() or 0 for part in (mode.args if mode.base == "tuple" else [mode]))


def _positive(number: int | None) -> int | None:
    return number if number and 0 < number < 1_000_000 else None


def device_kernel(match: re.Match) -> dict:
    """CUTLASS 3's kernel class: GemmUniversal<problem, mainloop, epilogue, scheduler>.

    The block is in the kernel's own m and n; where D is column-major, m counts y's columns, and
    for a caller with row-major tensors the operands were exchanged.
    """
    fields = {"operation": "gemm"}
    tree = template(match.string[match.start() :].partition(">(")[0])
    universal = tree.find("GemmUniversal")
    mainloop = tree.find("Mainloop")
    if mainloop:
        arch = re.match(r"MainloopSm(\d+)", mainloop.base)
        fields["arch"] = "sm" + arch[1] if arch else None
        numbers = [n for arg in mainloop.args if not arg.args and (n := arg.number()) is not None]
        fields["stages"] = _positive(numbers[0]) if numbers else None
        cluster = next((arg for arg in mainloop.args if arg.base == "tuple"), None)
        sizes = [_positive(arg.number()) for arg in cluster.args] if cluster else []
        if len(sizes) == 3 and all(sizes):
            fields["cluster"] = _cluster("x".join(map(str, sizes)))
        names = " ".join(node.base for node in mainloop.walk())
        for word, pattern in (
            ("pingpong", "Pingpong"),
            ("cooperative", "Cooperative"),
            ("warp_specialized", r"KernelTmaWarpSpecialized\b"),
        ):
            if re.search(pattern, names):
                fields["schedule"] = word
                break
    collective = tree.find("CollectiveMma")
    if collective and len(collective.args) > 5:
        shape, a, layout_a, b, layout_b = collective.args[1:6]
        if len(shape.args) == 3:
            sizes = [_positive(_product(mode)) for mode in shape.args]
            fields |= dict(zip(("block_m", "block_n", "block_k"), sizes, strict=True))
        fields |= {"a": operand(a.name), "b": operand(b.name)}
        # B's stride is over (N, K): along K it is a column-major [K, N].
        letters = (_letter(layout_a), {"t": "n", "n": "t"}.get(_letter(layout_b)))
        fields["layout"] = "".join(letters) if all(letters) else None
    atoms = " ".join(node.base for node in tree.walk() if "x" in node.base)
    if atom := re.search(r"(\d{1,4}x\d{1,4}x\d{1,4})_(F32|F16|S32)", atoms):
        fields["instruction"] = atom[1]
        fields["accumulator"] = operand(atom[2].lower())
    if universal and len(universal.args) > 2:
        epilogue = universal.args[2]
        text = " ".join(node.base for node in epilogue.walk())
        fields["epilogue"] = _epilogue(text)
        strides = [i for i, arg in enumerate(epilogue.args) if _is_stride(arg)]
        if len(strides) > 1:  # C's and D's
            out = epilogue.args[strides[-1]]
            fields["layout_out"] = _letter(out)
            fields["column_major"] = _letter(out) == "n"
            fields["out"] = operand(epilogue.args[strides[-1] - 1].name)
        schedulers = [arg.base for arg in universal.args[3:]]
        if "StreamKScheduler" in schedulers:
            fields["scheduler"] = "stream_k"
        elif "PersistentScheduler" in schedulers:
            fields["scheduler"] = "persistent"
    return fields


def _is_stride(arg: Template) -> bool:
    return arg.base == "tuple" and len(arg.args) == 3 and "long" in {a.name for a in arg.args}


def cutlass2_template(match: re.Match) -> dict:
    """CUTLASS 2's kernel class, from the arguments of its Default… factory or of its mainloop.

    Such a kernel always computes a row-major result: a column-major one is asked for by
    exchanging the operands before the template is instantiated.
    """
    text = match.string[match.start() :].partition(">(")[0]
    tree = template(text)
    shapes = [node for node in tree.walk() if node.base == "GemmShape" and len(node.args) == 3]
    shapes = [[_positive(arg.number()) for arg in node.args] for node in shapes]
    if not shapes:
        return {"vendor": None}
    conv = re.search(r"Conv\w*?(Fprop|Dgrad|Wgrad)", text)
    fields = {
        "vendor": "cudnn" if "cudnn" in match["space"] else "cutlass",
        "operation": conv[1].lower() if conv else "gemm",
        "column_major": None if conv else False,
    }
    arch = re.search(r"arch::Sm(\d+)", text)
    fields["arch"] = "sm" + arch[1] if arch else None
    fields |= dict(zip(("block_m", "block_n", "block_k"), shapes[0], strict=True))
    if len(shapes) > 2 and all(map(all, shapes[:3])):
        fields["warps"] = math.prod(map(int.__floordiv__, shapes[0], shapes[1])) or None
        fields["instruction"] = "x".join(map(str, shapes[2]))
    fields["epilogue"] = _epilogue(text)
    if default := tree.find("DefaultGemm"):
        fields |= _default_gemm(default)
    elif loop := tree.find("MmaMultistage", "ImplicitGemmMultistage", "MmaPipelined"):
        fields |= _mainloop2(loop)
    return fields


def _default_gemm(node: Template) -> dict:
    """Element, layout, [transform,] alignment of A, of B and of C; accumulator; …; stages."""
    args = node.args
    layouts = [i for i, arg in enumerate(args) if arg.base in ("RowMajor", "ColumnMajor")][:3]
    shapes = [i for i, arg in enumerate(args) if arg.base == "GemmShape"]
    if len(layouts) < 3 or not shapes or layouts[0] == 0:
        return {}
    a, b, c = layouts
    numbers = [n for arg in args[a + 1 : b] if (n := arg.number()) is not None]
    after = [operand(arg.name) for arg in args[c + 1 : shapes[0]] if arg.number() is None]
    stages = [n for arg in args[shapes[-1] :] if not arg.args and (n := arg.number()) is not None]
    return {
        "a": operand(args[a - 1].name),
        "b": operand(args[b - 1].name),
        "out": operand(args[c - 1].name),
        "accumulator": after[0] if after else None,
        "layout": f"{_letter(args[a])}{_letter(args[b])}",
        "layout_out": _letter(args[c]),
        "alignment": _positive(numbers[0]) if numbers else None,
        "stages": _positive(stages[0]) if stages else None,
        "schedule": "multistage" if stages and stages[0] > 2 else None,
    }


def _mainloop2(node: Template) -> dict:
    fields = {}
    iterators = [arg for arg in node.args if re.search(r"(?<!Regular)Tile(Access)?Iter", arg.base)]
    for name, iterator in zip("ab", iterators, strict=False):
        elements = [e for arg in iterator.args if (e := operand(arg.name))]
        fields[name] = elements[0] if elements else None
    letters = [_letter(arg) for it in iterators[:2] for arg in it.args if _letter(arg)]
    fields["layout"] = "".join(letters) if len(letters) == 2 else None
    numbers = [n for arg in node.args if not arg.args and (n := arg.number()) is not None]
    multistage = "Multistage" in node.base
    stages = _positive(numbers[0]) if multistage and numbers else None
    # MmaPipelined keeps two tiles in flight; it has no argument for it.
    fields["stages"] = stages if multistage else 2
    fields["schedule"] = "multistage" if multistage else None
    return fields


def bmm(match: re.Match) -> dict:
    """TensorRT-LLM's generated batched products."""
    letters = re.search(r"_([TN]{2})_", match["rest"])
    stages = re.search(r"_s(\d{1,3})_", match["rest"])
    instruction = re.search(r"_m(\d+x\d+x\d+)_", match["rest"])
    cluster = re.search(r"_cga([\dx]+)_", match["rest"])
    arch = re.search(r"_(sm\d+)", match["rest"])
    return {
        "operation": "bmm",
        "arch": arch and arch[1],
        "block_m": int(match["m"]),
        "block_n": int(match["n"]),
        "block_k": int(match["k"]),
        "stages": stages and int(stages[1]),
        "cluster": cluster and _cluster(cluster[1]),
        "instruction": instruction and instruction[1],
        "layout": letters and letters[1].lower(),
    }


def tensile(match: re.Match) -> dict:
    """AMD's generated products, named by their index letters: Alik is A transposed."""
    letter = {"Alik": "t", "Ailk": "n", "Bljk": "n", "Bjlk": "t"}
    return {
        "operation": "gemm",
        "block_m": int(match["m"]),
        "block_n": int(match["n"]),
        "block_k": int(match["k"]),
        "layout": letter[match["a"]] + letter[match["b"]],
        "column_major": True,
    }


def gemv(match: re.Match) -> dict:
    """cuBLAS' kernels for vectors and for tiny matrices; they have no tile in their names."""
    letters = re.search(r"gemmSN_([TN]{2})|gemv2([TN])", match[0])
    name = "gemm" if match[0].startswith("gemm") else re.sub(r"_.*", "", match[0])
    types = re.search(
        r"<(?:int, int, )?(\w+), (\w+), (\w+), (float|double|\w*half|__nv_bfloat16)\b",
        match.string[match.start() :],
    )
    known = [operand(t) for t in types.groups()] if types else [None] * 4
    a, b, out, accumulator = known if all(known) else [None] * 4
    return {
        "operation": {"dot": "dot", "reduce": "dot", "gemm": "gemm"}.get(name, "gemv"),
        "layout": (letters[1] or letters[2]).lower() if letters else None,
        "a": a,
        "b": b,
        "out": out,
        "accumulator": accumulator,
    }


def splitk_reduce(match: re.Match) -> dict:
    space = match.string[: match.end()]
    vendor = "cudnn" if "cudnn" in space else "cutlass" if "cutlass" in space else "cublas"
    return {"vendor": vendor, "operation": "reduce", "split_k": True}


def _grammar(pattern: str) -> re.Pattern:
    return re.compile(pattern, re.VERBOSE)


GRAMMARS = [  # (family, vendor, regex, reader), in the order in which they are tried
    (
        "nvjet",
        "cublas",
        _grammar(
            rf"""\bnvjet_ (?:(?P<arch>sm\d+)_)? (?P<types>[a-z]{{1,6}}) (?P<variant>(?:_mma|_tf32)*)
            _(?P<m>{SIZE})x(?P<n>{SIZE})
            (?: x(?P<mma_k>{SIZE}) (?:_(?P<mma_stages>{SIZE})_(?P<warp_tile>\d+x\d+x\d+))?
              | _(?P<k>{SIZE})x(?P<stages>{SIZE})
                (?:_(?P<cluster>{SIZE}x{SIZE}))? (?P<two_cta>_2cta)? (?:_(?P<raster>[hv])(?!\w*x))?
            )?
            (?P<rest>\w*)"""
        ),
        nvjet,
    ),
    (
        "xmma",
        None,
        _grammar(
            rf"""\b(?P<arch>sm\d+)_xmma_ (?P<op>gemm|fprop|dgrad|wgrad) (?P<how>(?:_[a-z]+)*?)
            _(?P<types>{_DTYPE}{{2}}_(?:{_DTYPE}{{2}}_)?{_DTYPE})
            _(?P<layout>[tn]{{2}}|n[a-z0-9]*hw[a-z0-9]*)_(?P<layout_out>[a-z]+)
            _tilesize(?P<m>{SIZE})x(?P<n>{SIZE})x(?P<k>{SIZE}) (?P<rest>\w*)"""
        ),
        xmma,
    ),
    (
        "cutlass3x",
        "cutlass",
        _grammar(
            rf"""\bcutlass3x_(?P<arch>sm\d+)_(?P<unit>[a-z]*tensorop|simt)
            _(?:[a-z]?(?P<inst>\d+x\d+x\d+))?[a-z0-9]*?gemm(?:_grouped)?
            _(?P<types>[a-z0-9]+(?:_[a-z0-9]+){{4}})(?:_cvt|_sclzr|_scl|_shfl)*
            _(?P<m>{SIZE})x(?P<n>{SIZE})x(?P<k>{SIZE})
            (?:_(?P<cluster>\d+x\d+x\d+))? (?:_(?P<stages>\d{{1,3}}))? (?:_(?P<vs>vs\d+))?
            (?:_(?P<layout>[tn]{{3}}))? (?:_align(?P<align>{SIZE}))? (?P<suffix>\w*)"""
        ),
        cutlass3,
    ),
    (
        "cutlass2x",
        "cutlass",
        _grammar(
            rf"""\bcutlass_(?:(?P<arch>\d{{2,3}})_)?
            (?P<unit>tensorop|wmma_tensorop|simt|sptensorop)
            _(?:(?P<out>c?{_DTYPE})_)? (?P<acc>g?[hsdczi])(?P<inst>\d+)?(?:xor|and|{_DTYPE})?
            (?P<op>(?:sp)?gemm|fprop|dgrad|wgrad|symm|syrk|trmm) (?P<variant>(?:_[a-z]+)*?)
            (?:_(?P<a>c?{_DTYPE}))? (?:_(?P<b>c?{_DTYPE}))?
            _(?P<m>{SIZE})x(?P<n>{SIZE}) (?:_(?P<k>{SIZE})x(?P<stages>{SIZE}))?
            (?:_(?P<layout>[tnhc]{{2}}|n[a-z0-9]*hw[a-z0-9]*)(?=_|\W|$))?
            (?:_\w*?align(?P<align>{SIZE}))?"""
        ),
        cutlass2,
    ),
    (
        "cublas",
        "cublas",
        _grammar(
            rf"""\b(?:(?P<library>cudnn|cudnn_infer|cudnn_train|trt)_)? (?P<arch>{ARCH_WORDS})_
            (?:(?P<out>{_DTYPE})_)? (?P<acc>g?[hsdczi])(?P<inst>\d+)?(?P<op>gemm|cudnn)
            (?:_(?P<a>{_DTYPE}))? (?P<algorithm>_winograd)?
            _(?P<m>{SIZE})x(?P<n>{SIZE}) (?P<rest>\w*)"""
        ),
        legacy,
    ),
    (
        "splitk_reduce",
        None,
        _grammar(r"splitKreduce_kernel | reduction::kernel::ReduceSplitK"),
        splitk_reduce,
    ),
    (
        "cutlass3x",
        "cutlass",
        _grammar(r"\b(?P<space>cutlass\w*)::device_kernel< (?!\s*flash)"),
        device_kernel,
    ),
    (
        "cutlass2x",
        "cutlass",
        _grammar(r"\b(?P<space>cutlass\w*)::Kernel2?<"),
        cutlass2_template,
    ),
    (
        "trtllm_gen",
        "tensorrt_llm",
        _grammar(rf"^bmm_\w*?_t(?P<m>{SIZE})x(?P<n>{SIZE})x(?P<k>{SIZE})(?P<rest>\w*)"),
        bmm,
    ),
    (
        "tensile",
        "hipblaslt",
        _grammar(
            rf"""^Cijk_(?P<a>Alik|Ailk)_(?P<b>Bljk|Bjlk)_\w*?
            _MT(?P<m>{SIZE})x(?P<n>{SIZE})x(?P<k>{SIZE})"""
        ),
        tensile,
    ),
    (
        "gemv",
        "cublas",
        _grammar(
            r"""\bgemv2[TN]_kernel\w* | \bgemvNSP_kernel\w* | \bgemvx::kernel | \bgemmk1_kernel
            | \bgemmSN_[TN]{2}_kernel\w* | ^dot_kernel< | ^reduce_1Block_kernel | \bgemvx?\b"""
        ),
        gemv,
    ),
]
