// The bytes that arrive on one connection for stripes. They are read to space(), which is mostly the message
// itself.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "runtime/base/function_ref.h"
#include "runtime/rpc_protocol/stripe_head.h"

namespace dlaunch::internal {

class StripeReader {
 public:
  // Where the next bytes belong: first `direct`, which may be empty, then `head`, which is not.
  struct Space {
    std::span<std::byte> direct;
    std::span<std::byte> head;

    [[nodiscard]] std::size_t size() const { return direct.size() + head.size(); }
  };
  Space space() { return {place_, std::span(head_bytes_).subspan(filled_)}; }

  // As those of StripeTable.
  struct Table {
    FunctionRef<std::optional<std::string>(const StripeHead& head, std::span<std::byte>& place)> begin;
    FunctionRef<void(const StripeHead& head)> end;
  };
  // So many bytes were stored there. Returns what is wrong with the bytes, after which the reader is not to
  // be used; none: nothing.
  std::optional<std::string> advance(std::size_t count, const Table& table);

 private:
  std::array<std::byte, StripeHead::size> head_bytes_{};  // of the next stripe
  std::size_t filled_ = 0;
  std::optional<StripeHead> head_;  // of the stripe that is being read
  std::span<std::byte> place_;      // of its rest
};

}  // namespace dlaunch::internal
