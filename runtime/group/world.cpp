#include "runtime/group/world.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <optional>
#include <utility>

#include "dlaunch/error.h"
#include "runtime/base/comma_separated.h"
#include "runtime/base/deadline.h"
#include "runtime/base/errors.h"
#include "runtime/base/log.h"
#include "runtime/base/process_end.h"
#include "runtime/group/coordinated_call.h"
#include "runtime/group/group_plan.h"
#include "runtime/group/group_rendezvous.h"
#include "runtime/group/profiler.h"
#include "runtime/record/crash_recorder.h"
#include "runtime/record/recorder.h"
#include "store/client/prefix_store.h"
#include "store/contract/worker_env.h"

namespace dlaunch::internal {

namespace {

thread_local World* this_threads_world = nullptr;

}  // namespace

namespace {

// Never destroyed: a program that ends without destroy_process_group must not wait for other ranks in a
// static destructor.
//
// If a forked copy of the process calls destroy_process_group, it gets a new world; the old one stays, since
// its objects belong to the original.
World& add_world_of_process() {
  static std::vector<World*>& all = *new std::vector<World*>;
  all.push_back(new World);
  world_of_process.store(all.back(), std::memory_order_release);
  return *all.back();
}

// A process may have made separate groups alone.
void leave_at_process_end() {
  if (World* const latest = world_of_process.load(std::memory_order_acquire)) latest->leave();
}

}  // namespace

World& find_world() {
  if (this_threads_world != nullptr) return *this_threads_world;
  [[maybe_unused]] static const World& first = add_world_of_process();
  return *world_of_process.load(std::memory_order_acquire);
}

void World::set_preset(Preset preset) {
  // Never destroyed: a store's destructor would send a goodbye message in the name of the original process.
  static std::vector<std::shared_ptr<Store>>& of_the_original = *new std::vector<std::shared_ptr<Store>>;
  if (preset_) of_the_original.push_back(preset_->store);
  preset_ = std::move(preset);
  own_process_ = OwnProcess();
}

ThreadWorld::ThreadWorld(World::Preset preset)
    : world_(std::move(preset)), before_(std::exchange(this_threads_world, &world_)) {
  made.store(true, std::memory_order_relaxed);
}
ThreadWorld::~ThreadWorld() { this_threads_world = before_; }

// In a forked copy a thread that exists only in the original may hold the mutex for ever.
std::unique_lock<std::mutex> World::look() const {
  if (own_process_.load().is_this()) return std::unique_lock(mutex_);
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) throw DistError(forked_copy);
  return lock;
}

// Whether the groups are those of another process, by fork().
bool World::is_copied() const { return !own_process_.load().is_this() && is_initialized(); }

void World::require_own_process(const std::string& operation) const {
  if (!is_copied()) return;
  throw DistError(forked_copy, {.rank = default_group()->description().rank, .operation = operation});
}

bool World::is_initialized() const {
  const auto lock = look();
  return default_.has_value();
}

std::shared_ptr<GroupImpl> World::default_group() const {
  const auto lock = look();
  if (!default_) throw_uninitialized();
  return default_->group;
}

void World::throw_uninitialized() {
  throw DistError("the default process group has not been initialized; call init_process_group() first");
}

std::shared_ptr<Store> World::store() const {
  (void)default_group();
  const auto lock = look();
  return default_->keys;
}

std::size_t World::group_count() const {
  const auto lock = look();
  return groups_.size() + (default_ ? 1 : 0);
}

void World::init(const InitOptions& options) {
  (void)get_debug_level();  // a wrong variable throws now
  require_own_process("init_process_group");
  own_process_ = OwnProcess();
  const std::lock_guard making(making_);
  if (is_initialized()) throw DistError("the default process group is already initialized");
  if (!is_timeout(options.timeout)) throw DistError(no_timeout_at_all);
  init_with(options);
}

