// The file through which a worker tells its agent what it does: its groups, a ring of its latest operations,
// and counts by which one sees whether it moves. The agent names it in DLAUNCH_WORKER_PAGE; the runtime makes
// and maps it and writes (runtime/record/recorder.h), without system calls; the agent reads it at any time
// (agent/model/worker_record.h), also when the worker hangs or is dead.
//
// There is one writing process, the page's owner, and any of its threads may write. What several words belong
// together in has a seqlock: odd while they change, another even number afterwards. A reader takes two copies
// of the whole, one after the other, and believes what has the same even seqlock and the same words in both.
// It believes nothing else: the bytes are another program's.
//
// Times are nanoseconds of the steady clock. Numbers are of the host's byte order: nobody else reads them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

namespace dlaunch::page {

inline constexpr std::uint64_t magic = 0x4547415057434C44;  // "DLCWPAGE", stored last of the header
inline constexpr std::uint32_t version = 2;
inline constexpr std::size_t max_records = 2048;
inline constexpr std::size_t max_groups = 128;
inline constexpr std::size_t max_runs = 8;

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
};
inline constexpr Operation last_operation = Operation::flatten;
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
    "DeviceMesh::flatten"};

inline std::string name_of(Operation operation) {
  return std::string(operation_names[static_cast<std::size_t>(operation)]);
}

constexpr bool is_point_to_point(Operation operation) {
  return operation == Operation::send || operation == Operation::recv;
}

// Ranks meet for it through the store, to make a group.
constexpr bool is_meeting(Operation operation) { return operation >= Operation::new_group; }

// What has a place in its group's sequence.
constexpr bool is_collective(Operation operation) { return operation < Operation::send; }

// Elements' types: int8 0, int16, int32, int64, uint8 4, bool, float16, bfloat16, float32 8, float64,
// complex64, complex128 11.
inline constexpr std::uint8_t no_dtype = 255;

// How an operation met the end of another rank.
enum class Loss : std::uint8_t {
  none,
  left,               // that rank has destroyed the group
  left_in_exception,  // ... while an exception was on its way there
  died,               // or its connection was cut
  gave_up,            // because of an error of its own
};
inline constexpr Loss last_loss = Loss::gave_up;

// So many ranks from `first` on, `stride` apart.
struct Run {
  std::int32_t first;
  std::int32_t stride;
  std::uint32_t count;

  bool operator==(const Run&) const = default;
};

struct Header {
  std::uint64_t magic;
  std::uint32_t version;
  std::int32_t owner;  // pid; 0: nobody's yet
  std::int32_t rank;   // in the default group, where the next two are of
  std::int32_t world_size;
  std::int64_t unix_minus_steady_ns;  // what makes a time of the clock on the wall

  // The loss of another rank that broke a group of this process first. `lost` is written last.
  std::uint64_t loss_sequence;  // of the operation that met it
  std::uint32_t loss_group;     // that group's id
  std::int32_t lost;            // the other's rank, as `rank`, plus 1; 0: there was no loss
  Operation loss_operation;
  Loss loss;
  std::uint8_t left_in_exception;  // 1: the owner destroyed its groups while an exception was on its way

  std::array<std::uint8_t, 13> reserved;

  // Counts of operations, apart so that a collective, of which there are many, changes two of them in all.
  std::uint64_t next;  // that have begun: the number of the next record, from 0
  std::uint64_t collectives_ended;
  std::uint64_t others_begun;  // that are no collectives, and how many of these have ended
  std::uint64_t others_ended;
  std::uint64_t waiting;   // threads that wait for other ranks outside of a collective
  std::uint64_t asks;      // how often somebody has asked whether a message is through, and it was not
  std::int64_t joined_ns;  // when the process last became this rank

  std::array<std::uint8_t, 4096 - 120> reserved_too;
};

// How often an operation has begun or ended.
constexpr std::uint64_t moves_of(const Header& header) {
  return header.next + header.collectives_ended + header.others_ended;
}
// Collectives that have not ended, and threads that wait for other ranks in another way.
constexpr std::uint64_t open_of(const Header& header) {
  const std::uint64_t others = header.others_begun + header.collectives_ended;
  return header.waiting + (header.next > others ? header.next - others : 0);  // read while they change
}

struct Group {
  enum State : std::uint32_t { free = 0, current, left };

  std::uint64_t seqlock;   // of what stands before `entered`; that it is left is told without it
  std::uint64_t identity;  // the same on all its members, and no other group's
  std::uint32_t id;        // counts this process's groups from 1; records name theirs by it
  std::uint32_t state;
  std::uint32_t size;
  std::int32_t rank;  // the owner's, in this group
  std::array<char, 48> name;
  std::array<char, 16> backend;
  std::array<Run, max_runs> runs;  // the members' ranks; fewer than `size` where these do not suffice
  std::array<std::uint8_t, 8> reserved;

  // Sequence numbers of collectives: the last that was entered, that has failed, and that has succeeded.
  std::uint64_t entered;
  std::uint64_t failed;
  std::uint64_t done;
  std::array<std::uint64_t, 4> reserved_too;
};

struct Record {
  enum State : std::uint8_t { started = 1, completed, failed };

  std::uint64_t seqlock;   // 2n + 1 while record n is being written, 2n + 2 from then on
  std::uint64_t sequence;  // of collectives, messages and so on, each counted for itself in its group
  std::int64_t created_ns;
  std::int64_t ended_ns;  // 0: it has not; written after the seqlock, and `state` after that
  std::uint64_t input;    // elements; of a meeting, the ranks that must come to it
  std::uint64_t output;
  std::uint32_t group;  // its id
  std::int32_t peer;    // of a message, in the group; -1: none, or any
  std::uint32_t timeout_ms;
  Operation operation;
  std::uint8_t dtype;
  std::uint8_t state;
  std::uint8_t reserved;
};

struct Page {
  Header header;
  std::array<Group, max_groups> groups;
  std::array<Record, max_records> records;
};

static_assert(sizeof(Header) == 4096 && offsetof(Header, next) == 64 && sizeof(Group) == 256 &&
              offsetof(Group, entered) == 200 && sizeof(Record) == 64);
static_assert(std::is_trivially_copyable_v<Page> && std::is_standard_layout_v<Page>);

}  // namespace dlaunch::page
