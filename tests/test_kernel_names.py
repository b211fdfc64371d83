"""Kernel names: exact fields by family, coverage of real names, and that nothing ever raises."""

import csv
import io
import random
import re
import time
from collections import Counter
from pathlib import Path

import pytest
import typer
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from lab import cli_name
from lab.kernel_names import KernelName, clean, parse
from lab.kernel_names_cpp import demangle, template
from lab.tile import Tile

# A name, broken where it is long, then, indented, all that it says and the lab's tile.
CASES = r"""
# nvjet: with and without architecture, two CTAs, split k, eight bits, mma, cut off
nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_bias_TNT
    family=nvjet vendor=cublas operation=gemm arch=sm90 a=bf16 b=bf16 out=bf16 accumulator=fp32
    block_m=256 block_n=128 block_k=64 stages=4 cluster=1x2 layout=tn layout_out=t
    column_major=True schedule=cooperative raster=h epilogue=bias other=bz,coopA
    tile=128x256x64-s4-c2x1-cooperative-epi_bias
nvjet_sm90_tst_192x128_64x5_1x2_h_bz_coopB_TNT
    family=nvjet vendor=cublas operation=gemm arch=sm90 a=bf16 b=bf16 out=bf16 accumulator=fp32
    block_m=192 block_n=128 block_k=64 stages=5 cluster=1x2 layout=tn layout_out=t
    column_major=True schedule=cooperative raster=h other=bz,coopB
    tile=128x192x64-s5-c2x1-cooperative
nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_NNN
    family=nvjet vendor=cublas operation=gemm a=fp16 b=fp16 out=fp16 accumulator=fp32 block_m=128
    block_n=256 block_k=64 stages=4 cluster=2x1 layout=nn layout_out=n column_major=True
    schedule=cooperative raster=v other=bz,coopA tile=256x128x64-s4-c1x2-cooperative
nvjet_tst_256x96_64x5_2x1_2cta_v_badd_NNT
    family=nvjet vendor=cublas operation=gemm a=bf16 b=bf16 out=bf16 accumulator=fp32 block_m=256
    block_n=96 block_k=64 stages=5 cluster=2x1 layout=nn layout_out=t column_major=True raster=v
    other=2cta,badd tile=96x256x64-s5-c1x2
nvjet_tss_64x8_64x16_2x1_v_bz_splitK_TNT
    family=nvjet vendor=cublas operation=gemm a=bf16 b=bf16 out=fp32 accumulator=fp32 block_m=64
    block_n=8 block_k=64 stages=16 cluster=2x1 layout=tn layout_out=t column_major=True raster=v
    split_k=True other=bz tile=8x64x64-s16-c1x2
nvjet_sm121_tst_mma_128x208x64_2_32x104x64_tmaAB_bz_TNNN
    family=nvjet vendor=cublas operation=gemm arch=sm121 a=bf16 b=bf16 out=bf16 accumulator=fp32
    block_m=128 block_n=208 block_k=64 stages=2 layout=tn layout_out=nn column_major=True
    other=mma,warptile32x104x64,tmaAB,bz tile=208x128x64-s2
nvjet_qqtst_128x256_128x6_2x2_2cta_h_bz_Avec32UE8M0_Bvec32UE8M0_TNT
    family=nvjet vendor=cublas operation=gemm a=fp8 b=fp8 out=bf16 accumulator=fp32 block_m=128
    block_n=256 block_k=128 stages=6 cluster=2x2 layout=tn layout_out=t column_major=True raster=h
    other=2cta,bz,Avec32UE8M0,Bvec32UE8M0 tile=256x128x128-s6-c2x2
nvjet_sm121_tst_mma_192x144
    family=nvjet vendor=cublas operation=gemm arch=sm121 a=bf16 b=bf16 out=bf16 accumulator=fp32
    block_m=192 block_n=144 column_major=True other=mma tile=144x192
# cuBLAS before nvjet, and cuDNN in the same grammar
volta_sgemm_128x64_nt
    family=cublas vendor=cublas operation=gemm arch=volta a=fp32 b=fp32 out=fp32 accumulator=fp32
    block_m=128 block_n=64 layout=nt column_major=True tile=64x128
ampere_sgemm_32x32_sliced1x4_tn
    family=cublas vendor=cublas operation=gemm arch=ampere a=fp32 b=fp32 out=fp32 accumulator=fp32
    block_m=32 block_n=32 layout=tn column_major=True other=sliced1x4 tile=32x32
ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_nn
    family=cublas vendor=cublas operation=gemm arch=ampere a=bf16 b=bf16 out=bf16 accumulator=fp32
    block_m=128 block_n=256 block_k=64 stages=3 instruction=16x8x16 layout=nn column_major=True
    other=ldg8,f2f tile=256x128x64-s3
ampere_h16816gemm_128x128_ldg8_stages_32x5_tn
    family=cublas vendor=cublas operation=gemm arch=ampere a=fp16 b=fp16 out=fp16 accumulator=fp16
    block_m=128 block_n=128 block_k=32 stages=5 instruction=16x8x16 layout=tn column_major=True
    other=ldg8 tile=128x128x32-s5
volta_h884gemm_256x128_ldg8_nn
    family=cublas vendor=cublas operation=gemm arch=volta a=fp16 b=fp16 out=fp16 accumulator=fp16
    block_m=256 block_n=128 instruction=8x8x4 layout=nn column_major=True other=ldg8 tile=128x256
volta_fp16_s884gemm_fp16_256x128_ldg8_f2f_nn
    family=cublas vendor=cublas operation=gemm arch=volta a=fp16 b=fp16 out=fp16 accumulator=fp32
    block_m=256 block_n=128 instruction=8x8x4 layout=nn column_major=True other=ldg8,f2f
    tile=128x256
maxwell_sgemm_64x64_raggedMn_nt
    family=cublas vendor=cublas operation=gemm arch=maxwell a=fp32 b=fp32 out=fp32
    accumulator=fp32 block_m=64 block_n=64 layout=nt column_major=True other=raggedMn tile=64x64
turing_fp16_s1688gemm_fp16_128x128_ldg8_f2f_tn
    family=cublas vendor=cublas operation=gemm arch=turing a=fp16 b=fp16 out=fp16 accumulator=fp32
    block_m=128 block_n=128 instruction=16x8x8 layout=tn column_major=True other=ldg8,f2f
    tile=128x128
trt_ampere_h16816gemm_256x64_ldg8_tn_v1
    family=cublas vendor=tensorrt operation=gemm arch=ampere a=fp16 b=fp16 out=fp16
    accumulator=fp16 block_m=256 block_n=64 instruction=16x8x16 layout=tn column_major=True
    other=ldg8,v1 tile=64x256
volta_gcgemm_32x32_nt
    family=cublas vendor=cublas operation=gemm arch=volta a=cf32 b=cf32 out=cf32 accumulator=cf32
    block_m=32 block_n=32 layout=nt column_major=True tile=32x32
cudnn_turing_scudnn_128x64_stridedB_splitK_xregs_large_nn_v1
    family=cudnn vendor=cudnn operation=conv arch=turing a=fp32 b=fp32 out=fp32 accumulator=fp32
    block_m=128 block_n=64 layout=nn split_k=True other=stridedB,xregs,large,v1
volta_fp16_s884cudnn_fp16_256x64_ldg8_relu_f2f_exp_small_nhwc2nchw_tn_v1
    family=cudnn vendor=cudnn operation=conv arch=volta a=fp16 b=fp16 out=fp16 accumulator=fp32
    block_m=256 block_n=64 instruction=8x8x4 layout=tn other=ldg8,relu,f2f,exp,small,nhwc2nchw,v1
cudnn_infer_volta_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1
    family=cudnn vendor=cudnn operation=conv arch=volta a=fp32 b=fp32 out=fp32 accumulator=fp32
    block_m=128 block_n=128 layout=nt other=winograd,ldg1,ldg4,relu,tile148t,v1
# xmma
sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x64x64_warpgroupsize1x1x1_execute_segment_k_
off_kernel__5x_cublas
    family=xmma vendor=cublas operation=gemm arch=sm90 a=bf16 b=bf16 out=bf16 accumulator=fp32
    block_m=128 block_n=64 block_k=64 layout=tn layout_out=n column_major=True
    other=warpgroupsize1x1x1,segment_k_off tile=64x128x64
sm80_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize128x160x32_stage3_warpsize2x4x1_tensor16x8x16_kern
el
    family=xmma operation=gemm arch=sm80 a=fp16 b=fp16 out=fp16 accumulator=fp32 block_m=128
    block_n=160 block_k=32 stages=3 warps=8 instruction=16x8x16 layout=tn layout_out=n
    column_major=True tile=160x128x32-s3-w8
sm90_xmma_gemm_f32f32_f32_nn_n_tilesize128x128x32_warpgroupsize1x1x1_execute_segment_k_on_kernel
__5x_cublas
    family=xmma vendor=cublas operation=gemm arch=sm90 a=fp32 b=fp32 out=fp32 accumulator=fp32
    block_m=128 block_n=128 block_k=32 layout=nn layout_out=n column_major=True
    other=warpgroupsize1x1x1,segment_k_on tile=128x128x32
sm89_xmma_gemm_e4m3bf16_e4m3f32_f32_tn_n_tilesize128x128x64_stage3_warpsize2x2x1_tensor16x8x32_b
ias_f16_execute_kernel__5x_cublas
    family=xmma vendor=cublas operation=gemm arch=sm89 a=e4m3 b=e4m3 out=bf16 accumulator=fp32
    block_m=128 block_n=128 block_k=64 stages=3 warps=4 instruction=16x8x32 layout=tn layout_out=n
    column_major=True other=bias,f16 tile=128x128x64-s3-w4
sm80_xmma_wgrad_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize128x128x16_stage
4_warpsize2x2x1_g1_tensor16x8x8_execute_split_k_kernel_cudnn_train
    family=xmma vendor=cudnn operation=wgrad arch=sm80 a=tf32 b=tf32 out=fp32 accumulator=fp32
    block_m=128 block_n=128 block_k=16 stages=4 warps=4 instruction=16x8x8 layout=nhwckrsc
    layout_out=nhwc split_k=True other=g1
# CUTLASS 2: cuBLAS', cuDNN's, its own; cut off; the lab's kernels, mangled
void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_64x64_64x6_tn_align8>(cutlas
s_80_tensorop_bf16_s16816gemm_relu_bf16_64x64_64x6_tn_align8::Params)
    family=cutlass2x vendor=cublas operation=gemm arch=sm80 a=bf16 b=bf16 out=bf16
    accumulator=fp32 block_m=64 block_n=64 block_k=64 stages=6 instruction=16x8x16 layout=tn
    column_major=True alignment=8 other=relu tile=64x64x64-s6
_ZN7cutlass7Kernel2I66cutlass_80_tensorop_f16_s16816gemm_relu_f16_256x128_32x3_tn_align8EEvNT_6P
aramsE
    family=cutlass2x vendor=cublas operation=gemm arch=sm80 a=fp16 b=fp16 out=fp16
    accumulator=fp32 block_m=256 block_n=128 block_k=32 stages=3 instruction=16x8x16 layout=tn
    column_major=True alignment=8 other=relu tile=128x256x32-s3
void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_128x64_16x6_nt_align4>(cutlass_80_tensorop_s1
688gemm_128x64_16x6_nt_align4::Params)
    family=cutlass2x vendor=cublas operation=gemm arch=sm80 a=fp32 b=fp32 out=fp32
    accumulator=fp32 block_m=128 block_n=64 block_k=16 stages=6 instruction=16x8x8 layout=nt
    column_major=True alignment=4 tile=64x128x16-s6
cutlass_75_tensorop_bf16_s1688gemm_bf16_128x128_nn_align1
    family=cutlass2x vendor=cublas operation=gemm arch=sm75 a=bf16 b=bf16 out=bf16
    accumulator=fp32 block_m=128 block_n=128 instruction=16x8x8 layout=nn column_major=True
    alignment=1 tile=128x128
cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_16x16_64x1_nn_align8
    family=cutlass2x vendor=cublas operation=gemm arch=sm80 a=bf16 b=bf16 out=bf16
    accumulator=fp32 block_m=16 block_n=16 block_k=64 stages=1 instruction=16x16x16 layout=nn
    column_major=True alignment=8 other=wmma_tensorop tile=16x16x64-s1
cutlass_80_simt_sgemm_128x32_8x5_nn_align1
    family=cutlass2x vendor=cublas operation=gemm arch=sm80 a=fp32 b=fp32 out=fp32
    accumulator=fp32 block_m=128 block_n=32 block_k=8 stages=5 layout=nn column_major=True
    alignment=1 other=simt tile=32x128x8-s5
cutlass_tensorop_s1688gemm_f16_256x128_32x2_nt_align8
    family=cutlass2x vendor=cutlass operation=gemm a=fp16 b=fp16 out=fp32 accumulator=fp32
    block_m=256 block_n=128 block_k=32 stages=2 instruction=16x8x8 layout=nt column_major=True
    alignment=8 tile=128x256x32-s2-swap
void cutlass__5x_cudnn::Kernel<cutlass_tensorop_bf16_s16816fprop_optimized_bf16_256x64_32x4_nhwc
_align8>(cutlass_tensorop_bf16_s16816fprop_optimized_bf16_256x64_32x4_nhwc_align8::Params)
    family=cutlass2x vendor=cudnn operation=fprop a=bf16 b=bf16 out=bf16 accumulator=fp32
    block_m=256 block_n=64 block_k=32 stages=4 instruction=16x8x16 layout=nhwc alignment=8
    other=optimized
void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_re...
    family=cutlass2x
_ZN7cutlass7Kernel2I6LinearINS_10bfloat16_tELb1ENS_4gemm6kernel22DefaultGemmWithVisitorIS2_NS_6l
ayout8RowMajorELNS_16ComplexTransformE0ELi8ES2_NS6_11ColumnMajorELS8_0ELi8ES2_S7_Li8EffNS_4arch1
5OpClassTensorOpENSA_4Sm80ENS3_9GemmShapeILi128ELi256ELi64EEENSD_ILi64ELi64ELi64EEENSD_ILi16ELi8
ELi16EEENS_8epilogue11threadblock13TreeVisitor2xINSI_15VisitorAuxStoreINSI_22OutputTileThreadLay
outISE_SF_S2_Li8ELi1EEES2_LNS_15FloatRoundStyleE2EN4cute5tupleIJlNSO_1CILi1EEElEEEEEJNSJ_INSI_14
VisitorComputeINS_4plusES2_fLSN_2EvEEJNSI_15VisitorAccFetchENSI_19VisitorRowBroadcastISM_S2_NSP_
IJNSQ_ILi0EEESR_iEEELb1EEEEEEEEENS3_11threadblock30GemmIdentityThreadblockSwizzleILi1EEELi3ENSA_
13OpMultiplyAddELi1EE10SelectBaseIS16_vEEEEEvNT_6ParamsE
    family=cutlass2x vendor=cutlass operation=gemm arch=sm80 a=bf16 b=bf16 out=bf16
    accumulator=fp32 block_m=128 block_n=256 block_k=64 stages=3 warps=8 instruction=16x8x16
    layout=tn layout_out=t column_major=False alignment=8 schedule=multistage epilogue=bias
    tile=128x256x64-s3-w8-multistage-epi_bias
_ZN7cutlass7Kernel2I6LinearINS_6half_tELb0ENS_4gemm6kernel22DefaultGemmWithVisitorIS2_NS_6layout
8RowMajorELNS_16ComplexTransformE0ELi8ES2_S7_LS8_0ELi8ES2_S7_Li8EffNS_4arch15OpClassTensorOpENS9
_4Sm80ENS3_9GemmShapeILi128ELi256ELi64EEENSC_ILi64ELi64ELi64EEENSC_ILi16ELi8ELi16EEENS_8epilogue
11threadblock13TreeVisitor2xINSH_15VisitorAuxStoreINSH_22OutputTileThreadLayoutISD_SE_S2_Li8ELi1
EEES2_LNS_15FloatRoundStyleE2EN4cute5tupleIJlNSN_1CILi1EEElEEEEEJNSI_INSH_14VisitorComputeINS_4p
lusES2_fLSM_2EvEEJNSH_15VisitorAccFetchENSH_19VisitorRowBroadcastISL_S2_NSO_IJNSP_ILi0EEESQ_iEEE
Lb1EEEEEEEEENS3_11threadblock30GemmIdentityThreadblockSwizzleILi1EEELi3ENS9_13OpMultiplyAddELi1E
E10SelectBaseIS15_vEEEEEvNT_6ParamsE
    family=cutlass2x vendor=cutlass operation=gemm arch=sm80 a=fp16 b=fp16 out=fp16
    accumulator=fp32 block_m=128 block_n=256 block_k=64 stages=3 warps=8 instruction=16x8x16
    layout=tt layout_out=t column_major=False alignment=8 schedule=multistage epilogue=bias
    tile=128x256x64-s3-w8-multistage-epi_bias
# CUTLASS 3: library names; the lab's kernels, mangled (c++filt can't read them)
cutlass3x_sm90_tensorop_gemm_bf16_bf16_f32_bf16_bf16_128x256x64_1x1x1_0_tnn_align8_warpspecializ
ed_cooperative_epi_tma
    family=cutlass3x vendor=cutlass operation=gemm arch=sm90 a=bf16 b=bf16 c=bf16 out=bf16
    accumulator=fp32 block_m=128 block_n=256 block_k=64 stages=0 cluster=1x1 layout=tn
    layout_out=n column_major=True alignment=8 schedule=cooperative other=epi_tma
    tile=256x128x64-c1x1-cooperative-swap
cutlass3x_sm90_tensorop_s64x128x16gemm_f16_f16_f32_void_f16_128x128x64_2x1x1_0_ttn_align8_warpsp
ecialized_epi_nosmem
    family=cutlass3x vendor=cutlass operation=gemm arch=sm90 a=fp16 b=fp16 c=void out=fp16
    accumulator=fp32 block_m=128 block_n=128 block_k=64 stages=0 cluster=2x1 instruction=64x128x16
    layout=tt layout_out=n column_major=True alignment=8 schedule=warp_specialized
    other=epi_nosmem tile=128x128x64-c1x2-warp_specialized-swap
cutlass3x_sm90_tensorop_s64x128x16gemm_f16_f16_f32_f16_f16_128x128x64_2x1x1_0_ttt_align8_warpspe
cialized_pingpong_epi_tma
    family=cutlass3x vendor=cutlass operation=gemm arch=sm90 a=fp16 b=fp16 c=fp16 out=fp16
    accumulator=fp32 block_m=128 block_n=128 block_k=64 stages=0 cluster=2x1 instruction=64x128x16
    layout=tt layout_out=t column_major=False alignment=8 schedule=pingpong other=epi_tma
    tile=128x128x64-c2x1-pingpong
cutlass3x_sm90_tensorop_gemm_f16_f16_f32_void_f32_128x128x64_2x1x1_0_ntt_align8_stream_k_warpspe
cialized_cooperative_epi_tma
    family=cutlass3x vendor=cutlass operation=gemm arch=sm90 a=fp16 b=fp16 c=void out=fp32
    accumulator=fp32 block_m=128 block_n=128 block_k=64 stages=0 cluster=2x1 layout=nt
    layout_out=t column_major=False alignment=8 schedule=cooperative scheduler=stream_k
    other=epi_tma tile=128x128x64-c2x1-cooperative-stream_k
cutlass3x_sm90_tensorop_tf32gemm_f32_f32_f32_f32_f32_128x128x32_2x1x1_0_tnn_align4
    family=cutlass3x vendor=cutlass operation=gemm arch=sm90 a=fp32 b=fp32 c=fp32 out=fp32
    accumulator=fp32 block_m=128 block_n=128 block_k=32 stages=0 cluster=2x1 layout=tn
    layout_out=n column_major=True alignment=4 tile=128x128x32-c1x2-swap
cutlass3x_sm100_bssptensorop_bsspgemm_ue8m0xe2m1_ue8m0xe2m1_f32_void_f16_256x256x512_0_vs64_tnt_
align64_o_2sm
    family=cutlass3x vendor=cutlass operation=gemm arch=sm100 a=ue8m0xe2m1 b=ue8m0xe2m1 c=void
    out=fp16 accumulator=fp32 block_m=256 block_n=256 block_k=512 stages=0 layout=tn layout_out=t
    column_major=False alignment=64 other=bssptensorop,vs64,o,2sm tile=256x256x512
cutlass3x_sm100_sptensorop_spgemm_s8_s8_s32_void_s8_256x256x256_2x1x1_0_tnn_align32_2sm
    family=cutlass3x vendor=cutlass operation=gemm arch=sm100 a=int8 b=int8 c=void out=int8
    accumulator=int32 block_m=256 block_n=256 block_k=256 stages=0 cluster=2x1 layout=tn
    layout_out=n column_major=True alignment=32 other=sptensorop,2sm tile=256x256x256-c1x2-swap
cutlass3x_sm100_simt_sgemm_f32_f32_f32_f32_f32_128x128x16_1x1x1_3_tnn_align1_bias_f32_relu
    family=cutlass3x vendor=cutlass operation=gemm arch=sm100 a=fp32 b=fp32 c=fp32 out=fp32
    accumulator=fp32 block_m=128 block_n=128 block_k=16 stages=3 cluster=1x1 layout=tn
    layout_out=n column_major=True alignment=1 other=simt,bias,f32,relu
    tile=128x128x16-s3-c1x1-swap
_ZN7cutlass13device_kernelI6LinearINS_10bfloat16_tELb1ENS_4gemm6kernel13GemmUniversalIN4cute5tup
leIJiiiiEEENS3_10collective13CollectiveMmaINS3_34MainloopSm90TmaGmmaWarpSpecializedILi9ENS7_IJNS
6_1CILi2EEENSC_ILi1EEESE_EEENS3_32KernelTmaWarpSpecializedPingpongEEENS7_IJNSC_ILi64EEENSC_ILi32
EEENSC_ILi128EEEEEES2_NS7_IJlSE_lEEES2_SM_NS6_8TiledMMAINS6_8MMA_AtomIJNS6_4SM904GMMA27MMA_64x32
x16_F32BF16BF16_SSILNSQ_5MajorE0ELSS_0ELNSQ_7ScaleInE1ELST_1EEEEEENS6_6LayoutINS7_IJSE_SE_SE_EEE
NS7_IJNSC_ILi0EEESY_SY_EEEEENS7_IJNS6_10UnderscoreES11_S11_EEEEENS6_13SM90_TMA_LOADENS6_14Compos
edLayoutINS6_7SwizzleILi3ELi4ELi3EEENS6_18smem_ptr_flag_bitsILi16EEENSW_INS7_IJNSC_ILi8EEESI_EEE
NS7_IJSI_SE_EEEEEEEvNS6_8identityENS6_23SM90_TMA_LOAD_MULTICASTES1E_vS1F_EENS_8epilogue10collect
ive18CollectiveEpilogueINS1I_22Sm90TmaWarpSpecializedILi1ELi1ELi16ELb0ELb1EEEJSL_NS7_IJSI_SJ_EEE
vNS7_IJSE_llEEES2_S1O_NS1I_6fusion15FusionCallbacksIS1M_NS1P_17LinCombPerRowBiasIS2_fS2_vfLi8ELN
S_15FloatRoundStyleE2EEESL_S1N_JEEES14_NS15_IS17_S19_NSW_INS7_IJSI_S1A_EEENS7_IJSE_SI_EEEEEEENS6
_17SM75_U16x8_LDSM_TENS6_14SM90_TMA_STOREES1Y_NS6_17SM90_U16x8_STSM_TENS6_9Copy_AtomIJNS6_17SM90
_U32x4_STSM_NENS_6half_tEEEEvEEENS3_19PersistentSchedulerEvEEEEEvNT_6ParamsE
    family=cutlass3x vendor=cutlass operation=gemm arch=sm90 a=bf16 b=bf16 out=bf16
    accumulator=fp32 block_m=64 block_n=32 block_k=128 stages=9 cluster=2x1 instruction=64x32x16
    layout=tn layout_out=n column_major=True schedule=pingpong scheduler=persistent epilogue=bias
    tile=32x64x128-s9-c1x2-pingpong-persistent-swap-epi_bias
_ZN7cutlass13device_kernelINS_4gemm6kernel13GemmUniversalIN4cute5tupleIJiiiiEEENS1_10collective1
3CollectiveMmaINS1_34MainloopSm90TmaGmmaWarpSpecializedILi4ENS5_IJNS4_1CILi2EEENSA_ILi1EEESC_EEE
NS1_35KernelTmaWarpSpecializedCooperativeEEENS5_IJNSA_ILi128EEENSA_ILi256EEENSA_ILi64EEEEEENS_10
bfloat16_tENS5_IJlSC_lEEESK_SL_NS4_8TiledMMAINS4_8MMA_AtomIJNS4_4SM904GMMA28MMA_64x256x16_F32BF1
6BF16_SSILNSP_5MajorE0ELSR_0ELNSP_7ScaleInE1ELSS_1EEEEEENS4_6LayoutISD_NS5_IJSC_NSA_ILi0EEESW_EE
EEENS5_IJNS4_10UnderscoreESZ_SZ_EEEEENS4_13SM90_TMA_LOADENS4_14ComposedLayoutINS4_7SwizzleILi3EL
i4ELi3EEENS4_18smem_ptr_flag_bitsILi16EEENSV_INS5_IJNSA_ILi8EEESI_EEENS5_IJSI_SC_EEEEEEEvNS4_8id
entityENS4_23SM90_TMA_LOAD_MULTICASTES1C_vS1D_EENS_8epilogue10collective18CollectiveEpilogueINS1
G_22Sm90TmaWarpSpecializedILi4ELi2ELi16ELb0ELb1EEEJSJ_NS5_IJSG_NSA_ILi32EEEEEEvSL_SK_SL_NS1G_6fu
sion15FusionCallbacksIS1K_NS1N_17LinCombPerColBiasISK_fSK_SK_fLi8ELNS_15FloatRoundStyleE2EEESJ_S
1M_JEEES12_NS13_INS14_ILi2ELi4ELi3EEES17_NSV_INS5_IJS18_S1L_EEENS5_IJS1L_SC_EEEEEEENS4_17SM75_U3
2x4_LDSM_NENS4_14SM90_TMA_STOREES1X_NS4_17SM90_U32x4_STSM_NENS4_9Copy_AtomIJS20_NS_6half_tEEEEvE
EEvvEEEEvNT_6ParamsE
    family=cutlass3x vendor=cutlass operation=gemm arch=sm90 a=bf16 b=bf16 out=bf16
    accumulator=fp32 block_m=128 block_n=256 block_k=64 stages=4 cluster=2x1 instruction=64x256x16
    layout=tn layout_out=t column_major=False schedule=cooperative epilogue=bias
    tile=128x256x64-s4-c2x1-cooperative-epi_bias
_ZN7cutlass13device_kernelINS_4gemm6kernel13GemmUniversalIN4cute5tupleIJiiiiEEENS1_10collective1
3CollectiveMmaINS1_34MainloopSm90TmaGmmaWarpSpecializedILi6ENS5_IJNS4_1CILi2EEENSA_ILi1EEESC_EEE
NS1_35KernelTmaWarpSpecializedCooperativeEEENS5_IJNSA_ILi128EEESG_NSA_ILi64EEEEEENS_10bfloat16_t
ENS5_IJlSC_lEEESJ_SK_NS4_8TiledMMAINS4_8MMA_AtomIJNS4_4SM904GMMA28MMA_64x128x16_F32BF16BF16_SSIL
NSO_5MajorE0ELSQ_0ELNSO_7ScaleInE1ELSR_1EEEEEENS4_6LayoutISD_NS5_IJSC_NSA_ILi0EEESV_EEEEENS5_IJN
S4_10UnderscoreESY_SY_EEEEENS4_13SM90_TMA_LOADENS4_14ComposedLayoutINS4_7SwizzleILi3ELi4ELi3EEEN
S4_18smem_ptr_flag_bitsILi16EEENSU_INS5_IJNSA_ILi8EEESH_EEENS5_IJSH_SC_EEEEEEEvNS4_8identityENS4
_23SM90_TMA_LOAD_MULTICASTES1B_vS1C_EENS_8epilogue10collective18CollectiveEpilogueINS1F_22Sm90Tm
aWarpSpecializedILi4ELi2ELi16ELb0ELb1EEEJSI_NS5_IJSG_NSA_ILi32EEEEEEvSK_SJ_SK_NS1F_6fusion15Fusi
onCallbacksIS1J_NS1M_17LinCombPerColBiasISJ_fSJ_SJ_fLi8ELNS_15FloatRoundStyleE2EEESI_S1L_JEEES11
_NS12_INS13_ILi2ELi4ELi3EEES16_NSU_INS5_IJS17_S1K_EEENS5_IJS1K_SC_EEEEEEENS4_17SM75_U32x4_LDSM_N
ENS4_14SM90_TMA_STOREES1W_NS4_17SM90_U32x4_STSM_NENS4_9Copy_AtomIJS1Z_NS_6half_tEEEEvEEENS1_16St
reamKSchedulerEvEEEEvNT_6ParamsE
    family=cutlass3x vendor=cutlass operation=gemm arch=sm90 a=bf16 b=bf16 out=bf16
    accumulator=fp32 block_m=128 block_n=128 block_k=64 stages=6 cluster=2x1 instruction=64x128x16
    layout=tn layout_out=t column_major=False schedule=cooperative scheduler=stream_k
    epilogue=bias tile=128x128x64-s6-c2x1-cooperative-stream_k-epi_bias
_ZN7cutlass13device_kernelINS_4gemm6kernel13GemmUniversalIN4cute5tupleIJiiiiEEENS1_10collective1
3CollectiveMmaINS1_34MainloopSm90TmaGmmaWarpSpecializedILi11ENS5_IJNS4_1CILi1EEESB_SB_EEENS1_32K
ernelTmaWarpSpecializedPingpongEEENS5_IJNSA_ILi64EEENSA_ILi16EEENSA_ILi128EEEEEENS_10bfloat16_tE
NS5_IJlSB_lEEESJ_NS5_IJSB_llEEENS4_8TiledMMAINS4_8MMA_AtomIJNS4_4SM904GMMA27MMA_64x16x16_F32BF16
BF16_SSILNSP_5MajorE0ELSR_1ELNSP_7ScaleInE1ELSS_1EEEEEENS4_6LayoutISC_NS5_IJNSA_ILi0EEESW_SW_EEE
EENS5_IJNS4_10UnderscoreESZ_SZ_EEEEENS4_13SM90_TMA_LOADENS4_14ComposedLayoutINS4_7SwizzleILi3ELi
4ELi3EEENS4_18smem_ptr_flag_bitsILi16EEENSV_INS5_IJNSA_ILi8EEESF_EEENS5_IJSF_SB_EEEEEEEvNS4_8ide
ntityES12_NS13_INS14_ILi1ELi4ELi3EEES17_NSV_INS5_IJSG_S18_EEENS5_IJSB_SG_EEEEEEEvS1D_EENS_8epilo
gue10collective18CollectiveEpilogueINS1K_22Sm90TmaWarpSpecializedILi1ELi1ELi8ELb0ELb1EEEJSI_NS5_
IJSF_SG_EEEvSL_SJ_SL_NS1K_6fusion15FusionCallbacksIS1O_NS1Q_23LinCombPerRowBiasEltActINS1K_6thre
ad11GELU_taylorESJ_fSJ_SJ_fLi8ELNS_15FloatRoundStyleE2EEESI_S1P_JEEES12_NS13_IS15_S17_NSV_INS5_I
JSF_S18_EEENS5_IJSB_SF_EEEEEEENS4_17SM75_U16x8_LDSM_TENS4_14SM90_TMA_STOREES21_NS4_17SM90_U16x8_
STSM_TENS4_9Copy_AtomIJNS4_17SM90_U32x4_STSM_NENS_6half_tEEEEvEEENS1_19PersistentSchedulerEvEEEE
vNT_6ParamsE
    family=cutlass3x vendor=cutlass operation=gemm arch=sm90 a=bf16 b=bf16 out=bf16
    accumulator=fp32 block_m=64 block_n=16 block_k=128 stages=11 cluster=1x1 instruction=64x16x16
    layout=tt layout_out=n column_major=True schedule=pingpong scheduler=persistent
    epilogue=bias,gelu tile=16x64x128-s11-c1x1-pingpong-persistent-swap-epi_bias_gelu
# other products and their helpers
bmm_Bfloat16_MxE2m1MxE4m3_Fp32_t128x16x256u2_s3_et128x16_m128x16x32_cga1x1x1_16dp256b_rM_TN_tran
sOut_schedP2x1x2x3_biasM_bN_tmaOpt_clmp_dynBatch_sm100f
    family=trtllm_gen vendor=tensorrt_llm operation=bmm arch=sm100 block_m=128 block_n=16
    block_k=256 stages=3 cluster=1x1 instruction=128x16x32 layout=tn
Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x192x64_MI16x16x1_SN_LDSB1
    family=tensile vendor=hipblaslt operation=gemm block_m=256 block_n=192 block_k=64 layout=tn
    column_major=True tile=192x256x64
kernel_cutlass_kernel___main__HopperWgmmaGemmKernel_object_at__CopyAtom_ThrID10_0
    family=cute_dsl vendor=cutlass
std::enable_if<!(false), void>::type internal::gemvx::kernel<int, int, __nv_bfloat16,
 __nv_bfloat16, __nv_bfloat16, float, false, true, true, false, 7, false,
 cublasGemvParamsEx<int, cublasGemvTensorStridedBatched<__nv_bfloat16 const>, float>
 >(cublasGemvParamsEx<int>)
    family=gemv vendor=cublas operation=gemv a=bf16 b=bf16 out=bf16 accumulator=fp32
void gemv2T_kernel_val<int, int, float, float, float, float, 128, 16, 2, 2, false, false,
 cublasGemvParams<float> >(cublasGemvParams<float>, float, float)
    family=gemv vendor=cublas operation=gemv a=fp32 b=fp32 out=fp32 accumulator=fp32 layout=t
void gemmSN_NN_kernel<float, 128, 2, 4, 8, 3, 4, false, cublasGemvTensorStridedBatched<float
 const> >(float)
    family=gemv vendor=cublas operation=gemm layout=nn
void dot_kernel<float, 128, 0, cublasDotParams<cublasGemvTensorStridedBatched<float const>,
 cublasGemvTensorStridedBatched<float> > >(float)
    family=gemv vendor=cublas operation=dot
void cublasLt::splitKreduce_kernel<32, 16, int, __nv_bfloat16, __nv_bfloat16, float,
 __nv_bfloat16, true, true, false>(cublasLt::cublasSplitKParams<float>)
    family=splitk_reduce vendor=cublas operation=reduce split_k=True
void cutlass_cudnn_train::Kernel<cutlass_cudnn_train::reduction::kernel::ReduceSplitK<cutlass_cu
dnn_train::MatrixShape<4, 128>, float> >()
    family=splitk_reduce vendor=cudnn operation=reduce split_k=True
void epilogue::impl::globalKernel<float, float, float, true, true>(int, int, long, float*,
 cublasLtEpilogue_t)
    family=cublas_helper vendor=cublas operation=globalKernel
# Inductor, Liger, Triton
triton_poi_fused_gelu_mul_0
    family=inductor vendor=inductor operation=pointwise ops=gelu,mul
triton_poi_fused__unsafe_view_gelu_mul_0
    family=inductor vendor=inductor operation=pointwise ops=_unsafe_view,gelu,mul
triton_red_fused_add_addmm_mul_native_layer_norm_split_unsqueeze_view_5
    family=inductor vendor=inductor operation=reduction
    ops=add,addmm,mul,native_layer_norm,split,unsqueeze,view
triton_per_fused__scaled_mm__to_copy_abs_clamp_max_mul_reciprocal_sigmoid_0
    family=inductor vendor=inductor operation=persistent_reduction
    ops=_scaled_mm,_to_copy,abs,clamp_max,mul,reciprocal,sigmoid
triton_tem_fused_addmm_0
    family=inductor vendor=inductor operation=template ops=addmm
triton_tem_fused_addmm_t_view
    family=inductor vendor=inductor operation=template ops=addmm,t,view
triton_for_fused_1
    family=inductor vendor=inductor operation=foreach
triton_poi_fused_0
    family=inductor vendor=inductor operation=pointwise
triton_poi_fused_gelu_backward_mul_sum_to_size_3
    family=inductor vendor=inductor operation=pointwise ops=gelu_backward,mul,sum_to_size
triton__0d1d2d3d
    family=inductor vendor=inductor
_geglu_tanh_forward_kernel
    family=liger vendor=liger operation=geglu_tanh
_swiglu_backward_kernel
    family=liger vendor=liger operation=swiglu_backward
liger_cross_entropy_kernel
    family=liger vendor=liger operation=cross_entropy
_rms_norm_forward_kernel
    family=liger vendor=liger operation=rms_norm
_matmul_kernel
    family=triton vendor=triton
matmul_kernel_persistent
    family=triton vendor=triton
_attn_fwd
    family=attention operation=attention
# PyTorch
void at::native::elementwise_kernel<128, 4,
 at::native::gpu_kernel_impl_nocast<at::native::BinaryFunctor<c10::BFloat16, c10::BFloat16,
 c10::BFloat16, at::native::binary_internal::MulFunctor<float> > >(at::TensorIteratorBase&,
 at::native::BinaryFunctor<c10::BFloat16, c10::BFloat16, c10::BFloat16,
 at::native::binary_internal::MulFunctor<float> > const&)::{lambda(int)#1}>(int)
    family=aten vendor=pytorch operation=elementwise_kernel a=bf16 b=bf16 out=bf16 threads=128
    items=4 functor=MulFunctor
void at::native::elementwise_kernel<128, 4,
 at::native::gpu_kernel_impl_nocast<at::native::CUDAFunctor_add<c10::BFloat16>
 >(at::TensorIteratorBase&, at::native::CUDAFunctor_add<c10::BFloat16>
 const&)::{lambda(int)#1}>(int,
 at::native::gpu_kernel_impl_nocast<at::native::CUDAFunctor_add<c10::BFloat16>
 >(at::TensorIteratorBase&)::{lambda(int)#1})
    family=aten vendor=pytorch operation=elementwise_kernel a=bf16 threads=128 items=4
    functor=CUDAFunctor_add
void at::native::vectorized_elementwise_kernel<4,
 at::native::GeluCUDAKernelImpl(at::TensorIteratorBase&,
 at::native::GeluType)::{lambda()#2}::operator()() const::{lambda()#4}::operator()()
 const::{lambda(c10::BFloat16)#1}, std::array<char*, 2ul> >(int)
    family=aten vendor=pytorch operation=vectorized_elementwise_kernel a=bf16 vector=4
    functor=GeluCUDAKernelImpl
void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(at::TensorItera
torBase&)::{lambda()#3}::operator()() const::{lambda()#7}::operator()()
 const::{lambda(float)#1}, std::array<char*, 2ul>, 4, TrivialOffsetCalculator<1, unsigned int>,
 TrivialOffsetCalculator<1, unsigned int>, at::native::memory::LoadWithCast<1>,
 at::native::memory::StoreWithCast<1> >(int)
    family=aten vendor=pytorch operation=unrolled_elementwise_kernel a=fp32 items=4
    functor=direct_copy_kernel_cuda
void at::native::unrolled_elementwise_kernel<at::native::AUnaryFunctor<int, int, bool,
 at::native::(anonymous namespace)::CompareEqFunctor<int> >, at::detail::Array<char*, 2>,
 TrivialOffsetCalculator<1, unsigned int>, TrivialOffsetCalculator<1, unsigned int>,
 at::native::memory::LoadWithoutCast, at::native::memory::StoreWithoutCast>(int)
    family=aten vendor=pytorch operation=unrolled_elementwise_kernel a=int32 out=bool
    functor=CompareEqFunctor
void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float,
 at::native::func_wrapper_t<float, at::native::sum_functor<float, float,
 float>::operator()(at::TensorIterator&)::{lambda(float, float)#1}>, unsigned int, float, 4>
 >(at::native::ReduceOp<float>)
    family=aten vendor=pytorch operation=reduce_kernel a=fp32 vector=1 threads=512
    functor=sum_functor
void at::native::index_elementwise_kernel<128, 4,
 at::native::gpu_index_kernel<at::native::index_kernel_impl<at::native::OpaqueType<2>
 >(at::TensorIteratorBase&, c10::ArrayRef<long>, c10::ArrayRef<long>)::{lambda(char*, char
 const*, long)#1}>(at::TensorIteratorBase&)::{lambda(int)#1}>(long)
    family=aten vendor=pytorch operation=index_elementwise_kernel threads=128 items=4
    functor=index_kernel_impl
void at::native::(anonymous namespace)::CatArrayBatchedCopy<at::native::(anonymous
 namespace)::OpaqueType<2u>, unsigned int, 3, 64, 64>(at::native::(anonymous
 namespace)::OpaqueType<2u>*)
    family=aten vendor=pytorch operation=CatArrayBatchedCopy
void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float>(int,
 float, c10::BFloat16 const*)
    family=aten vendor=pytorch operation=vectorized_layer_norm_kernel a=bf16
_ZN2at6native18elementwise_kernelILi128ELi4EZNS0_15gpu_kernel_implIZNS0_16copy_kernel_implIN3c10
4HalfES5_EEvRNS_14TensorIteratorEEUlS5_E_EEvS7_RKT_EUliE0_EEviT1_
    family=aten vendor=pytorch operation=elementwise_kernel a=fp16 threads=128 items=4
    functor=copy_kernel_impl
void at::native::<unnamed>::elementwise_kernel<(int)128, (int)4,
 at::native::gpu_kernel_impl_nocast<at::native::CUDAFunctor_add<c1…
    family=aten vendor=pytorch operation=elementwise_kernel threads=128 items=4
    functor=CUDAFunctor_add
void (anonymous namespace)::softmax_warp_forward<c10::BFloat16, c10::BFloat16, float, 10,
 false, false>(c10::BFloat16*)
    family=aten vendor=pytorch operation=softmax_warp_forward a=bf16
# copies, NCCL, attention, libraries, unknown ones
Memset (Device)
    family=memset vendor=cuda operation=Device
Memcpy DtoD (Device -> Device)
    family=memcpy vendor=cuda operation=DtoD
Memcpy HtoD (Pinned -> Device)
    family=memcpy vendor=cuda operation=HtoD
[CUDA memcpy Device-to-Host]
    family=memcpy vendor=cuda operation=DtoH
[CUDA memset]
    family=memset vendor=cuda
ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)
    family=nccl vendor=nccl operation=AllReduce a=fp32 out=fp32 functor=Sum other=RING,LL
ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)
    family=nccl vendor=nccl operation=AllReduce a=bf16 out=bf16 functor=Sum other=RING,LL
ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)
    family=nccl vendor=nccl operation=SendRecv
void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64, 128, 128, 4,
 false, false, cutlass::bfloat16_t, pytorch_flash::Flash_kernel_traits<64, 128, 128, 4,
 cutlass::bfloat16_t> >, false, true, false, false, false, true,
 false>(pytorch_flash::Flash_fwd_params)
    family=attention vendor=pytorch operation=attention a=bf16 block_m=128 block_n=128 warps=4
    other=head_dim64
fmha_cutlassB_f16_aligned_64x64_k64_sm80(PyTorchMemEffAttention::AttentionBackwardKernel<cutlass
::half_t, cutlass::arch::Sm80>::Params)
    family=attention vendor=pytorch operation=attention_backward arch=sm80 a=fp16 block_m=64
    block_n=64
cudnn_generated_fort_native_sdpa_sm80_flash_fprop_wmma_f16_knob_6_128x64x64_4x1x1_cga1x1x1_kerne
l0_0
    family=attention vendor=cudnn operation=attention arch=sm80 a=fp16 block_m=128 block_n=64
void cutlass::device_kernel<flash::enable_sm90<flash::FlashAttnFwdSm90<flash::CollectiveMainloop
FwdSm90<2, cute::tuple<cute::C<1>, cute::C<1>, cute::C<1> > > > > >(flash::Params)
    family=attention vendor=flash_attention operation=attention arch=sm90
void cudnn::winograd_nonfused::winogradForwardData4x4<float,
 float>(cudnn::winograd_nonfused::WinogradDataParams<float, float>)
    family=cudnn vendor=cudnn operation=winogradForwardData4x4
void implicit_convolve_sgemm<float, float, 1024, 6, 7, 3, 3, 5, 1, false, true, true>(int, int,
 int)
    family=cudnn vendor=cudnn operation=implicit_convolve_sgemm
void split_embedding_codegen_forward_weighted_kernel<float, float, float, long,
 1ul>(at::GenericPackedTensorAccessor<float>)
    family=fbgemm vendor=fbgemm operation=split_embedding_codegen_forward_weighted_kernel
void vllm::rms_norm_kernel<c10::BFloat16, 8, 2>(c10::BFloat16*)
    family=vllm vendor=vllm operation=rms_norm_kernel
void at_cuda_detail::cub::DeviceScanInitKernel<at_cuda_detail::cub::ScanTileState<long, true>
 >(int)
    family=cub vendor=cub operation=DeviceScanInitKernel
void moeTopK<256>(float const*)
    family=unknown
hello world
    family=unknown
"""


