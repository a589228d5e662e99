// What the flight recorder's page shows of operations on GPUs.

#include <thread>

#include "agent/observe/worker_pages.h"
#include "store/contract/worker_env.h"
#include "tests/runtime/cuda/device_streams.h"
#include "tests/store/client/temporary_folder.h"

namespace dlaunch::test {
namespace {

namespace page = store::page;

// Of the latest operation in that page.
page::Record::OnDevice latest_on_device(const std::string& path) {
  const auto worker = agent::read_worker_page(path);
  if (!worker || worker->record.entries.empty()) throw std::runtime_error("nothing is recorded in " + path);
  return worker->record.entries.back().on_device;
}

// With an asynchronous call, and with one that the program waits for and has no Work of.
class NcclRecords : public testing::TestWithParam<bool> {};

TEST_P(NcclRecords, TheRankWhoseDeviceHasNotComeToAnOperationIsKnown) {
  const TemporaryFolder folder;
  const auto results = run_ranks(2, [&](int rank) {
    const std::string path = agent::worker_page_path(folder.path(), 0, static_cast<std::uint32_t>(rank));
    setenv(std::string(store::env::worker_page).c_str(), path.c_str(), 1);
    init(rank);
    barrier();  // to connect waits for the device
    const cudaStream_t mine = make_stream();
    const StreamGuard guard({mine}, device_of(rank));
    const Floats values({1.0F});
    Gate gate;
    if (rank == 0) gate.hold(mine);
    OperationOptions options;
    options.async_op = GetParam();
    const Work work = default_group().all_reduce(values.tensor(), ReduceOp::sum, options);
    const auto wanted = rank == 0 ? page::Record::queued : page::Record::begun;
    while (latest_on_device(path) != wanted) std::this_thread::yield();
    // Of both, and without a device.
    monitored_barrier();
    gate.open();
    work.synchronize();
    require(cudaStreamSynchronize(mine), "cudaStreamSynchronize");
    return text_of(values.get());
  });
  expect_all_say(results, "2");
}

INSTANTIATE_TEST_SUITE_P(OfACall, NcclRecords, testing::Bool(), [](const auto& test) {
  return std::string(test.param ? "Asynchronous" : "WithoutAWork");
});

}  // namespace
}  // namespace dlaunch::test
