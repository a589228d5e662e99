// Document 003, run.py: the template that starts its processes itself, and the tutorial's functions in it.
#include <dlaunch/spawn.h>

#include "tests/reference/printed.h"
#include "tests/reference/processes.h"

using namespace reference;

namespace {

using Function = std::function<void(int rank, int size)>;

// Initialises the distributed environment: MASTER_ADDR and MASTER_PORT of the environment, rank and world
// size of the call.
void init_process(int rank, int size, const Function& fn, const std::string& backend = "gloo") {
  dist::init_process_group({.backend = backend, .rank = rank, .world_size = size});
  fn(rank, size);
  dist::destroy_process_group();
}

int start(int world_size, const Function& run) {
  const Master master;
  return run_processes(world_size, [&](int rank) { init_process(rank, world_size, run); });
}

// Blocking point to point communication.
void blocking(int rank, int) {
  Floats tensor = {0};
  if (rank == 0) {
    tensor[0] += 1;
    dist::send(dist::Tensor::of(tensor), 1);
  } else {
    dist::recv(dist::Tensor::of(tensor), 0);
  }
  expect(shown(tensor), "tensor([1.])");
}

// Non-blocking point to point communication.
void non_blocking(int rank, int) {
  Floats tensor = {0};
  dist::Work req;
  if (rank == 0) {
    tensor[0] += 1;
    req = dist::isend(dist::Tensor::of(tensor), 1);
  } else {
    req = dist::irecv(dist::Tensor::of(tensor), 0);
  }
  req.wait();
  expect(shown(tensor), "tensor([1.])");
}

// Simple collective communication: with more than two ranks some are no members.
void all_reduce(int rank, int) {
  const dist::ProcessGroup group = dist::new_group({0, 1});
  Floats tensor = {1};
  dist::CollectiveOptions options;
  options.group = group;
  dist::all_reduce(dist::Tensor::of(tensor), dist::ReduceOp::sum, options);
  expect(shown(tensor), rank < 2 ? "tensor([2.])" : "tensor([1.])");
}

// Rank 2 is no member, and calls when the members have left: rank 0 with the store that it served.
int all_reduce_with_a_late_rank() {
  int done[2];
  if (pipe(done) != 0) return 1;
  const Master master;
  const int code = run_processes(3, [&](int rank) {
    dist::init_process_group({.backend = "gloo", .rank = rank, .world_size = 3});
    char byte = 0;
    for (int others = 0; rank == 2 && others < 2; ++others) {
      require(read(done[0], &byte, 1) == 1, "the others have left");
    }
    all_reduce(rank, 3);
    dist::destroy_process_group();
    require(write(done[1], &byte, 1) == 1, "a byte for rank 2");
  });
  close(done[0]);
  close(done[1]);
  return code;
}

// Implementation of a ring-reduce with addition.
void ring(const Floats& send, Floats& recv) {
  const int rank = dist::get_rank();
  const int size = dist::get_world_size();
  Floats send_buff = send;
  Floats recv_buff = send;
  Floats accum = send;
  const int left = ((rank - 1) + size) % size;
  const int right = (rank + 1) % size;
  const auto add = [&](const Floats& part) {
    for (std::size_t i = 0; i < accum.size(); ++i) accum[i] += part[i];
  };
  for (int i = 0; i < size - 1; ++i) {
    Floats& to_send = i % 2 == 0 ? send_buff : recv_buff;
    Floats& to_receive = i % 2 == 0 ? recv_buff : send_buff;
    const dist::Work send_req = dist::isend(dist::Tensor::of(to_send), right);
    dist::recv(dist::Tensor::of(to_receive), left);
    add(to_receive);
    send_req.wait();
  }
  recv = accum;
}

void ring_all_reduce(int rank, int) {
  const Floats send(3, static_cast<float>(rank + 1));
  Floats recv(3);
  ring(send, recv);
  expect(shown(recv), "tensor([10, 10, 10])");
}

// The document's mp.set_start_method("spawn"): processes that run the program anew.
void start_anew() {
  const Master master;
  dist::spawn("init_process", {"2"}, 2);
}

}  // namespace

int main() {
  dist::register_spawn_function("init_process", [](int rank, const std::vector<std::string>& arguments) {
    init_process(rank, std::stoi(arguments.at(0)), blocking);
  });
  dist::run_if_spawned();
  const auto nothing = [](int, int) {};
  int code = start(2, nothing);
  code |= start(2, blocking);
  code |= start(2, non_blocking);
  code |= start(2, all_reduce);
  code |= start(4, all_reduce);
  code |= all_reduce_with_a_late_rank();
  code |= start(4, ring_all_reduce);
  start_anew();
  return code;
}
