// y = x W^T + b (tn) or x W + b (nn) for Hopper, as a CUTLASS 3 kernel: TMA loads, wgmma, warp
// specialisation, the bias added by the epilogue. One build holds one tile for both layouts and
// both dtypes: most of a build's time goes into what the four share. The tile is given by macros
// in the lab's words, that is in terms of y, whether or not the operands are swapped:
//
//   BLOCK_M, BLOCK_N, BLOCK_K; CLUSTER_M, CLUSTER_N
//   STAGES       of the mainloop's pipeline; 0 takes as many as shared memory holds
//   COOPERATIVE  1: two warpgroups share a tile; 0 (pingpong): they take turns at tiles
//   STREAM_K     1: tiles are split along k, evenly over the SMs or in equal parts
//   SWAP         1: computes y^T = W x^T, so that few rows of y meet wgmma's narrow side
//
// The entry points at the end are those of _cutlass.cuh.

// CUTLASS' gemm/collective_builder.hpp and gemm_universal.hpp bring in the GEMMs of every
// architecture; these are the parts that Hopper's stand on, and they compile faster.
#include "cutlass/cutlass.h"
#include "cutlass/epilogue/collective/collective_builder.hpp"
#include "cutlass/epilogue/collective/collective_epilogue.hpp"
#include "cutlass/gemm/collective/builders/sm90_gmma_builder.inl"
#include "cutlass/gemm/collective/sm90_mma_tma_gmma_ss_warpspecialized.hpp"
#include "cutlass/gemm/kernel/sm90_gemm_tma_warpspecialized_cooperative.hpp"
#include "cutlass/gemm/kernel/sm90_gemm_tma_warpspecialized_pingpong.hpp"
#include "cutlass/util/packed_stride.hpp"

#include "_cutlass.cuh"

using cute::conditional_t;
using cute::Int;
using cute::Shape;
using ColumnMajor = cutlass::layout::ColumnMajor;
using RowMajor = cutlass::layout::RowMajor;
namespace fusion = cutlass::epilogue::fusion;

constexpr bool kSwap = SWAP;
using TileShape = conditional_t<kSwap, Shape<Int<BLOCK_N>, Int<BLOCK_M>, Int<BLOCK_K>>,
                                Shape<Int<BLOCK_M>, Int<BLOCK_N>, Int<BLOCK_K>>>;
using ClusterShape = conditional_t<kSwap, Shape<Int<CLUSTER_N>, Int<CLUSTER_M>, Int<1>>,
                                   Shape<Int<CLUSTER_M>, Int<CLUSTER_N>, Int<1>>>;
using Scheduler = conditional_t<STREAM_K, cutlass::gemm::StreamKScheduler,
                                cutlass::gemm::PersistentScheduler>;
using EpilogueSchedule = conditional_t<COOPERATIVE, cutlass::epilogue::TmaWarpSpecializedCooperative,
                                       cutlass::epilogue::TmaWarpSpecialized>;
using MainloopSchedule =
    conditional_t<COOPERATIVE, cutlass::gemm::KernelTmaWarpSpecializedCooperative,
                  cutlass::gemm::KernelTmaWarpSpecializedPingpong>;

// The kernel's type under a name that begins with dtype and layout: it is found by them in
// ptxas' report, and the full type still stands in the kernel's name.
template <class Element, bool kWeightNK, class Gemm>
struct Linear : Gemm {};

template <class Element, bool kWeightNK>
struct Hopper final : Gemm {
  static constexpr int kAlign = 16 / sizeof(Element);  // elements; TMA needs it of every row

  // As launched: A is [M, K], B is [K, N], D is [M, N].
  using LayoutW = conditional_t<kWeightNK != kSwap, ColumnMajor, RowMajor>;
  using LayoutA = conditional_t<kSwap, LayoutW, RowMajor>;
  using LayoutB = conditional_t<kSwap, ColumnMajor, LayoutW>;
  using LayoutD = conditional_t<kSwap, ColumnMajor, RowMajor>;

  using Bias = conditional_t<kSwap, fusion::LinCombPerRowBias<Element, float, Element, void>,
                             fusion::LinCombPerColBias<Element, float, Element, void>>;
  using Epilogue = typename cutlass::epilogue::collective::CollectiveBuilder<
      cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, TileShape, ClusterShape,
      cutlass::epilogue::collective::EpilogueTileAuto, float, float, void, LayoutD, kAlign,
      Element, LayoutD, kAlign, EpilogueSchedule, Bias>::CollectiveOp;

  static constexpr int kCarveout = sizeof(typename Epilogue::SharedStorage);
  using Stages = conditional_t<STAGES == 0,
                               cutlass::gemm::collective::StageCountAutoCarveout<kCarveout>,
                               cutlass::gemm::collective::StageCount<STAGES>>;
  using Mainloop = typename cutlass::gemm::collective::CollectiveBuilder<
      cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Element, LayoutA, kAlign, Element,
      LayoutB, kAlign, float, TileShape, ClusterShape, Stages, MainloopSchedule>::CollectiveOp;

  using Kernel = Linear<Element, kWeightNK,
                        cutlass::gemm::kernel::GemmUniversal<Shape<int, int, int, int>, Mainloop,
                                                             Epilogue, Scheduler>>;
  static_assert(Kernel::SharedStorageSize <=
                    cutlass::gemm::collective::detail::sm90_smem_capacity_bytes,
                "the stages of this tile need more shared memory than a Hopper SM has");

