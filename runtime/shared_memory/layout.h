// What lies where in the memory that the ranks of one group on one host share, and who writes it.
//
// The segment is a memfd: it has no name, and it is gone when its last process is. Its size is sealed, so no
// process can make another one fail by shrinking it. A rank touches a page when it first writes there; a
// group that sends nothing costs no memory.
//
//   header | controls of rank 0, 1, ... | short areas of rank 0, 1, ... | eager areas of rank 0, 1, ...
//   | staging areas of rank 0, 1, ... | ends of the rings to rank 0, 1, ... | rings to rank 0, 1, ...
//   | heap of rank 0, 1, ...
//
// Only the owner writes a rank's areas, except for its bells, which others ring, and its rings (at the end).
// The heap holds what the program has allocated for its own data (shared_heap.h). It is mapped when a rank of
// the process first allocates.
// All ranks of the group take part in the same calls in the same order, and count them from 1: `number`.
//
// Short data. For call k each rank fills its cell k % window: first the call's fingerprint and the data
// (behind the fingerprint, in the short area of the same index, or in the eager area k % eager_window), then
// the stamp k, with release. A rank that reads the stamp k with acquire may read the data. A rank enters call
// k when it has seen that all others have entered call k - lead, and has compared their fingerprints of that
// call. So a rank that only sends may be `lead` calls ahead; it overwrites cell k when all others have
// entered call k + lead, hence nobody reads the cell any more, neither for its data nor for its fingerprint.
// Eager areas are larger and fewer: before a rank fills one in call k, all others have entered call k -
// eager_lead.
//
// Long data go through the staging areas in rounds. Such a call begins with a meeting: every rank waits until
// all have entered it, so no rank still reads staging of an earlier call. Two counters of each rank show how
// far it is: `filled` (its staging of so many rounds may be read) and `drained` (it has read the others' of
// so many rounds). A counter holds the call's number and the round, so it only grows. Staging has two halves,
// used in turn; a rank fills a half when all that read it have drained it.
//
// Where the kernel lets the ranks read each other's memory, data that are only moved need no staging: the
// ranks exchange addresses in the meeting, and `drained` tells a sender that its memory may change again.
//
// Values in the heap are read in place: the ranks exchange offsets in the meeting, and as above `drained`
// reports to their owner that they may change again.
//
// Messages between two ranks go through a ring for each direction, whose sender writes `written` and whose
// receiver writes `read`: bytes since the beginning. A record is a RingRecord and its content, in whole
// lines, and does not wrap; what is left at the end of the ring is skipped.
//
// Stamps and counters are compared with the value that the reader expects, fingerprints with its own. A value
// that no rank can have written ends the group with an error. Other values are checked before they are used:
// the offsets of an all_to_all's blocks against cell or eager area, those of values against the heap, a
// ring's positions and the words of its records against the ring and the message; whose memory is read at
// which address, the kernel checks. So a peer that scribbles over the memory can spoil data, but nothing
// else.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace dlaunch::internal::shared {

inline constexpr std::uint64_t magic = 0x394d4853484c44;  // "DLHSHM9"; changes with the layout
inline constexpr std::size_t page_size = 4096;

// Calls whose cells exist at once.
inline constexpr std::size_t window = 64;
// Calls that a rank may be ahead of another. At its entry to call k a rank reads cell k - lead of a peer that
// may have entered call k - 1 + lead; that is another cell. Ranks that share a processor change once in so
// many calls of one direction.
inline constexpr std::size_t lead = 32;
static_assert(2 * lead <= window);
inline constexpr std::size_t eager_window = 16;
inline constexpr std::size_t eager_lead = 8;
static_assert(2 * eager_lead <= eager_window && eager_lead <= lead);
// Bytes of a call's short data that lie in the cell itself.
inline constexpr std::size_t inline_size = 96;
inline constexpr std::size_t short_size = 1024;
inline constexpr std::size_t eager_size = std::size_t{32} * 1024;
inline constexpr std::size_t half_staging_size = std::size_t{512} * 1024;

// Ranks of one segment; each has a line of every rank's staging.
inline constexpr std::size_t most_ranks = 1024;
static_assert(half_staging_size / most_ranks >= 128);

// The lines that two processors exchange; two of them, since the processor fetches them in pairs.
inline constexpr std::size_t line_pair = 128;

struct Header {
  std::uint64_t magic;
  std::uint64_t ranks;
  std::uint64_t identity;   // drawn for this segment; not 0
  std::uint64_t heap_part;  // bytes of each rank's heap, whole pages; 0: there is no heap
};

// In the header's page: on which processors the processes run that have mapped the segment. All write it; it
// decides only how a rank waits (rank_processors.h).
struct Processors {
  static constexpr std::size_t most = 1024;
  std::atomic<std::uint64_t> sets[most / 64];  // one bit each
  std::atomic<std::uint64_t> processes;        // whose processors are there
};
inline constexpr std::size_t processors_at = page_size / 2;
static_assert(processors_at + sizeof(Processors) <= page_size);

// Words of a call that all ranks must agree on.
struct Fingerprint {
  std::uint64_t kind = 0;  // with dtype, reduction and root
  std::uint64_t count = 0;
  std::uint64_t layout = 0;
  bool operator==(const Fingerprint&) const = default;
};

