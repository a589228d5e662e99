// The header ahead of a collective's message: its bytes, and what follows from it.
#pragma once

#include <cstdint>
#include <type_traits>

#include "runtime/collectives/collective_fingerprint.h"

namespace dlaunch::internal {

// The number of a call in its messages: it grows, also from part to part, and after 2^48 calls begins again.
constexpr std::uint64_t call_number(std::uint64_t sequence, std::uint16_t part) {
  return sequence << 16U | part;
}
constexpr std::uint64_t sequence_of(std::uint64_t number) { return number >> 16U; }
// Whether the call `number` is behind the call `other`, also if the numbers began again between the two.
constexpr bool is_earlier(std::uint64_t number, std::uint64_t other) {
  return static_cast<std::int64_t>(number - other) < 0;
}

// The first 64 bytes of a message in the eager channel; a cache line keeps the content behind it aligned.
struct MessageHeader {
  static constexpr std::uint32_t expected_magic = 0x35584c44;  // "DLX5"; changes with the protocol

  // The position among the messages of a call between two ranks.
  enum class Place : std::uint8_t {
    later,
    first,
    announced,  // the first message, which is long and comes separately
    none,       // no message: the sender waits for one, in this call
  };

  std::uint32_t magic = expected_magic;
  std::uint8_t kind = 0;
  std::uint8_t dtype = 0;
  std::uint8_t op = 0;
  Place place = Place::later;
  std::int32_t root = 0;
  std::uint32_t unused = 0;
  std::uint64_t count = 0;
  std::uint64_t layout = 0;
  std::uint64_t length = 0;    // of the message
  std::uint64_t sequence = 0;  // call_number()
  std::uint64_t unused2[2] = {};

  MessageHeader() = default;
  MessageHeader(const CollectiveFingerprint& fingerprint, std::uint64_t number, Place its_place,
                std::uint64_t its_length)
      : kind(static_cast<std::uint8_t>(fingerprint.kind)),
        dtype(static_cast<std::uint8_t>(fingerprint.dtype)),
        op(static_cast<std::uint8_t>(fingerprint.op)),
        place(its_place),
        root(fingerprint.root),
        count(fingerprint.count),
        layout(fingerprint.layout),
        length(its_length),
        sequence(number) {}

  [[nodiscard]] CollectiveFingerprint fingerprint() const {
    return {.kind = static_cast<CollectiveKind>(kind),
            .dtype = static_cast<DType>(dtype),
            .op = static_cast<ReduceOp>(op),
            .root = root,
            .count = count,
            .layout = layout};
  }
};

static_assert(sizeof(MessageHeader) == 64 && std::is_trivially_copyable_v<MessageHeader>);

// `hash` combined with another value. (The finaliser of S. Vigna's SplitMix64, after D. Stafford.)
inline std::uint64_t mixed(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) + 0x9e3779b97f4a7c15U;
  hash = (hash ^ (hash >> 30U)) * 0xbf58476d1ce4e5b9U;
  hash = (hash ^ (hash >> 27U)) * 0x94d049bb133111ebU;
  return hash ^ (hash >> 31U);
}

// Equal on all ranks with the same call; different calls differ, except in one case of 2^64.
inline std::uint64_t hash_of(const CollectiveFingerprint& fingerprint, std::uint64_t number) {
  std::uint64_t hash = mixed(MessageHeader::expected_magic, number);
  hash = mixed(hash, static_cast<std::uint64_t>(fingerprint.kind) |
                         static_cast<std::uint64_t>(fingerprint.dtype) << 8U |
                         static_cast<std::uint64_t>(fingerprint.op) << 16U |
                         static_cast<std::uint64_t>(static_cast<std::uint32_t>(fingerprint.root)) << 32U);
  return mixed(mixed(hash, fingerprint.count), fingerprint.layout);
}

}  // namespace dlaunch::internal