def _cases():
    name, said = "", ""
    for line in [*CASES.strip().splitlines(), "end"]:
        if line.startswith("    "):
            said += line
        elif said or line.startswith("#"):
            if said:
                yield pytest.param(name, dict(w.split("=", 1) for w in said.split()), id=name[:60])
            name, said = "" if line.startswith("#") else line, ""
        else:
            name += line


def _said(kernel: KernelName) -> dict[str, str]:
    said = {
        field: ",".join(value) if isinstance(value, tuple) else str(value)
        for field, value in kernel.known().items()
    }
    return said | ({"tile": str(kernel.tile())} if kernel.tile() else {})


@pytest.mark.parametrize(("name", "expected"), [*_cases()])
def test_says_exactly_this(name, expected):
    assert _said(parse(name)) == expected


def test_there_are_enough_cases_of_every_family():
    families = Counter(case.values[1]["family"] for case in _cases())
    assert sum(families.values()) >= 100
    assert set(families) == {
        *("nvjet", "cublas", "xmma", "cutlass2x", "cutlass3x", "gemv", "splitk_reduce"),
        *("cublas_helper", "cute_dsl", "trtllm_gen", "tensile", "cudnn", "attention", "inductor"),
        *("triton", "liger", "aten", "cub", "nccl", "fbgemm", "vllm", "memset", "memcpy"),
        "unknown",
    }


