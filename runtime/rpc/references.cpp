#include "runtime/rpc/references.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <utility>

#include "dlaunch/error.h"
#include "runtime/base/log.h"
#include "runtime/base/start_thread.h"
#include "store/base/overloaded.h"

namespace dlaunch::internal {

namespace {

constexpr auto message_timeout = std::chrono::seconds(10);
constexpr auto between_tries = std::chrono::milliseconds(50);
// A worker whose connection is lost is looked at so often.
constexpr int looks = 40;

std::exception_ptr broken_with(const WorkerContact& owner) {
  return std::make_exception_ptr(
      DistNetworkError("the value of a remote reference is gone with its worker",
                       {.operation = "rpc", .peer = static_cast<int>(owner.rank)}));
}

std::string request_bytes(std::string_view function, std::string_view body) {
  std::string request = to_bytes(CallHead{function, 0}).append(body);
  append_references(request, {});
  return request;
}

}  // namespace

// What becomes of a message to another worker.
class References::Acknowledgement final : public CallReceiver {
 public:
  Acknowledgement(std::shared_ptr<References> references, const SendReference& sent)
      : references_(std::move(references)), sent_(sent) {}
  void finish(CallOutcome outcome) override {
    const auto* const answer = std::get_if<codec::Bytes>(&outcome);
    if (!answer) return references_->retry(sent_);
    const bool value = answer->front.starts_with('\1');
    references_->change([&](ReferenceTable& table, ReferenceTable::Actions& actions) {
      table.on_acknowledged(sent_.to, sent_.message, value, actions);
    });
  }

 private:
  const std::shared_ptr<References> references_;
  const SendReference sent_;
};

// A lease that was renewed.
class References::Renewal final : public CallReceiver {
 public:
  Renewal(std::shared_ptr<References> references, std::uint32_t worker)
      : references_(std::move(references)), worker_(worker), sent_(std::chrono::steady_clock::now()) {}
  void finish(CallOutcome outcome) override {
    const auto* const answer = std::get_if<codec::Bytes>(&outcome);
    if (!answer || !answer->front.starts_with('\1')) return;  // the next one may arrive
    const std::lock_guard lock(references_->mutex_);
    references_->leases_.on_acknowledged(worker_, sent_);
  }

