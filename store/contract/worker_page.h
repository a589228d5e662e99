// The file through which a worker reports to its agent: its groups, a ring of its latest operations, and
// counts that show whether it makes progress. The agent names it in DLAUNCH_WORKER_PAGE. The runtime creates,
// maps and writes it (runtime/record/recorder.h), without system calls. The agent reads it at any time
// (agent/model/worker_record.h), also when the worker hangs or is dead.
//
// One process writes, the page's owner; any of its threads may. Words that belong together have a seqlock:
// odd while they change, another even number afterwards. A reader takes two copies of the whole page, one
// after the other, and believes only what has the same even seqlock and the same words in both: the bytes are
// another program's.
//
// Times are nanoseconds of the steady clock. Numbers have the host's byte order: only this host reads them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "store/base/namespaces.h"
#include "store/contract/calls_page.h"
#include "store/contract/crash_page.h"

namespace dlaunch::store::page {

inline constexpr std::uint64_t magic = 0x4547415057434C44;  // "DLCWPAGE", written last of the header
inline constexpr std::uint32_t version = 4;
inline constexpr std::size_t max_records = 2048;
inline constexpr std::size_t max_groups = 128;
inline constexpr std::size_t max_runs = 8;
inline constexpr std::size_t max_links = 1024;
inline constexpr std::size_t max_call_sites = 256;

enum class Operation : std::uint8_t {
  none,
  all_reduce,
  broadcast,
  reduce,
  all_gather,
  all_gather_into_tensor,
  gather,
  scatter,
  reduce_scatter,
  reduce_scatter_tensor,
  all_to_all,
  all_to_all_single,
  barrier,
  all_reduce_coalesced,
  send,
  recv,
  monitored_barrier,
  new_group,
  new_subgroups,
  new_subgroups_by_enumeration,
  split_group,
  init_device_mesh,
  device_mesh,
  flatten,
  init_process_group,  // has no record: see Header::forming_ns
  store_wait,          // nor has this: see Header::key_since_ns
  remote_call,         // nor this: see Page::calls
};
inline constexpr Operation last_operation = Operation::remote_call;
inline constexpr std::array<std::string_view, static_cast<std::size_t>(last_operation) + 1> operation_names{
    "collective",
    "all_reduce",
    "broadcast",
    "reduce",
    "all_gather",
    "all_gather_into_tensor",
    "gather",
    "scatter",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "all_reduce_coalesced",
    "send",
    "recv",
    "monitored_barrier",
    "new_group",
    "new_subgroups",
    "new_subgroups_by_enumeration",
    "split_group",
    "init_device_mesh",
    "DeviceMesh",
    "DeviceMesh::flatten",
    "init_process_group",
    "store.wait",
    "a remote call"};

inline std::string name_of(Operation operation) {
  return std::string(operation_names[static_cast<std::size_t>(operation)]);
}

constexpr bool is_point_to_point(Operation operation) {
  return operation == Operation::send || operation == Operation::recv;
}

// The ranks rendezvous through the store, to make a group.
constexpr bool is_meeting(Operation operation) {
  return operation >= Operation::new_group && operation < Operation::store_wait;
}

// Operations with a sequence number in their group.
constexpr bool is_collective(Operation operation) { return operation < Operation::send; }

// Element types: int8 0, int16, int32, int64, uint8 4, bool, float16, bfloat16, float32 8, float64,
// complex64, complex128 11, float8_e4m3, float8_e5m2 13.
inline constexpr std::uint8_t no_dtype = 255;

// How an operation noticed that another rank ended.
enum class Loss : std::uint8_t {
  none,
  left,               // that rank destroyed the group
  left_in_exception,  // ... while an exception unwound there
  died,               // that rank died, or the connection to it was cut
  gave_up,            // because of an error of its own
};
inline constexpr Loss last_loss = Loss::gave_up;

// So many ranks, from `first` on, `stride` apart.
struct Run {
  std::int32_t first;
  std::int32_t stride;
  std::uint32_t count;

  bool operator==(const Run&) const = default;
};

struct Header {
  std::uint64_t magic;
  std::uint32_t version;
  std::int32_t owner;  // pid; 0: none yet
  std::int32_t rank;   // in the default group, as the next two
  std::int32_t world_size;
  std::int64_t unix_minus_steady_ns;  // added to a time, gives the time of day

  // The first loss of another rank that broke a group of this process. `lost` is written last.
  std::uint64_t loss_sequence;  // of the operation that noticed it
  std::uint32_t loss_group;     // that group's id
  std::int32_t lost;            // the lost rank, as `rank`, plus 1; 0: no loss
  Operation loss_operation;
  Loss loss;
  std::uint8_t left_in_exception;  // 1: the owner destroyed its groups while an exception unwound

  std::array<std::uint8_t, 13> reserved;