def _mangled(start: str) -> str:
    return next(case.values[0] for case in _cases() if case.values[0].startswith(start))


# --- the same name as others write it ---------------------------------------------------------

NVJET = "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_bias_TNT"
KERNEL2 = "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_128x256_32x3_tn_align8>"
ADD = (
    "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast"
    "<at::native::CUDAFunctor_add<c10::BFloat16> >(at::TensorIteratorBase&)::{lambda(int)#1}>(int)"
)


@pytest.mark.parametrize(
    ("name", "spelling"),
    [
        (NVJET, f"  {NVJET}\n"),
        (NVJET, f'"{NVJET}"'),
        (NVJET, f"`{NVJET}`"),
        (NVJET, NVJET[:20] + "\n" + NVJET[20:]),
        (NVJET, NVJET[:20] + "\r\n    " + NVJET[20:]),
        (NVJET, NVJET.replace("_h_", " _h_ ")),
        (KERNEL2, KERNEL2.replace("void ", "void\n")),
        (KERNEL2, KERNEL2.removeprefix("void ")),
        (
            KERNEL2,
            KERNEL2 + "(cutlass_80_tensorop_bf16_s16816gemm_bf16_128x256_32x3_tn_align8::Pa...",
        ),
        (KERNEL2, KERNEL2.removesuffix(">") + "…"),
        (ADD, ADD.replace("<128, 4,", "<(int)128, (int)4,")),
        (ADD, ADD.replace(", at", ",\n  at")),
        (ADD, ADD[:180] + "..."),
    ],
)
def test_spellings_of_profilers_and_terminals_read_alike(name, spelling):
    assert parse(spelling).known() == parse(name).known()
    assert parse(spelling).raw == spelling


