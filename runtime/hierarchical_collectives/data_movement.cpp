// The collectives that only move data.
#include <deque>
#include <vector>

#include "runtime/collectives/all_gather.h"
#include "runtime/collectives/broadcast.h"
#include "runtime/collectives/gather.h"
#include "runtime/hierarchical_collectives/hierarchical_call.h"
#include "runtime/hierarchical_collectives/rows.h"
#include "runtime/shared_collectives/rounds.h"

namespace dlaunch::internal {

void HierarchicalCall::broadcast(Bytes values, int src) {
  root_ = src;
  const int host = static_cast<int>(hosts_.host_of(src));
  // The source does not wait for its host if the values are short.
  const bool begins_at_home = rank_ == src && values.size() <= shared::eager_size;
  if (begins_at_home) broadcast_on_host(values);
  if (is_delegate()) internal::broadcast(exchange(), values, host);
  if (!begins_at_home) broadcast_on_host(values);
}

// Short data reach a host's ranks in one message, long ones host by host.
void HierarchicalCall::all_gather(std::span<const Bytes> outputs, ConstBytes input) {
  const std::vector<Bytes> own_blocks = of_host(outputs, own_host_);
  if (local_) {
    local_->all_gather(own_blocks, input);
  } else {
    copy(own_blocks.front().data(), input);
  }
  const std::size_t total = size_of_all(outputs);
  const bool are_short = total <= shared::eager_size;
  const Bytes together = own_scratch(total);
  Bytes scratch = together;
  std::vector<std::vector<Bytes>> blocks;
  std::vector<Bytes> rows;
  for (std::size_t host = 0; host < hosts_.hosts(); ++host) {
    blocks.push_back(of_host(outputs, host));
    if (are_short) {
      rows.push_back(take(scratch, size_of_all(std::span<const Bytes>(blocks.back()))));
    } else {
      rows.push_back(row_for(blocks.back(), scratch));
    }
  }
  const Bytes own = rows[own_host_];
  if (is_delegate()) {
    pack(own, std::vector<ConstBytes>(own_blocks.begin(), own_blocks.end()));
    internal::all_gather(exchange(), rows, own);
  }
  if (are_short) broadcast_on_host(together);
  for (std::size_t host = 0; host < hosts_.hosts(); ++host) {
    if (host == own_host_) continue;
    if (!are_short) broadcast_on_host(rows[host]);
    unpack(blocks[host], rows[host]);
  }
}

// One row for each host, of equal sizes if the hosts have as many ranks: then short rows take a tree.
bool HierarchicalCall::hosts_are_even() const {
  for (std::size_t host = 1; host < hosts_.hosts(); ++host) {
    if (hosts_.ranks_of(host).size() != hosts_.ranks_of(0).size()) return false;
  }
  return true;
}

// `rows`: at the root's host, one for each host; `own`: what this host has collected.
void HierarchicalCall::gather_rows(std::span<const Bytes> rows, ConstBytes own, int root_host) {
  if (hosts_are_even()) return internal::gather(exchange(), rows, own, root_host);
  if (rows.empty()) return exchange().send(root_host, own).wait();
  std::vector<Exchange::Receive> expected;
  for (int host = 0; host < exchange().size(); ++host) {
    if (host != root_host) expected.push_back(exchange().receive(host, rows[static_cast<std::size_t>(host)]));
  }
  wait_for_all(expected);
}

void HierarchicalCall::scatter_rows(Bytes own, std::span<const ConstBytes> rows, int root_host) {
  if (hosts_are_even()) return internal::scatter(exchange(), own, rows, root_host);
  if (rows.empty()) return exchange().receive(root_host, own).wait_in_place();
  std::vector<Exchange::Send> sent;
  for (int host = 0; host < exchange().size(); ++host) {
    if (host != root_host) sent.push_back(exchange().send(host, rows[static_cast<std::size_t>(host)]));
  }
  wait_for_all(sent);
}

// `row` as blocks of that size, one for each rank of this host.
std::vector<HierarchicalCall::Bytes> HierarchicalCall::cut(Bytes row, std::size_t block) const {
  std::vector<Bytes> blocks;
  for (std::size_t i = 0; i < own_ranks().size(); ++i) blocks.push_back(row.subspan(i * block, block));
  return blocks;
}

// Long blocks go to the root from each rank: a delegate would only copy them.
void HierarchicalCall::gather_long(std::span<const Bytes> outputs, ConstBytes input, int root) {
  root_ = root;
  Exchange all(transport_, workspace_, fingerprint_, sequence_, deadline_);
  const std::size_t root_host = hosts_.host_of(root);
  if (own_host_ != root_host) return all.send(root, input).wait();
  std::vector<Exchange::Receive> expected;
  std::vector<Bytes> own_blocks;
  if (rank_ == root) {
    for (int rank = 0; rank < all.size(); ++rank) {
      if (hosts_.host_of(rank) != root_host)
        expected.push_back(all.receive(rank, outputs[static_cast<std::size_t>(rank)]));
    }
    own_blocks = of_host(outputs, own_host_);
  }
  if (local_) {
    local_->gather(own_blocks, input, delegate_place());
  } else {
    copy(own_blocks.front().data(), input);
  }
  wait_for_all(expected);
}

void HierarchicalCall::scatter_long(Bytes output, std::span<const ConstBytes> inputs, int root) {
  root_ = root;
  Exchange all(transport_, workspace_, fingerprint_, sequence_, deadline_);
  const std::size_t root_host = hosts_.host_of(root);
  if (own_host_ != root_host) return all.receive(root, output).wait_in_place();
  std::vector<Exchange::Send> sent;
  std::vector<ConstBytes> own_blocks;
  if (rank_ == root) {
    for (int rank = 0; rank < all.size(); ++rank) {
      if (hosts_.host_of(rank) != root_host)
        sent.push_back(all.send(rank, inputs[static_cast<std::size_t>(rank)]));
    }
    own_blocks = of_host(inputs, own_host_);
  }
  if (local_) {
    local_->scatter(output, own_blocks, delegate_place());
  } else {
    copy(output.data(), own_blocks.front());
  }
  wait_for_all(sent);
}

void HierarchicalCall::gather(std::span<const Bytes> outputs, ConstBytes input, int root) {
  if (input.size() > Exchange::eager_limit) return gather_long(outputs, input, root);
  root_ = root;
  const std::size_t root_host = hosts_.host_of(root);
  Bytes scratch = is_delegate() ? own_scratch(input.size() * hosts_.ranks()) : Bytes();
  const Bytes own = scratch.first(is_delegate() ? input.size() * own_ranks().size() : 0);
  std::vector<Bytes> own_blocks;
  if (rank_ == root) {
    own_blocks = of_host(outputs, own_host_);
  } else if (is_delegate()) {
    own_blocks = cut(own, input.size());
  }
  if (local_) {
    local_->gather(own_blocks, input, delegate_place());
  } else {
    copy(own_blocks.front().data(), input);
  }
  if (!is_delegate()) return;
  if (rank_ != root) return gather_rows({}, own, static_cast<int>(root_host));

  std::vector<Bytes> rows;
  for (std::size_t host = 0; host < hosts_.hosts(); ++host)
    rows.push_back(row_for(of_host(outputs, host), scratch));
  gather_rows(rows, rows[root_host], static_cast<int>(root_host));
  for (std::size_t host = 0; host < hosts_.hosts(); ++host) {
    if (host != root_host) unpack(of_host(outputs, host), rows[host]);
  }
}

void HierarchicalCall::scatter(Bytes output, std::span<const ConstBytes> inputs, int root) {
  if (output.size() > Exchange::eager_limit) return scatter_long(output, inputs, root);
  root_ = root;
  const std::size_t root_host = hosts_.host_of(root);
  const std::size_t row_size = output.size() * own_ranks().size();
  std::vector<ConstBytes> own_blocks;
  if (rank_ == root) {
    own_blocks = of_host(inputs, own_host_);
    Bytes scratch = own_scratch(output.size() * hosts_.ranks());
    const Bytes unused = scratch.first(row_size);  // this host's row stays where it is
    std::vector<ConstBytes> rows;
    for (std::size_t host = 0; host < hosts_.hosts(); ++host) {
      const std::vector<ConstBytes> blocks = of_host(inputs, host);
      rows.push_back(host == root_host ? ConstBytes(unused) : row_of(blocks, scratch));
    }
    scatter_rows(unused, rows, static_cast<int>(root_host));
  } else if (is_delegate()) {
    const Bytes own = own_scratch(row_size);
    scatter_rows(own, {}, static_cast<int>(root_host));
    const std::vector<Bytes> blocks = cut(own, output.size());
    own_blocks.assign(blocks.begin(), blocks.end());
  }
  if (local_) {
    local_->scatter(output, own_blocks, delegate_place());
  } else {
    copy(output.data(), own_blocks.front());
  }
}

// The messages to other hosts are under way while the ranks of this host exchange their blocks.
void HierarchicalCall::all_to_all(std::span<const Bytes> outputs, std::span<const ConstBytes> inputs) {
  constexpr std::size_t steps_ahead = 8;
  Exchange all(transport_, workspace_, fingerprint_, sequence_, deadline_);
  const std::size_t ranks = hosts_.ranks();
  const auto self = static_cast<std::size_t>(rank_);
  const auto is_remote = [&](std::size_t rank) {
    return hosts_.host_of(static_cast<int>(rank)) != own_host_;
  };
  std::deque<Exchange::Receive> expected;
  std::vector<Exchange::Send> sent;
  sent.reserve(ranks);
  std::size_t next = 1;  // step
  const auto post = [&] {
    for (; next < ranks && expected.size() < steps_ahead; ++next) {
      const std::size_t from = (self + ranks - next) % ranks;
      const std::size_t to = (self + next) % ranks;
      if (is_remote(from)) expected.push_back(all.receive(static_cast<int>(from), outputs[from]));
      if (is_remote(to)) sent.push_back(all.send(static_cast<int>(to), inputs[to]));
    }
  };
  post();
  const std::vector<Bytes> own_outputs = of_host(outputs, own_host_);
  const std::vector<ConstBytes> own_inputs = of_host(inputs, own_host_);
  if (local_) {
    local_->all_to_all(own_outputs, own_inputs);
  } else {
    copy(own_outputs.front().data(), own_inputs.front());
  }
  for (post(); !expected.empty(); post()) {
    expected.front().wait_in_place();
    expected.pop_front();
  }
  wait_for_all(sent);
}

}  // namespace dlaunch::internal
