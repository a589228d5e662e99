#include "store/server/table.h"

#include <algorithm>
#include <utility>

#include "store/protocol/decimal.h"

namespace dlaunch::store {
namespace {

constexpr std::string_view not_a_number = "ADD or BARRIER on a value that is not a number";
constexpr std::string_view table_full = "the store is full";
constexpr std::size_t kept_texts = 1 << 14;  // what the reused answer keeps of a longer one

// Removes the client from the list at the key, and the list when it is empty.
template <class WaitQueues, class Client>
void take_out(WaitQueues& parking, std::string_view key, Client* client) {
  const auto at = parking.find(key);
  if (at == parking.end()) return;
  std::erase(at->second, client);
  if (at->second.empty()) parking.erase(at);
}

template <class WaitQueues, class Client>
void put_in(WaitQueues& parking, std::string_view key, Client* client) {
  auto at = parking.find(key);
  if (at == parking.end()) at = parking.emplace(std::string(key), typename WaitQueues::mapped_type{}).first;
  at->second.push_back(client);
}

}  // namespace

const Table::Outcome& Table::apply(Client& client, const Request& request) {
  begin();

  // A client has one request at a time: this one ends its wait, with CANCEL_WAIT or, as 1.13 does after a
  // timeout, without.
  if (client.waits()) end_wait(client);
  if (client.was_offered_ && (request.kind != RequestKind::queue_pop || request.key != client.offered_)) {
    withdraw_offer(client);
  }

  switch (request.kind) {
    case RequestKind::validate:
      refuse("VALIDATE after the first request");
      break;
    case RequestKind::set:
      set(request.key, request.value);
      break;
    case RequestKind::compare_set:
      compare_set(request);
      break;
    case RequestKind::get: {
      const auto at = values_.find(request.key);
      reply(at == values_.end() ? Answer::Text() : Answer::Text(at->second));
      break;
    }
    case RequestKind::add:
      add(request.key, request.number);
      if (client.is_ours_) answer_ours();
      break;
    case RequestKind::check:
      reply(Answer::Kind::byte, all_exist(request.keys) ? answer_ready : answer_not_ready);
      break;
    case RequestKind::wait:
      wait(client, request);
      break;
    case RequestKind::num_keys:
      reply(Answer::Kind::number, static_cast<std::int64_t>(values_.size()));
      break;
    case RequestKind::delete_key:
      delete_key(request.key);
      break;
    case RequestKind::append:
      append(request.key, request.value);
      break;
    case RequestKind::multi_get:
      multi_get(request);
      break;
    case RequestKind::multi_set:
      multi_set(request);
      break;
    case RequestKind::cancel_wait:
      reply(Answer::Kind::byte, answer_wait_cancelled);
      break;
    case RequestKind::ping:
      client.is_ours_ = client.is_ours_ || request.number == ping_of_dlaunch;
      reply(Answer::Kind::nonce, request.number == ping_of_dlaunch ? pong_of_dlaunch : request.number);
      break;
    case RequestKind::queue_push:
      queue_push(request.key, request.value);
      break;
    case RequestKind::queue_pop:
      queue_pop(client, request.key);
      break;
    case RequestKind::queue_len: {
      const auto at = queues_.find(request.key);
      reply(Answer::Kind::number, at == queues_.end() ? 0 : static_cast<std::int64_t>(at->second.size()));
      break;
    }
    case RequestKind::list_keys:
      list_keys();
      break;
    case RequestKind::barrier:
      barrier(client, request.key, request.number);
      break;
    case RequestKind::watch_key:
      watch(client, request.key);
      break;
  }
  return outcome_;
}

const Table::Outcome& Table::forget(Client& client) {
  begin();
  if (client.waits()) end_wait(client);
  if (client.was_offered_) withdraw_offer(client);
  for (const std::string& key : std::exchange(client.watched_, {})) {
    take_out(watchers_, key, &client);
    bytes_ -= key.size() + entry_bytes;
  }
  return outcome_;
}

void Table::begin() {
  outcome_.answer.kind = Answer::Kind::none;
  outcome_.woken.clear();
  outcome_.notifications.clear();
  if (outcome_.answer.texts.capacity() > kept_texts) std::vector<Answer::Text>().swap(outcome_.answer.texts);
  if (popped_.is_shared()) retain_until_sent(popped_);
  popped_ = {};
}

// Keys and values.

void Table::set(std::string_view key, std::string_view value) { store(values_.find(key), key, value); }

void Table::append(std::string_view key, std::string_view value) {
  const auto at = values_.find(key);
  if (at == values_.end()) return store(at, key, value);
  if (at->second.size() + value.size() > limits_.value_bytes)
    return refuse("APPEND makes a value over the limit");
  SharedBytes& stored = at->second;
  if (watchers_.empty() && !stored.is_shared()) {  // avoids a copy of the value at each of many appends
    if (!may_grow(value.size())) return refuse(table_full);
    stored.append(value);
    bytes_ += value.size();
    return end_suppression(key);
  }
  SharedBytes grown = stored;
  grown.append(value);
  if (replace(stored, key, std::move(grown))) end_suppression(key);
}

void Table::compare_set(const Request& request) {
  const auto at = values_.find(request.key);
  const bool absent = at == values_.end();
  if (absent && !request.expected.empty()) return reply(request.expected);  // no error: PyTorch's answer
  if (!absent && at->second.view() != request.expected) return reply(at->second);
  store(at, request.key, request.value);
  if (outcome_.answer.kind != Answer::Kind::refused) reply(values_.find(request.key)->second);
}

void Table::add(std::string_view key, std::int64_t amount) {
  const auto at = values_.find(key);
  const auto sum = sum_at(at, amount);
  if (!sum) return refuse(not_a_number);
  store(at, key, std::to_string(*sum));
  if (outcome_.answer.kind != Answer::Kind::refused) reply(Answer::Kind::number, *sum);
}

// An absent value counts as 0; none: the value is not a number.
std::optional<std::int64_t> Table::sum_at(Values::const_iterator at, std::int64_t amount) const {
  const auto before = at == values_.end() ? std::int64_t{0} : leading_decimal(at->second.view());
  return before ? std::optional(wrapping_add(*before, amount)) : std::nullopt;
}

// The answer of ADD in the form of dlaunch's client.
void Table::answer_ours() {
  Answer& answer = outcome_.answer;
  if (answer.kind == Answer::Kind::number) {
    answer.kind = Answer::Kind::sum;
  } else {
    reply(Answer::Kind::byte, answer.bytes.bytes == not_a_number ? answer_no_number : answer_store_full);
  }
}

void Table::multi_get(const Request& request) {
  std::vector<Answer::Text>& texts = outcome_.answer.texts;
  texts.clear();
  std::uint64_t size = 0;
  for (const std::string_view key : request.keys) {
    const auto at = values_.find(key);
    texts.push_back(at == values_.end() ? Answer::Text() : Answer::Text(at->second));
    size += sizeof(std::uint64_t) + texts.back().bytes.size();
  }
  if (size > limits_.answer_bytes) return refuse("MULTI_GET's answer would be over the limit");
  outcome_.answer.kind = Answer::Kind::many;
}

void Table::multi_set(const Request& request) {
  std::uint64_t growth = 0;
  for (std::size_t i = 0; i < request.keys.size(); ++i) {
    growth += request.keys[i].size() + request.values[i].size() + entry_bytes;
  }
  if (!may_grow(growth)) return refuse(table_full);  // all or nothing
  for (std::size_t i = 0; i < request.keys.size(); ++i) set(request.keys[i], request.values[i]);
}

void Table::delete_key(std::string_view key) {
  const auto at = values_.find(key);
  if (at == values_.end()) return reply(Answer::Kind::number, 0);
  bytes_ -= at->first.size() + at->second.size() + entry_bytes;
  notify_watchers(WatchEvent::deleted, key, at->second, {});
  retain_until_sent(at->second);
  values_.erase(at);
  if (const auto suppressed = suppressed_.find(key); suppressed != suppressed_.end())
    suppressed_.erase(suppressed);
  reply(Answer::Kind::number, 1);
}

void Table::list_keys() {
  std::vector<Answer::Text>& texts = outcome_.answer.texts;
  texts.clear();
  std::uint64_t size = sizeof(std::int64_t);
  for (const auto& [key, value] : values_) {
    texts.emplace_back(key);
    size += sizeof(std::uint64_t) + key.size();
  }
  if (size > limits_.answer_bytes) return refuse("LIST_KEYS's answer would be over the limit");
  std::sort(texts.begin(), texts.end(),
            [](const Answer::Text& a, const Answer::Text& b) { return a.bytes < b.bytes; });
  outcome_.answer.kind = Answer::Kind::listed;
}

void Table::store(Values::iterator at, std::string_view key, std::string_view value) {
  const bool is_new = at == values_.end();
  if (!put(at, key, value)) return;
  if (is_new) {
    appeared(key);
  } else {
    end_suppression(key);
  }
}

bool Table::put(Values::iterator at, std::string_view key, std::string_view value) {
  if (at != values_.end()) {
    if (!watchers_.empty() || at->second.is_shared()) return replace(at->second, key, SharedBytes(value));
    SharedBytes& stored = at->second;
    if (value.size() > stored.size() && !may_grow(value.size() - stored.size())) return refused_as_full();
    bytes_ -= stored.size();
    stored.assign(value);
    bytes_ += value.size();
    return true;
  }
  const std::uint64_t size = key.size() + value.size() + entry_bytes;
  if (!may_grow(size)) return refused_as_full();
  const auto added = values_.emplace(key, SharedBytes(value)).first;
  bytes_ += size;
  notify_watchers(WatchEvent::created, key, {}, added->second);
  return true;
}

// The new value of an existing key whose old value has other owners.
bool Table::replace(SharedBytes& stored, std::string_view key, SharedBytes value) {
  if (!may_grow(value.size())) return refused_as_full();
  notify_watchers(WatchEvent::updated, key, stored, value);
  bytes_ -= stored.size();
  retain_until_sent(stored);
  stored = std::move(value);
  bytes_ += stored.size();
  return true;
}

// A value's bytes stay in memory until the answers that carry them are sent.
void Table::retain_until_sent(SharedBytes& value) {
  if (value.is_shared()) value.count_in(retained_);
}

// Queues: named as keys, but separate. CHECK and WAIT treat a queue that is not empty as present. A push ends
// one wait only, since the other clients would find the queue empty again.

void Table::queue_push(std::string_view key, std::string_view value) {
  const std::uint64_t size = value.size() + entry_bytes;
  auto at = queues_.find(key);
  const std::uint64_t name_size = at == queues_.end() ? key.size() + entry_bytes : 0;
  if (!may_grow(size + name_size)) return refuse(table_full);
  if (at == queues_.end()) {
    std::deque<SharedBytes> begun;
    begun.emplace_back(value);
    queues_.emplace(std::string(key), std::move(begun));
  } else {
    at->second.emplace_back(value);
  }
  bytes_ += size + name_size;
  offer(key);
}

void Table::queue_pop(Client& client, std::string_view key) {
  client.was_offered_ = false;
  const auto at = queues_.find(key);
  if (at == queues_.end()) return reply(Answer::Kind::popped, 0);
  reply(Answer::Kind::popped, static_cast<std::int64_t>(at->second.size()));
  popped_ = std::move(at->second.front());
  outcome_.answer.bytes = popped_;
  at->second.pop_front();
  bytes_ -= popped_.size() + entry_bytes;
  if (!at->second.empty()) return;
  bytes_ -= at->first.size() + entry_bytes;
  queues_.erase(at);
}

// Ends the wait of the first client that misses nothing but this queue.
void Table::offer(std::string_view key) {
  for (auto at = waiters_.find(key); at != waiters_.end(); at = waiters_.find(key)) {
    Client* client = at->second.front();
    take_out(waiters_, key, client);
    if (find_missing(*client->wait_)) {
      enqueue(*client);
      continue;
    }
    client->offered_ = key;
    client->was_offered_ = true;
    end_wait(*client);
    outcome_.woken.push_back(client);
    return;
  }
}

// The client does not pop: the next client that waits for the queue gets its turn.
void Table::withdraw_offer(Client& client) {
  client.was_offered_ = false;
  if (queues_.contains(client.offered_)) offer(client.offered_);
}

// Waits. A wait is queued at one missing key; when that key appears, it moves to the next missing one. So it
// costs one entry whatever the number of its keys, and all keys are checked again only when one disappears.

void Table::wait(Client& client, const Request& request) {
  if (all_exist(request.keys)) return reply(Answer::Kind::byte, answer_stop_waiting);
  std::size_t size = entry_bytes;
  for (const std::string_view key : request.keys) size += key.size() + sizeof(std::string);
  if (!may_grow(size)) return refuse(table_full);
  auto waiting = std::make_unique<Client::Wait>();
  waiting->keys.assign(request.keys.begin(), request.keys.end());
  waiting->bytes = size;
  find_missing(*waiting);
  client.wait_ = std::move(waiting);
  bytes_ += size;
  ++waiting_;
  enqueue(client);
}

// Its key is an ordinary one: a WAIT that begins after the first arrival ends at once. A pending one ends
// with the last arrival, as in PyTorch.
void Table::barrier(Client& client, std::string_view key, std::int64_t world_size) {
  const auto stored = values_.find(key);
  const auto sum = sum_at(stored, 1);
  if (!sum) return refuse(not_a_number);
  const std::int64_t arrived = *sum;
  if (stored == values_.end() && waiters_.contains(key)) suppressed_.emplace(key);
  if (!put(stored, key, std::to_string(arrived))) return;
  if (arrived < world_size) {
    auto waiting = std::make_unique<Client::Wait>();
    waiting->keys.emplace_back(key);
    waiting->barrier = world_size;
    waiting->bytes = key.size() + entry_bytes;
    client.wait_ = std::move(waiting);
    bytes_ += client.wait_->bytes;
    ++waiting_;
    return enqueue(client);
  }
  reply(Answer::Kind::byte, answer_stop_waiting);
  end_suppression(key);
  const auto at = barriers_.find(key);
  if (at == barriers_.end()) return;
  const std::vector<Client*> candidates = std::move(at->second);
  barriers_.erase(at);
  for (Client* waiting : candidates) {
    if (waiting->wait_->barrier > arrived) {  // it waits for a larger world
      enqueue(*waiting);
    } else {
      end_wait(*waiting);
      outcome_.woken.push_back(waiting);
    }
  }
}

// Sets `at` to a missing key; false: none.
bool Table::find_missing(Client::Wait& wait) const {
  const std::size_t count = wait.keys.size();
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t candidate = wait.at + i < count ? wait.at + i : wait.at + i - count;
    if (exists(wait.keys[candidate])) continue;
    wait.at = candidate;
    return true;
  }
  return false;
}

