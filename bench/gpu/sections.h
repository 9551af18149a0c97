// The sections of gpu_check's program, each run in a process of its own; named in main.cc.
#pragma once

namespace rondo::gpu_check {

void SayDevice();          // facts of the card and the libraries
void CheckAccuracy();      // every kernel against float64
void CheckLaw();           // bits over shards, orders of arrival, chunks, runs
void CheckSmall();         // a few small shapes of each kernel, for compute-sanitizer to watch
void MeasureSpeed();       // TFLOP/s beside cuDNN's, errors of both
void MeasureSpeedAlone();  // without cuDNN, should that break
void MeasureRing();        // steps with carried nodes against one launch
void MeasureDecode();      // GB/s beside a device copy's
void MeasureDense();       // products and whole rows against float64, row invariance, rates
void MeasureExchange();    // NCCL, one rank to itself

}  // namespace rondo::gpu_check
