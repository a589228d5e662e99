// A model in stages, one for each rank: batches flow from rank to rank, and all stages work at the same time.
//
// Each stage receives batch i+1 while it works on batch i, and does not wait until its result has been taken.
//
//   $ dlaunch --nproc-per-node=3 pipeline
#include <dlaunch/distributed.h>

#include <array>
#include <cstdio>
#include <vector>

namespace {

using dlaunch::Tensor;

constexpr int batches = 8;
constexpr std::size_t batch_size = 20'000;
using Batch = std::vector<float>;

Batch load(int number) { return Batch(batch_size, static_cast<float>(number)); }

// What this rank's part of the model does.
void forward(Batch& batch, int stage) {
  for (float& value : batch) value = value * 2 + static_cast<float>(stage);
}

float expected(int number, int stages) {
  float value = static_cast<float>(number);
  for (int stage = 0; stage < stages; ++stage) value = value * 2 + static_cast<float>(stage);
  return value;
}

// Returns whether the last stage got what the whole model gives.
bool run_stage(int stage, int stages) {
  const bool first = stage == 0;
  const bool last = stage == stages - 1;
  std::array<Batch, 2> in = {Batch(batch_size), Batch(batch_size)};
  std::array<Batch, 2> out;
  std::array<dlaunch::Work, 2> sent;
  dlaunch::Work arriving;
  if (!first) arriving = dlaunch::irecv(Tensor::of(in[0]), stage - 1);
  bool right = true;
  for (int i = 0; i < batches; ++i) {
    const std::size_t slot = static_cast<std::size_t>(i % 2);
    arriving.wait();
    if (!first && i + 1 < batches) arriving = dlaunch::irecv(Tensor::of(in[1 - slot]), stage - 1);
    sent[slot].wait();  // the batch before the last one has left this buffer
    out[slot] = first ? load(i) : in[slot];
    forward(out[slot], stage);
    if (last) {
      right &= out[slot] == Batch(batch_size, expected(i, stages));
    } else {
      sent[slot] = dlaunch::isend(Tensor::of(out[slot]), stage + 1);
    }
  }
  for (const dlaunch::Work& work : sent) work.wait();
  return right;
}

}  // namespace

int main() {
  try {
    dlaunch::init_process_group();
    const int stage = dlaunch::get_rank();
    const int stages = dlaunch::get_world_size();
    const bool right = run_stage(stage, stages);
    if (stage == stages - 1) {
      std::printf("%d batches went through %d stages: %s\n", batches, stages, right ? "right" : "wrong");
    }
    dlaunch::destroy_process_group();
    return right ? 0 : 1;
  } catch (const dlaunch::DistError& error) {
    std::fprintf(stderr, "pipeline: %s\n", error.what());
    return 1;
  }
}
