// For authors of backends: the class to derive from, and how the library finds a backend.
//
// A backend is a shared object named backend_<name>.so that exports the symbol dlaunch_backend_module
// (below). The library looks for it in the folder "dlaunch/" beside libdlaunch.so and in the folders of the
// colon-separated variable DLAUNCH_BACKEND_PATH. dlaunch's own backends are found the same way. A program can
// also register one itself with register_backend().
//
// To offer all collectives over a new network it is enough to write a Transport: see collective_backend.h.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dlaunch/error.h"
#include "dlaunch/export.h"
#include "dlaunch/reduce_op.h"
#include "dlaunch/tensor.h"
#include "dlaunch/work.h"

namespace dlaunch {
namespace internal {
class WaitRecord;
}
inline namespace v1 {

using Deadline = std::chrono::steady_clock::time_point;

// The part of the store that belongs to one group, apart from other groups' keys. Failures, and a passed
// deadline, are thrown as DistStoreError. May be used by one thread at a time.
class DLAUNCH_EXPORT BackendStore {
 public:
  virtual ~BackendStore();
  virtual void set(const std::string& key, const std::string& value) = 0;
  // Waits until the key exists.
  virtual std::string get(const std::string& key, Deadline deadline) = 0;
  // Waits until all keys exist.
  virtual void wait(std::span<const std::string> keys, Deadline deadline) = 0;
};

using LossCheck = std::function<void()>;

// Writes to the library's log, at the level debug.
using WriteLog = std::function<void(const std::string& message)>;

// Takes the socket of a TCP connection with rank `peer` of the group.
using ReportConnection = std::function<void(int peer, int socket)>;

class Backend;

// What a backend is made from. The store is valid during the call of BackendModule::create only.
struct BackendContext {
  BackendStore& store;
  int rank;
  int size;
  std::string group;                  // the group's name, for messages
  std::chrono::milliseconds timeout;  // the group's default
  Deadline deadline;                  // create() must have returned or thrown
  // A host that every rank can reach, for choosing the network interface; empty if none is known.
  std::string master_addr;
  // Throws DistNetworkError if one of the ranks is known to be lost. Call it from time to time while create()
  // waits for the others by other means than the store, whose waits call it themselves; valid as long as the
  // store, any thread. Empty if losses cannot be detected.
  LossCheck check;
  WriteLog log = {};                    // empty: there is no log
  std::optional<int> cuda_device = {};  // that the program has named for this rank
  // For a module that uses_control_plane: another backend of the same ranks, for its check(), enter() and
  // explain_delay(); null: there is none. And the group's part of the store for longer than the call.
  std::shared_ptr<Backend> control_plane = {};
  std::shared_ptr<BackendStore> lasting_store = {};
  // Call it for each TCP connection with another rank of the group, with its socket: then dlaunch's notes
  // about a job that stands still name a connection that does not move. Any thread; empty: there is
  // no such note.
  ReportConnection on_connection = {};
  // The default group's backend of the same module, if it is split for this group (is_split_for_groups()),
  // and the ranks of the new group there, in ascending order. Null: it is not.
  std::shared_ptr<Backend> parent = {};
  std::vector<int> parent_ranks = {};
};

// An operation on a stream whose call returns before the operation has ended, and that the program has no
// Work of: the backend reports to the observer instead, with a copy of this record.
struct UnseenOperation {
  class Observer {
   public:
    // On the thread of the call, before the others: the backend has taken the operation, and its call will
    // return an empty Work. Whether on_begin() will follow.
    virtual void on_start(UnseenOperation& operation, bool reports_begin) noexcept = 0;
    virtual void on_begin(const UnseenOperation& operation) noexcept = 0;  // the device has come to it
    // Once, on any thread. Null: success. The observer lives until then.
    virtual void on_end(const UnseenOperation& operation, const std::exception_ptr& error) noexcept = 0;

   protected:
    ~Observer() = default;
  };

  Observer* observer = nullptr;
  bool is_taken = false;                 // written by the observer
  std::array<std::byte, 48> notes = {};  // the observer's own
};

// One call of a collective, as the group has checked and numbered it.
struct Operation {
  std::uint64_t sequence;  // from 1, the same on all ranks
  Deadline deadline;
  bool async;  // false: return a Work that has completed
  // Of the calls that a layer above has made of one, all with its sequence number: counts from 0, in their
  // order.
  std::uint16_t part = 0;
  // Null: the Work is wanted. Else a backend whose operations run on streams may take it (above), once. Valid
  // during the call.
  UnseenOperation* unseen = nullptr;
};

// Separates the messages between two ranks. Tags below 2^32 are the program's, higher ones the library's own:
// its messages never match the program's.
using Tag = std::uint64_t;

struct Reduction {
  ReduceOp op = ReduceOp::sum;
  double factor = 1.0;  // of premul_sum
};

// What a call is about, before it has a number.
struct CallSubject {
  std::optional<DType> dtype = {};
  std::optional<ReduceOp> op = {};
  std::optional<Device> device = {};
  bool is_message = false;
  Tag tag = 0;   // of a message
  int peer = 0;  // of a message; may be any_source
};

// One group's engine. The group guarantees: arguments are checked (sizes, roots, dtypes known, devices among
// the module's, writable outputs), collectives come one at a time, sequence numbers grow by one, memory stays
// valid until the Work completes, and after a failed Work only abort() and the destructor are called.
//
// A backend promises: every Work completes, at the latest shortly after its deadline; failures are
// DistErrors, also if they are thrown by a call.
class DLAUNCH_EXPORT Backend {
 public:
  virtual ~Backend();  // ends operations that still run as abort() does

  // Each of these, unless overridden, throws DistBackendError: not offered.
  virtual Work all_reduce(const Tensor& tensor, const Reduction& reduction, const Operation& operation);
  virtual Work broadcast(const Tensor& tensor, int src, const Operation& operation);
  virtual Work all_gather(std::span<const Tensor> outputs, const Tensor& input, const Operation& operation);
  virtual Work barrier(const Operation& operation);
  virtual Work reduce(const Tensor& tensor, int dst, const Reduction& reduction, const Operation& operation);
  virtual Work gather(std::span<const Tensor> outputs, const Tensor& input, int dst,
                      const Operation& operation);
  virtual Work scatter(const Tensor& output, std::span<const Tensor> inputs, int src,
                       const Operation& operation);
  virtual Work reduce_scatter(const Tensor& output, std::span<const Tensor> inputs,
                              const Reduction& reduction, const Operation& operation);
  virtual Work all_to_all(std::span<const Tensor> outputs, std::span<const Tensor> inputs,
                          const Operation& operation);
  virtual Work all_reduce_coalesced(std::span<const Tensor> tensors, const Reduction& reduction,
                                    const Operation& operation);

  // Why the backend cannot carry out such a call, as a clause; empty: it can. The call is then rejected
  // before it has a number, and the group stays usable. Any thread. Unless overridden empty.
  virtual std::string why_not(const CallSubject& call);
  // Whether it can carry out every call. Asked when the group is made: if so, why_not() is not asked before
  // each call. Unless overridden false.
  virtual bool takes_every_call() noexcept;

  // Of a backend for CPU tensors whose module says stages_cuda: whether it carries out such a call on device
  // memory as well. The tensors of the call are then on the device, and nothing on any stream works on them.
  // Asked for messages, broadcasts, all_gathers whose outputs are of one size and follow each other,
  // all_reduce and reduce (`call.op` is set then). Ranks may answer differently. Any thread. Unless
  // overridden false.
  virtual bool takes_device_memory(const CallSubject& call);

  // What this thread calls between the two is started together, by end_together(); their Works exist before,
  // and end with an error if that throws. Unless overridden each call is started by itself.
  virtual void begin_together();
  virtual void end_together();

  // Point to point. These come from several threads at once and are numbered apart from the collectives. If
  // operation.async is false the caller waits for the Work at once: they may, too. `src` any_source: from any
  // rank. A receive completes with succeed_from().
  virtual Work send(const Tensor& tensor, int dst, Tag tag, const Operation& operation);
  virtual Work recv(const Tensor& tensor, int src, Tag tag, const Operation& operation);

  // Memory of at least `size` bytes, zeros, aligned for every dtype, that operations on it use without
  // copies; valid as long as the pointer, also after the Backend. Null: the backend has none, and `why`
  // becomes one clause; unless overridden. Throws DistBackendError if there is no memory. Any thread.
  // REQUIRES: size > 0.
  virtual std::shared_ptr<std::byte> allocate_shared(std::size_t size, std::string& why);

  // Whether the backends of new groups of some of the ranks are made from this one, by all its ranks
  // together: those of the new group in create(), the others in split_without_this_rank() at the same time.
  // Equal on all ranks. Unless overridden false.
  virtual bool is_split_for_groups();
  // Throws as create(), which has the same `deadline` and `check`.
  virtual void split_without_this_rank(Deadline deadline, const LossCheck& check);

  // Throws DistNetworkError if another rank is known to be lost. Does not block; any thread. Unless
  // overridden it never throws.
  virtual void check();

  // For another backend of the same group, whose ranks cannot report to each other (its control plane). This
  // rank takes part in operation `sequence` from now on. Must cost next to nothing.
  virtual void enter(std::uint64_t sequence) noexcept;
  // That operation is late: throws DistNetworkError that names the ranks that have not entered it, or the
  // cause that another rank knows. Returns if there are none. Takes a second at most. Unless overridden these
  // two do nothing.
  virtual void explain_delay(std::uint64_t sequence);

  // The ranks that are known to have left the group in order. Does not block; any thread. Unless overridden
  // none.
  virtual std::vector<int> departed();

  // Ends running operations with an error that carries `reason`, and informs the other ranks if it can. Does
  // not block; any thread, also while another thread is inside another member.
  virtual void abort(const std::string& reason) noexcept = 0;

  // Completes the running operations, waits until this rank's sent data have arrived, and sends a goodbye
  // message to the others, for a few seconds at most; operations that have not completed then end with an
  // error. Called once, before the destructor, unless the group is broken.
  virtual void shutdown() noexcept = 0;

  // The process ends without shutdown(). Waits, until `deadline` at most, until the data of operations that
  // the program has seen complete have arrived, and sends a goodbye message to the others; if the group is
  // broken, it waits until they have received the reason. Does not wait for running operations. Other threads
  // may be inside other members; only the destructor is called afterwards. Unless overridden it does nothing,
  // and for the others this rank has died.
  virtual void leave(Deadline deadline) noexcept;
};

// For a backend whose send() or recv() waits itself. While one exists, its thread counts as waiting for
// another rank; without it `dlaunch --hang-timeout` assumes that the process computes. Waits for a Work, and
// collectives, are counted anyway. The constructor allocates memory: make one when the wait has become long.
class DLAUNCH_EXPORT MessageWait {
 public:
  MessageWait();
  ~MessageWait();
  MessageWait(const MessageWait&) = delete;
  MessageWait& operator=(const MessageWait&) = delete;

 private:
  std::unique_ptr<const internal::WaitRecord> record_;
};

// Raised whenever a type in this header, transport.h or collective_backend.h changes incompatibly, or a
// backend may get a new dtype or reduction. A module built for another number is rejected with a message.
inline constexpr std::uint32_t backend_abi_version = 22;

// Of a backend whose own launcher has formed a world of processes (mpirun): a program need then name neither
// its ranks nor a store.
struct BackendWorld {
  struct Place {
    int rank;
    int size;
    bool is_one_host;  // all ranks are known to be on one
  };
  // Called before the first group is made. Throws DistBackendError.
  Place (*place)();
  // Called on every rank at the same time, any number of times; returns on all of them the text that rank 0
  // gave to the first call, of at most 511 characters. Throws DistNetworkError that names the missing ranks.
  std::string (*share)(const std::string& text_of_rank_zero, Deadline deadline);
};

// A module's table. Everything in it must stay valid for as long as the process lives.
struct BackendModule {
  std::uint32_t abi = backend_abi_version;
  const char* name = nullptr;     // lower case: "gloo"
  const char* devices = nullptr;  // comma-separated: "cpu", "cpu,cuda"
  // Whether it can work in this process; else `reason` becomes one clause without a full stop. Must be quick.
  bool (*viable)(std::string& reason) = nullptr;
  // Called on every rank of the new group at the same time.
  std::unique_ptr<Backend> (*create)(const BackendContext& context) = nullptr;
  const BackendWorld* world = nullptr;  // null: it has none
  bool uses_control_plane = false;  // the group then has another backend too, gloo if the program names none
  // Of one for CPU tensors: groups take CUDA tensors too, and copy them to memory of the host for its calls.
  bool stages_cuda = false;
};

// Makes a backend known under its name; `module` must live as long as the process. Throws DistError if the
// name is taken or the table is incomplete. Not to be called while a group is being made.
DLAUNCH_EXPORT void register_backend(const BackendModule& module);

}  // namespace v1
}  // namespace dlaunch

// The symbol that a module exports.
extern "C" DLAUNCH_EXPORT const dlaunch::BackendModule dlaunch_backend_module;