def test_clean_drops_result_type_and_marks_only():
    assert clean(' "void at::native::f<(int)4, (bool)1>(int)…" ') == "at::native::f<4, 1>(int)"
    assert clean("<unnamed>::softmax_warp_forward<float>") == (
        "(anonymous namespace)::softmax_warp_forward<float>"
    )
    assert clean("std::enable_if<!(false), void>::type internal::gemvx::kernel<int>(int)") == (
        "internal::gemvx::kernel<int>(int)"
    )


# --- mangled symbols --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("symbol", "text"),
    [
        ("_Z3addPKfS0_Pfi", "add(float const*, float const*, float*, int)"),
        ("_ZN2ns1fIiLj4EEEvT_", "ns::f<int, 4u>(T)"),
        ("_ZN12_GLOBAL__N_11fILb1ELin3EEEvv", "(anonymous namespace)::f<true, -3>()"),
        ("_ZN1a1bIJNS_1cENS1_1dEEEEvv", "a::b<a::c, a::c::d>()"),
        (
            "_Z1fIN3c108BFloat16EJifEEvSt4pairIT_S3_E",
            "f<c10::BFloat16, int, float>(std::pair<T, T>)",
        ),
        (
            "_ZN2at6native18elementwise_kernelILi128ELi4EZNS0_15gpu_kernel_implIZNS0_16copy_kernel_"
            "implIN3c104HalfES5_EEvRNS_14TensorIteratorEEUlS5_E_EEvS7_RKT_EUliE0_EEviT1_",
            "at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl<at::native::"
            "copy_kernel_impl<c10::Half, c10::Half>(at::TensorIterator&)::{lambda(c10::Half)#1}>"
            "(at::TensorIterator&, T const&)::{lambda(int)#2}>(int, T1)",
        ),
        (
            "_ZN2at6native29vectorized_elementwise_kernelILi4EZZZNS0_16gelu_kernel_cudaERNS_18Tensor"
            "IteratorBaseEENKUlvE_clEvENKUlvE_clEvEUlN3c108BFloat16EE_NS0_3ArrIPcEEEEviT0_T1_",
            "at::native::vectorized_elementwise_kernel<4, at::native::gelu_kernel_cuda(at::"
            "TensorIteratorBase&)::{lambda()#1}::operator()() const::{lambda()#1}::operator()() "
            "const::{lambda(c10::BFloat16)#1}, at::native::Arr<char*>>(int, T0, T1)",
        ),
        ("_ZN7cutlass13device_kernelINS_4gemm", "cutlass::device_kernel<cutlass::gemm>"),
        ("_ZN7cutl", "cutl"),
        ("_Z", ""),
        ("_ZS9_", ""),
    ],
)
def test_demangle(symbol, text):
    assert demangle(symbol) == text


