// One launch of the double of NCCL: the calls of a group, as one operation of a stream. Collectives come one
// after another, messages all at once. As with the real one, it ends only when all ranks have come, with the
// same calls in the same order; if they differ, the double says so on stderr and the launch never ends.
#pragma once

#include <nccl.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/doubles/cuda_streams.h"
#include "tests/doubles/nccl_arithmetic.h"
#include "tests/doubles/nccl_world.h"

namespace doubles {

enum class CallKind : std::uint32_t { all_reduce, broadcast, reduce, all_gather, reduce_scatter, send, recv };
const char* name_of(CallKind kind);
inline bool is_message(CallKind kind) { return kind == CallKind::send || kind == CallKind::recv; }

struct Call {
  CallKind kind;
  const void* send = nullptr;
  void* recv = nullptr;
  std::size_t count = 0;  // as in the call of NCCL
  ncclDataType_t type = ncclInt8;
  Operator op = {};
  int root = 0;  // or the peer
};

inline bool has_collective(const std::vector<Call>& calls) {
  return std::ranges::any_of(calls, [](const Call& one) { return !is_message(one.kind); });
}

// What a test wants to go wrong: NCCL_DOUBLE_FAULTS="RANK:LAUNCH:KIND", several separated by commas; launches
// count from 1, over all communicators of the process. Kinds: error (an asynchronous one), hang, crash, late,
// slow (the call returns after a while), stuck (it returns when another thread aborts or revokes the
// communicator), hang_abort (also ncclCommAbort and ncclCommRevoke never return).
enum class Fault : std::uint8_t { none, error, hang, crash, late, slow, stuck, hang_abort };
Fault planned_fault(int rank, std::uint64_t launch);

// What the launches of a communicator share.
struct CommunicatorState {
  CommunicatorState(WorldName name, int rank, int size) : world(name, rank, size) {}
  World world;
  std::atomic<bool> is_aborted = false;
  std::atomic<bool> hangs_in_abort = false;
  std::atomic<int> running = 0;
  std::atomic<ncclResult_t> error = ncclSuccess;
  Place latest;  // launch that is not in a graph: as with the real one, the next one comes after it on any
                 // stream
};

class Launch {
 public:
  Launch(std::shared_ptr<CommunicatorState> communicator, std::vector<Call> calls, std::uint64_t number);
  ~Launch();
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  // For Streams: true when it has ended, also by an abort.
  bool step();

 private:
  enum class Stage : std::uint8_t { not_posted, posted, read, ended };

  [[nodiscard]] bool is_stuck();  // by a planned fault
  bool step_collective(const Call& call);
  void post(const Call& call);
  [[nodiscard]] bool all_have(std::atomic<std::uint64_t> RankPage::*counter, std::uint64_t number);
  [[nodiscard]] bool all_agree(const Call& call);
  [[nodiscard]] std::vector<std::byte> result_of(const Call& call);
  [[nodiscard]] std::vector<std::byte> reduced(const Call& call, std::size_t skipped);
  void store(const Call& call, const std::vector<std::byte>& values);
  bool step_message(const Call& call, Stage& stage, std::uint64_t& number);
  void complain(const std::string& text);
  void report_if_late();

  std::shared_ptr<CommunicatorState> communicator_;
  World& world_;
  std::vector<Call> collectives_;
  std::vector<Call> messages_;
  const std::uint64_t number_;
  std::optional<Fault> fault_;
  std::size_t at_ = 0;  // the collective
  Stage stage_ = Stage::not_posted;
  std::uint64_t collective_number_ = 0;
  std::vector<std::byte> result_;
  std::vector<Stage> message_stages_;
  std::vector<std::uint64_t> message_numbers_;
  std::chrono::steady_clock::time_point began_{};
  bool has_complained_ = false;
  bool is_reported_ = false;
};

}  // namespace doubles