void Table::enqueue(Client& client) {
  const Client::Wait& wait = *client.wait_;
  put_in(wait.barrier != 0 ? barriers_ : waiters_, wait.keys[wait.at], &client);
}

void Table::dequeue(Client& client) {
  const Client::Wait& wait = *client.wait_;
  take_out(wait.barrier != 0 ? barriers_ : waiters_, wait.keys[wait.at], &client);
}

void Table::end_wait(Client& client) {
  dequeue(client);
  bytes_ -= client.wait_->bytes;
  --waiting_;
  client.wait_.reset();
}

// Continues the waits that a barrier held back.
void Table::end_suppression(std::string_view key) {
  if (suppressed_.empty()) return;
  const auto at = suppressed_.find(key);
  if (at == suppressed_.end()) return;
  suppressed_.erase(at);
  appeared(key);
}

// A missing key now exists.
void Table::appeared(std::string_view key) {
  if (waiters_.empty()) return;
  const auto at = waiters_.find(key);
  if (at == waiters_.end()) return;
  const std::vector<Client*> candidates = std::move(at->second);
  waiters_.erase(at);
  for (Client* client : candidates) {
    if (find_missing(*client->wait_)) {
      enqueue(*client);
    } else {
      end_wait(*client);
      outcome_.woken.push_back(client);
    }
  }
}

