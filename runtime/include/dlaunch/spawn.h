// A function in several processes that form a group: torch.multiprocessing's spawn. By copies of this process
// (fork), before the program starts threads:
//
//   dlaunch::spawn([](int rank) {
//     dlaunch::init_process_group();
//     ...
//     dlaunch::destroy_process_group();
//   }, 4);
//
// Or by running the program anew (exec), at any time:
//
//   void train(int rank, const std::vector<std::string>& arguments);
//
//   int main() {
//     dlaunch::register_spawn_function("train", train);
//     dlaunch::run_if_spawned();  // in a new process: calls train() and does not return
//     ...
//     dlaunch::spawn("train", {"--epochs", "3"}, 4);
//   }
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dlaunch/error.h"
#include "dlaunch/export.h"

namespace dlaunch {

struct SpawnedProcess;
struct SpawnOrder;

inline namespace v1 {

// One process failed: context().rank says which, the message how: what its function threw, its exit code, or
// the signal that ended it. A rank that ends because another one did (it threw a DistNetworkError) is not the
// one that is told of where the other one is known, or ends within five seconds.
class DLAUNCH_EXPORT SpawnError : public DistError {
 public:
  using DistError::DistError;
  ~SpawnError() override;
};

struct SpawnOptions {
  // For the others, when one has failed, between SIGTERM and SIGKILL.
  std::chrono::milliseconds grace = std::chrono::seconds(5);
};

// Processes that were started together. Destroying it before they have ended kills them, and so does the end
// of this process. Used by one thread at a time, not always the same one.
class DLAUNCH_EXPORT SpawnContext {
 public:
  ~SpawnContext();
  SpawnContext(SpawnContext&& other) noexcept;
  SpawnContext& operator=(SpawnContext&& other) noexcept;

  // True when all have ended well; false if they have not within `timeout` (none: waits). When one fails the
  // others are ended, and then SpawnError is thrown.
  bool join(std::optional<std::chrono::milliseconds> timeout = {});

  [[nodiscard]] std::vector<int> pids() const;  // by rank

 private:
  friend DLAUNCH_EXPORT SpawnContext start_processes(const std::function<void(int rank)>& body, int nprocs,
                                                     const SpawnOptions& options);
  friend DLAUNCH_EXPORT SpawnContext start_processes(const std::string& function,
                                                     const std::vector<std::string>& arguments, int nprocs,
                                                     const SpawnOptions& options);
  struct State;
  using Starter = std::function<SpawnedProcess(const SpawnOrder& order)>;
  static SpawnContext start(int nprocs, const SpawnOptions& options, const Starter& start_rank);
  explicit SpawnContext(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

// Starts `nprocs` copies of this process (fork) that call body(rank) and then end; the body sees everything
// as it was. There init_process_group() without options makes them one world with the backend gloo; the
// variables of torchrun (RANK, WORLD_SIZE, ...) are set too. Only the calling thread is copied: call it
// before the program starts threads or initialises a group, or from a part of it that needs none. Throws
// DistError.
DLAUNCH_EXPORT SpawnContext start_processes(const std::function<void(int rank)>& body, int nprocs,
                                            const SpawnOptions& options = {});

// The same, and waits for their end.
DLAUNCH_EXPORT void spawn(const std::function<void(int rank)>& body, int nprocs,
                          const SpawnOptions& options = {});

// The same in processes that run this program anew (exec), with its command line and environment: nothing of
// this process's state is there, and this process may have threads and groups. In each main() registers the
// function and calls run_if_spawned(), which calls it with its rank and these arguments: any bytes, for
// objects see to_bytes() in codec.h. If main() does not, or registers no such function, SpawnError reports
// it. Throws DistError.
using SpawnFunction = std::function<void(int rank, const std::vector<std::string>& arguments)>;
DLAUNCH_EXPORT SpawnContext start_processes(const std::string& function,
                                            const std::vector<std::string>& arguments, int nprocs,
                                            const SpawnOptions& options = {});
DLAUNCH_EXPORT void spawn(const std::string& function, const std::vector<std::string>& arguments, int nprocs,
                          const SpawnOptions& options = {});

// In every process, before run_if_spawned(). DistError if the name is taken. Any thread.
DLAUNCH_EXPORT void register_spawn_function(const std::string& name, SpawnFunction function);
// To be called at the beginning of main(), before threads are started and groups made. In a process that
// spawn() has started by exec: calls the function and ends the process, by exit(). In any other: returns at
// once.
DLAUNCH_EXPORT void run_if_spawned();

}  // namespace v1
}  // namespace dlaunch
