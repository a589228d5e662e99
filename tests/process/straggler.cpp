// Ranks that add up a number together; on its way the last one does what it was told to,
// once:
//
//   straggler absent     it never comes to the fourth sum, and waits for ever
//   straggler stopped    a signal stops it there
//   straggler waiting    it waits for a message that nobody sends
//   straggler key        it waits for a key of the job's store that no rank sets
//   straggler gone       it destroys the group and ends, with 0
//   straggler crash      it ends with 7, after a line to stderr
//   straggler none       nothing
//
// or all of them get stuck before the fourth sum, once:
//
//   straggler messages   each waits for a message of its neighbour
//   straggler future     ... by its Work's future
//   straggler callback   ... for a callback
//   straggler poll       ... by asking whether it has come
//   straggler tries      ... by short waits
//   straggler barrier    the last one does not come to a monitored barrier
//   straggler group      the last one does not come to make a group
//   straggler world      nor, after all have destroyed the default group, to make another
//   straggler keys       all wait for such a key
//   straggler slow       none does, but the last one needs five times as long between two sums, until the job
//                        is stopped
//   straggler steady     none does, and they go on until the job is stopped
//   straggler first      nor, at the beginning, to make the default group
//   straggler call       there is no group: the first one calls a function of the last one that never returns
//
// After a restart all do what they should; after a crash until the job is stopped.
#include <dlaunch/distributed.h>
#include <dlaunch/rpc.h>
#include <dlaunch/store.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int sums = 5;
constexpr int last_good = 3;

void wait_for_a_key() {
  const char* const host = std::getenv("MASTER_ADDR");
  const char* const port = std::getenv("MASTER_PORT");
  if (host == nullptr || port == nullptr) throw dlaunch::DistError("no store");
  dlaunch::make_tcp_store(host, static_cast<std::uint16_t>(std::atoi(port)))->get("never/set");
}

void go_astray(const std::string& how) {
  if (how == "absent") {
    (void)pause();  // a question for the stack does not end it
    std::_Exit(1);
  } else if (how == "stopped") {
    (void)std::raise(SIGSTOP);
  } else if (how == "waiting") {
    std::vector<std::int64_t> number{0};
    dlaunch::recv(dlaunch::Tensor::of(number), 0);
  } else if (how == "key") {
    wait_for_a_key();
  } else if (how == "crash") {
    std::fputs("straggler: <b>out of data</b>\n", stderr);
    std::exit(7);
  } else if (how == "gone") {
    dlaunch::destroy_process_group();
    std::exit(0);
  }
}

// What a rank has sent may leave it after its call has returned; whoever is stopped then keeps it from the
// others.
void wait_until_the_others_have_their_sums() {
  std::vector<std::int64_t> word{0};
  const int last = dlaunch::get_world_size() - 1;
  if (dlaunch::get_rank() != last) {
    dlaunch::send(dlaunch::Tensor::of(word), last);
    return;
  }
  for (int rank = 0; rank < last; ++rank) dlaunch::recv(dlaunch::Tensor::of(word), rank);
}

void wait_without_wait(const dlaunch::Work& work, const std::string& how) {
  constexpr auto moment = std::chrono::milliseconds(1);
  std::promise<void> called;
  if (how == "future") work.get_future().get();
  if (how == "callback") {
    work.then([&](const dlaunch::Work&) { called.set_value(); });
    called.get_future().get();
  }
  while (how == "poll" && !work.is_completed()) std::this_thread::sleep_for(moment);
  while (how == "tries" && !work.exception()) {
    try {
      work.wait(moment);
      return;
    } catch (const dlaunch::DistError&) {  // has not come
    }
  }
}

void get_stuck(const std::string& how) {
  std::vector<std::int64_t> number{0};
  const int neighbour = (dlaunch::get_rank() + 1) % dlaunch::get_world_size();
  if (how == "keys") {
    wait_for_a_key();
  } else if (how == "messages") {
    dlaunch::recv(dlaunch::Tensor::of(number), neighbour);
  } else if (how == "future" || how == "callback" || how == "poll" || how == "tries") {
    wait_without_wait(dlaunch::irecv(dlaunch::Tensor::of(number), neighbour), how);
  } else if (how == "barrier" || how == "group" || how == "subgroups" || how == "world") {
    const bool is_last = dlaunch::get_rank() == dlaunch::get_world_size() - 1;
    if (how == "world") dlaunch::destroy_process_group();
    while (is_last) pause();
    if (how == "barrier") dlaunch::monitored_barrier();
    if (how == "group") dlaunch::new_group();
    if (how == "subgroups") dlaunch::new_subgroups(1);
    if (how == "world") dlaunch::init_process_group();
  }
}

[[noreturn]] void go_on(bool last_is_slow) {
  const bool is_last = dlaunch::get_rank() == dlaunch::get_world_size() - 1;
  for (;;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(is_last && last_is_slow ? 100 : 20));
    std::vector<std::int64_t> sum{1};
    dlaunch::all_reduce(dlaunch::Tensor::of(sum));
  }
}

bool is_last_of_job() {
  const char* const rank = std::getenv("RANK");
  const char* const size = std::getenv("WORLD_SIZE");
  return rank != nullptr && size != nullptr && std::atoi(rank) == std::atoi(size) - 1;
}

void never_return() {
  for (;;) pause();
}
DLAUNCH_RPC(never_return);

void call_for_ever() {
  const std::string rank = std::getenv("RANK");
  dlaunch::rpc::init_rpc("worker" + rank);
  const int size = static_cast<int>(dlaunch::rpc::get_worker_infos().size());
  if (rank == "0") dlaunch::rpc::rpc_sync({size - 1, std::chrono::milliseconds(0)}, never_return);
  dlaunch::rpc::shutdown();
}

void work(const std::string& how) {
  const char* const restarts = std::getenv("TORCHELASTIC_RESTART_COUNT");
  const bool first = restarts == nullptr || std::string(restarts) == "0";
  if (how == "first" && first && is_last_of_job()) {
    for (;;) pause();
  }
  if (how == "call") return call_for_ever();
  dlaunch::init_process_group();
  if (how == "slow" || how == "steady" || (how == "crash" && !first)) go_on(how == "slow");
  for (int i = 1; i <= sums; ++i) {
    if (i == last_good + 1) wait_until_the_others_have_their_sums();
    if (i == last_good + 1 && first) get_stuck(how);
    if (i > last_good && first && dlaunch::get_rank() == dlaunch::get_world_size() - 1) go_astray(how);
    std::vector<std::int64_t> sum{1};
    dlaunch::all_reduce(dlaunch::Tensor::of(sum));
    if (sum[0] != dlaunch::get_world_size()) throw dlaunch::DistError("a wrong sum");
  }
  if (dlaunch::get_rank() == 0) std::puts("all sums are right");
  dlaunch::destroy_process_group();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    work(argc > 1 ? argv[1] : "none");
    return 0;
  } catch (const dlaunch::DistError& error) {
    std::fprintf(stderr, "straggler: %s\n", error.what());
    return 1;
  }
}
