// MPI for the measuring loop of host_collectives.h. Compiled with the MPI's own compiler wrapper; with
// NON_BLOCKING each collective is begun and then waited for, as a program that has deadlines must.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <memory>

#include "host_collectives.h"

#ifdef NON_BLOCKING
#define COLLECTIVE(blocking, begun, ...)   \
  do {                                     \
    MPI_Request request;                   \
    MPI_I##begun(__VA_ARGS__, &request);   \
    MPI_Wait(&request, MPI_STATUS_IGNORE); \
  } while (false)
#else
#define COLLECTIVE(blocking, begun, ...) MPI_##blocking(__VA_ARGS__)
#endif

class HostMpi {
 public:
  HostMpi() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }
  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] static std::shared_ptr<float> memory(std::size_t count) { return own_memory(count); }
  void barrier() const { COLLECTIVE(Barrier, barrier, MPI_COMM_WORLD); }
  [[nodiscard]] double max_of(double value) const {
    MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return value;
  }
  void all_reduce(float* x, std::size_t count) const {
    COLLECTIVE(Allreduce, allreduce, MPI_IN_PLACE, x, number(count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  }
  void reduce(float* x, float* /*y*/, std::size_t count) const {
    if (rank_ == 0) {
      COLLECTIVE(Reduce, reduce, MPI_IN_PLACE, x, number(count), MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD);
    } else {
      COLLECTIVE(Reduce, reduce, x, nullptr, number(count), MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD);
    }
  }
  void broadcast(float* x, std::size_t count) const {
    COLLECTIVE(Bcast, bcast, x, number(count), MPI_FLOAT, 0, MPI_COMM_WORLD);
  }
  void all_gather(float* all, const float* own, std::size_t block) const {
    COLLECTIVE(Allgather, allgather, own, number(block), MPI_FLOAT, all, number(block), MPI_FLOAT,
               MPI_COMM_WORLD);
  }
  void reduce_scatter(const float* all, float* own, std::size_t block) const {
    COLLECTIVE(Reduce_scatter_block, reduce_scatter_block, all, own, number(block), MPI_FLOAT, MPI_SUM,
               MPI_COMM_WORLD);
  }
  void all_to_all(const float* from, float* to, std::size_t block) const {
    COLLECTIVE(Alltoall, alltoall, from, number(block), MPI_FLOAT, to, number(block), MPI_FLOAT,
               MPI_COMM_WORLD);
  }
  void gather(float* all, const float* own, std::size_t block) const {
    COLLECTIVE(Gather, gather, own, number(block), MPI_FLOAT, all, number(block), MPI_FLOAT, 0,
               MPI_COMM_WORLD);
  }
  void scatter(const float* all, float* own, std::size_t block) const {
    COLLECTIVE(Scatter, scatter, all, number(block), MPI_FLOAT, own, number(block), MPI_FLOAT, 0,
               MPI_COMM_WORLD);
  }
  void ping_pong(float* x, std::size_t count) const {
    if (rank_ > 1) return;
    const int peer = 1 - rank_;
    if (rank_ == 0) MPI_Send(x, number(count), MPI_FLOAT, peer, 0, MPI_COMM_WORLD);
    MPI_Recv(x, number(count), MPI_FLOAT, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank_ == 1) MPI_Send(x, number(count), MPI_FLOAT, peer, 0, MPI_COMM_WORLD);
  }

 private:
  static int number(std::size_t count) { return static_cast<int>(count); }

  int rank_ = 0;
  int size_ = 0;
};
