// The control messages between two ranks' messengers, as they travel.
//
// A short message goes in one piece behind its letter ("content"). A long one is offered ("offer"); when the
// receiver has a receive for it, it posts the memory and says so ("accept"), and the data go straight from
// memory to memory on a slot of their own. So nothing that waits for data waits for a program: both sides are
// there. For each short message that a receive has taken the sender gets back a credit ("credit"); without
// credits left it offers short messages too, so that a rank that does not receive is not filled up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <type_traits>

#include "dlaunch/backend.h"
#include "dlaunch/tensor.h"

namespace dlaunch {

struct Letter {
  enum class Kind : std::uint32_t { content = 1, offer, accept, credit };
  static constexpr std::uint32_t expected_magic = 0x32504c44;  // "DLP2"; changes with the protocol

  std::uint32_t magic = expected_magic;
  Kind kind = Kind::content;
  Tag tag = 0;
  DType dtype = DType::uint8;
  std::uint8_t unused[7] = {};
  std::uint64_t count = 0;   // elements; credit: how many
  std::uint64_t number = 0;  // offer, accept: the sender's number of the message
  std::uint64_t unused2[3] = {};

  [[nodiscard]] std::size_t payload() const { return count * size_of(dtype); }
};
static_assert(sizeof(Letter) == 64 && std::is_trivially_copyable_v<Letter>);

// Short enough to be copied twice.
inline constexpr std::size_t short_message = std::size_t{32} * 1024;
inline constexpr std::size_t letter_block = sizeof(Letter) + short_message;
// Short messages to one rank that may lie there untaken.
inline constexpr int credits_at_start = 64;

// Slots beside those of the collectives (collectives/exchange.cpp): bit 61 is set, bit 62 is not.
inline constexpr std::uint64_t letter_slot = std::uint64_t{1} << 61;
inline constexpr std::uint64_t data_slot(std::uint64_t number) {
  return letter_slot | (std::uint64_t{1} << 60) | number;
}

// Nothing where it cannot be a letter of this version.
inline std::optional<Letter> read_letter(const std::byte* block) {
  Letter letter;
  std::memcpy(&letter, block, sizeof letter);
  if (letter.magic != Letter::expected_magic || letter.dtype > DType::complex128) return std::nullopt;
  if (letter.kind == Letter::Kind::content && letter.count > short_message / size_of(letter.dtype)) {
    return std::nullopt;
  }
  return letter;
}

}  // namespace dlaunch
