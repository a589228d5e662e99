// The contents of a worker's page (store/contract/worker_page.h). Another program writes the page, possibly
// while it is read: any bytes give a record or none, and incomplete parts are left out. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "agent/model/remote_calls.h"
#include "store/base/bytes.h"
#include "store/base/time.h"
#include "store/contract/worker_page.h"

namespace dlaunch::agent {

// A worker's progress, as counters.
struct Activity {
  std::uint64_t moves = 0;  // operations that began or ended
  std::uint64_t open = 0;   // collectives that it is in, and threads that wait in another way
  std::uint64_t asks = 0;   // polls of a message that has not arrived yet
  std::uint64_t minor = 0;  // waits that only --hang-note considers: for a first group, a key of a store, the
                            // answer to a remote call
  std::uint64_t pages = 0;  // workers that have recorded anything

  bool operator==(const Activity&) const = default;
};

struct WorkerRecord {
  struct Group {
    std::uint32_t id = 0;  // entries refer to it
    std::uint64_t identity = 0;
    std::string name;
    std::string backend;
    int rank = 0;  // in this group
    std::uint32_t size = 0;
    std::vector<page::Run> ranks;  // the members' ranks in the world; incomplete if they are too irregular
    bool left = false;
    std::uint64_t entered = 0;  // collectives; see page::Group. ended and done are never above it
    std::uint64_t ended = 0;
    std::uint64_t done = 0;
  };
  struct Entry {
    std::uint64_t number = 0;
    std::uint64_t sequence = 0;
    std::int64_t created_ns = 0;
    std::int64_t ended_ns = 0;  // 0: it has not
    std::uint64_t input = 0;
    std::uint64_t output = 0;
    std::uint32_t group = 0;
    int peer = -1;
    std::uint32_t timeout_ms = 0;
    page::Operation operation = page::Operation::none;
    std::uint8_t dtype = page::no_dtype;
    page::Record::State state = page::Record::started;
    page::Record::OnDevice on_device = page::Record::not_known;
    std::uint32_t call_site = 0;  // a key of call_sites; another number: it is not known
  };
  // The line of the program that called an operation.
  struct CallSite {
    std::string file;  // the end of its path
    std::uint32_t line = 0;
    std::string function;
  };

  // The first loss of another rank that broke a group of this process.
  struct Lost {
    int rank = -1;  // in the job; -1: there was no loss
    page::Loss how = page::Loss::none;
    page::Operation operation = page::Operation::none;  // that noticed it
    std::uint64_t sequence = 0;
    std::uint32_t group = 0;  // its id
  };

  std::int64_t pid = 0;
  int rank = 0;  // 0 .. world_size-1
  int world_size = 1;
  Lost lost;
  bool left_in_exception = false;  // it left its groups during an exception
  std::int64_t unix_minus_steady_ns = 0;
  // A time of the worker's steady clock, since 1970 by its host's. The page may hold any numbers.
  [[nodiscard]] std::int64_t unix_ns(std::int64_t steady_ns) const;
  std::int64_t joined_ns = 0;     // when it last called init_process_group, for the whole job
  std::int64_t first_ns = 0;      // when its first operation began; 0: none has
  std::int64_t key_since_ns = 0;  // since when it waits for a key of a store; 0: it does not
  std::string key{};              // that key, or its first bytes
  std::int64_t forming_ns = 0;    // since when it waits in init_process_group; 0: it does not
  std::int64_t moved_ns = 0;      // when an operation last began or ended, or the process became this rank
  Activity activity;
  std::vector<Group> groups;
  std::vector<Entry> entries;  // the oldest first
  RemoteCalls remote{};
  std::vector<page::Link> links;  // its connections with other ranks of the job
  std::map<std::uint32_t, CallSite> call_sites;

  [[nodiscard]] const Group* group(std::uint32_t id) const;
  // The latest such collective; nullptr: the ring no longer has it.
  [[nodiscard]] const Entry* collective(std::uint32_t group, std::uint64_t sequence) const;
  // The oldest entry that has not ended and is not a collective; nullptr: there is none.
  [[nodiscard]] const Entry* open_otherwise(std::uint32_t group) const;
  // "train.py:42 in step"; empty: it is not known.
  [[nodiscard]] std::string call_site_of(const Entry& entry) const;
};

// The path of a worker's page.
std::string worker_page_path(const std::string& pages_dir, std::uint32_t round, std::uint32_t local_rank);

// Parses two copies of the page, read one after the other. None: it has not been written yet, or it is not a
// page of this version.
std::optional<WorkerRecord> parse_worker_page(ByteSpan first, ByteSpan second);
// The contents of its header alone.
struct PageHead {
  std::int64_t pid = 0;
  Activity activity;
};
std::optional<PageHead> parse_page_head(ByteSpan header);

// "left the group at all_reduce #258 of group default while an exception was on its way": what another rank
// did, according to a worker's page. Empty: the page blames none.
std::string describe_loss(const WorkerRecord& record);

// The time between two times of a page; zero if they are not in order.
Duration between(std::int64_t from_ns, std::int64_t to_ns);

}  // namespace dlaunch::agent