// With making_ held.
void World::init_with(const InitOptions& options) {
  DefaultGroupInit attempt(options, preset_, generations_);
  const Identity& self = attempt.self();
  try {
    std::optional<FormingRecord> forming;
    if (const auto page = process_environment(env::worker_page); page && !preset_) {
      if (is_whole_job()) {
        recorder().open(*page, self.rank, self.world_size);
        record_crashes(recorder().page());
      }
      forming.emplace();
    }
    attempt.prepare();
    liveness_socket_ = open_liveness_socket(preset_ ? "localhost" : self.master.host);
    // For --hang-timeout the wait for the first group is none: a program may take its time to start and to
    // read its data.
    std::optional<WaitRecord> waiting;
    if (!generations_.empty()) waiting.emplace();
    DefaultGroup made = attempt.form(liveness_socket_.get(), separate_.value_or(std::vector<int>()));
    waiting.reset();
    forming.reset();
    if (const auto trace = process_environment("DLAUNCH_TRACE"); trace && !trace->empty() && is_whole_job()) {
      profiler().start_trace_once(trace_path(*trace, self.rank));
    }
    if (logs(LogLevel::info)) {
      log(LogLevel::info, "rank " + std::to_string(self.rank) + " of " + std::to_string(self.world_size) +
                              " has joined; backend " + attempt.backend());
    }
    if (!this_threads_world) at_process_end<leave_at_process_end>();
    auto handle = std::make_shared<const ProcessGroup>(GroupImpl::handle(made.group));
    const std::lock_guard lock(mutex_);
    default_ = std::move(made);
    group_of_calls_.set(std::move(handle));
    groups_made_ = 0;
    local_groups_made_.clear();
    agreements_ = 0;
  } catch (const StoreError& e) {
    throw DistStoreError(e.what(), {.rank = self.rank, .operation = "init_process_group"});
  } catch (...) {
    std::rethrow_exception(
        in_context(std::current_exception(), {.rank = self.rank, .operation = "init_process_group"}));
  }
}

namespace {

// A rank that does not wait only compares its statement. It may come after the members have left, and with
// them the rank that served the store: then there is nothing to compare with.
void meet_members(GroupRendezvous& forming, const CoordinatedCall& call, bool waits) {
  try {
    forming.meet();
  } catch (const StoreError& lost) {
    if (waits || lost.error().kind == ErrorKind::timeout) throw;
    try {
      call.all().explain_lost_store(lost.what(), call.context());
    } catch (const DistNetworkError& e) {
      if (!e.reason().starts_with(std::string(left_the_group) + ", and the store is lost")) throw;
    }
  }
}

}  // namespace

ProcessGroup World::new_group(const std::string& operation, const std::vector<int>& ranks,
                              const NewGroupOptions& options) {
  require_own_process(operation);
  const std::lock_guard making(making_);
  const std::shared_ptr<GroupImpl> all = default_group();
  std::uint64_t sequence = 0;
  std::string key;
  std::string name;
  // The number first: the others have taken theirs, even if something is wrong on this rank. With local
  // synchronization wrong members are not reported to anybody, since they are the ones to report to.
  if (options.use_local_synchronization) {
    const std::vector<int> members = checked_members(ranks, all->description().size);
    if (!std::ranges::binary_search(members, all->description().rank)) return {};
    sequence = static_cast<std::uint64_t>(++local_groups_made_[members]);
    key = "local/" + hash_of(members) + "/" + std::to_string(sequence);
    name = "local " + comma_separated(members);
  } else {
    sequence = static_cast<std::uint64_t>(groups_made_ + 1);
    compare_with_all(*all, operation, sequence, options.timeout);
    name = std::to_string(++groups_made_);
    key = "group/" + name;
  }
  if (!options.name.empty()) name = options.name;
  const CoordinatedCall call(all, operation, sequence, name);
  const auto keys = std::make_shared<PrefixStore>(key, store());
  const GroupPlan plan = call.or_reject(*keys, [&] { return plan_group(name, ranks, options, *all); });
  return call.run([&] {
    const auto made = form_group(call, plan, keys, default_->identity + "/" + key);
    const std::lock_guard lock(mutex_);
    groups_.push_back(made);
    return GroupImpl::handle(made);
  });
}

// With making_ held.
std::shared_ptr<GroupImpl> World::form_group(const CoordinatedCall& call, const GroupPlan& plan,
                                             const std::shared_ptr<Store>& keys,
                                             const std::string& identity) const {
  const GroupDescription& group = plan.description;
  GroupImpl& all = call.all();
  const bool is_member = group.rank >= 0;
  const bool is_split = plan.split.module != nullptr;
  const std::vector<int>& waiting = is_split ? all.description().ranks : group.ranks;
  const Timeout limit = timeout_from_now(group.timeout);
  GroupRendezvous forming(keys, {.call = call.context().operation,
                                 .statement = "the ranks " + comma_separated(group.ranks) +
                                              " and the backend " + in_words(plan.modules),
                                 .self = call.self(),
                                 .rank = is_split ? call.self() : group.rank,
                                 .members = waiting,
                                 .hosts = all.description().hosts,
                                 .deadline = limit.deadline(),
                                 .check = [&] { all.throw_if_lost(waiting); }});
  forming.detect_failures(group.ranks, default_->peers, {}, liveness_socket_.get());
  CallRecord record(call, group.ranks.size(), group_count(), limit);
  meet_members(forming, call, is_member || is_split);
  std::vector<GroupImpl::DeviceBackend> backends;
  if (is_member || is_split) {
    try {
      if (is_member) {
        backends = forming.connect(plan.modules, group, default_->master_host, plan.split);
      } else {
        plan.split.backend->split_without_this_rank(limit.deadline(), [&] { forming.check(); });
      }
    } catch (...) {
      const std::exception_ptr error = std::current_exception();
      forming.report_failure(error, [&] { all.explain_lost_store(reason_of(error), call.context()); });
      const int peer = peer_of(error);
      if (!is_member || peer < 0 || static_cast<std::size_t>(peer) >= group.ranks.size()) throw;
      std::rethrow_exception(with_peer(error, group.ranks[static_cast<std::size_t>(peer)]));
    }
  }
  std::shared_ptr<GroupImpl> made = make_group(group, std::move(backends), keys, identity, !preset_);
  record.succeed();
  return made;
}

