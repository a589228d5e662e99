// Long messages for tests, and the bytes of stripes.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "runtime/rpc_protocol/stripe_queue.h"

namespace dlaunch::test {

inline constexpr std::uint64_t one_stripe = internal::StripeHead::length_of_one;

// A message with blocks of these sizes.
inline internal::RpcMessage long_message(internal::PartHead::Kind kind, std::uint64_t number,
                                         const std::vector<std::size_t>& sizes) {
  internal::RpcMessage message{kind, number, "front " + std::to_string(number)};
  std::size_t salt = number;
  for (const std::size_t size : sizes) {
    std::string bytes(size, '\0');
    for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>((i * 31 + i / 4096 + salt) % 251);
    message.body.blocks.push_back(codec::copy_of(bytes.data(), bytes.size()));
    ++salt;
  }
  return message;
}

// As they are sent, at most `most` bytes at a time.
inline std::string bytes_of(internal::Stripe stripe, std::size_t most = SIZE_MAX) {
  std::string bytes;
  for (bool is_whole = false; !is_whole;) {
    std::array<std::span<const std::byte>, 4> places;
    std::size_t sent = 0;
    for (auto piece : stripe.pieces(places)) {
      piece = piece.first(std::min(piece.size(), most - sent));
      bytes.append(reinterpret_cast<const char*>(piece.data()), piece.size());
      sent += piece.size();
    }
    is_whole = stripe.advance(sent);
  }
  return bytes;
}

}  // namespace dlaunch::test