def test_a_symbol_that_would_explode_is_given_up():
    doubling = (
        "_Z1fI" + "1aIiE" + "".join(f"1bIS{d}_S{d}_E" for d in ["", *"0123456789ABCDEF"] * 40)
    )
    start = time.perf_counter()
    assert len(demangle(doubling)) < 50_000_000
    assert time.perf_counter() - start < 5


def test_a_cut_off_symbol_says_what_is_still_there():
    whole = _mangled("_ZN7cutlass13device_kernelI6Linear")
    tile = parse(whole).known()
    for end in range(40, len(whole), 60):
        cut = parse(whole[:end] + "…")
        assert cut.family == "cutlass3x"
        assert cut.known().items() - tile.items() <= set(), end
    assert parse(whole[:600]).block_m == parse(whole).block_m


def test_template_tree():
    tree = template("a::f<b::C<128>, d<e, (x::K)0> >::g, int")
    f, number = tree.args
    assert (f.base, number.name) == ("f", "int")
    assert [arg.base for arg in f.args] == ["C", "d"]
    assert f.args[0].number() == 128
    assert tree.find("d").args[1].number() is None
    assert template("f<g<1").find("g").args[0].number() == 1
    assert template(">>,,<").args[0].args == []


# --- the lab's tile ---------------------------------------------------------------------------


