"""The names of kernels that are no matrix product: compilers', PyTorch's, libraries', copies.

Readers and grammars are as in `kernel_names_gemm`.
"""

import re

from lab.kernel_names_gemm import ARCH_WORDS, SIZE, operand

# ATen's operators that hold an underscore and turn up in fused kernels. Inductor joins the names
# by underscores, so only a list can part `native_layer_norm` from `mul_sub`.
_OPERATORS = """
    _to_copy _unsafe_view _unsafe_index _unsafe_index_put _unsafe_masked_index _reshape_alias
    _softmax _softmax_backward_data _log_softmax _log_softmax_backward_data _safe_softmax
    _scaled_mm _int_mm _grouped_mm _scaled_grouped_mm _weight_int8pack_mm _addmm_activation
    _scaled_dot_product_flash_attention _scaled_dot_product_efficient_attention
    _scaled_dot_product_cudnn_attention _scaled_dot_product_fused_attention_overrideable
    _flash_attention_forward _efficient_attention_forward _fused_rms_norm _embedding_bag
    _native_batch_norm_legit _native_batch_norm_legit_functional
    _native_batch_norm_legit_no_training _batch_norm_with_update _adaptive_avg_pool2d
    _adaptive_avg_pool3d _foreach_add _foreach_mul _foreach_div _foreach_sub _foreach_sqrt
    _foreach_addcdiv _foreach_addcmul _foreach_lerp _foreach_copy _foreach_neg _foreach_pow
    _foreach_reciprocal _foreach_maximum _foreach_norm _local_scalar_dense _assert_async
    _weight_norm_interface _prelu_kernel _conj_physical _upsample_bilinear2d_aa
    adaptive_avg_pool1d adaptive_avg_pool2d adaptive_max_pool2d as_strided as_strided_scatter
    avg_pool1d avg_pool2d avg_pool3d binary_cross_entropy binary_cross_entropy_with_logits
    bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor
    clamp_max clamp_min constant_pad_nd conv_transpose2d count_nonzero cross_entropy_loss
    cudnn_batch_norm diag_embed embedding_bag embedding_dense empty_like empty_permuted
    empty_strided expand_as flash_attn float_power floor_divide fmha_v3_fwd full_like
    grid_sampler_2d group_norm huber_loss index_add index_copy index_fill index_put index_reduce
    index_select instance_norm kl_div l1_loss layer_norm leaky_relu lift_fresh lift_fresh_copy
    linalg_vector_norm linear_backward log_sigmoid log_sigmoid_forward log_softmax logical_and
    logical_not logical_or logical_xor masked_fill masked_scatter masked_select
    max_pool1d max_pool2d max_pool2d_with_indices max_pool3d_with_indices moe_forward
    moe_forward_shared mse_loss nan_to_num native_batch_norm native_dropout native_group_norm
    native_layer_norm new_empty new_empty_strided new_full new_ones new_zeros nll_loss
    nll_loss2d_forward nll_loss_forward not_equal one_hot ones_like pixel_shuffle
    pixel_unshuffle rand_like randint_like randn_like reflection_pad1d reflection_pad2d
    repeat_interleave replication_pad2d rms_norm rrelu_with_noise_functional scalar_tensor
    scaled_dot_product_attention scatter_add scatter_reduce select_scatter slice_scatter
    smooth_l1_loss soft_margin_loss split_with_sizes std_mean sum_to_size sym_size t_copy
    take_along_dim true_divide type_as unfold_copy unsafe_split upsample_bicubic2d
    upsample_bilinear2d upsample_nearest1d upsample_nearest2d upsample_nearest3d
    upsample_trilinear3d var_mean view_as view_as_complex view_as_real zeros_like
"""

_LONGEST_FIRST = "|".join(sorted(_OPERATORS.split(), key=len, reverse=True))
_OPERATOR = re.compile(rf"(?:^|_)((?:{_LONGEST_FIRST}|[^_]+)(?:_backward)?)(?=_|$)")

