// Runs a function in several processes that form a group, as torch.multiprocessing's spawn does. In copies of
// this process (fork), before the program starts threads:
//
//   dlaunch::spawn([](int rank) {
//     dlaunch::init_process_group();
//     ...
//     dlaunch::destroy_process_group();
//   }, 4);
//
// Or in processes that execute the program again (exec), at any time:
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
namespace internal {
struct SpawnedProcess;
struct SpawnOrder;
}  // namespace internal
inline namespace v1 {

// One process failed: context().rank is its rank. The message is the error its function threw, its exit code,
// or the signal that ended it. If a rank fails because of another one (it threw a DistNetworkError), the
// other rank is reported, if it is known or ends within five seconds.
class DLAUNCH_EXPORT SpawnError : public DistError {
 public:
  using DistError::DistError;
  ~SpawnError() override;
};

struct SpawnOptions {
  // After one process has failed: the time between SIGTERM and SIGKILL for the others.
  std::chrono::milliseconds grace = std::chrono::seconds(5);
};

// Processes that were started together. Destroying it before they have ended kills them; so does the end of
// this process. Used by one thread at a time; it may be another one each time.
class DLAUNCH_EXPORT SpawnContext {
 public:
  ~SpawnContext();
  SpawnContext(SpawnContext&& other) noexcept;
  SpawnContext& operator=(SpawnContext&& other) noexcept;

  // True if all have succeeded; false if they have not ended within `timeout` (none: no limit). If one fails,
  // it ends the others and then throws SpawnError.
  bool join(std::optional<std::chrono::milliseconds> timeout = {});

  [[nodiscard]] std::vector<int> pids() const;  // by rank

 private:
  friend DLAUNCH_EXPORT SpawnContext start_processes(const std::function<void(int rank)>& body, int nprocs,
                                                     const SpawnOptions& options);
  friend DLAUNCH_EXPORT SpawnContext start_processes(const std::string& function,
                                                     const std::vector<std::string>& arguments, int nprocs,
                                                     const SpawnOptions& options);
  struct State;
  using Starter = std::function<internal::SpawnedProcess(const internal::SpawnOrder& order)>;
  static SpawnContext start(int nprocs, const SpawnOptions& options, const Starter& start_rank);
  explicit SpawnContext(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

// Starts `nprocs` copies of this process (fork) that call body(rank) and then end; a copy has the state of
// this process. In them init_process_group() without options makes them one world with the backend gloo;
// torchrun's variables (RANK, WORLD_SIZE, ...) are set too. fork copies only the calling thread: call this
// before the program starts threads or initialises a group, or with a body that needs neither. Throws
// DistError.
DLAUNCH_EXPORT SpawnContext start_processes(const std::function<void(int rank)>& body, int nprocs,
                                            const SpawnOptions& options = {});

// The same, and waits until they have ended.
DLAUNCH_EXPORT void spawn(const std::function<void(int rank)>& body, int nprocs,
                          const SpawnOptions& options = {});

// The same in processes that execute this program again (exec), with its command line and environment. They
// have no state of this process, which may have threads and groups. In each process main() registers the
// function and calls run_if_spawned(), which calls the function with its rank and these arguments: any bytes;
// for objects see to_bytes() in codec.h. If main() does not, or does not register the function, join() throws
// SpawnError. Throws DistError.
using SpawnFunction = std::function<void(int rank, const std::vector<std::string>& arguments)>;
DLAUNCH_EXPORT SpawnContext start_processes(const std::string& function,
                                            const std::vector<std::string>& arguments, int nprocs,
                                            const SpawnOptions& options = {});
DLAUNCH_EXPORT void spawn(const std::string& function, const std::vector<std::string>& arguments, int nprocs,
                          const SpawnOptions& options = {});

// In every process, before run_if_spawned(). DistError if the name is taken. Any thread.
DLAUNCH_EXPORT void register_spawn_function(const std::string& name, SpawnFunction function);
// Call it at the beginning of main(), before the program starts threads or makes groups. In a process that
// spawn() has started by exec, it calls the function and ends the process by exit(). In any other process it
// returns at once.
DLAUNCH_EXPORT void run_if_spawned();

}  // namespace v1
}  // namespace dlaunch
