#include "runtime/backends/mpi/mpi_world.h"

#include <mpi.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "dlaunch/error.h"
#include "runtime/backends/mpi/mpi_error.h"
#include "runtime/backends/mpi/mpi_process.h"
#include "runtime/base/comma_separated.h"
#include "runtime/base/deadline.h"

namespace dlaunch::internal {

namespace {

constexpr int share_tag = 32'001;  // below the least upper bound of the standard
using Text = std::array<char, 512>;

BackendWorld::Place place() {
  const MpiPlace& own = mpi_place();
  return {.rank = own.rank, .size = own.size, .is_one_host = own.local_size == own.size};
}

bool has_completed(MPI_Request& request) {
  int done = 0;
  const MpiCallLock lock;
  require_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
  return done != 0;
}

// Returns the places of those that have not completed before the deadline. Their memory is MPI's then.
std::vector<int> incomplete(std::vector<MPI_Request>& requests, Deadline deadline) {
  constexpr auto longest_pause = std::chrono::microseconds(1000);
  auto pause = std::chrono::microseconds(20);
  std::mutex mutex;
  std::condition_variable never;  // MPI has no event that a thread could wait for
  std::unique_lock lock(mutex);
  for (;;) {
    std::vector<int> left;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      if (requests[i] != MPI_REQUEST_NULL && !has_completed(requests[i])) left.push_back(static_cast<int>(i));
    }
    if (left.empty()) return left;
    if (has_passed(deadline)) {
      MpiUse::leave_unfinished();
      return left;
    }
    (void)never.wait_for(lock, pause);
    pause = std::min(pause * 3 / 2, longest_pause);
  }
}

void send_to_all(const std::string& text, Deadline deadline) {
  auto memory = std::make_unique<Text>();
  memory->fill('\0');
  text.copy(memory->data(), memory->size() - 1);
  std::vector<MPI_Request> requests(static_cast<std::size_t>(mpi_place().size), MPI_REQUEST_NULL);
  for (int rank = 1; rank < mpi_place().size; ++rank) {
    const MpiCallLock lock;
    require_mpi(MPI_Isend(memory->data(), static_cast<int>(memory->size()), MPI_CHAR, rank, share_tag,
                          MPI_COMM_WORLD, &requests[static_cast<std::size_t>(rank)]),
                "MPI_Isend");
  }
  const std::vector<int> late = incomplete(requests, deadline);
  if (late.empty()) return;
  (void)memory.release();
  throw DistNetworkError("rank " + comma_separated(late) + " of MPI did not call it before the deadline",
                         {.peer = late.front()});
}

std::string receive(Deadline deadline) {
  auto memory = std::make_unique<Text>();
  std::vector<MPI_Request> requests(1, MPI_REQUEST_NULL);
  {
    const MpiCallLock lock;
    require_mpi(MPI_Irecv(memory->data(), static_cast<int>(memory->size()), MPI_CHAR, 0, share_tag,
                          MPI_COMM_WORLD, requests.data()),
                "MPI_Irecv");
  }
  if (!incomplete(requests, deadline).empty()) {
    (void)memory.release();
    throw DistNetworkError("rank 0 of MPI did not call it before the deadline", {.peer = 0});
  }
  memory->back() = '\0';
  return memory->data();
}

// Once in a process: the first text stays valid.
std::string share(const std::string& text_of_rank_zero, Deadline deadline) {
  static std::mutex mutex;
  static std::string& shared = *new std::string;
  const std::lock_guard lock(mutex);
  if (!shared.empty()) return shared;
  const MpiUse use;
  if (mpi_place().rank == 0) {
    send_to_all(text_of_rank_zero, deadline);
    shared = text_of_rank_zero;
  } else {
    shared = receive(deadline);
  }
  return shared;
}

}  // namespace

const BackendWorld mpi_world = {place, share};

}  // namespace dlaunch::internal