  typename Kernel::Arguments arguments{};
  typename Kernel::Params params{};
  void* workspace = nullptr;
  cudaLaunchConfig_t config{};
  cudaLaunchAttribute cluster{};

  static const void* function() {
    return reinterpret_cast<const void*>(cutlass::device_kernel<Kernel>);
  }

  Facts facts() const override {
    return {Mainloop::DispatchPolicy::Stages, int(Kernel::MaxThreadsPerBlock),
            Kernel::SharedStorageSize};
  }

  const char* create(const Task& task) override {
    const int m = kSwap ? task.n : task.m;
    const int n = kSwap ? task.m : task.n;
    const auto a = static_cast<const Element*>(kSwap ? task.w : task.x);
    const auto b = static_cast<const Element*>(kSwap ? task.x : task.w);
    const auto stride_a = packed<typename Kernel::StrideA>(m, task.k);
    const auto stride_b = packed<typename Kernel::StrideB>(n, task.k);
    const auto stride_d = packed<typename Kernel::StrideD>(m, n);
    arguments.mode = cutlass::gemm::GemmUniversalMode::kGemm;
    arguments.problem_shape = {m, n, task.k, 1};
    arguments.mainloop = {a, stride_a, b, stride_b};
    arguments.epilogue = {{}, nullptr, stride_d, static_cast<Element*>(task.y), stride_d};
    arguments.epilogue.thread.bias_ptr = static_cast<const Element*>(task.b);

    using Order = cutlass::gemm::kernel::detail::RasterOrderOptions;
    auto& scheduler = arguments.scheduler;
    scheduler.max_swizzle_size = task.swizzle;
    scheduler.raster_order = task.raster == kHeuristic              ? Order::Heuristic
                             : (task.raster == kAlongM) != kSwap ? Order::AlongM
                                                                    : Order::AlongN;
    if constexpr (STREAM_K) {
      using Mode = cutlass::gemm::kernel::detail::DecompositionMode;
      scheduler.splits = task.split_k;
      scheduler.decomposition_mode = task.split_k > 1 ? Mode::SplitK : Mode::StreamK;
    }
    if (!Kernel::can_implement(arguments)) {
      return "CUTLASS cannot implement this problem: every row of x, W and y must start at a "
             "multiple of 16 bytes";
    }

    config.blockDim = Kernel::get_block_shape();
    config.dynamicSmemBytes = Kernel::SharedStorageSize;
    auto& hardware = arguments.hw_info;
    hardware.device_id = task.device;
    for (cudaError_t status :
         {cudaDeviceGetAttribute(&hardware.sm_count, cudaDevAttrMultiProcessorCount, task.device),
          cudaFuncSetAttribute(function(), cudaFuncAttributeMaxDynamicSharedMemorySize,
                               Kernel::SharedStorageSize)}) {
      if (const char* error = error_of(status)) return error;
    }
    if constexpr (cute::size(ClusterShape{}) > 1) {
      cluster.id = cudaLaunchAttributeClusterDimension;
      cluster.val.clusterDim.x = cute::size<0>(ClusterShape{});
      cluster.val.clusterDim.y = cute::size<1>(ClusterShape{});
      cluster.val.clusterDim.z = 1;
      config.attrs = &cluster;
      config.numAttrs = 1;
      // The persistent grid is as many clusters as run at once; CUTLASS would only guess it.
      config.gridDim = dim3(cute::size<0>(ClusterShape{}), cute::size<1>(ClusterShape{}));
      const cudaError_t status =
          cudaOccupancyMaxActiveClusters(&hardware.max_active_clusters, function(), &config);
      if (const char* error = error_of(status)) return error;
    }
    return set_workspace(nullptr);
  }

  Plan plan() const override {
    using Order = cutlass::gemm::kernel::detail::RasterOrder;
    const auto& scheduler = params.scheduler;
    int split_k = 1;
    if constexpr (STREAM_K) split_k = scheduler.divmod_splits_.divisor;
    return {(scheduler.raster_order_ == Order::AlongM) != kSwap ? kAlongM : kAlongN,
            1 << scheduler.log_swizzle_size_, split_k};
  }

  size_t workspace_bytes() const override { return Kernel::get_workspace_size(arguments); }

  const char* set_workspace(void* memory) override {
    workspace = memory;
    params = Kernel::to_underlying_arguments(arguments, workspace);
    config.gridDim = Kernel::get_grid_shape(params);
    return nullptr;
  }

  const char* launch(cudaStream_t stream) override {
    // Stream-K's barriers between the parts of a tile must be zero at every launch: a memset on
    // the stream ahead of the kernel, and so in every replay of a captured graph.
    if (STREAM_K && Kernel::initialize_workspace(arguments, workspace, stream) !=
                        cutlass::Status::kSuccess) {
      return "stream-K's barriers could not be zeroed";
    }
    config.stream = stream;
    void* kernel_params[] = {&params};
    return error_of(cudaLaunchKernelExC(&config, function(), kernel_params));
  }

 private:
  template <class Stride>
  static Stride packed(int rows, int columns) {
    return cutlass::make_cute_packed_stride(Stride{}, cute::make_shape(rows, columns, 1));
  }
};

Gemm* make(bool fp16, bool weight_nk) {
  if (fp16 && weight_nk) return new Hopper<cutlass::half_t, true>;
  if (fp16) return new Hopper<cutlass::half_t, false>;
  if (weight_nk) return new Hopper<cutlass::bfloat16_t, true>;
  return new Hopper<cutlass::bfloat16_t, false>;
}
