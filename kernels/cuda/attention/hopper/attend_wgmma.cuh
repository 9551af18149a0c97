// Attention of many rows (prefill) on Hopper's tensor cores: TMA, mbarriers, wgmma, for sm_90a. One CTA a
// multiprocessor stays and takes one item of 128 rows of a query head after another; one warp copies, two warpgroups
// multiply.
//
// Why a row's bits depend on nothing but the row and its keys: as in attend_mma.cuh, with wgmma in the place of
// mma.sync and tiles of kTileKeys keys. They are other bits than the sm_80 kernel's.
#pragma once

#include "kernels/cuda/attention/hopper/consumer.cuh"
#include "kernels/cuda/attention/hopper/hopper_config.h"
#include "kernels/cuda/attention/hopper/producer.cuh"

namespace rondo::cuda {

template <class C>
RONDO_KERNEL(C::kThreads, C::kCtasPerMultiprocessor)
AttendWgmma(RONDO_GRID_CONSTANT const AttentionArgs args, RONDO_GRID_CONSTANT const HopperMaps maps) {
  if (gpu::ThreadIndex() == 0) Stages<C>::Init();
  gpu::CtaSync();
  if (gpu::ThreadIndex() < C::kRowThreads) {
    gpu::ClaimRegisters<C::kConsumerRegisters>();
    Consumer<C>(args).Run();
    return;
  }
  gpu::ReleaseRegisters<C::kProducerRegisters>();
  if (gpu::ThreadIndex() < C::kRowThreads + 32) Producer<C>(args, maps).Run();
}

}  // namespace rondo::cuda
