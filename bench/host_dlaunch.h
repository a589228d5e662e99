// The runtime library for the measuring loop of host_collectives.h.
#pragma once

#include <dlaunch/distributed.h>

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <span>
#include <vector>

#include "host_collectives.h"

// REQUIRES: the default group exists, and outlives it.
class HostDlaunch {
 public:
  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  // HOST_BENCH_SHARED=1: memory that the ranks read in place.
  [[nodiscard]] std::shared_ptr<float> memory(std::size_t count) const {
    if (std::getenv("HOST_BENCH_SHARED") == nullptr) return own_memory(count);
    const auto shared =
        std::make_shared<dlaunch::SharedMemory>(dlaunch::allocate_shared(count * sizeof(float)));
    return {shared, shared->as<float>().data()};
  }
  void barrier() const { dlaunch::barrier(); }
  [[nodiscard]] double max_of(double value) const {
    dlaunch::all_reduce(dlaunch::Tensor::of(std::span(&value, 1)), dlaunch::ReduceOp::max);
    return value;
  }
  void all_reduce(float* x, std::size_t count) const { dlaunch::all_reduce(of(x, count)); }
  void reduce(float* x, float* /*y*/, std::size_t count) const { dlaunch::reduce(of(x, count), 0); }
  void broadcast(float* x, std::size_t count) const { dlaunch::broadcast(of(x, count), 0); }
  void all_gather(float* all, const float* own, std::size_t block) const {
    dlaunch::all_gather_into_tensor(of(all, block * ranks()), of(own, block));
  }
  void reduce_scatter(const float* all, float* own, std::size_t block) const {
    dlaunch::reduce_scatter_tensor(of(own, block), of(all, block * ranks()));
  }
  void all_to_all(const float* from, float* to, std::size_t block) const {
    dlaunch::all_to_all_single(of(to, block * ranks()), of(from, block * ranks()));
  }
  void gather(float* all, const float* own, std::size_t block) {
    dlaunch::gather(blocks(all, block), of(own, block), 0);
  }
  void scatter(float* all, float* own, std::size_t block) {
    dlaunch::scatter(of(own, block), blocks(all, block), 0);
  }
  void ping_pong(float* x, std::size_t count) const {
    if (rank_ > 1) return;
    const int peer = 1 - rank_;
    if (rank_ == 0) dlaunch::send(of(x, count), peer);
    dlaunch::recv(of(x, count), peer);
    if (rank_ == 1) dlaunch::send(of(x, count), peer);
  }

 private:
  using Tensor = dlaunch::Tensor;
  static Tensor of(float* x, std::size_t count) { return Tensor::of(std::span(x, count)); }
  static Tensor of(const float* x, std::size_t count) { return Tensor::of(std::span(x, count)); }
  [[nodiscard]] std::size_t ranks() const { return static_cast<std::size_t>(size_); }
  const std::vector<Tensor>& blocks(float* all, std::size_t block) {
    blocks_.clear();
    for (std::size_t i = 0; i < ranks() && rank_ == 0; ++i) blocks_.push_back(of(all + i * block, block));
    return blocks_;
  }

  const int rank_ = dlaunch::get_rank();
  const int size_ = dlaunch::get_world_size();
  std::vector<Tensor> blocks_;
};