_INDUCTOR_KINDS = {
    "poi": "pointwise",
    "red": "reduction",
    "per": "persistent_reduction",
    "tem": "template",
    "for": "foreach",
    "spl": "split_scan",
}

_ATTENTION_VENDORS = {  # a part of the name -> who wrote it; the first that is there counts
    "cudnn": "cudnn",
    "pytorch": "pytorch",
    "PyTorch": "pytorch",
    "fmhaSm": "tensorrt_llm",
    "flash::": "flash_attention",
}

# Classes and functions that wrap what a PyTorch kernel computes.
_WRAPPER_NAMES = """
    gpu_kernel_impl gpu_kernel_impl_nocast gpu_index_kernel func_wrapper_t ReduceOp BinaryFunctor
    AUnaryFunctor BUnaryFunctor UnaryFunctor OpaqueType TensorListMetadata
    TensorListScalarListMetadata FusedOptimizerTensorListMetadata anonymous namespace unsigned
    char const true false
"""
_WRAPPERS = frozenset(_WRAPPER_NAMES.split())
_TYPE = r"(?:c10::\w+|float|double|int|long|bool|short|signed char|unsigned char)"

# A lambda over elements; lambda(int) is one over indices, unless it was dispatched on a type.
_APPLIED_TO = rf"const::\{{lambda\(({_TYPE})\b|\{{lambda\((?!int\))({_TYPE})\b"


def inductor(match: re.Match) -> dict:
    ops = _OPERATOR.findall(match["ops"] or "")
    return {"operation": _INDUCTOR_KINDS.get(match["kind"] or ""), "ops": tuple(ops)}


def memory(match: re.Match) -> dict:
    """HtoD, DtoD, …; older profilers write Host-to-Device."""
    kind = re.sub(r"([A-Z])\w*-to-([A-Z])\w*", r"\1to\2", match["kind"] or "")
    return {"operation": kind or None}


def nccl(match: re.Match) -> dict:
    tokens = [token for token in match["rest"].split("_") if token]
    types = [
        t for token in tokens if (t := operand(re.sub("^(u?)int(8|32|64)$", r"\1int\2", token)))
    ]
    types = types[0] if types else None
    reductions = [t for t in tokens if t in ("Sum", "Prod", "Min", "Max", "MinMax", "PreMulSum")]
    other = [t for t in tokens if t.isupper() and t.isalnum()]
    return {
        "operation": match["op"],
        "a": types,
        "out": types,
        "functor": reductions[0] if reductions else None,
        "other": tuple(other),
    }


def attention(match: re.Match) -> dict:
    """Only what the known generations say; block_m counts queries and block_n keys."""
    text = match.string
    backward = re.search(r"bwd|[bB]ackward|cutlassB|bprop", text[:120])
    arch = re.search(r"[sS]m_?(\d{2,3})", text)
    element = re.search(
        r"cutlass::(bfloat16_t|half_t)|_(f16|bf16|f32)_|(__half|__nv_bfloat16)", text
    )
    fields = {
        "operation": "attention_backward" if backward else "attention",
        "vendor": next((v for word, v in _ATTENTION_VENDORS.items() if word in text), None),
        "arch": "sm" + arch[1] if arch else None,
        "a": operand(element[element.lastindex]) if element else None,
    }
    traits = re.search(rf"Flash\w*kernel_traits<(\d+), ({SIZE}), ({SIZE}), (\d{{1,2}})\b", text)
    if traits:
        head, *numbers = traits.groups()
        sizes = dict(zip(("block_m", "block_n", "warps"), map(int, numbers), strict=True))
        return fields | sizes | {"other": (f"head_dim{head}",)}
    block = re.search(rf"(?:_aligned_|_knob_\d+_|Q)({SIZE})(?:x|Kv)({SIZE})", text)
    return fields | ({"block_m": int(block[1]), "block_n": int(block[2])} if block else {})


