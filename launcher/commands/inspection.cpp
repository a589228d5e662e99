#include "launcher/commands/inspection.h"

#include <sys/prctl.h>

#include <algorithm>
#include <csignal>
#include <map>
#include <utility>

#include "agent/control/messages.h"
#include "agent/model/flight_files.h"
#include "agent/observe/process_condition.h"
#include "launcher/commands/innermost_frames.h"
#include "launcher/commands/process_stacks.h"
#include "launcher/commands/torch_flight.h"
#include "launcher/commands/worker_socket.h"
#include "launcher/console/command_io.h"
#include "launcher/node/wall_clock.h"
#include "launcher/report/report_file.h"
#include "store/base/number.h"
#include "store/base/small_file.h"
#include "store/client/steady_time.h"

namespace dlaunch::launcher {
namespace {

using agent::WorkerHere;

constexpr Duration answer_patience = std::chrono::seconds(3);  // for all workers
constexpr Duration stack_patience = std::chrono::seconds(4);   // for one
constexpr std::size_t most_stacks = 3;

// Of one worker, as it answered.
struct Record {
  TorchFlight flight;
  std::string json;
};

std::optional<Record> record_of(const InspectionOrder& order, const WorkerHere& worker, TimePoint deadline) {
  std::optional<Record> best;
  for (const std::string& path :
       {agent::torch_socket_path(order.scratch_dir, order.round, worker.local_rank),
        agent::worker_server_path(order.scratch_dir, order.round, worker.local_rank)}) {
    for (const char* handler : {"fr_trace_json", "dump_nccl_trace_json"}) {
      auto json = ask_worker(path, handler, deadline);
      if (!json) continue;
      auto flight = read_torch_flight(*json, {worker.rank, order.world_size, unix_us() * 1000});
      if (!flight || flight->operations == 0) continue;
      if (!best || flight->says_more_than(best->flight)) best = {std::move(*flight), std::move(*json)};
    }
    if (best) return best;
  }
  return best;
}

// The records of the workers that have any; their files are written.
std::map<int, Record> take_records(const InspectionOrder& order) {
  const TimePoint deadline = steady_now() + answer_patience;
  std::map<int, Record> records;
  for (const WorkerHere& worker : order.workers) {
    auto record = record_of(order, worker, deadline);
    if (!record) continue;
    const auto file = torch_flight_file(record->json, {worker.rank, order.world_size, 0});
    // A file that cannot be written is only one rank less for torchfrtrace.
    if (file) (void)write_whole(order.folder + "/flight_rank_" + std::to_string(worker.rank), *file);
    records.emplace(worker.rank, std::move(*record));
  }
  return records;
}

// Groups of several workers once, with the limits of the message.
std::vector<agent::GroupProgress> positions_in(const std::map<int, Record>& records) {
  std::map<std::uint64_t, agent::GroupProgress> groups;
  std::size_t rows = 0;
  for (const auto& [rank, record] : records) {
    for (const agent::GroupProgress& group : record.flight.groups) {
      if (++rows > agent::Progress::max_rows) break;
      const auto [known, is_new] = groups.try_emplace(group.identity, group);
      if (!is_new) known->second.here.push_back(group.here.front());
    }
  }
  std::vector<agent::GroupProgress> all;
  for (auto& [identity, group] : groups) {
    if (all.size() < agent::Progress::max_groups) all.push_back(std::move(group));
  }
  return all;
}

// A worker may be a shell that waits for the program.
std::int64_t program_of(std::int64_t pid) {
  constexpr int deepest = 8;
  constexpr std::size_t enough = 256;
  for (int i = 0; i < deepest && !is_python(pid); ++i) {
    const std::string number = std::to_string(pid);
    const std::string task = std::string("/proc/").append(number).append("/task/").append(number);
    const auto children = read_plain_file(task + "/children", enough);
    if (!children) break;
    std::string only = children->text;
    if (only.ends_with(' ')) only.pop_back();
    const auto child = parse_number<std::int64_t>(only);
    if (!child) break;  // none, or several
    pid = *child;
  }
  return pid;
}

RankStack stack_of(const WorkerHere& worker, std::string& advice) {
  const std::int64_t pid = program_of(worker.pid);
  const DebuggerOutput output = run_debugger(pid, steady_now() + stack_patience);
  if (advice.empty()) advice = output.advice;
  RankStack stack{worker.rank,
                  output.debugger == "gdb" ? frames_of_gdb(output.text) : frames_of_py_spy(output.text),
                  output.debugger};
  if (stack.frames.empty()) stack = {worker.rank, {}, agent::state_of(pid)};
  return stack;
}

// Those that do not wait in a collective first: the others may wait for them.
std::vector<WorkerHere> worth_a_look(const InspectionOrder& order, const std::map<int, Record>& records) {
  std::vector<WorkerHere> workers;
  for (const WorkerHere& worker : order.workers) {
    if (worker.pid > 0) workers.push_back(worker);
  }
  std::stable_partition(workers.begin(), workers.end(), [&](const WorkerHere& worker) {
    const auto record = records.find(worker.rank);
    return record != records.end() && !record->second.flight.waits;
  });
  if (workers.size() > most_stacks) workers.resize(most_stacks);
  return workers;
}

void report(const std::string& sentence) { print(agent::encode(agent::Notice{sentence})); }

}  // namespace

std::optional<InspectionOrder> parse_inspection(const std::vector<std::string>& words) {
  constexpr std::size_t before_workers = 4;
  if (words.size() < before_workers) return std::nullopt;
  const auto round = parse_number<std::uint32_t>(words[2]);
  const auto world_size = parse_number<int>(words[3]);
  if (!round || !world_size) return std::nullopt;
  InspectionOrder order{words[0], words[1], *round, *world_size, {}};
  for (std::size_t i = before_workers; i < words.size(); ++i) {
    const std::string& word = words[i];
    const std::size_t first = word.find(':');
    const std::size_t last = word.rfind(':');
    if (first == std::string::npos || first == last) return std::nullopt;
    const auto local_rank = parse_number<std::uint32_t>(word.substr(0, first));
    const auto rank = parse_number<int>(word.substr(first + 1, last - first - 1));
    const auto pid = parse_number<std::int64_t>(word.substr(last + 1));
    if (!local_rank || !rank || !pid) return std::nullopt;
    order.workers.push_back({*local_rank, *rank, *pid});
  }
  return order;
}

std::vector<std::string> describe(const std::vector<RankStack>& stacks) {
  std::vector<std::pair<std::string, std::vector<int>>> ranks;  // by what they do
  for (const RankStack& stack : stacks) {
    std::string does = stack.from;
    if (!stack.frames.empty()) {
      does = "in ";
      for (const std::string& frame : stack.frames)
        does += (&frame == &stack.frames.front() ? "" : " < ") + frame;
      does += ", by " + stack.from;
    }
    auto same = std::ranges::find(ranks, does, [](const auto& entry) { return entry.first; });
    if (same == ranks.end()) same = ranks.insert(ranks.end(), {does, {}});
    same->second.push_back(stack.rank);
  }
  std::vector<std::string> sentences;
  for (const auto& [does, which] : ranks) {
    std::string text = which.size() == 1 ? "rank " : "ranks ";
    for (std::size_t i = 0; i < which.size(); ++i)
      text += (i == 0 ? "" : i + 1 == which.size() ? " and " : ", ") + std::to_string(which[i]);
    const bool is_stack = does.starts_with("in ");
    text += is_stack ? which.size() == 1 ? " is " : " are " : ": ";
    sentences.push_back(text.append(does));
  }
  return sentences;
}

int run_inspection(const std::vector<std::string>& words) {
  const auto order = parse_inspection(words);
  if (!order) return fail("dump --inspect is for dlaunch itself");
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // of no use without the agent
  const std::map<int, Record> records = take_records(*order);
  print(agent::encode(agent::Inspected{order->round, positions_in(records)}));
  std::string advice;
  std::vector<RankStack> stacks;
  for (const WorkerHere& worker : worth_a_look(*order, records)) stacks.push_back(stack_of(worker, advice));
  for (const std::string& sentence : describe(stacks)) report(sentence);
  if (!advice.empty()) report(advice);
  return 0;
}

}  // namespace dlaunch::launcher