void World::agree(const Agreement& agreement, const std::function<void()>& check_arguments) {
  require_own_process(agreement.operation);
  const std::lock_guard making(making_);
  const std::shared_ptr<GroupImpl> all = default_group();
  const auto sequence = static_cast<std::uint64_t>(agreements_ + 1);
  const CoordinatedCall call(all, agreement.operation, sequence, all->description().name);
  compare_with_all(*all, agreement.operation, sequence, agreement.timeout);
  const auto keys = std::make_shared<PrefixStore>("meeting/" + std::to_string(++agreements_), store());
  call.or_reject(*keys, check_arguments);
  const auto own = std::ranges::find(agreement.ranks, call.self());
  const Timeout limit = timeout_from_now(agreement.timeout.value_or(all->timeout()));
  CallRecord record(call, agreement.ranks.size(), 0, limit);
  GroupRendezvous forming(
      keys, {.call = agreement.operation,
             .statement = agreement.statement,
             .self = call.self(),
             .rank = own == agreement.ranks.end() ? -1 : static_cast<int>(own - agreement.ranks.begin()),
             .members = agreement.ranks,
             .hosts = all->description().hosts,
             .deadline = limit.deadline(),
             .check = [&] { all->throw_if_lost(agreement.ranks); }});
  call.run([&] { forming.meet(); });
  record.succeed();
}

void World::destroy(const ProcessGroup& group) {
  if (is_copied()) return;
  const std::lock_guard making(making_);
  std::shared_ptr<GroupImpl> found;
  {
    const std::lock_guard lock(mutex_);
    const auto entry = std::ranges::find_if(
        groups_, [&](const std::shared_ptr<GroupImpl>& one) { return GroupImpl::handle(one) == group; });
    if (entry == groups_.end())
      throw DistError("destroy_process_group: no such group, or it is destroyed already");
    found = *entry;
    groups_.erase(entry);
  }
  found->destroy();
}

void World::abort_all(const std::string& reason) {
  require_own_process("abort_process_group");
  std::vector<std::shared_ptr<GroupImpl>> all;
  {
    const std::lock_guard lock(mutex_);
    all = groups_;
    if (default_) all.push_back(default_->group);
  }
  for (const std::shared_ptr<GroupImpl>& group : all) {
    if (group->description().rank >= 0) group->abort(reason);
  }
}

void World::leave() {
  if (!own_process_.load().is_this()) return;
  // A live peer answers at once and a dead one is not waited for; so the limit is for a stopped process.
  // Each group has time for its own goodbye message.
  constexpr auto limit = std::chrono::seconds(2);
  constexpr auto least = std::chrono::milliseconds(50);
  std::vector<std::shared_ptr<GroupImpl>> all;
  {
    const std::lock_guard lock(mutex_);
    all = groups_;
    if (default_) all.push_back(default_->group);
  }
  const Deadline deadline = deadline_after(limit);
  for (const std::shared_ptr<GroupImpl>& group : all) group->leave(std::max(deadline, deadline_after(least)));
}

void World::destroy_all() {
  if (is_copied()) {
    if (!this_threads_world) add_world_of_process();
    return;
  }
  const std::lock_guard making(making_);
  const std::shared_ptr<GroupImpl> last = default_group();
  // Before the other ranks are informed and their agents read the record.
  if (!preset_ && std::uncaught_exceptions() > 0) recorder().leave_in_exception();
  std::vector<std::shared_ptr<GroupImpl>> others;
  {
    const std::lock_guard lock(mutex_);
    others.swap(groups_);
  }
  for (const std::shared_ptr<GroupImpl>& group : others) group->destroy();
  last->destroy();
  if (!this_threads_world && is_whole_job()) stop_trace();  // threads of one process share the trace
  group_of_calls_.set(nullptr);
  const std::lock_guard lock(mutex_);
  default_.reset();
}

}  // namespace dlaunch::internal