def test_cublas_names_are_turned_round_and_their_cluster_with_them():
    kernel = parse(NVJET)
    assert (kernel.block_m, kernel.block_n, kernel.cluster) == (256, 128, "1x2")
    tile = kernel.tile()
    assert (tile.block_m, tile.block_n, tile.cluster) == (128, 256, "2x1")
    assert tile.swap is None  # it is how cuBLAS works, not a choice
    assert (tile.raster, tile.swizzle) == (None, None)


def test_the_labs_own_kernels_say_the_tile_that_they_were_built_for():
    hopper = parse(_mangled("_ZN7cutlass13device_kernelI6Linear")).tile()
    assert Tile.parse("32x64x128-c1x2-pingpong-persistent-swap").covers(hopper)
    ampere = parse(_mangled("_ZN7cutlass7Kernel2I6Linear")).tile()
    assert Tile.parse("128x256x64-s3").covers(ampere)
    assert ampere.swap is None


def test_a_nested_mode_counts_with_all_its_elements():
    """gate and up as one B operand of shape (96, 2): the kernel's own tile is 192 wide."""
    name = (
        "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int, "
        "cute::tuple<int, cute::C<2> >, int, int>, cutlass::gemm::collective::CollectiveMma<"
        "cutlass::gemm::MainloopSm90TmaGmmaWarpSpecialized<5, cute::tuple<cute::C<1>, cute::C<2>, "
        "cute::C<1> >, cutlass::gemm::KernelTmaWarpSpecializedPingpong>, cute::tuple<cute::C<128>, "
        "cute::tuple<cute::C<96>, cute::C<2> >, cute::C<64> >, cutlass::bfloat16_t, "
        "cute::tuple<long, cute::C<1>, long>, cutlass::bfloat16_t, cute::tuple<cute::tuple<long, "
        "long>, cute::C<1>, long>, cute::TiledMMA<int> >, Epilogue<void> > >(Params)"
    )
    kernel = parse(name)
    assert (kernel.block_m, kernel.block_n, kernel.block_k, kernel.stages) == (128, 192, 64, 5)
    assert (kernel.cluster, kernel.schedule) == ("1x2", "pingpong")
    assert kernel.tile() is None  # nothing says which way round its result lies


