#include "tests/doubles/nccl_launch.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <utility>

#include "tests/doubles/cuda_device.h"

namespace doubles {

namespace {

using std::chrono::steady_clock;

constexpr auto late_start = std::chrono::milliseconds(50);
constexpr auto long_wait = std::chrono::seconds(3);  // then the double says on stderr what it waits for

std::size_t index(int rank) { return static_cast<std::size_t>(rank); }

Fault fault_of(const std::string& word) {
  const std::pair<const char*, Fault> all[] = {{"error", Fault::error},
                                               {"hang", Fault::hang},
                                               {"crash", Fault::crash},
                                               {"late", Fault::late},
                                               {"slow", Fault::slow},
                                               {"stuck", Fault::stuck},
                                               {"hang_abort", Fault::hang_abort}};
  for (const auto& [name, fault] : all) {
    if (word == name) return fault;
  }
  return Fault::none;
}

std::string text_of(const Contribution& one) {
  return std::string(name_of(static_cast<CallKind>(one.kind))) + "(count " + std::to_string(one.count) +
         ", type " + std::to_string(one.dtype) + ", op " + std::to_string(one.op) + ", root " +
         std::to_string(one.root) + ")";
}

}  // namespace

const char* name_of(CallKind kind) {
  constexpr const char* names[] = {"all_reduce",     "broadcast", "reduce", "all_gather",
                                   "reduce_scatter", "send",      "recv"};
  return names[static_cast<std::size_t>(kind)];
}

Fault planned_fault(int rank, std::uint64_t launch) {
  const char* const plan = std::getenv("NCCL_DOUBLE_FAULTS");
  std::istringstream all(plan != nullptr ? plan : "");
  for (std::string one; std::getline(all, one, ',');) {
    std::istringstream parts(one);
    std::string its_rank;
    std::string its_launch;
    std::string kind;
    std::getline(parts, its_rank, ':');
    std::getline(parts, its_launch, ':');
    std::getline(parts, kind);
    if (its_rank == std::to_string(rank) && its_launch == std::to_string(launch)) return fault_of(kind);
  }
  return Fault::none;
}

Launch::Launch(std::shared_ptr<CommunicatorState> communicator, std::vector<Call> calls, std::uint64_t number)
    : communicator_(std::move(communicator)), world_(communicator_->world), number_(number) {
  for (Call& call : calls) {
    (is_message(call.kind) ? messages_ : collectives_).push_back(call);
  }
  message_stages_.resize(messages_.size(), Stage::not_posted);
  message_numbers_.resize(messages_.size());
  ++communicator_->running;
}

Launch::~Launch() { --communicator_->running; }

bool Launch::step() {
  if (communicator_->is_aborted) return true;
  if (began_ == steady_clock::time_point{}) began_ = steady_clock::now();
  if (is_stuck() || has_complained_) return false;
  while (at_ < collectives_.size()) {
    if (!step_collective(collectives_[at_])) {
      report_if_late();
      return false;
    }
    ++at_;
    stage_ = Stage::not_posted;
  }
  bool all_ended = true;
  for (std::size_t i = 0; i < messages_.size(); ++i) {
    all_ended &= step_message(messages_[i], message_stages_[i], message_numbers_[i]);
  }
  if (!all_ended) report_if_late();
  return all_ended;
}

bool Launch::is_stuck() {
  if (!fault_) {
    fault_ = planned_fault(world_.rank(), number_);
    if (*fault_ == Fault::crash) kill(getpid(), SIGKILL);
    if (*fault_ == Fault::error) communicator_->error = ncclRemoteError;
    if (*fault_ == Fault::hang_abort) communicator_->hangs_in_abort = true;
  }
  if (*fault_ == Fault::late) return steady_clock::now() < began_ + late_start;
  return *fault_ != Fault::none && *fault_ != Fault::slow && *fault_ != Fault::stuck;
}

bool Launch::step_collective(const Call& call) {
  RankPage& own = world_.page(world_.rank());
  if (stage_ == Stage::not_posted) {
    post(call);
    stage_ = Stage::posted;
  }
  if (stage_ == Stage::posted) {
    if (!all_have(&RankPage::posted, collective_number_)) return false;
    if (!all_agree(call)) return false;
    result_ = result_of(call);
    own.read = collective_number_;
    stage_ = Stage::read;
  }
  // Others may still read what this rank is about to overwrite.
  if (!all_have(&RankPage::read, collective_number_)) return false;
  store(call, result_);
  return true;
}

void Launch::post(const Call& call) {
  RankPage& own = world_.page(world_.rank());
  Contribution& given = own.contribution;
  given = {static_cast<std::uint32_t>(call.kind),
           static_cast<std::uint32_t>(call.type),
           static_cast<std::uint32_t>(call.op.base),
           call.root,
           call.count,
           call.op.factor.value_or(1.0),
           0};
  const bool gives = call.kind != CallKind::broadcast || call.root == world_.rank();
  if (gives && call.count > 0) {
    const std::size_t parts = call.kind == CallKind::reduce_scatter ? index(world_.size()) : 1;
    if (device_memory().find(call.send, parts * call.count * size_of(call.type)) == nullptr) {
      report_illegal_address(name_of(call.kind));
      complain(std::string("the input of ") + name_of(call.kind) + " is not there");
      return;
    }
    given.send_offset = device_memory().offset_of(call.send);
  }
  collective_number_ = own.posted + 1;
  own.posted = collective_number_;
}

bool Launch::all_have(std::atomic<std::uint64_t> RankPage::*counter, std::uint64_t number) {
  if (has_complained_) return false;
  for (int rank = 0; rank < world_.size(); ++rank) {
    if (world_.page(rank).*counter < number) return false;
  }
  return true;
}

bool Launch::all_agree(const Call& /*call*/) {
  const Contribution& own = world_.page(world_.rank()).contribution;
  for (int rank = 0; rank < world_.size(); ++rank) {
    const Contribution& other = world_.page(rank).contribution;
    if (other.kind == own.kind && other.dtype == own.dtype && other.op == own.op && other.root == own.root &&
        other.count == own.count) {
      continue;
    }
    complain("deadlock: collective " + std::to_string(collective_number_) + " is " + text_of(own) +
             " here, and " + text_of(other) + " on rank " + std::to_string(rank));
    return false;
  }
  return true;
}

std::vector<std::byte> Launch::reduced(const Call& call, std::size_t skipped) {
  const std::size_t bytes = size_of(call.type);
  std::vector<std::byte> values;
  for (int rank = 0; rank < world_.size(); ++rank) {
    const Contribution& given = world_.page(rank).contribution;
    Operator op = call.op;
    if (op.factor) op.factor = given.factor;
    const std::byte* const from = world_.memory_of(rank, given.send_offset) + skipped * bytes;
    if (rank == 0) {
      values = loaded(from, call.count, call.type, op, world_.size());
    } else {
      combine(values, loaded(from, call.count, call.type, op, world_.size()), call.type, op);
    }
  }
  finish(values, call.type, call.op, world_.size());
  return values;
}

// Of this rank; empty: it gets none.
std::vector<std::byte> Launch::result_of(const Call& call) {
  const auto given = [&](int rank) {
    return loaded(world_.memory_of(rank, world_.page(rank).contribution.send_offset), call.count, call.type,
                  {}, world_.size());
  };
  std::vector<std::byte> all;
  switch (call.kind) {
    case CallKind::all_reduce:
      return reduced(call, 0);
    case CallKind::reduce:
      return call.root == world_.rank() ? reduced(call, 0) : std::vector<std::byte>();
    case CallKind::reduce_scatter:
      return reduced(call, index(world_.rank()) * call.count);
    case CallKind::broadcast:
      return given(call.root);
    case CallKind::all_gather:
      for (int rank = 0; rank < world_.size(); ++rank) {
        const std::vector<std::byte> part = given(rank);
        all.insert(all.end(), part.begin(), part.end());
      }
      return all;
    case CallKind::send:
    case CallKind::recv:
      return {};
  }
  return {};
}

void Launch::store(const Call& call, const std::vector<std::byte>& values) {
  if (values.empty()) return;
  std::byte* const to = device_memory().find(call.recv, values.size());
  if (to == nullptr) return report_illegal_address(name_of(call.kind));
  std::memcpy(to, values.data(), values.size());
}

// True: it has ended.
bool Launch::step_message(const Call& call, Stage& stage, std::uint64_t& number) {
  if (stage == Stage::ended) return true;
  const std::size_t bytes = call.count * size_of(call.type);
  if (call.kind == CallKind::send) {
    Channel& channel = world_.page(world_.rank()).to[index(call.root)];
    if (stage == Stage::not_posted) {
      if (channel.posted != channel.taken) return false;  // an earlier one is not taken yet
      if (device_memory().find(call.send, bytes) == nullptr) {
        report_illegal_address("send");
        complain("the memory of send is not there");
        return false;
      }
      channel.offset = device_memory().offset_of(call.send);
      channel.bytes = bytes;
      number = ++channel.posted;
      stage = Stage::posted;
    }
    if (channel.taken < number) return false;
  } else {
    Channel& channel = world_.page(call.root).to[index(world_.rank())];
    if (channel.posted == channel.taken) return false;
    if (channel.bytes != bytes) {
      complain("rank " + std::to_string(call.root) + " sends " + std::to_string(channel.bytes) +
               " bytes, and " + std::to_string(bytes) + " are expected here");
      return false;
    }
    std::byte* const to = device_memory().find(call.recv, bytes);
    if (to == nullptr) {
      report_illegal_address("recv");
      return false;
    }
    std::memmove(to, world_.memory_of(call.root, channel.offset), bytes);
    ++channel.taken;
  }
  stage = Stage::ended;
  return true;
}

void Launch::complain(const std::string& text) {
  has_complained_ = true;
  std::fprintf(stderr, "NCCL double: rank %d: %s\n", world_.rank(), text.c_str());
}

void Launch::report_if_late() {
  if (is_reported_ || has_complained_ || steady_clock::now() < began_ + long_wait) return;
  is_reported_ = true;
  std::string text = "waits in launch " + std::to_string(number_);
  if (at_ < collectives_.size()) {
    text += ", " + std::string(name_of(collectives_[at_].kind)) + ", the collective " +
            std::to_string(collective_number_) + "; the others are at";
    for (int rank = 0; rank < world_.size(); ++rank) text += " " + std::to_string(world_.page(rank).posted);
  }
  for (std::size_t i = 0; i < messages_.size(); ++i) {
    if (message_stages_[i] != Stage::ended) {
      text +=
          std::string(", ") + name_of(messages_[i].kind) + " with rank " + std::to_string(messages_[i].root);
    }
  }
  std::fprintf(stderr, "NCCL double: rank %d %s\n", world_.rank(), text.c_str());
}

}  // namespace doubles
