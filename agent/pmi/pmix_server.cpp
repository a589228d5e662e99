#include "agent/pmi/pmix_server.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include "store/base/base64.h"
#include "store/base/number.h"
#include "store/base/sanitize.h"

namespace dlaunch::agent {
namespace {

// A name that a variable can have.
bool is_name(std::string_view text) {
  const auto may_be_in_it = [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  };
  return !text.empty() && std::all_of(text.begin(), text.end(), may_be_in_it);
}

}  // namespace

PmixServer::PmixServer(MpiWorld world)
    : world_(std::move(world)),
      clients_(static_cast<std::size_t>(world_.slots) + 1),
      ranks_(static_cast<std::size_t>(world_.slots)) {}

PmiActions PmixServer::on_bytes(int client, std::string_view bytes) {
  PmiActions out;
  Client& sender = clients_.at(static_cast<std::size_t>(client));
  if (sender.is_over) return out;
  const bool fits =
      sender.lines.cut(bytes, [&](std::string_view line) { return on_line(client, line, out); });
  if (!fits) drop(client, "it sent a line of more than " + std::to_string(longest_pmi_line) + " bytes", out);
  return out;
}

// Returns whether the client may send more.
bool PmixServer::on_line(int client, std::string_view line, PmiActions& out) {
  const auto request = PmiRequest::parse(line);
  if (!request || request->is_of_many_lines()) return drop(client, "it sent what is no request", out);
  return client == helper() ? on_helper_request(*request, out) : on_worker_request(client, *request, out);
}

bool PmixServer::on_worker_request(int local_rank, const PmiRequest& request, PmiActions& out) {
  Rank& rank = ranks_[static_cast<std::size_t>(local_rank)];
  if (request.command() != "variables" || rank.asks)
    return drop(local_rank,
                "it sent an unknown request (" + shortened(request.command(), quoted_request) + ")", out);
  rank.asks = true;
  if (is_ready_) start(local_rank, out);
  return true;
}

void PmixServer::start(int local_rank, PmiActions& out) const {
  reply(local_rank, ranks_[static_cast<std::size_t>(local_rank)].variables + "cmd=start\n", out);
}

void PmixServer::reply(int client, std::string lines, PmiActions& out) const {
  if (!clients_[static_cast<std::size_t>(client)].is_over)
    out.emplace_back(PmiReply{client, std::move(lines)});
}

bool PmixServer::on_helper_request(const PmiRequest& request, PmiActions& out) {
  const std::string& command = request.command();
  if (command == "world") {
    reply(helper(),
          "cmd=world name=" + world_.name + " rank=" + std::to_string(world_.base_rank) +
              " slots=" + std::to_string(world_.slots) + " size=" + std::to_string(world_.size) +
              " mapping=" + world_.mapping + " folder=" + to_base64(world_.folder) + "\n",
          out);
    return true;
  }
  if (command == "ready" && !is_ready_) {
    is_ready_ = true;
    for (int i = 0; i < world_.slots; ++i) {
      if (ranks_[static_cast<std::size_t>(i)].asks) start(i, out);
    }
    return true;
  }
  if (command == "data") return on_data(request, out);
  if (command == "next") return on_next(out);
  if (command == "fence" && !is_fencing_) {
    is_fencing_ = true;
    published_bytes_ = 0;
    out.emplace_back(PmiArrived{barrier_, std::exchange(published_, {})});
    return true;
  }
  const auto local_rank = parse_number<int>(request.value("rank").value_or(""));
  if (local_rank && *local_rank >= 0 && *local_rank < world_.slots)
    return on_rank_request(request, ranks_[static_cast<std::size_t>(*local_rank)], *local_rank, out);
  return drop(helper(), "it sent an unknown request (" + shortened(command, quoted_request) + ")", out);
}

bool PmixServer::on_rank_request(const PmiRequest& request, Rank& rank, int local_rank, PmiActions& out) {
  const std::string& command = request.command();
  if (command == "connected" && rank.state == Rank::State::absent) {
    rank.state = Rank::State::connected;
  } else if (command == "finalized") {
    rank.state = Rank::State::finalized;
  } else if (command == "abort") {
    const auto code = parse_number<int>(request.value("code").value_or("1"));
    out.emplace_back(PmiAborted{local_rank, code.value_or(1)});
  } else if (command == "variable" && !is_ready_) {
    const std::string name = request.value("name").value_or("");
    const std::string value = request.value("value").value_or("");
    std::string line = "cmd=variable name=" + name + " value=" + value + "\n";
    if (!is_name(name) || !from_base64(value) || rank.variables.size() + line.size() > most_pmix_variables)
      return drop(helper(), "it sent a variable that cannot be set (" + shortened(name, quoted_request) + ")",
                  out);
    rank.variables += line;
  } else if (command != "connected") {
    return drop(helper(), "it sent an unknown request (" + shortened(command, quoted_request) + ")", out);
  }
  return true;
}

// The key keeps the pieces of a node together: messages of several nodes arrive in any order.
bool PmixServer::on_data(const PmiRequest& request, PmiActions& out) {
  PmiEntry entry{std::to_string(world_.base_rank), request.value("value").value_or("")};
  published_bytes_ += size_of(entry);
  if (is_fencing_ || entry.value.empty() || !from_base64(entry.value) || published_bytes_ > most_pmi_bytes)
    return drop(helper(), "it sent data that cannot be sent to other nodes", out);
  published_.push_back(std::move(entry));
  return true;
}

bool PmixServer::on_next(PmiActions& out) {
  if (released_.empty()) {
    reply(helper(), "cmd=end\n", out);
    return true;
  }
  reply(helper(), "cmd=data value=" + released_.front() + "\n", out);
  released_.pop_front();
  return true;
}

PmiActions PmixServer::on_released(std::uint32_t barrier, const std::vector<PmiEntry>& entries, bool last) {
  PmiActions out;
  if (barrier != barrier_ || !is_fencing_) return out;
  for (const PmiEntry& entry : entries) arrived_[entry.key].push_back(entry.value);
  if (!last) return out;
  for (auto& [node, pieces] : std::exchange(arrived_, {}))
    std::move(pieces.begin(), pieces.end(), std::back_inserter(released_));
  ++barrier_;
  is_fencing_ = false;
  reply(helper(), "cmd=released\n", out);
  return out;
}

// Without the helper no rank can start.
PmiActions PmixServer::on_closed(int client) {
  PmiActions out;
  if (client != helper() || is_ready_) return out;
  for (int i = 0; i < world_.slots; ++i) drop(i, "the process that serves PMIx has ended", out);
  return out;
}

void PmixServer::on_returned_0(int local_rank) {
  Rank& rank = ranks_.at(static_cast<std::size_t>(local_rank));
  if (rank.state != Rank::State::finalized) rank.state = Rank::State::left;
}

// MPI_Init and MPI_Finalize wait for all ranks. PMIx reports only what all ranks of the node have entered: of
// ranks that wait for one of the same node it is known that they have connected.
bool PmixServer::has_waiting() const {
  const auto any = [&](Rank::State state) {
    return std::any_of(ranks_.begin(), ranks_.end(), [&](const Rank& rank) { return rank.state == state; });
  };
  const bool misses = any(Rank::State::left) || (barrier_ == 0 && any(Rank::State::absent));
  return is_fencing_ || (misses && any(Rank::State::connected));
}

std::vector<int> PmixServer::late() const {
  std::vector<int> late;
  if (is_fencing_) return late;
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    const bool may_wait =
        ranks_[i].state == Rank::State::connected || ranks_[i].state == Rank::State::finalized;
    if (!may_wait) late.push_back(static_cast<int>(i));
  }
  return late;
}

bool PmixServer::drop(int client, std::string why, PmiActions& out) {
  Client& sender = clients_[static_cast<std::size_t>(client)];
  if (!std::exchange(sender.is_over, true)) out.emplace_back(PmiDrop{client, std::move(why)});
  return false;
}

}  // namespace dlaunch::agent
