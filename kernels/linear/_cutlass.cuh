// The C entry points that _cutlass.py calls, for any CUTLASS kernel of `linear`. A .cu file
// includes this, derives its kernel from Gemm and defines `make`. Nothing here knows of torch.
// Functions that can fail return a text, or null where they succeed.
#pragma once

#include <cuda_runtime.h>

struct Facts {
  int stages, threads, smem_bytes;
};

enum Raster { kHeuristic, kAlongM, kAlongN };  // in terms of y; the order of _cutlass.RASTERS

// One problem's operands. Rows are packed: x is [m, k], y is [m, n].
struct Task {
  const void *x, *w, *b;
  void* y;
  int m, n, k;
  int raster, swizzle, split_k;
  int device;
};

// What a launch does with them: swizzle and split_k may be less than was asked for.
struct Plan {
  int raster, swizzle, split_k;
};

struct Gemm {
  virtual ~Gemm() = default;
  virtual Facts facts() const = 0;
  virtual const char* create(const Task& task) = 0;
  virtual Plan plan() const = 0;
  virtual size_t workspace_bytes() const = 0;
  virtual const char* set_workspace(void* workspace) = 0;
  virtual const char* launch(cudaStream_t stream) = 0;
};

Gemm* make(bool fp16, bool weight_nk);  // weight_nk: W is [n, k] (tn), else [k, n] (nn)

// The text of a failed runtime call, whose error is cleared so that the next call starts clean.
inline const char* error_of(cudaError_t status) {
  if (status == cudaSuccess) return nullptr;
  (void)cudaGetLastError();
  return cudaGetErrorString(status);
}

#pragma GCC visibility push(default)
extern "C" {

Facts linear_facts(int fp16, int weight_nk) {
  Gemm* gemm = make(fp16, weight_nk);
  const Facts facts = gemm->facts();
  delete gemm;
  return facts;
}

const char* linear_create(Gemm** out, int fp16, int weight_nk, const Task* task) {
  if (const char* error = error_of(cudaSetDevice(task->device))) return error;
  Gemm* gemm = make(fp16, weight_nk);
  const char* error = gemm->create(*task);
  if (error) {
    delete gemm;
    return error;
  }
  *out = gemm;
  return nullptr;
}

Plan linear_plan(const Gemm* gemm) { return gemm->plan(); }
size_t linear_workspace_bytes(const Gemm* gemm) { return gemm->workspace_bytes(); }
const char* linear_set_workspace(Gemm* gemm, void* memory) { return gemm->set_workspace(memory); }
const char* linear_launch(Gemm* gemm, cudaStream_t stream) { return gemm->launch(stream); }
void linear_destroy(Gemm* gemm) { delete gemm; }

}  // extern "C"
#pragma GCC visibility pop
