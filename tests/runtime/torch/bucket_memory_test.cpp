// The buckets of DistributedDataParallel lie in memory that the ranks of a host share, and are reduced there.

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "dlaunch/distributed.h"
#include "dlaunch/shared_memory.h"
#include "dlaunch/torch/data_parallel.h"
#include "dlaunch/torch/distributed.h"
#include "tests/runtime/group_file.h"
#include "tests/runtime/rank_processes.h"
#include "tests/runtime/torch/small_nets.h"

namespace dlaunch::torch {
namespace {

using small_nets::loss_of;
using small_nets::Net;
using small_nets::part;
using test::expect_all_say;
using test::GroupFile;
using test::run_processes;

constexpr int hidden = 600;                // a weight of 1.44 MB
constexpr std::size_t little = 128 << 10;  // what the calls themselves take

// "": as in one process with the whole batch.
std::string wrong_gradients(const Net& net) {
  Net alone(hidden);
  small_nets::set_parameters(*alone, 0, 0.1);
  loss_of(alone(small_nets::batch(1))).backward();
  std::vector<at::Tensor> wanted;
  for (const at::Tensor& parameter : alone->parameters()) wanted.push_back(parameter.grad());
  return small_nets::differences(*net, wanted);
}

// What is wrong after three steps; the second one lays out the buckets again.
std::string train(bool are_shared) {
  at::set_num_threads(1);
  init_process_group();
  std::string wrong;
  at::Tensor kept;
  {
    Net net(hidden);
    small_nets::set_parameters(*net, 0, 0.1);
    DistributedDataParallel model(net, {.bucket_cap_mb = 1, .gradient_as_bucket_view = true});
    // The parameters of rank 0 may have been copied through the file already.
    const std::size_t before = are_shared ? GroupFile(allocate_shared(64).data()).beside() : 0;
    std::size_t beside = before;
    for (int step = 0; step < 3; ++step) {
      model.zero_grad();
      loss_of(model(part(small_nets::batch(1), get_rank(), 2))).backward();
      wrong += wrong_gradients(net);
      for (const at::Tensor& parameter : model.parameters()) {
        const GroupFile file(parameter.grad().data_ptr());
        if (file.has() != are_shared) wrong += "a gradient lies elsewhere; ";
        beside = file.beside();
      }
    }
    if (beside > before + little) wrong += "it was copied; ";
    const ReducerStatistics statistics = model.statistics().reducer;
    if (statistics.shared_bytes != (are_shared ? statistics.total_bytes : 0))
      wrong += "it is counted wrong; ";
    kept = net->extra->weight.grad();
    // So that the test could fail.
    all_reduce(::torch::ones({hidden, hidden}));
    if (are_shared && GroupFile(kept.data_ptr()).beside() < beside + little) wrong += "copies are not seen; ";
  }
  destroy_process_group();
  return kept.sum().isfinite().item<bool>() ? wrong : "a gradient has not outlived the model";
}

TEST(BucketMemory, IsReducedInPlaceByTheRanksOfAHost) {
  expect_all_say(run_processes(2, [](int) { return train(true); }), "");
}

TEST(BucketMemory, BelongsToOneProcessIfNoneIsShared) {
  expect_all_say(run_processes(2,
                               [](int) {
                                 setenv("DLAUNCH_SHM", "0", 1);
                                 return train(false);
                               }),
                 "");
}

}  // namespace
}  // namespace dlaunch::torch
