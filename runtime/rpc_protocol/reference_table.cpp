#include "runtime/rpc_protocol/reference_table.h"

#include <algorithm>

#include "store/base/bytes.h"

namespace dlaunch::internal {

std::string to_bytes(const ReferenceMessage& message) {
  std::string bytes;
  ByteWriter(bytes)
      .u8(static_cast<std::uint8_t>(message.kind))
      .u32(message.id.owner)
      .u32(message.id.creator)
      .u64(message.id.number)
      .u64(message.number);
  return bytes;
}

std::optional<ReferenceMessage> parse_reference_message(std::string_view bytes) {
  ByteReader reader(as_byte_span(bytes));
  const std::uint8_t kind = reader.u8();
  ReferenceMessage message;
  message.id.owner = reader.u32();
  message.id.creator = reader.u32();
  message.id.number = reader.u64();
  message.number = reader.u64();
  const bool is_known = kind >= static_cast<std::uint8_t>(ReferenceMessage::Kind::add) &&
                        kind <= static_cast<std::uint8_t>(ReferenceMessage::Kind::renew);
  if (!reader.done() || !is_known) return std::nullopt;
  message.kind = static_cast<ReferenceMessage::Kind>(kind);
  return message;
}

// --- Handles
// --------------------------------------------------------------------------------------------------

std::pair<ReferenceTable::Place, bool> ReferenceTable::add(const ReferenceId& id) {
  const auto added = entries_.try_emplace(id);
  if (added.second && id.owner == self_) ++owned_;
  return added;
}

ReferenceId ReferenceTable::create() {
  const ReferenceId id{self_, self_, ++last_number_};
  add(id).first->second.state = State::ready;
  return id;
}

ReferenceTable::Creation ReferenceTable::create_at(WorkerId owner) {
  const ReferenceId id{owner, self_, ++last_number_};
  Entry& entry = add(id).first->second;
  entry.epoch = ++last_epoch_;
  return {id, entry.epoch};
}

void ReferenceTable::created(const ReferenceId& id, Actions& actions) {
  const Place at = entries_.find(id);
  if (at == entries_.end() || at->second.state != State::joining) return;
  at->second.state = State::ready;
  actions.emplace_back(ReferenceReady{id});
  settle(at->second, actions);
  end_if_unused(at, actions);
}

void ReferenceTable::creation_failed(const ReferenceId& id, Actions& actions) {
  const Place at = entries_.find(id);
  if (at == entries_.end() || at->second.state != State::joining) return;
  actions.emplace_back(SendReference{id.owner, {ReferenceMessage::Kind::drop, id, at->second.epoch}});
  break_up(at, actions);
}

void ReferenceTable::hold(const ReferenceId& id) { ++entries_.at(id).handles; }

void ReferenceTable::release(const ReferenceId& id, Actions& actions) {
  const Place at = entries_.find(id);
  --at->second.handles;
  end_if_unused(at, actions);
}

// A worker that still joins must not drop: its "drop" could not undo an "add" that is under way for others.
void ReferenceTable::end_if_unused(Place at, Actions& actions) {
  const auto& [id, entry] = *at;
  if (entry.handles > 0 || entry.state == State::joining) return;
  if (id.owner == self_ && entry.state == State::ready) {
    if (std::ranges::any_of(entry.holders, [](const auto& one) { return one.second.holds; })) return;
    actions.emplace_back(DestroyValue{id});
  } else if (entry.state == State::ready) {
    actions.emplace_back(SendReference{id.owner, {ReferenceMessage::Kind::drop, id, entry.epoch}});
  }
  if (id.owner == self_) --owned_;
  entries_.erase(at);
}

void ReferenceTable::break_up(Place at, Actions& actions) {
  at->second.state = State::broken;
  actions.emplace_back(ReferenceBroken{at->first});
  settle(at->second, actions);
  end_if_unused(at, actions);
}

bool ReferenceTable::is_ready(const ReferenceId& id) const {
  const auto at = entries_.find(id);
  return at != entries_.end() && at->second.state == State::ready;
}

std::set<WorkerId> ReferenceTable::needed() const {
  std::set<WorkerId> all;
  for (const auto& [id, entry] : entries_) {
    if (id.owner != self_ && entry.state != State::broken) all.insert(id.owner);
  }
  for (const auto& [token, pass] : passes_) all.insert(pass.to);
  return all;
}

std::set<WorkerId> ReferenceTable::users() const {
  std::set<WorkerId> all;
  for (const auto& [id, entry] : entries_) {
    for (const auto& [worker, holder] : entry.holders) {
      if (holder.holds) all.insert(worker);
    }
  }
  return all;
}

// --- Passing
// --------------------------------------------------------------------------------------------------

std::uint64_t ReferenceTable::pass(const ReferenceId& id, WorkerId to) {
  const std::uint64_t token = ++last_token_;
  if (dead_.contains(to)) return token;
  hold(id);
  passes_.emplace(token, Pass{id, to});
  return token;
}

void ReferenceTable::ask(std::uint64_t token, Actions& actions) {
  const auto at = passes_.find(token);
  if (at == passes_.end()) return;
  actions.emplace_back(SendReference{at->second.to, {ReferenceMessage::Kind::ask, {}, token}});
}

void ReferenceTable::unpin(WorkerId to, std::uint64_t token, Actions& actions) {
  const auto at = passes_.find(token);
  if (at == passes_.end() || at->second.to != to) return;
  const ReferenceId id = at->second.id;
  passes_.erase(at);
  release(id, actions);
}

bool ReferenceTable::on_passed(WorkerId from, const ReferenceId& id, std::uint64_t number, Actions& actions) {
  const Token token{from, number};
  if (rejected_.erase(token) > 0) return false;
  const auto [at, is_new] = add(id);
  Entry& entry = at->second;
  if (!is_new) ++entry.handles;
  received_.insert(token);
  entry.unsettled.push_back(token);
  if (is_new && (id.owner == self_ || dead_.contains(id.owner))) {
    break_up(at, actions);
  } else if (is_new) {
    entry.epoch = ++last_epoch_;
    actions.emplace_back(SendReference{id.owner, {ReferenceMessage::Kind::add, id, entry.epoch}});
  } else if (entry.state == State::ready) {
    actions.emplace_back(ReferenceReady{id});
    settle(entry, actions);
  } else if (entry.state == State::broken) {
    actions.emplace_back(ReferenceBroken{id});
    settle(entry, actions);
  }
  return true;
}

void ReferenceTable::settle(Entry& entry, Actions& actions) {
  for (const Token& token : entry.unsettled) {
    received_.erase(token);
    if (dead_.contains(token.from)) continue;
    actions.emplace_back(SendReference{token.from, {ReferenceMessage::Kind::settled, {}, token.number}});
  }
  entry.unsettled.clear();
}

// --- Messages
// -------------------------------------------------------------------------------------------------

bool ReferenceTable::on_create(WorkerId from, const ReferenceId& id, std::uint64_t epoch) {
  if (dead_.contains(from) || never_.erase(id) > 0) return false;
  const auto [at, is_new] = add(id);
  if (!is_new) return false;
  at->second.handles = 0;
  at->second.state = State::ready;
  at->second.holders[from] = {epoch, true};
  return true;
}

bool ReferenceTable::on_message(WorkerId from, const ReferenceMessage& message, Actions& actions) {
  if (dead_.contains(from)) return false;
  switch (message.kind) {
    case ReferenceMessage::Kind::add:
      return on_add(from, message);
    case ReferenceMessage::Kind::drop:
      on_drop(from, message, actions);
      return true;
    case ReferenceMessage::Kind::settled:
      unpin(from, message.number, actions);
      return true;
    case ReferenceMessage::Kind::ask:
      on_ask(from, message.number, actions);
      return true;
    case ReferenceMessage::Kind::renew:
      return true;
  }
  return false;
}

bool ReferenceTable::on_add(WorkerId from, const ReferenceMessage& message) {
  const Place at = entries_.find(message.id);
  if (at == entries_.end() || message.id.owner != self_) return false;
  Holder& holder = at->second.holders[from];
  if (message.number > holder.epoch) holder = {message.number, true};
  return true;
}

void ReferenceTable::on_drop(WorkerId from, const ReferenceMessage& message, Actions& actions) {
  const Place at = entries_.find(message.id);
  if (at == entries_.end()) {
    if (message.id.creator == from && message.id.owner == self_) never_.insert(message.id);
    return;
  }
  Holder& holder = at->second.holders[from];
  if (message.number >= holder.epoch) holder = {message.number, false};
  end_if_unused(at, actions);
}

void ReferenceTable::on_ask(WorkerId from, std::uint64_t number, Actions& actions) {
  const Token token{from, number};
  if (received_.contains(token)) return;  // it is settled later
  rejected_.insert(token);
  actions.emplace_back(SendReference{from, {ReferenceMessage::Kind::settled, {}, number}});
}

void ReferenceTable::on_acknowledged(WorkerId by, const ReferenceMessage& message, bool answer,
                                     Actions& actions) {
  if (message.kind != ReferenceMessage::Kind::add || dead_.contains(by)) return;
  const Place at = entries_.find(message.id);
  if (at == entries_.end() || at->second.epoch != message.number || at->second.state != State::joining)
    return;
  if (answer) return created(message.id, actions);
  break_up(at, actions);
}

void ReferenceTable::on_dead(WorkerId worker, Actions& actions) {
  if (!dead_.insert(worker).second) return;
  std::vector<ReferenceId> broken;
  std::vector<ReferenceId> owned;
  for (auto& [id, entry] : entries_) {
    if (id.owner == worker) broken.push_back(id);
    if (id.owner == self_ && entry.holders.erase(worker) > 0) owned.push_back(id);
  }
  for (const ReferenceId& id : broken) break_up(entries_.find(id), actions);
  for (const ReferenceId& id : owned) end_if_unused(entries_.find(id), actions);
  std::vector<std::uint64_t> tokens;
  for (const auto& [token, pass] : passes_) {
    if (pass.to == worker) tokens.push_back(token);
  }
  for (const std::uint64_t token : tokens) unpin(worker, token, actions);
  std::erase_if(rejected_, [&](const Token& token) { return token.from == worker; });
}

}  // namespace dlaunch::internal
