// y = x W^T + b (tn) or x W + b (nn) for Ampere and later, as a CUTLASS 2 kernel: cp.async over
// several stages, mma.sync, the bias added by the epilogue's visitors. One build holds one tile
// for both layouts and both dtypes, given by macros:
//
//   BLOCK_M, BLOCK_N, BLOCK_K  of the CTA
//   WARPS_M, WARPS_N           how its warps divide that block
//   STAGES                     of the mainloop's pipeline
//
// The entry points are those of _cutlass.cuh.

#include "cutlass/cutlass.h"
// visitors.hpp needs declarations that come with these.
#include "cutlass/gemm/kernel/default_gemm_universal_with_visitor.h"
#include "cutlass/gemm/kernel/gemm_universal.h"

#include "cutlass/epilogue/threadblock/fusion/visitors.hpp"

#include "_cutlass.cuh"

using Block = cutlass::gemm::GemmShape<BLOCK_M, BLOCK_N, BLOCK_K>;
using Warp = cutlass::gemm::GemmShape<BLOCK_M / WARPS_M, BLOCK_N / WARPS_N, BLOCK_K>;
using Instruction = cutlass::gemm::GemmShape<16, 8, 16>;
using ColumnMajor = cutlass::layout::ColumnMajor;
using RowMajor = cutlass::layout::RowMajor;
namespace visit = cutlass::epilogue::threadblock;

// CTAs run along the rows of y within groups of 2^log_tile columns of blocks. CUTLASS fixes the
// largest group when compiling; here it is an argument.
using Swizzle = cutlass::gemm::threadblock::GemmIdentityThreadblockSwizzle<>;

// The kernel's type under a name that begins with dtype and layout: it is found by them in
// ptxas' report, and the full type still stands in the kernel's name.
template <class Element, bool kWeightNK, class Base>
struct Linear : Base {};

template <class Element, bool kWeightNK>
struct Ampere final : Gemm {
  static constexpr int kAlign = 16 / sizeof(Element);  // elements of one cp.async
  static constexpr auto kRound = cutlass::FloatRoundStyle::round_to_nearest;
  using LayoutW = std::conditional_t<kWeightNK, ColumnMajor, RowMajor>;

  using ThreadMap = visit::OutputTileThreadLayout<Block, Warp, Element, kAlign, 1>;
  using Bias = visit::VisitorRowBroadcast<ThreadMap, Element,
                                          cute::Stride<cute::_0, cute::_1, int32_t>>;
  using Add = visit::VisitorCompute<cutlass::plus, Element, float, kRound>;
  using Store = visit::VisitorAuxStore<ThreadMap, Element, kRound,
                                       cute::Stride<int64_t, cute::_1, int64_t>>;
  using Epilogue =
      visit::Sm80EVT<Store, visit::Sm80EVT<Add, visit::VisitorAccFetch, Bias>>;
  using Kernel = Linear<Element, kWeightNK,
                        typename cutlass::gemm::kernel::DefaultGemmWithVisitor<
                            Element, RowMajor, cutlass::ComplexTransform::kNone, kAlign,
                            Element, LayoutW, cutlass::ComplexTransform::kNone, kAlign,
                            Element, RowMajor, kAlign, float, float,
                            cutlass::arch::OpClassTensorOp, cutlass::arch::Sm80, Block, Warp,
                            Instruction, Epilogue, Swizzle, STAGES,
                            cutlass::arch::OpMultiplyAdd>::GemmKernel>;
  static constexpr int kSharedBytes = sizeof(typename Kernel::SharedStorage);

  typename Kernel::Params params;
  cudaLaunchConfig_t config{};

  static const void* function() {
    return reinterpret_cast<const void*>(cutlass::Kernel2<Kernel>);
  }

  Facts facts() const override { return {STAGES, Kernel::kThreadCount, kSharedBytes}; }

  const char* create(const Task& task) override {
    const int m = task.m, n = task.n, k = task.k;
    const int64_t ldw = kWeightNK ? k : n;
    const typename Epilogue::Arguments epilogue{
        {{}, {static_cast<const Element*>(task.b), Element(0), {}}, {}},
        {static_cast<Element*>(task.y), {n, cute::_1{}, int64_t(m) * n}}};
    const typename Kernel::Arguments arguments(
        cutlass::gemm::GemmUniversalMode::kGemm, {m, n, k}, 1, epilogue, task.x, task.w, nullptr,
        nullptr, int64_t(m) * k, int64_t(n) * k, 0, 0, k, ldw, 0, 0);
    if (k % kAlign || n % kAlign) {
      return "CUTLASS cannot implement this problem: every row of x, W and y must start at a "
             "multiple of 16 bytes";
    }
    params = typename Kernel::Params(arguments, 0, 0);

    const cutlass::gemm::GemmCoord tiles = params.grid_tiled_shape;
    while ((2 << params.swizzle_log_tile) <= task.swizzle &&
           (1 << params.swizzle_log_tile) < tiles.n()) {
      ++params.swizzle_log_tile;
    }
    const int group = 1 << params.swizzle_log_tile;
    config.gridDim = dim3(tiles.m() * group, (tiles.n() + group - 1) / group, 1);
    config.blockDim = dim3(Kernel::kThreadCount);
    config.dynamicSmemBytes = kSharedBytes;
    return error_of(cudaFuncSetAttribute(function(), cudaFuncAttributeMaxDynamicSharedMemorySize,
                                         kSharedBytes));
  }

  Plan plan() const override { return {kAlongM, 1 << params.swizzle_log_tile, 1}; }
  size_t workspace_bytes() const override { return 0; }
  const char* set_workspace(void*) override { return nullptr; }

  const char* launch(cudaStream_t stream) override {
    config.stream = stream;
    void* kernel_params[] = {&params};
    return error_of(cudaLaunchKernelExC(&config, function(), kernel_params));
  }
};

Gemm* make(bool fp16, bool weight_nk) {
  if (fp16 && weight_nk) return new Ampere<cutlass::half_t, true>;
  if (fp16) return new Ampere<cutlass::half_t, false>;
  if (weight_nk) return new Ampere<cutlass::bfloat16_t, true>;
  return new Ampere<cutlass::bfloat16_t, false>;
}
