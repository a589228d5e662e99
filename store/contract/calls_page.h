// The part of a worker's page that shows its remote calls: those it makes and those it runs for others, in a
// ring of the latest ones in which a call that is under way keeps its place. The runtime writes it
// (runtime/rpc/call_log.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "store/base/namespaces.h"

namespace dlaunch::store::page {

inline constexpr std::size_t max_calls = 1024;

// A name, or its first bytes, in words: they are written one by one, each at once.
template <std::size_t Words>
struct Name {
  std::array<std::uint64_t, Words> words;

  static Name of(std::string_view text) {
    Name name{};
    text.copy(reinterpret_cast<char*>(name.words.data()), sizeof name.words);
    return name;
  }
  [[nodiscard]] std::string text() const {
    std::array<char, sizeof(words)> bytes;
    std::memcpy(bytes.data(), words.data(), bytes.size());
    return {bytes.data(), strnlen(bytes.data(), bytes.size())};
  }
  bool operator==(const Name&) const = default;
};

struct Call {
  enum State : std::uint8_t {
    none,
    queued,   // of this worker: no byte of it has left
    sent,     // the other worker may have it
    waiting,  // of another worker: no thread runs it yet
    running,  // or its function waits for something else
    succeeded,
    failed,
  };
  static constexpr bool is_open(std::uint8_t state) { return state >= queued && state <= running; }

  std::uint64_t seqlock;  // 2n + 1 while call n is being written, 2n + 2 from then on
  std::uint64_t number;   // both workers know the call by it; counts the calls from one to the other
  std::int64_t began_ns;  // when the call was made, or has arrived
  std::int64_t ended_ns;  // 0: not yet; written after the seqlock, and `state` after that
  std::int32_t peer;      // the other worker's id
  std::uint8_t state;
  std::uint8_t is_served;  // 1: the other worker has made it, and this one runs it
  std::array<std::uint8_t, 2> reserved;
  Name<7> function;
  Name<4> worker;  // the other one
};

// In the page's header.
struct CallCounts {
  std::int32_t id;  // of this worker, plus 1; 0: it has no remote calls
  std::int32_t reserved;
  Name<4> worker;

  std::uint64_t next;  // the number of the next record in the ring, from 0
  std::uint64_t made;
  std::uint64_t succeeded;
  std::uint64_t failed;
  std::uint64_t latency_ns;  // the sum over those that have succeeded
  std::uint64_t longest_ns;
  std::uint64_t arrived;  // calls of other workers
  std::uint64_t answered;
  std::uint64_t answered_with_error;  // among these
  std::uint64_t bytes_sent;           // of requests and results
  std::uint64_t bytes_received;
  std::uint64_t waiting;  // threads that wait for the answer to a call

  std::uint64_t owned;    // remote references: to values of this worker
  std::uint64_t used;     // ... of others, which it refers to
  std::uint64_t pending;  // passed to others, which have not confirmed them yet
};

// How often calls have begun or ended.
constexpr std::uint64_t moves_of(const CallCounts& counts) {
  return counts.made + counts.succeeded + counts.failed + counts.arrived + counts.answered;
}

static_assert(sizeof(Call) == 128 && sizeof(CallCounts) == 160);

}  // namespace dlaunch::store::page