 private:
  const std::shared_ptr<References> references_;
  const std::uint32_t worker_;
  const Deadline sent_;
};

template <class Change>
void References::change(const Change& change) {
  ReferenceTable::Actions actions;
  {
    const std::lock_guard lock(mutex_);
    change(table_, actions);
    count();
    if (!ended_ && !tries_ && has_leases()) start_trying();
  }
  perform(actions);
}

// REQUIRES: mutex_ is held.
void References::count() { agent_->log().set_references(table_.owned(), table_.held(), table_.unsettled()); }

void References::perform(const ReferenceTable::Actions& actions) {
  for (const ReferenceAction& action : actions) {
    if (const auto* const message = std::get_if<SendReference>(&action)) {
      send(*message);
      continue;
    }
    std::optional<Promise<void>> ready;
    std::optional<Promise<Value>> destroyed;  // without the mutex: its destructor may call
    const auto* const is_ready = std::get_if<ReferenceReady>(&action);
    const auto* const is_broken = std::get_if<ReferenceBroken>(&action);
    {
      const std::lock_guard lock(mutex_);
      const ReferenceId& id = is_ready    ? is_ready->id
                              : is_broken ? is_broken->id
                                          : std::get<DestroyValue>(action).id;
      if (is_ready || is_broken) {
        ready = ready_.try_emplace(id).first->second;
      } else if (const auto at = values_.find(id); at != values_.end()) {
        destroyed = at->second;
        values_.erase(at);
      }
    }
    if (is_ready) ready->set_value();
    if (is_broken) ready->set_exception(broken_with(agent_->worker(is_broken->id.owner)));
  }
  forget(actions);
}

// Of references that have ended.
void References::forget(const ReferenceTable::Actions& actions) {
  const std::lock_guard lock(mutex_);
  for (const ReferenceAction& action : actions) {
    const ReferenceId id = std::visit(Overloaded{[](const SendReference& one) { return one.message.id; },
                                                 [](const auto& one) { return one.id; }},
                                      action);
    if (!table_.has(id)) ready_.erase(id);
  }
}

// --- Messages
// -------------------------------------------------------------------------------------------------

void References::send(const SendReference& message) {
  {
    const std::lock_guard lock(mutex_);
    if (ended_) return;
  }
  agent_->call(message.to, message_function, request_bytes(message_function, to_bytes(message.message)),
               message_timeout, std::make_shared<Acknowledgement>(shared_from_this(), message));
}

void References::retry(const SendReference& message) {
  const std::lock_guard lock(mutex_);
  if (ended_ || buried_.contains(message.to)) return;
  again_.push_back(message);
  suspects_[message.to] = looks;
  start_trying();
}

void References::on_link_lost(std::uint32_t worker) {
  const std::lock_guard lock(mutex_);
  if (ended_ || worker == agent_->self().id) return;
  suspects_[worker] = looks;
  start_trying();
}

// REQUIRES: mutex_ is held.
void References::start_trying() {
  changed_.notify_all();
  if (std::exchange(tries_, true)) return;
  try {
    start_thread([self = shared_from_this()] { self->keep_trying(); }).detach();
  } catch (const DistBackendError& e) {
    tries_ = false;  // the next message that fails begins again
    log(LogLevel::warning, "cannot retry messages of remote references now: " + e.reason());
  }
}

// REQUIRES: mutex_ is held.
bool References::has_leases() const {
  return leases_.is_on() && (has_users_ || table_.held() > 0 || table_.unsettled() > 0);
}

// Returns who is dead to this worker. REQUIRES: mutex_ is held.
std::set<std::uint32_t> References::look_at_leases(std::set<std::uint32_t>& renew) {
  const Deadline now = std::chrono::steady_clock::now();
  if (!has_leases() || now < next_look_) return {};
  next_look_ = now + leases_.period();
  const std::set<WorkerId> users = table_.users();
  has_users_ = !users.empty();
  ReferenceLeases::Look found = leases_.look(now, table_.needed(), users);
  renew = std::move(found.renew);
  return std::move(found.over);
}

void References::renew(const std::set<std::uint32_t>& workers) {
  const std::string request =
      request_bytes(message_function, to_bytes(ReferenceMessage{.kind = ReferenceMessage::Kind::renew}));
  for (const std::uint32_t worker : workers) {
    agent_->call(worker, message_function, request, message_timeout,
                 std::make_shared<Renewal>(shared_from_this(), worker));
  }
}

void References::bury(const std::set<std::uint32_t>& dead) {
  {
    const std::lock_guard lock(mutex_);
    buried_.insert(dead.begin(), dead.end());
  }
  for (const std::uint32_t worker : dead) {
    change([&](ReferenceTable& table, ReferenceTable::Actions& actions) { table.on_dead(worker, actions); });
  }
}

void References::keep_trying() {
  std::unique_lock lock(mutex_);
  while (!ended_ && (!again_.empty() || !suspects_.empty() || has_leases())) {
    const bool is_urgent = !again_.empty() || !suspects_.empty();
    const auto pause = leases_.is_on() ? leases_.period() : between_tries;
    changed_.wait_for(lock, is_urgent ? std::min(between_tries, pause) : pause,
                      [&] { return ended_ || (!is_urgent && !(again_.empty() && suspects_.empty())); });
    if (ended_) break;
    std::set<std::uint32_t> due;
    const std::set<std::uint32_t> over = look_at_leases(due);
    const std::vector<SendReference> again = std::exchange(again_, {});
    const auto suspects = suspects_;
    for (const auto& [worker, left] : suspects) {
      if (--suspects_[worker] <= 0) suspects_.erase(worker);
    }
    lock.unlock();
    std::set<std::uint32_t> dead;
    for (const auto& [worker, left] : suspects) {
      if (agent_->is_gone(worker)) dead.insert(worker);
    }
    dead.insert(over.begin(), over.end());
    bury(dead);
    renew(due);
    for (const SendReference& message : again) {
      if (!dead.contains(message.to)) send(message);
    }
    lock.lock();
    for (const std::uint32_t worker : dead) suspects_.erase(worker);
  }
  tries_ = false;
}

void References::end() {
  const std::lock_guard lock(mutex_);
  ended_ = true;
  changed_.notify_all();
}

std::optional<std::string> References::on_message(std::uint32_t from, std::string_view bytes) {
  const std::optional<ReferenceMessage> message = parse_reference_message(bytes);
  if (!message) return std::nullopt;
  if (message->kind == ReferenceMessage::Kind::renew) {
    const std::lock_guard lock(mutex_);
    leases_.on_renewal(from, std::chrono::steady_clock::now());
  }
  bool answer = false;
  change([&](ReferenceTable& table, ReferenceTable::Actions& actions) {
    answer = table.on_message(from, *message, actions);
    has_users_ = has_users_ || message->kind == ReferenceMessage::Kind::add;
  });
  return std::string(1, answer ? '\1' : '\0');
}

// --- Handles
// --------------------------------------------------------------------------------------------------

std::shared_ptr<References::Handle> References::own(Value value) {
  const Promise<Value> promise;
  promise.set_value(std::move(value));
  const std::lock_guard lock(mutex_);
  const ReferenceId id = table_.create();
  values_.emplace(id, promise);
  ready_.try_emplace(id).first->second.set_value();
  count();
  return std::make_shared<Handle>(shared_from_this(), id);
}

std::shared_ptr<References::Handle> References::create_at(std::uint32_t owner, std::string& request) {
  const std::lock_guard lock(mutex_);
  const auto [id, epoch] = table_.create_at(owner);
  ready_.try_emplace(id);
  count();
  request = to_bytes(ReferenceMessage{ReferenceMessage::Kind::add, id, epoch});
  return std::make_shared<Handle>(shared_from_this(), id);
}

void References::confirmed(const ReferenceId& id, const std::exception_ptr& error) {
  if (error) {
    std::optional<Promise<void>> ready;
    {
      const std::lock_guard lock(mutex_);
      ready = ready_.try_emplace(id).first->second;
    }
    ready->set_exception(error);  // it says more than that the reference is broken
  }
  change([&](ReferenceTable& table, ReferenceTable::Actions& actions) {
    error ? table.creation_failed(id, actions) : table.created(id, actions);
  });
}

Future<void> References::ready(const ReferenceId& id) {
  const std::lock_guard lock(mutex_);
  return ready_.try_emplace(id).first->second.future();
}

void References::release(const ReferenceId& id) {
  std::map<ReferenceId, Promise<Value>>::node_type destroyed;  // without the mutex, as in perform()
  change([&](ReferenceTable& table, ReferenceTable::Actions& actions) {
    table.release(id, actions);
    if (table.has(id)) return;
    ready_.erase(id);
    if (actions.empty()) destroyed = values_.extract(id);  // it was broken
  });
}

// --- Passing
// --------------------------------------------------------------------------------------------------

void References::append(std::string& message, std::span<const std::shared_ptr<Handle>> handles,
                        std::uint32_t to) {
  if (handles.empty()) return append_references(message, {});
  std::vector<PassedReference> passed;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& handle : handles) {
      if (to == agent_->self().id) {
        table_.hold(handle->id());
        passed.push_back({handle->id(), 0});
      } else {
        passed.push_back({handle->id(), table_.pass(handle->id(), to)});
      }
    }
    count();
  }
  append_references(message, passed);
}

