// y = x W^T + b (tn) or x W + b (nn) for Hopper, as one CUTLASS 3 kernel: TMA loads, wgmma,
// warp specialisation, the bias added by the epilogue. One build holds one tile, given by macros
// in the lab's words: in terms of y, whether or not the operands are swapped.
//
//   ELEMENT      cutlass::bfloat16_t or cutlass::half_t, of x, W, b and y; sums are in float
//   WEIGHT_NK    1 for tn (W is [n, k]), 0 for nn (W is [k, n])
//   BLOCK_M, BLOCK_N, BLOCK_K; CLUSTER_M, CLUSTER_N
//   STAGES       of the mainloop's pipeline; 0 takes as many as shared memory holds
//   COOPERATIVE  1: two warpgroups share a tile; 0 (pingpong): they take turns at tiles
//   STREAM_K     1: tiles are split along k, evenly over the SMs or in equal parts
//   SWAP         1: computes y^T = W x^T, so that few rows of y meet wgmma's narrow side
//
// The entry points are plain C and know nothing of torch. Those that can fail return a text, or
// null where they succeed.

// collective_builder.hpp and gemm_universal.hpp would bring in the GEMMs of every architecture;
// these are the parts that Hopper's stand on, and they compile faster.
#include "cutlass/cutlass.h"
#include "cutlass/epilogue/collective/collective_builder.hpp"
#include "cutlass/epilogue/collective/collective_epilogue.hpp"
#include "cutlass/gemm/collective/builders/sm90_gmma_builder.inl"
#include "cutlass/gemm/collective/sm90_mma_tma_gmma_ss_warpspecialized.hpp"
#include "cutlass/gemm/kernel/sm90_gemm_tma_warpspecialized_cooperative.hpp"
#include "cutlass/gemm/kernel/sm90_gemm_tma_warpspecialized_pingpong.hpp"
#include "cutlass/util/packed_stride.hpp"

namespace {

using cute::Int;
using cute::Shape;
using cute::conditional_t;

constexpr bool kSwap = SWAP;
constexpr bool kWeightNK = WEIGHT_NK;
constexpr bool kCooperative = COOPERATIVE;
constexpr bool kStreamK = STREAM_K;

using Element = ELEMENT;
constexpr int kAlign = 16 / sizeof(Element);  // elements; what TMA asks of every row
using RowMajor = cutlass::layout::RowMajor;
using ColumnMajor = cutlass::layout::ColumnMajor;

// As launched: A is [M, K], B is [K, N], D is [M, N].
using LayoutW = conditional_t<kWeightNK != kSwap, ColumnMajor, RowMajor>;
using LayoutA = conditional_t<kSwap, LayoutW, RowMajor>;
using LayoutB = conditional_t<kSwap, ColumnMajor, LayoutW>;
using LayoutD = conditional_t<kSwap, ColumnMajor, RowMajor>;
using TileShape = conditional_t<kSwap, Shape<Int<BLOCK_N>, Int<BLOCK_M>, Int<BLOCK_K>>,
                                Shape<Int<BLOCK_M>, Int<BLOCK_N>, Int<BLOCK_K>>>;
using ClusterShape = conditional_t<kSwap, Shape<Int<CLUSTER_N>, Int<CLUSTER_M>, Int<1>>,
                                   Shape<Int<CLUSTER_M>, Int<CLUSTER_N>, Int<1>>>;

namespace fusion = cutlass::epilogue::fusion;
using Bias = conditional_t<kSwap, fusion::LinCombPerRowBias<Element, float, Element, void>,
                           fusion::LinCombPerColBias<Element, float, Element, void>>;

using Epilogue = typename cutlass::epilogue::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, TileShape, ClusterShape,
    cutlass::epilogue::collective::EpilogueTileAuto, float, float,
    void, LayoutD, kAlign, Element, LayoutD, kAlign,
    conditional_t<kCooperative, cutlass::epilogue::TmaWarpSpecializedCooperative,
                  cutlass::epilogue::TmaWarpSpecialized>,
    Bias>::CollectiveOp;

using StageCount = conditional_t<
    STAGES == 0,
    cutlass::gemm::collective::StageCountAutoCarveout<sizeof(typename Epilogue::SharedStorage)>,
    cutlass::gemm::collective::StageCount<STAGES>>;

using Mainloop = typename cutlass::gemm::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp,
    Element, LayoutA, kAlign, Element, LayoutB, kAlign, float,
    TileShape, ClusterShape, StageCount,
    conditional_t<kCooperative, cutlass::gemm::KernelTmaWarpSpecializedCooperative,
                  cutlass::gemm::KernelTmaWarpSpecializedPingpong>>::CollectiveOp;

using Kernel = cutlass::gemm::kernel::GemmUniversal<
    Shape<int, int, int, int>, Mainloop, Epilogue,
    conditional_t<kStreamK, cutlass::gemm::StreamKScheduler, cutlass::gemm::PersistentScheduler>>;

static_assert(Kernel::SharedStorageSize <= cutlass::gemm::collective::detail::sm90_smem_capacity_bytes,
              "the tile's stages need more shared memory than a Hopper SM has");
}
int use(typename Kernel::Params const& p) { cutlass::device_kernel<Kernel><<<1,1>>>(p); return 0;}