  // Counts of operations, arranged so that a collective, the most frequent one, changes only two of them.
  std::uint64_t next;  // begun: the number of the next record, from 0
  std::uint64_t collectives_ended;
  std::uint64_t others_begun;  // begun that are no collectives, and how many of these have ended
  std::uint64_t others_ended;
  std::uint64_t waiting;   // threads that wait for other ranks outside a collective
  std::uint64_t asks;      // polls that found a message not complete yet
  std::int64_t joined_ns;  // when the process last became this rank

  std::int64_t forming_ns;  // since when the process waits in init_process_group; 0: it does not

  // A key of a store that a thread of this process waits for, or its first bytes.
  std::int64_t key_since_ns;  // since when, written last; 0: none waits; -1: the key is being written
  std::array<char, 48> key;

  Crash crash;

  CallCounts calls;

  // When the owner's first operation began; 0: none has. The ring soon loses that operation's record.
  std::int64_t first_ns;

  std::array<std::uint8_t, 4096 - 192 - sizeof(Crash) - sizeof(CallCounts)> reserved_too;
};

// How often operations and remote calls have begun or ended.
constexpr std::uint64_t moves_of(const Header& header) {
  return header.next + header.collectives_ended + header.others_ended + moves_of(header.calls);
}
// Collectives that have not ended, and threads that wait for other ranks in other ways.
constexpr std::uint64_t open_of(const Header& header) {
  const std::uint64_t others = header.others_begun + header.collectives_ended;
  return header.waiting + (header.next > others ? header.next - others : 0);  // read while they change
}

struct Group {
  enum State : std::uint32_t { free = 0, current, left };

  std::uint64_t seqlock;   // of the fields before `entered`; `left` is set without it
  std::uint64_t identity;  // the same on all its members, unlike every other group's
  std::uint32_t id;        // counts this process's groups from 1; records refer to it
  std::uint32_t state;
  std::uint32_t size;
  std::int32_t rank;  // the owner's rank in this group
  std::array<char, 48> name;
  std::array<char, 16> backend;
  std::array<Run, max_runs> runs;  // the members' ranks; fewer than `size` if the runs do not suffice
  std::array<std::uint8_t, 8> reserved;

  // Sequence numbers of collectives: the last one entered, the last failed, the last succeeded.
  std::uint64_t entered;
  std::uint64_t failed;
  std::uint64_t done;
  std::array<std::uint64_t, 4> reserved_too;
};

struct Record {
  enum State : std::uint8_t { started = 1, completed, failed };
  // Of an operation in a stream of a device.
  enum OnDevice : std::uint8_t {
    not_known,  // the backend does not report it, or the operation uses no device
    queued,     // the device still works on what the stream had before
    begun,      // it has come to the operation, which may wait for other ranks
  };

  std::uint64_t seqlock;   // 2n + 1 while record n is being written, 2n + 2 from then on
  std::uint64_t sequence;  // counted in its group, separately for collectives, messages and so on
  std::int64_t created_ns;
  std::int64_t ended_ns;  // 0: not yet; written after the seqlock, and `state` after that
  std::uint64_t input;    // elements; of a rendezvous, the number of ranks
  std::uint64_t output;
  std::uint32_t group;  // its id
  std::int32_t peer;    // of a message, in the group; -1: none, or any
  std::uint32_t timeout_ms;
  Operation operation;
  std::uint8_t dtype;
  std::uint8_t state;
  std::uint8_t on_device;  // also written after the seqlock
};

// A TCP connection with another rank, by which the agent finds it among the kernel's. It may have ended.
struct Link {
  std::uint64_t inode;  // of this process's socket, written last; 0: none
  std::int32_t rank;    // the other one, in the default group
  std::uint32_t reserved;

  bool operator==(const Link&) const = default;
};

// A line of the program from which it calls operations, if its binding says so (dlaunch_add_call_site).
struct CallSite {
  std::uint32_t id;  // counted from 1, written last; 0: none, or the others are being written
  std::uint32_t line;
  std::array<char, 104> file;     // the end of its path
  std::array<char, 48> function;  // its first bytes

  bool operator==(const CallSite&) const = default;
};

struct Page {
  Header header;
  std::array<Group, max_groups> groups;
  std::array<Record, max_records> records;
  std::array<Link, max_links> links;  // a ring: with more, the oldest are lost
  std::array<Call, max_calls> calls;
  // Call site n is in place (n - 1) % max_call_sites: with more, the oldest are lost.
  std::array<CallSite, max_call_sites> call_sites;
  std::array<std::uint32_t, max_records>
      call_site_of;  // of the record in the same place, with its seqlock; 0: not known
};

static_assert(sizeof(Header) == 4096 && offsetof(Header, next) == 64 && sizeof(Group) == 256 &&
              offsetof(Group, entered) == 200 && sizeof(Record) == 64 && sizeof(Link) == 16 &&
              sizeof(CallSite) == 160);
static_assert(std::is_trivially_copyable_v<Page> && std::is_standard_layout_v<Page>);

}  // namespace dlaunch::store::page
