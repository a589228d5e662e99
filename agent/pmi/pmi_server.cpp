#include "agent/pmi/pmi_server.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <utility>

#include "store/base/number.h"
#include "store/base/sanitize.h"

namespace dlaunch::agent {
namespace {

constexpr std::string_view mapping_key = "PMI_process_mapping";

// Requests that dlaunch does not carry out, and how each is answered.
constexpr std::array<std::pair<std::string_view, std::string_view>, 3> refused{
    {{"publish_name", "cmd=publish_result rc=-1 msg=not_supported\n"},
     {"unpublish_name", "cmd=unpublish_result rc=-1 msg=not_supported\n"},
     {"lookup_name", "cmd=lookup_result rc=-1 msg=not_supported\n"}}};

std::optional<int> number_after(std::string_view line, std::string_view beginning) {
  if (!line.starts_with(beginning)) return std::nullopt;
  return parse_number<int>(line.substr(beginning.size()));
}

}  // namespace

struct PmiServer::Call {
  Rank& rank;
  int local_rank;
  const PmiRequest& request;

  void reply(std::string bytes, PmiActions& out) const {
    out.emplace_back(PmiReply{local_rank, std::move(bytes)});
  }
};

PmiActions PmiServer::on_bytes(int local_rank, std::string_view bytes) {
  PmiActions out;
  Rank& rank = ranks_.at(static_cast<std::size_t>(local_rank));
  if (rank.state == Rank::State::over) return out;
  const bool fits =
      rank.lines.cut(bytes, [&](std::string_view line) { return on_line(local_rank, line, out); });
  if (!fits)
    drop(local_rank, "it sent a line of more than " + std::to_string(longest_pmi_line) + " bytes", out);
  return out;
}

// Returns whether the rank may send more.
bool PmiServer::on_line(int local_rank, std::string_view line, PmiActions& out) {
  Rank& rank = ranks_[static_cast<std::size_t>(local_rank)];
  if (rank.in_spawn) return on_spawn_line(rank, local_rank, line, out);
  const auto request = PmiRequest::parse(line);
  if (!request) return drop(local_rank, "it sent what is no request", out);
  if (request->is_of_many_lines()) {
    if (request->command() != "spawn") return drop(local_rank, "it sent an unknown request", out);
    rank.in_spawn = true;
    return true;
  }
  if (rank.state == Rank::State::waiting && request->command() != "abort")
    return drop(local_rank, "it sent a request while it waits in a barrier", out);
  const bool may_come_first = request->command() == "init" || request->command() == "abort";
  if (rank.state == Rank::State::fresh && !may_come_first)
    return drop(local_rank, "its first request is not cmd=init", out);
  on_request({rank, local_rank, *request}, out);
  return rank.state != Rank::State::over;
}

// Further processes are not started. One answer is for all requests that belong together.
bool PmiServer::on_spawn_line(Rank& rank, int local_rank, std::string_view line, PmiActions& out) const {
  if (const auto total = number_after(line, "totspawns=")) rank.spawns_left = *total;
  if (const auto so_far = number_after(line, "spawnssofar="); so_far && *so_far > 0)
    rank.spawns_left = std::max(0, rank.spawns_left - *so_far);
  if (line != "endcmd") return true;
  rank.in_spawn = false;
  if (rank.spawns_left == 0)
    out.emplace_back(PmiReply{local_rank, "cmd=spawn_result rc=-1 msg=not_supported\n"});
  return true;
}

void PmiServer::on_request(const Call& call, PmiActions& out) {
  const std::string& command = call.request.command();
  const auto unsupported =
      std::find_if(refused.begin(), refused.end(), [&](const auto& one) { return one.first == command; });
  if (command == "init") {
    on_init(call, out);
  } else if (command == "get_maxes") {
    call.reply("cmd=maxes kvsname_max=" + std::to_string(longest_pmi_name) +
                   " keylen_max=" + std::to_string(longest_pmi_key) +
                   " vallen_max=" + std::to_string(longest_pmi_value) + "\n",
               out);
  } else if (command == "get_appnum") {
    call.reply("cmd=appnum appnum=0\n", out);
  } else if (command == "get_my_kvsname") {
    call.reply("cmd=my_kvsname kvsname=" + world_.name + "\n", out);
  } else if (command == "get_universe_size") {
    call.reply("cmd=universe_size size=" + std::to_string(world_.size) + "\n", out);
  } else if (command == "put") {
    on_put(call, out);
  } else if (command == "get") {
    on_get(call, out);
  } else if (command == "getbyidx") {
    on_get_by_index(call, out);
  } else if (command == "barrier_in") {
    on_barrier(call, out);
  } else if (command == "finalize") {
    call.rank.state = Rank::State::over;
    call.reply("cmd=finalize_ack\n", out);
  } else if (command == "abort") {
    call.rank.state = Rank::State::over;
    const auto code = parse_number<int>(call.request.value("exitcode").value_or("1"));
    out.emplace_back(PmiAborted{call.local_rank, code.value_or(1)});
  } else if (unsupported != refused.end()) {
    call.reply(std::string(unsupported->second), out);
  } else {
    drop(call.local_rank, "it sent an unknown request (" + shortened(command, quoted_request) + ")", out);
  }
}

void PmiServer::on_init(const Call& call, PmiActions& out) const {
  if (call.request.value("pmi_version") != "1") {
    return call.reply("cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=-1\n", out);
  }
  call.rank.state = Rank::State::started;
  call.reply("cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n", out);
}

void PmiServer::on_put(const Call& call, PmiActions& out) {
  PmiEntry entry{call.request.value("key").value_or(""), call.request.value("value").value_or("")};
  const char* why = nullptr;
  if (call.request.value("kvsname") != world_.name) {
    why = "unknown_kvs";
  } else if (entry.key.empty() || entry.key.size() > longest_pmi_key) {
    why = "key_too_long_or_empty";
  } else if (entry.value.size() > longest_pmi_value) {
    why = "value_too_long";
  } else if (!store(entry)) {
    why = "no_room";
  }
  if (why != nullptr) return call.reply(std::string("cmd=put_result rc=-1 msg=") + why + "\n", out);
  published_.insert(std::move(entry.key));
  call.reply("cmd=put_result rc=0 msg=success\n", out);
}

// False: there is no room for it.
bool PmiServer::store(const PmiEntry& entry) {
  const auto found = values_.find(entry.key);
  const std::size_t before = found == values_.end() ? 0 : size_of({entry.key, found->second});
  if (bytes_ - before + size_of(entry) > most_pmi_bytes) return false;
  bytes_ += size_of(entry) - before;
  values_[entry.key] = entry.value;
  return true;
}

void PmiServer::on_get(const Call& call, PmiActions& out) const {
  const std::string key = call.request.value("key").value_or("");
  const auto found = values_.find(key);
  const bool is_mapping = key == mapping_key && !world_.mapping.empty();
  if (call.request.value("kvsname") != world_.name || (found == values_.end() && !is_mapping))
    return call.reply("cmd=get_result rc=-1 msg=key_not_found value=unknown\n", out);
  call.reply("cmd=get_result rc=0 msg=success value=" + (is_mapping ? world_.mapping : found->second) + "\n",
             out);
}

void PmiServer::on_get_by_index(const Call& call, PmiActions& out) const {
  const auto index = parse_number<std::size_t>(call.request.value("idx").value_or(""));
  if (call.request.value("kvsname") != world_.name || !index || *index >= values_.size())
    return call.reply("cmd=getbyidx_results rc=-2 reason=no_more_keyvals\n", out);
  const auto& [key, value] = *std::next(values_.begin(), static_cast<std::ptrdiff_t>(*index));
  call.reply("cmd=getbyidx_results rc=0 nextidx=" + std::to_string(*index + 1) + " key=" + key +
                 " val=" + value + "\n",
             out);
}

void PmiServer::on_barrier(const Call& call, PmiActions& out) {
  call.rank.state = Rank::State::waiting;
  const bool all_wait = std::all_of(ranks_.begin(), ranks_.end(),
                                    [](const Rank& one) { return one.state == Rank::State::waiting; });
  if (all_wait) out.emplace_back(PmiArrived{barrier_, take_published()});
}

std::vector<PmiEntry> PmiServer::take_published() {
  std::vector<PmiEntry> entries;
  for (const std::string& key : std::exchange(published_, {})) entries.push_back({key, values_.at(key)});
  return entries;
}

PmiActions PmiServer::on_released(std::uint32_t barrier, const std::vector<PmiEntry>& entries, bool last) {
  PmiActions out;
  if (barrier != barrier_) return out;
  bool fits = true;
  for (const PmiEntry& entry : entries) fits = store(entry) && fits;
  if (!last && fits) return out;
  ++barrier_;
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    if (ranks_[i].state != Rank::State::waiting) continue;
    ranks_[i].state = Rank::State::started;
    out.emplace_back(PmiReply{static_cast<int>(i),
                              fits ? "cmd=barrier_out rc=0\n" : "cmd=barrier_out rc=-1 msg=no_room\n"});
  }
  return out;
}

bool PmiServer::has_waiting() const {
  return std::any_of(ranks_.begin(), ranks_.end(),
                     [](const Rank& one) { return one.state == Rank::State::waiting; });
}

std::vector<int> PmiServer::late() const {
  std::vector<int> late;
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    if (ranks_[i].state != Rank::State::waiting) late.push_back(static_cast<int>(i));
  }
  return late;
}

bool PmiServer::drop(int local_rank, std::string why, PmiActions& out) {
  ranks_[static_cast<std::size_t>(local_rank)].state = Rank::State::over;
  out.emplace_back(PmiDrop{local_rank, std::move(why)});
  return false;
}

}  // namespace dlaunch::agent
