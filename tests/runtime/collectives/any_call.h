// A collective as a value, so that one can be made over messages and over shared memory, and compared.
#pragma once

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "runtime/collectives/all_gather.h"
#include "runtime/collectives/all_reduce.h"
#include "runtime/collectives/all_to_all.h"
#include "runtime/collectives/barrier.h"
#include "runtime/collectives/broadcast.h"
#include "runtime/collectives/coalesced.h"
#include "runtime/collectives/gather.h"
#include "runtime/collectives/message_header.h"
#include "runtime/collectives/reduce_scatter.h"
#include "runtime/collectives/reduce_to_root.h"
#include "tests/runtime/collectives/thread_transport.h"

namespace dlaunch::test {

// A call that all ranks make, with other values on each.
struct Call {
  CollectiveKind kind;
  std::size_t count;  // elements of a block, or of the tensor
  DType dtype = DType::float32;
  ReduceOp op = ReduceOp::sum;
  int root = 0;
  bool exact = false;  // values whose sums and products do not depend on the order
};

// `exact`: of float32. Otherwise any bits, so with floats also NaNs and zeros of both signs; most floats are
// such that the order of a sum shows.
inline std::vector<std::byte> random_bytes_of(const Call& call, int rank, std::size_t blocks) {
  std::vector<std::byte> bytes(call.count * blocks * size_of(call.dtype));
  std::byte* const begin = bytes.data();  // calls within the loops are slow in code that is not optimised
  const std::size_t size = bytes.size();
  std::uint64_t state = mixed(static_cast<std::uint64_t>(rank), call.count);
  for (std::size_t at = 0; at < size; at += sizeof state) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    std::uint64_t word = state ^ state >> 29U;
    if (call.dtype == DType::boolean) word &= 0x0101010101010101U;
    // Exponents around that of 1, but for one float in 16.
    if (call.dtype == DType::float32 && word % 16 != 0)
      word = (word & 0x83ffffff83ffffffU) | 0x3c0000003c000000U;
    std::memcpy(begin + at, &word, size - at < sizeof word ? size - at : sizeof word);
  }
  if (call.exact) {
    auto* const floats = reinterpret_cast<float*>(begin);
    for (std::size_t i = 0; i < size / sizeof(float); ++i)
      floats[i] = static_cast<float>((i * 5 + static_cast<std::size_t>(rank) * 3) % 8);
  }
  return bytes;
}

// Makes the call on one rank, over messages or in memory; returns all that the rank has afterwards. `place`:
// where its values are during the call; empty: anywhere.
template <class Over>
std::vector<std::byte> make_call(Over& over, const Call& call, int rank, int size,
                                 std::span<std::byte> place = {}) {
  using Bytes = std::span<std::byte>;
  const auto ranks = static_cast<std::size_t>(size);
  std::vector<std::byte> initial = random_bytes_of(call, rank, ranks);
  const Bytes values = place.empty() ? Bytes(initial) : place.first(initial.size());
  if (!place.empty()) std::memcpy(values.data(), initial.data(), initial.size());
  std::vector<std::byte> other(values.size());
  const std::size_t block = call.count * size_of(call.dtype);
  const Bytes first = values.first(block);
  const auto blocks_of = [&]<class Span>(Bytes bytes, Span*) {
    std::vector<Span> blocks;
    for (std::size_t i = 0; i < ranks; ++i) blocks.push_back(bytes.subspan(i * block, block));
    return blocks;
  };
  const auto outputs = blocks_of(Bytes(other), static_cast<Bytes*>(nullptr));
  const auto inputs = blocks_of(values, static_cast<std::span<const std::byte>*>(nullptr));
  const Reduction reduction{call.op, 0.375};
  const bool is_root = rank == call.root;
  switch (call.kind) {
    case CollectiveKind::all_reduce:
      all_reduce(over, first, call.dtype, reduction);
      break;
    case CollectiveKind::broadcast:
      broadcast(over, first, call.root);
      break;
    case CollectiveKind::all_gather:
      all_gather(over, outputs, first);
      break;
    case CollectiveKind::barrier:
      barrier(over);
      break;
    case CollectiveKind::reduce:
      reduce_to_root(over, first, call.dtype, reduction, call.root);
      break;
    case CollectiveKind::gather:
      gather(over, is_root ? std::span(outputs) : std::span<const Bytes>(), first, call.root);
      break;
    case CollectiveKind::scatter:
      scatter(over, outputs[0], is_root ? std::span(inputs) : std::span<const std::span<const std::byte>>(),
              call.root);
      break;
    case CollectiveKind::reduce_scatter:
      reduce_scatter(over, outputs[0], inputs, call.dtype, reduction);
      break;
    case CollectiveKind::all_to_all:
      all_to_all(over, outputs, inputs);
      break;
    case CollectiveKind::all_reduce_coalesced:
      all_reduce_coalesced(over, blocks_of(values, static_cast<Bytes*>(nullptr)), call.dtype, reduction);
      break;
  }
  std::vector<std::byte> all(values.begin(), values.end());
  all.insert(all.end(), other.begin(), other.end());
  return all;
}

inline CollectiveFingerprint fingerprint_of(const Call& call) {
  return {.kind = call.kind, .dtype = call.dtype, .op = call.op, .root = call.root, .count = call.count};
}

using Results = std::vector<std::vector<std::byte>>;  // by rank: those of all calls

inline Results over_messages(const std::vector<Call>& calls, int size) {
  Results results(static_cast<std::size_t>(size));
  expect_success(on_ranks(size, [&](std::unique_ptr<Transport> transport) {
    const int rank = transport->rank();
    Workspace workspace;
    std::uint64_t number = 0;
    for (const Call& call : calls) {
      Exchange exchange(*transport, workspace, fingerprint_of(call), ++number, soon());
      const std::vector<std::byte> result = make_call(exchange, call, rank, size);
      auto& all = results[static_cast<std::size_t>(rank)];
      all.insert(all.end(), result.begin(), result.end());
    }
  }));
  return results;
}

inline void expect_same_bits(const Results& found, const Results& wanted) {
  for (std::size_t rank = 0; rank < wanted.size(); ++rank) {
    ASSERT_EQ(found[rank].size(), wanted[rank].size());
    if (std::memcmp(found[rank].data(), wanted[rank].data(), wanted[rank].size()) == 0) continue;
    const auto differ = std::ranges::mismatch(found[rank], wanted[rank]).in1 - found[rank].begin();
    ADD_FAILURE() << "rank " << rank << ": byte " << differ << " of " << wanted[rank].size();
  }
}

inline constexpr CollectiveKind all_kinds[] = {
    CollectiveKind::all_reduce, CollectiveKind::broadcast,
    CollectiveKind::all_gather, CollectiveKind::barrier,
    CollectiveKind::reduce,     CollectiveKind::gather,
    CollectiveKind::scatter,    CollectiveKind::reduce_scatter,
    CollectiveKind::all_to_all, CollectiveKind::all_reduce_coalesced};

// "": none.
inline std::vector<std::string> messages(const std::vector<std::exception_ptr>& errors) {
  std::vector<std::string> texts;
  for (const std::exception_ptr& error : errors) texts.push_back(error ? message_of(error) : "");
  return texts;
}

}  // namespace dlaunch::test
