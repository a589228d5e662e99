// The messages between the messengers of two ranks, as bytes.
//
// Envelopes are sent in blocks: a block holds all envelopes that wait for the peer when it begins.
//
// A short message goes in one piece behind its envelope ("eager"). A message that is long, or has no credit,
// is offered ("rts", ready to send). When the receiver has a receive for it, it answers "cts" (clear to
// send). Then a short message follows behind an envelope ("data"), and a long one goes from memory to memory
// on its own slot. So data never wait for a program: both sides are ready. When a receive has taken a short
// message, the sender gets a credit back ("credit"). Without credits the sender offers short messages, too,
// so that a rank that does not receive is not flooded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <type_traits>

#include "dlaunch/backend.h"
#include "dlaunch/tensor.h"

namespace dlaunch::internal {

struct Envelope {
  enum class Kind : std::uint32_t { eager = 1, rts, cts, data, credit };
  static constexpr std::uint32_t expected_magic = 0x33504c44;  // "DLP3"; changes with the protocol

  std::uint32_t magic = expected_magic;
  Kind kind = Kind::eager;
  Tag tag = 0;
  DType dtype = DType::uint8;
  std::uint8_t is_last = 1;  // of the block
  std::uint8_t unused[6] = {};
  std::uint64_t count = 0;         // elements; credit: how many
  std::uint64_t number = 0;        // rts, cts, data: the sender's number of the message
  std::uint64_t acknowledged = 0;  // the block's first envelope: so many more of the peer's blocks have come
  std::uint64_t unused2[2] = {};

  // Of the message, in bytes.
  [[nodiscard]] std::size_t payload() const { return count * size_of(dtype); }
  // Bytes of it behind the envelope.
  [[nodiscard]] std::size_t carried() const {
    return kind == Kind::eager || kind == Kind::data ? payload() : 0;
  }
};
static_assert(sizeof(Envelope) == 64 && std::is_trivially_copyable_v<Envelope>);

// Longest message that is worth copying twice.
inline constexpr std::size_t short_message = std::size_t{32} * 1024;
inline constexpr std::size_t envelope_block = sizeof(Envelope) + short_message;
// Most short messages that may wait for one rank.
inline constexpr int credits_at_start = 64;

// Slots apart from those of the collectives (collectives/exchange.cpp): bit 61 is set, bit 62 is not.
inline constexpr std::uint64_t envelope_slot = std::uint64_t{1} << 61;
inline constexpr std::uint64_t data_slot(std::uint64_t number) {
  return envelope_slot | (std::uint64_t{1} << 60) | number;
}

// The first envelope of the rest of a block, whose content is there too. Nothing if it cannot be an envelope
// of this version.
inline std::optional<Envelope> parse_envelope(std::span<const std::byte> rest) {
  Envelope envelope;
  if (rest.size() < sizeof envelope) return std::nullopt;
  std::memcpy(&envelope, rest.data(), sizeof envelope);
  if (envelope.magic != Envelope::expected_magic || envelope.dtype > last_dtype) return std::nullopt;
  const bool carries = envelope.kind == Envelope::Kind::eager || envelope.kind == Envelope::Kind::data;
  if (carries && envelope.count > short_message / size_of(envelope.dtype)) return std::nullopt;
  if (envelope.carried() > rest.size() - sizeof envelope) return std::nullopt;
  return envelope;
}

}  // namespace dlaunch::internal