void References::ask(std::string_view message) {
  const std::optional<WithReferences> split = split_references(message);
  if (!split) return;
  change([&](ReferenceTable& table, ReferenceTable::Actions& actions) {
    for (const PassedReference& one : split->references) table.ask(one.token, actions);
  });
}

References::Arrived::~Arrived() {
  for (const ReferenceId& id : ids_) owner_->release(id);
}

std::shared_ptr<References::Handle> References::Arrived::handle(const ReferenceId& id) const {
  if (std::ranges::find(ids_, id) == ids_.end())
    throw DistError("a serialised object has a reference that was not passed with it");
  const std::lock_guard lock(owner_->mutex_);
  owner_->table_.hold(id);
  return std::make_shared<Handle>(owner_, id);
}

std::shared_ptr<References::Arrived> References::arrive(std::uint32_t from,
                                                        std::span<const PassedReference> references) {
  if (references.empty()) {  // as in most calls: nothing is made for it, and nothing locked
    static Arrived& none = *new Arrived(nullptr);
    return {std::shared_ptr<void>(), &none};
  }
  std::shared_ptr<Arrived> arrived(new Arrived(shared_from_this()));
  bool is_complete = true;
  change([&](ReferenceTable& table, ReferenceTable::Actions& actions) {
    for (const PassedReference& one : references) {
      if (from == agent_->self().id || table.on_passed(from, one.id, one.token, actions)) {
        arrived->ids_.push_back(one.id);
      } else {
        is_complete = false;
      }
    }
  });
  return is_complete ? arrived : nullptr;
}

void References::discard(std::uint32_t from, std::string_view message) {
  if (const std::optional<WithReferences> split = split_references(message))
    (void)arrive(from, split->references);
}

void References::when_ready(const std::vector<ReferenceId>& ids,
                            const std::function<void(std::exception_ptr)>& then) {
  // The last one that becomes ready goes on.
  auto left = std::make_shared<std::atomic<std::size_t>>(ids.size() + 1);
  auto first_error = std::make_shared<std::pair<std::mutex, std::exception_ptr>>();
  const auto one_less = [left, first_error, then](const std::exception_ptr& error) {
    std::exception_ptr first;
    {
      const std::lock_guard lock(first_error->first);
      if (error && !first_error->second) first_error->second = error;
      first = first_error->second;
    }
    if (left->fetch_sub(1) == 1) then(first);
  };
  for (const ReferenceId& id : ids) {
    ready(id).then([one_less](const Future<void>& done) { one_less(done.exception()); });
  }
  one_less(nullptr);
}

// --- Values
// ---------------------------------------------------------------------------------------------------

std::optional<Future<References::Value>> References::value(const ReferenceId& id) {
  const std::lock_guard lock(mutex_);
  const auto at = values_.find(id);
  return at == values_.end() ? std::nullopt : std::optional(at->second.future());
}

std::optional<Promise<References::Value>> References::on_create(std::uint32_t from, const ReferenceId& id,
                                                                std::uint64_t epoch) {
  const std::lock_guard lock(mutex_);
  const bool is_own = from == agent_->self().id;
  if (id.owner != agent_->self().id || (!is_own && !table_.on_create(from, id, epoch))) return std::nullopt;
  count();
  has_users_ = has_users_ || !is_own;
  if (!ended_ && !tries_ && has_leases()) start_trying();
  return values_.try_emplace(id, Promise<Value>(rpc::rpc_detail::run_callback)).first->second;
}

}  // namespace dlaunch::internal