struct alignas(line_pair) Cell {
  std::atomic<std::uint64_t> stamp;
  Fingerprint fingerprint;
  std::byte bytes[inline_size];
};
static_assert(sizeof(Cell) == line_pair);

// How a sleeping rank is woken. `awaited`, which the owner writes: 1 + the index of the rank that it sleeps
// for; 0: it is awake. `rings`, which others write: the futex.
struct alignas(line_pair) Bell {
  std::atomic<std::uint32_t> awaited;
  std::atomic<std::uint32_t> rings;
  std::atomic<std::uint32_t> processor;  // where the owner began its last wait (processors.h)
  // The owner's (processors.h), if it waits by sched_yield(); 0: it does not.
  std::atomic<std::uint32_t> scheduling_group;
};

struct alignas(line_pair) Counter {
  std::atomic<std::uint64_t> value;
};

// How other processes read the owner's memory without a copy in between (direct_read.h), and see that it has
// ended (process_end.h).
struct alignas(line_pair) Origin {
  std::atomic<std::uint64_t> token;  // not 0 when the next three are here
  std::uint64_t process;
  std::uint64_t token_address;
  std::uint64_t pid_namespace;
  std::atomic<std::uint64_t> verdict;    // 0: none yet
  std::atomic<std::uint64_t> withdrawn;  // not 0: its memory may have changed since its last call began
};
inline constexpr std::uint64_t verdict_no = 1;
inline constexpr std::uint64_t verdict_yes = 2;  // the owner can read the memory of all others

struct Control {
  Bell bell;
  Bell message_bell;  // `awaited`: how many threads of the owner sleep
  Counter filled;
  Counter drained;
  Origin origin;
  Cell cells[window];
};
static_assert(sizeof(Control) == (5 + window) * line_pair);

struct RingEnds {
  Counter written;
  Counter read;
};

// What stands before a record's content, or around it if it is short: then a message is one cache line.
// `size`: bytes of the content; skip_record: the rest of the ring is empty. The other words are the
// messengers' (point_to_point/memory_messenger.h).
struct RingRecord {
  std::uint32_t size = 0;
  std::uint32_t kind = 0;
  std::uint64_t tag = 0;
  std::uint64_t dtype = 0;
  std::uint64_t count = 0;
  std::uint64_t number = 0;
  std::byte short_content[24] = {};
};
inline constexpr std::size_t ring_unit = 64;
static_assert(sizeof(RingRecord) == ring_unit);
inline constexpr std::uint32_t skip_record = ~std::uint32_t{0};

constexpr std::size_t round_up(std::size_t size, std::size_t unit) { return (size + unit - 1) / unit * unit; }

constexpr std::size_t controls_at() { return page_size; }
constexpr std::size_t short_at(std::size_t ranks) {
  return controls_at() + round_up(ranks * sizeof(Control), page_size);
}
constexpr std::size_t eager_at(std::size_t ranks) { return short_at(ranks) + ranks * window * short_size; }
constexpr std::size_t staging_at(std::size_t ranks) {
  return eager_at(ranks) + ranks * eager_window * eager_size;
}

// Of one ring: a power of two. With many ranks there are many rings, most of which are never used.
constexpr std::size_t ring_size(std::size_t ranks) {
  constexpr std::size_t together = std::size_t{4} << 20U;  // of the rings to one rank
  return std::clamp(std::bit_floor(together / ranks), std::size_t{8} * 1024, std::size_t{256} * 1024);
}
constexpr std::size_t ring_ends_at(std::size_t ranks) {
  return staging_at(ranks) + ranks * 2 * half_staging_size;
}
constexpr std::size_t rings_at(std::size_t ranks) {
  return ring_ends_at(ranks) + ranks * round_up(ranks * sizeof(RingEnds), page_size);
}
constexpr std::size_t segment_size(std::size_t ranks) {
  return rings_at(ranks) + ranks * ranks * ring_size(ranks);
}

// The heap takes address space and no memory. ThreadSanitizer's address space sets the limit of all ranks.
inline constexpr std::size_t most_heap = std::size_t{256} << 30U;
inline constexpr std::size_t most_heap_part = std::size_t{16} << 30U;
constexpr std::size_t heap_at(std::size_t ranks) { return round_up(segment_size(ranks), page_size); }
constexpr std::size_t file_size(std::size_t ranks, std::size_t heap_part) {
  return heap_at(ranks) + ranks * heap_part;
}
// Of each rank, in a file that may be so long.
constexpr std::size_t heap_part_within(std::size_t ranks, std::size_t longest_file) {
  if (longest_file <= heap_at(ranks)) return 0;
  const std::size_t together = std::min(most_heap, longest_file - heap_at(ranks));
  return std::min(most_heap_part, together / ranks / page_size * page_size);
}

// A counter's value: round `rounds` of call `number` is over, 0: none yet.
inline constexpr int round_bits = 22;
inline constexpr std::uint64_t last_round = (std::uint64_t{1} << round_bits) - 1;
constexpr std::uint64_t counter_value(std::uint64_t number, std::uint64_t rounds) {
  return number << round_bits | rounds;
}

}  // namespace dlaunch::internal::shared