def test_stages_chosen_automatically_are_not_a_number_of_stages():
    kernel = parse("cutlass3x_sm90_tensorop_gemm_f16_f16_f32_f16_f16_64x64x64_1x1x1_0_ttt_align8")
    assert kernel.stages == 0
    assert kernel.tile().stages is None


@pytest.mark.parametrize(
    "name",
    [
        "sm80_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize64x64x8_stage0_warpsize0x2x1_cgasize0x1x1",
        "cutlass3x_sm90_tensorop_gemm_f16_f16_f32_f16_f16_64x64x64_0x1x1_3_ttt_align8",
        "cutlass3x_sm90_tensorop_gemm_f16_f16_f32_f16_f16_64x64x64_2x1x2_3_ttt_align8",
    ],
)
def test_sizes_that_cannot_be_are_not_read(name):
    kernel = parse(name)
    assert (kernel.cluster, kernel.warps) == (None, None)
    assert kernel.tile().block_m == 64


# --- 600 real names ---------------------------------------------------------------------------

NAMES = Path(__file__).parents[2] / "shared" / "data" / "kernel_names.tsv"

# The list's labels, which go by words in the name, and the families that they stand for here.
LABELS = {
    "aten": {"aten", "fbgemm", "cub"},  # whatever mentions at::, be it in a parameter
    "cublas/cudnn-cask": {"cublas", "cudnn"},
    "cudnn-other": {"cudnn"},
    "cutlass2x": {"cutlass2x", "splitk_reduce"},
    "cutlass3x": {"cutlass3x"},
    "flash/fmha": {"attention", "inductor", "vllm"},  # Inductor's fused ops say sdpa, too
    "gemv/small": {"gemv"},
    "nccl": {"nccl"},
    "nvjet": {"nvjet"},
    "splitk-reduce": {"splitk_reduce"},
    "triton/inductor": {"inductor"},
    "triton/liger": {"liger"},
    "xmma": {"xmma"},
}
OTHERS = {  # of label `other`: how the name's own part begins -> family
    "(anonymous namespace)::multimem_": "aten",
    "(anonymous namespace)::softmax_warp_": "aten",
    "(anonymous namespace)::indexing_backward_kernel": "aten",
    "cunn_": "aten",
    "compute_cuda_kernel": "aten",
    "cub::": "cub",
    "at_cuda_detail::cub::": "cub",
    "fbgemm_gpu::": "fbgemm",
    "recat_copy_async_kernel": "fbgemm",
    "vllm::": "vllm",
    "bmm_": "trtllm_gen",
    "wgrad_alg0_engine": "cudnn",
    "implicit_convolve_sgemm": "cudnn",
    "epilogue::impl::": "cublas_helper",
    "sgemm_largek_lds64": "cublas_helper",
    "magma_sgemmEx_kernel": "cublas_helper",
    "moe::": "unknown",
    "moeTopK": "unknown",
    "multi_tensor_apply_kernel": "unknown",
}
GEMM_LIKE = ("cublas/cudnn-cask", "cutlass2x", "cutlass3x", "nvjet", "xmma")


@pytest.fixture(scope="module")
def listed() -> list[tuple[KernelName, str]]:
    if not NAMES.exists():
        pytest.skip(f"the list of 600 real names is not at {NAMES}")
    with NAMES.open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        return [(parse(row["name"]), row["family"]) for row in rows]


def _expected(kernel: KernelName, label: str) -> set[str]:
    if label != "other":
        return LABELS[label]
    return {family for start, family in OTHERS.items() if clean(kernel.raw).startswith(start)}


def test_coverage_of_families(listed):
    wrong = [kernel for kernel, label in listed if kernel.family not in _expected(kernel, label)]
    right = 1 - len(wrong) / len(listed)
    print(f"\nfamily right for {right:.1%} of {len(listed)} names")
    for family, count in Counter(kernel.family for kernel, _ in listed).most_common():
        print(f"  {family:14} {count}")
    assert len(listed) >= 600
    assert right >= 0.98, [kernel.raw[:80] for kernel in wrong]
    # A name that begins with at::native is PyTorch's, whatever the label allows.
    assert all(k.family == "aten" for k, _ in listed if clean(k.raw).startswith("at::native"))