def aten(match: re.Match) -> dict:
    """The launcher, and what it applies: `elementwise_kernel<threads, items, functor…>`.

    `vector` is the width of one access, which vectorized_… and reduce_kernel tell; `items` are
    the elements that a thread handles. The types are the functor's operands, or its element.
    """
    kernel, arguments = _head(match.string)
    fields = {"operation": kernel}
    numbers = [int(n) for n in re.findall(r"\d{1,5}", re.match(r"<?((\d{1,5}, )*)", arguments)[1])]
    if numbers and kernel.startswith("vectorized"):
        fields["vector"] = numbers[0]
    elif len(numbers) > 1 and kernel == "reduce_kernel":
        fields |= {"threads": numbers[0], "vector": numbers[1]}
    elif len(numbers) > 1 and "elementwise_kernel" in kernel:
        fields |= {"threads": numbers[0], "items": numbers[1]}
    elif kernel == "unrolled_elementwise_kernel":
        items = re.search(r"[aA]rray<char ?\*, \d+(?:ul)?>, (\d{1,3})\b", arguments)
        fields["items"] = int(items[1]) if items else None
    fields["functor"], applied = None, ""
    if "elementwise" in kernel or kernel in ("reduce_kernel", "multi_tensor_apply_kernel"):
        fields["functor"], applied = _functor(arguments)
    operands = rf"(Binary|AUnary|BUnary)Functor<({_TYPE}), ({_TYPE}), ({_TYPE}), "
    of = re.search(operands, arguments.removesuffix(applied)) if applied else None
    if of:
        kind, a, b, out = of.groups()
        fields |= {"a": operand(a), "out": operand(out)}
        return fields | ({"b": operand(b)} if kind == "Binary" else {})
    of = re.match(rf"<({_TYPE})\b", applied) or re.search(_APPLIED_TO, applied)
    of = of or re.match(rf"<({_TYPE})\b", arguments)
    return fields | {"a": operand(of[of.lastindex]) if of else None}


def _head(text: str) -> tuple[str, str]:
    """A kernel's own name without its namespaces, and everything behind it."""
    head = re.match(r"(?:\(anonymous namespace\)|[\w:])*", text)[0]
    return head.rpartition("::")[2], text[len(head) :]


def _functor(arguments: str) -> tuple[str | None, str]:
    """The first name that is neither a type nor a wrapper, and what is behind it."""
    for word in re.finditer(r"[A-Za-z_]\w*(?!\w|::)", arguments[:600]):
        if word[0] not in _WRAPPERS and not operand(word[0]):
            return word[0], arguments[word.end() :]
    return None, ""


def named(match: re.Match) -> dict:
    """A library's kernel: its own name is all that is known."""
    return {"operation": _head(match.string)[0] or None}


def liger(match: re.Match) -> dict:
    backward = (match["way"] or match["way_"] or "f")[0] == "b"
    op = match["own"] or match["op"] or match["rope"]
    return {"operation": op + ("_backward" if backward else "")}


def unread(match: re.Match) -> dict:
    return {}


def _grammar(pattern: str) -> re.Pattern:
    return re.compile(pattern, re.VERBOSE)