bool Table::exists(std::string_view key) const {
  return values_.find(key) != values_.end() || (!queues_.empty() && queues_.find(key) != queues_.end());
}

bool Table::all_exist(const std::vector<std::string_view>& keys) const {
  return std::all_of(keys.begin(), keys.end(), [this](std::string_view key) { return exists(key); });
}

// Watching (1.13 only).

void Table::watch(Client& client, std::string_view key) {
  reply(Answer::Kind::byte, answer_watching);
  if (std::find(client.watched_.begin(), client.watched_.end(), key) != client.watched_.end()) return;
  if (!may_grow(key.size() + entry_bytes)) return refuse(table_full);
  client.watched_.emplace_back(key);
  bytes_ += key.size() + entry_bytes;
  put_in(watchers_, key, &client);
}

void Table::notify_watchers(WatchEvent event, std::string_view key, const SharedBytes& old_value,
                            const SharedBytes& new_value) {
  if (watchers_.empty()) return;
  const auto at = watchers_.find(key);
  if (at == watchers_.end()) return;
  for (Client* client : at->second) {
    outcome_.notifications.push_back({client, event, std::string(key), old_value, new_value});
  }
}

// Answers.

void Table::reply(Answer::Kind kind, std::int64_t number) {
  outcome_.answer.kind = kind;
  outcome_.answer.number = number;
}

void Table::reply(Answer::Text bytes) {
  outcome_.answer.kind = Answer::Kind::bytes;
  outcome_.answer.bytes = bytes;
}

void Table::refuse(std::string_view why) {
  outcome_.answer.kind = Answer::Kind::refused;
  outcome_.answer.bytes = why;
}

bool Table::refused_as_full() {
  refuse(table_full);
  return false;
}

bool Table::may_grow(std::uint64_t by) { return bytes() + by <= limits_.total_bytes; }

}  // namespace dlaunch::store