def test_coverage_of_matrix_products(listed):
    """Block for every product, layout and stages wherever the name has them."""
    products = [
        kernel
        for kernel, label in listed
        # Two names that the list counts as CUTLASS' for a word in their parameters.
        if label in GEMM_LIKE and not re.search("ReduceSplitK|^void moe::", kernel.raw)
    ]
    layout = re.compile(r"_(?:[tn]{2,3}|[TN]{3,4}|nhwc\w*?)(?:_|\b)")
    stages = re.compile(r"stage|_\d+x\d+_\d+x\d+|_\d+x\d+x\d+(?:_\d+x\d+x1)?_\d+_|Multistage")
    has_layout = [k for k in products if layout.search(k.raw)]
    has_stages = [k for k in products if stages.search(k.raw)]
    found = {
        "block": [k for k in products if k.block_m and k.block_n],
        "layout": [k for k in has_layout if k.layout],
        "stages": [k for k in has_stages if k.stages is not None],
    }
    print(f"\nof {len(products)} products, block {len(found['block'])}", end="")
    print(f"; layout {len(found['layout'])} of {len(has_layout)}", end="")
    print(f"; stages {len(found['stages'])} of {len(has_stages)}")
    assert found == {"block": products, "layout": has_layout, "stages": has_stages}
    assert len(products) > 230 and len(has_layout) > 225 and len(has_stages) > 150
    # And nothing is made up where the name is silent.
    assert not [k.raw for k in products if k.stages is not None and k not in has_stages]


def test_every_product_has_a_tile_and_nothing_else_has(listed):
    for kernel, _ in listed:
        tile = kernel.tile()
        assert (tile is not None) == (kernel.operation == "gemm" and kernel.block_m is not None)
        assert tile is None or Tile.parse(str(tile)) == tile


def test_types_are_the_labs_words(listed):
    words = {
        getattr(k, field) for k, _ in listed for field in ("a", "b", "c", "out", "accumulator")
    }
    scaled = {word for word in words if word and re.fullmatch(r"ue\dm\dxe\dm\d", word)}
    assert words - scaled == {
        *("bf16", "fp16", "fp32", "fp64", "tf32", "int8", "int32", "int64", "bool", "void"),
        *("e2m1", "e3m2", "e4m3", None),
    }


# --- it never raises --------------------------------------------------------------------------

SEEDS = [case.values[0] for case in _cases()]


def _holds(name: str) -> None:
    kernel = parse(name)
    assert isinstance(kernel, KernelName)
    assert kernel.raw == name
    assert kernel.family
    tile = kernel.tile()
    assert tile is None or Tile.parse(str(tile)) == tile
    cli_name.describe(kernel)


@st.composite
def mutated(draw):
    name = draw(st.sampled_from(SEEDS))
    rng = random.Random(draw(st.integers()))
    for _ in range(draw(st.integers(1, 6))):
        at, other = rng.randrange(len(name) + 1), rng.choice(SEEDS)
        length = rng.randrange(1, 12)
        piece = rng.choice(
            ["", "0", "99999999999", "_", "<", ">", "(", "E", "I", "S_", "x", "\n", "é"]
        )
        name = rng.choice(
            [
                name[:at] + piece + name[at + length :],
                name[:at] + other[rng.randrange(len(other)) :],
                name[:at],
                name.replace(rng.choice("0123456789x_<>"), piece, rng.randrange(1, 4)),
            ]
        )
    return name


@settings(max_examples=1500, deadline=None)
@given(mutated())
def test_mutated_names_never_raise(name):
    _holds(name)


@settings(max_examples=500, deadline=None)
@given(
    st.text()
    | st.text(alphabet="_ZNIES0123456789xKPRLiJTUlvEclabt", max_size=80).map("_Z".__add__)
    | st.text(alphabet="nvjet_sm90tsx1286420<>:,() ", max_size=80)
)
def test_random_strings_never_raise(name):
    _holds(name)


@pytest.mark.parametrize(
    "piece",
    [
        *("a_", "1", "_1", "<", ">", "a<", "x1", " ", "\n", "64x64_", "::", "cute::tuple<"),
        *("_ZN", "N", "I", "S_", "P", "Z", "1aIJ", "1aIL_Z", "N1aI", "UlZ", "J"),
    ],
)
@pytest.mark.parametrize(
    "start",
    [
        *("", "_", "_Z", "nvjet_tst_64x64", "triton_poi_fused", "cutlass3x_sm90_tensorop_gemm_"),
        *("sm80_xmma_gemm", "cutlass_80_tensorop_s1688gemm", "volta_sgemm_64x64", "Cijk_Alik_"),
        *("at::native::f<", "cutlass::Kernel2<", "cutlass::device_kernel<", "bmm_", "liger_"),
    ],
)
def test_hostile_lengths_take_no_time(start, piece):
    began = time.perf_counter()
    _holds(start + piece * (20_000 // len(piece)))
    assert time.perf_counter() - began < 2


def test_a_hundred_thousand_names_take_seconds():
    names = [SEEDS[i % len(SEEDS)] for i in range(100_000)]
    start = time.perf_counter()
    for name in names:
        parse(name)
    assert time.perf_counter() - start < 5


# --- the command ------------------------------------------------------------------------------


@pytest.fixture
def run():
    app = typer.Typer()
    app.command()(cli_name.name)
    return lambda *words: CliRunner().invoke(app, [str(word) for word in words])


def test_one_name_prints_its_fields(run):
    result = run(NVJET)
    assert result.exit_code == 0
    lines = dict(line.split(maxsplit=1) for line in result.stdout.splitlines())
    assert lines["family"] == "nvjet"
    assert lines["tile"] == "128x256x64-s4-c2x1-cooperative-epi_bias"
    assert lines["other"] == "bz coopA"
    assert "functor" not in lines
    columns = {re.match(r"\S+ +", line).end() for line in result.stdout.splitlines()}
    assert len(columns) == 1  # aligned


def test_two_names_print_what_differs(run):
    other = "nvjet_sm90_tst_192x128_64x5_1x2_h_bz_coopB_TNT"
    result = run(NVJET, other)
    assert result.exit_code == 0
    same, differs = result.stdout.split("differs\n")
    assert re.search(r"block_n +128\n", same)
    assert "block_m" not in same and "stages" not in same
    assert re.search(r"block_m +256 +192\n", differs)
    assert re.search(r"stages +4 +5\n", differs)
    assert re.search(r"epilogue +bias +-\n", differs)
    assert "block_n" not in differs
    assert run(NVJET, NVJET).stdout.endswith("differs\n  nothing\n")


def test_a_file_prints_a_table(run, tmp_path):
    file = tmp_path / "names.txt"
    file.write_text(f"{NVJET}\n\n{KERNEL2}\ntriton_poi_fused_gelu_mul_0\n")
    result = run("--file", file)
    assert result.exit_code == 0
    header, _, *rows = result.stdout.splitlines()
    assert header.split()[:3] == ["name", "family", "operation"]
    assert len(rows) == 3
    assert rows[2].split() == [
        "triton_poi_fused_gelu_mul_0",
        "inductor",
        "pointwise",
        "gelu",
        "mul",
    ]


@pytest.mark.parametrize("text", ["source\tname\nx\t{}\ny\t\n", 'name,us\n"{}",1.5\n'])
def test_a_table_with_a_name_column(run, tmp_path, text):
    file = tmp_path / "names.tsv"
    file.write_text(text.format(ADD))
    result = run("--file", file, "--csv")
    assert result.exit_code == 0
    (row,) = csv.DictReader(io.StringIO(result.stdout))
    assert row["name"] == ADD
    assert (row["family"], row["functor"], row["tile"]) == ("aten", "CUDAFunctor_add", "")


def test_csv_has_every_field(run):
    (row,) = csv.DictReader(io.StringIO(run("--csv", NVJET).stdout))
    assert row["tile"] == "128x256x64-s4-c2x1-cooperative-epi_bias"
    assert row["layout_out"] == "t"
    assert row["column_major"] == "yes"
    assert row["split_k"] == ""


@pytest.mark.parametrize(
    ("words", "contents", "why"),
    [
        ([], None, "give either"),
        ([NVJET, "--file", "names.txt"], None, "give either"),
        ([" "], None, "the name is empty"),
        (["--file", "names.txt"], None, "No such file"),
        (["--file", "names.txt"], b"", "holds no kernel name"),
        (["--file", "names.txt"], b"\n  \n", "holds no kernel name"),
        (["--file", "names.txt"], b"name\tsource\n", "holds no kernel name"),
        (["--file", "names.txt"], b"\xff\xfe\x00\x01", "not a text file"),
        (["--file", "."], None, "Is a directory"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(run, tmp_path, monkeypatch, words, contents, why):
    monkeypatch.chdir(tmp_path)
    if contents is not None:
        Path("names.txt").write_bytes(contents)
    result = run(*words)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1
    assert why in result.stderr