FIRST = [  # tried before the matrix products
    (
        "memset",
        "cuda",
        _grammar(r"^\[?(?:CUDA[ ])?[Mm]em[sS]et\b (?:[ ]\((?P<kind>[A-Z]\w+)\))?"),
        memory,
    ),
    (
        "memcpy",
        "cuda",
        _grammar(
            r"""^\[?(?:CUDA[ ])?[Mm]em[cC]py\b
            (?:[ ](?P<kind>[A-Z]to[A-Z]|[A-Z][a-z]+-to-[A-Z][a-z]+))?"""
        ),
        memory,
    ),
    ("nccl", "nccl", _grammar(r"\bnccl(?:Dev)?Kernel_(?P<op>[A-Za-z]+)(?P<rest>\w*)"), nccl),
    (
        "inductor",
        "inductor",
        _grammar(
            r"""^triton_(?:(?P<kind>poi|red|per|tem|for|spl|unk)_fused(?:_(?P<ops>\w*?))??
            (?:_\d+)?|)(?:_\d[\dcde]*)?$"""
        ),
        inductor,
    ),
    (
        "fbgemm",
        "fbgemm",
        _grammar(
            r"""^(?: fbgemm_gpu:: | (?:split|dense)_embedding_ | bounds_check_indices_kernel
            | recat_copy_async_kernel | permute_pooled_embs_kernel | linearize_index_kernel)"""
        ),
        named,
    ),
    ("vllm", "vllm", _grammar(r"^vllm::"), named),
    ("cub", "cub", _grammar(r"^(?:\w+::)*cub::"), named),
    (
        "aten",
        "pytorch",
        _grammar(
            r"""^at:: | ^(?:\(anonymous[ ]namespace\)::)?(?: softmax_warp_
            | elementwise_kernel_with_index | indexing_backward_kernel | multimem_ | cunn_
            | compute_cuda_kernel<)"""
        ),
        aten,
    ),
    (
        "attention",
        None,
        _grammar(
            r"""^[^<(]*?(?: flash_(?:fwd|bwd|attn|fprop|bprop) | Flash(?:Attn|Attention)
            | fmha | sdpa | [aA]ttention | \b_?attn_(?:fwd|bwd))
            | ^cutlass\w*::device_kernel<[ ]?flash::"""
        ),
        attention,
    ),
]

LAST = [  # tried after the matrix products
    (
        "cute_dsl",
        "cutlass",
        _grammar(r"^kernel_cutlass_(?P<name>\w*)"),
        unread,
    ),
    (
        "liger",
        "liger",
        _grammar(
            r"""^(?: liger_(?P<own>\w+?) | _(?P<op>geglu(?:_tanh)?|swiglu
              | (?:\w+_)?(?:rms|layer|group)_norm
              | poly_norm|relu_squared|sparsemax|jsd|kldiv|tv_distance|dyt|grpo_loss|llama4_rope
              | selective_log_softmax) )
            _(?: (?P<way>forward|backward|fwd|bwd)_kernel\w*
              | kernel(?:_(?P<way_>forward|backward)\w*)?)$
            | ^_triton_(?P<rope>rope)$"""
        ),
        liger,
    ),
    (
        "cudnn",
        "cudnn",
        _grammar(
            r"""^(?:cask_)?cudnn\w*:: | ^cudnn_ | ^(?:nchwToNhwc|nhwcToNchw)Kernel
            | ^fft2d_[rc]2[rc]_ | ^(?:implicit|precomputed|explicit)_convolve_sgemm
            | ^[wd]grad\w*_engine"""
        ),
        named,
    ),
    (
        "cublas_helper",
        "cublas",
        _grammar(
            r"""^cublas\w*:: | ^epilogue::impl:: | ^[sdhcz]gemm_\w+< | ^magma_\w*gemm
            | ^scal_kernel< | \bcublas\w*Params"""
        ),
        named,
    ),
    # Cut off before their grammars could read them; the family still shows.
    ("nvjet", "cublas", _grammar(r"\bnvjet_"), unread),
    ("xmma", None, _grammar(r"\bsm\d+_xmma_"), unread),
    ("cutlass3x", None, _grammar(r"\bcutlass3x_"), unread),
    ("cutlass2x", None, _grammar(r"\bcutlass_(?:\d+_)?(?:wmma_)?(?:tensorop|simt)"), unread),
    ("cublas", "cublas", _grammar(rf"\b(?:{ARCH_WORDS})_\w*gemm"), unread),
    # Nothing but C++ kernels have parameters or template arguments in their names, so what is
    # left as a bare lower-case name is taken for a user's Triton kernel, as they are called.
    ("triton", "triton", _grammar(r"^(?:_?[a-z]\w*_kernel\w* | _[a-z]\w+)$"), unread),
]
