#include "runtime/group/world.h"

#include <algorithm>
#include <exception>
#include <numeric>
#include <optional>
#include <utility>

#include "dlaunch/error.h"
#include "runtime/backends/threads/module.h"
#include "runtime/base/comma_separated.h"
#include "runtime/base/deadline.h"
#include "runtime/base/errors.h"
#include "runtime/base/log.h"
#include "runtime/base/process_end.h"
#include "runtime/group/profiler.h"
#include "runtime/record/recorder.h"
#include "runtime/rendezvous/key_value_store.h"
#include "runtime/rendezvous/loss_propagation.h"
#include "runtime/rendezvous/rendezvous.h"
#include "runtime/rendezvous/served_store.h"
#include "store/base/random.h"
#include "store/client/file_store.h"
#include "store/client/prefix_store.h"
#include "store/contract/worker_env.h"

namespace dlaunch {

namespace {

thread_local World* this_threads_world = nullptr;

// One host for all: its loopback interface will do. Else the backend must find the one that reaches the
// others.
std::string meeting_point(const std::vector<std::string>& hosts, const std::string& master_host) {
  const bool one_host = std::ranges::adjacent_find(hosts, std::ranges::not_equal_to{}) == hosts.end();
  return master_host.empty() && one_host ? "localhost" : master_host;
}

std::shared_ptr<Store> connect(const Identity& self, Deadline deadline) {
  try {
    return connect_store(self.master, deadline);
  } catch (const DistStoreError& e) {
    if (self.rank == 0 || self.store_is_served) throw;
    throw DistStoreError("rank 0, which serves the store, has not come: " + e.reason());
  }
}

// A rank that is a thread or a started process cannot be another one.
void require_agreement(const char* what, std::optional<int> given, int told) {
  if (!given || *given == told) return;
  throw DistError(std::string("init_process_group: the option ") + what + " is " + std::to_string(*given) +
                  ", but who started it says " + std::to_string(told) +
                  ", which counts: leave the option out");
}

template <class T>
const T& value_of(const Result<T>& result) {
  if (!result) throw DistError(result.error().message());
  return *result;
}

// How long a rank that gives up stays for the others to hear of it, who may still have to come.
constexpr auto patience = std::chrono::seconds(10);

// Where some compare their calls and others do not, those wait for these in vain.
void warn_of_levels(const std::vector<PeerInfo>& peers) {
  std::vector<int> silent;
  for (std::size_t rank = 0; rank < peers.size(); ++rank) {
    if (!peers[rank].compares) silent.push_back(static_cast<int>(rank));
  }
  if (silent.empty() || silent.size() == peers.size() || !logs(LogLevel::warning)) return;
  log(LogLevel::warning, "the debug level is DETAIL, but not on " + describe_ranks(silent) +
                             ": the others will wait for " + (silent.size() == 1 ? "it" : "them") +
                             " in vain, unless set_debug_level() makes it the same on all");
}

bool is_store_error(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const DistStoreError&) {
    return true;
  } catch (...) {
    return false;
  }
}

std::vector<FailureDetector::Member> members_of(const std::vector<int>& ranks,
                                                const std::vector<PeerInfo>& peers) {
  std::vector<FailureDetector::Member> members;
  members.reserve(ranks.size());
  for (const int rank : ranks) members.push_back({rank, peers[static_cast<std::size_t>(rank)]});
  return members;
}

std::string name_of(const InitOptions& options) {
  return options.group_name.empty() ? "default" : options.group_name;
}

// The default group's that is being made, among all of the job.
std::string identity(const InitOptions& options, const std::string& round, int generation) {
  return "dlaunch/" + round + "/" + name_of(options) + "/" + std::to_string(generation);
}

// FNV-1a; for a name that members of one set of ranks have in common.
std::string hash_of(const std::vector<int>& ranks) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const int rank : ranks) hash = (hash ^ static_cast<std::uint64_t>(rank)) * 0x100000001b3U;
  return std::to_string(hash);
}

std::vector<int> checked_members(std::vector<int> ranks, int world_size) {
  if (ranks.empty()) {
    ranks.resize(static_cast<std::size_t>(world_size));
    std::iota(ranks.begin(), ranks.end(), 0);
  }
  std::ranges::sort(ranks);
  if (ranks.front() < 0 || ranks.back() >= world_size) {
    throw DistError("new_group: the ranks " + comma_separated(ranks) + " are not all ranks of a world of " +
                    std::to_string(world_size));
  }
  if (std::ranges::adjacent_find(ranks) != ranks.end()) {
    throw DistError("new_group: a rank occurs twice in " + comma_separated(ranks));
  }
  return ranks;
}

// The name of a call, for the recorder.
page::Operation recorded_as(const std::string& call) {
  const auto found = std::ranges::find(page::operation_names, call);
  return found == page::operation_names.end()
             ? page::Operation::new_group
             : static_cast<page::Operation>(found - page::operation_names.begin());
}

// What a call of new_group asks for.
struct GroupPlan {
  GroupDescription description;
  std::vector<ChosenModule> modules;
};

// Throws DistError where an argument is wrong.
GroupPlan plan_group(std::string name, const std::vector<int>& ranks, const NewGroupOptions& options,
                     const GroupImpl& all) {
  const GroupDescription& parent = all.description();
  const std::vector<int> members = checked_members(ranks, parent.size);
  const auto own = std::ranges::find(members, parent.rank);
  GroupDescription description{std::move(name),
                               own == members.end() ? -1 : static_cast<int>(own - members.begin()),
                               static_cast<int>(members.size()), options.timeout.value_or(all.timeout()),
                               options.backend.empty() ? parent.backend : plain_name(options.backend)};
  if (!is_timeout(description.timeout)) throw DistError(std::string("new_group: ") + no_timeout_at_all);
  description.ranks = members;
  description.global_rank = parent.rank;
  for (const int member : members) {
    if (static_cast<std::size_t>(member) < parent.hosts.size()) {
      description.hosts.push_back(parent.hosts[static_cast<std::size_t>(member)]);
      description.compares.push_back(parent.compares[static_cast<std::size_t>(member)]);
    }
  }
  std::vector<ChosenModule> modules = choose_modules(registry(), description.backend);
  return {std::move(description), std::move(modules)};
}

// Of what all ranks call, under DebugLevel::detail: before anything is numbered or waited for, so that
// nothing has happened where another rank calls something else.
void compare_with_all(GroupImpl& all, const std::string& operation,
                      std::optional<std::chrono::milliseconds> timeout, const ErrorContext& here) {
  const bool is_right = timeout && is_timeout(*timeout);  // else all are told later what is wrong with it
  ErrorContext context = here;
  context.group = all.description().name;
  all.compare_call(operation + "()", deadline_after(is_right ? *timeout : all.timeout()), context);
}

// What `work` returns. Where it throws, the others, who wait for this rank at `keys`, are told why.
template <class F>
auto or_refuse(Store& keys, const GroupImpl& all, const ErrorContext& here, const F& work) {
  try {
    return work();
  } catch (const DistError& e) {
    try {
      reject_rendezvous(keys, here.rank, e.reason());
    } catch (const StoreError& lost) {
      all.explain(lost, here);
    }
    throw;
  }
}

}  // namespace

Registry& registry() {
  // Never destroyed, as the modules: nobody can tell when the last thread has left their code.
  static Registry& only = []() -> Registry& {
    auto& made = *new Registry(backend_folders());
    (void)made.add(threads_module());  // the name is free: it is the first
    return made;
  }();
  return only;
}

namespace {

// Never destroyed: a program that ends without destroy_process_group must not wait for other ranks in a
// static destructor.
//
// A forked copy of the process that lets go of the original's world gets another; the old one stays, since it
// is not the copy's to end.
std::vector<World*>& worlds_of_process() {
  static std::vector<World*>& all = *new std::vector<World*>{new World};
  return all;
}
World& world_of_process() { return *worlds_of_process().back(); }

void leave_at_process_end() { world_of_process().leave(); }

}  // namespace

World& world() { return this_threads_world ? *this_threads_world : world_of_process(); }

void World::set_preset(Preset preset) {
  // A store that is destroyed says goodbye to the others, as if the process that was copied had done so.
  static std::vector<std::shared_ptr<Store>>& of_the_original = *new std::vector<std::shared_ptr<Store>>;
  if (preset_) of_the_original.push_back(preset_->store);
  preset_ = std::move(preset);
  own_process_ = OwnProcess();
}

ThreadWorld::ThreadWorld(World::Preset preset)
    : world_(std::move(preset)), before_(std::exchange(this_threads_world, &world_)) {}
ThreadWorld::~ThreadWorld() { this_threads_world = before_; }

// In a forked copy a thread that is not there may hold the mutex for ever.
std::unique_lock<std::mutex> World::look() const {
  if (own_process_.load().is_this()) return std::unique_lock(mutex_);
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) throw DistError(forked_copy);
  return lock;
}

// What there is, by fork(), from another process.
bool World::is_copied() const { return !own_process_.load().is_this() && is_initialized(); }

void World::require_own_process(const std::string& operation) const {
  if (!is_copied()) return;
  throw DistError(forked_copy, {.rank = default_group()->description().rank, .operation = operation});
}

bool World::is_initialized() const {
  const auto lock = look();
  return default_ != nullptr;
}

std::shared_ptr<GroupImpl> World::default_group() const {
  const auto lock = look();
  if (!default_) {
    throw DistError("the default process group has not been initialized; call init_process_group() first");
  }
  return default_;
}

std::shared_ptr<Store> World::store() const {
  (void)default_group();
  const auto lock = look();
  return keys_;
}

std::size_t World::group_count() const {
  const auto lock = look();
  return groups_.size() + (default_ ? 1 : 0);
}

World::Made World::make_default(const InitOptions& options, const Identity& self,
                                const std::shared_ptr<Store>& store, const std::vector<ChosenModule>& modules,
                                Deadline deadline) {
  const int rank = self.rank;
  const int world_size = self.world_size;
  const std::string name = name_of(options);
  const std::string backend =
      !options.backend.empty() ? plain_name(options.backend) : (preset_ ? preset_->backend : "gloo");
  int* generation = nullptr;
  std::shared_ptr<Store> keys;
  GroupDescription description{name, rank, world_size, options.timeout, backend};
  description.ranks.resize(static_cast<std::size_t>(world_size));
  std::iota(description.ranks.begin(), description.ranks.end(), 0);
  const std::function<void()> check = preset_ ? preset_->check : nullptr;
  std::vector<PeerInfo> peers;
  try {
    generation = &generation_in(*store);
    identity_ = identity(options, self.round, *generation);
    keys = std::make_shared<PrefixStore>(identity_, store);
    peers = rendezvous(*keys, {.call = "init_process_group",
                               .statement = "a world of " + std::to_string(world_size) +
                                            " ranks and the backend " + in_words(modules),
                               .self = rank,
                               .rank = rank,
                               .members = description.ranks,
                               .deadline = deadline,
                               .check = check,
                               .serves_store = rank == 0 && !self.store_is_served,
                               .liveness_socket = liveness_socket_.get()});
  } catch (const RendezvousRejected&) {
    ++*generation;
    wait_until_peers_informed(*keys, self, world_size, std::min(deadline, deadline_after(patience)));
    throw;
  } catch (const RendezvousPeerLost&) {
    ++*generation;
    wait_until_peers_informed(*keys, self, world_size - 1, deadline_after(loss_propagation_delay));
    throw;
  } catch (const StoreError& e) {
    if (e.error().kind != ErrorKind::network || self.store_is_served || rank == 0) throw;
    throw DistNetworkError(lost_with_the_store + e.what(), {.peer = 0, .host = self.master.host});
  }
  // All ranks are here; what follows may count on their answers, and whatever comes of it, the next attempt
  // is another one for all.
  ++*generation;

  for (const PeerInfo& info : peers) {
    description.hosts.push_back(info.host);
    description.compares.push_back(info.compares);
  }
  if (rank == 0) warn_of_levels(peers);
  std::string master_host = meeting_point(description.hosts, self.master.host);
  const std::optional<int> server = self.store_is_served ? std::nullopt : std::optional(0);
  FailureDetector detector(
      {keys, members_of(description.ranks, peers), rank, server, liveness_socket_.get(), check});
  const auto look = [&detector] { detector.check(); };
  std::vector<GroupImpl::DeviceBackend> backends;
  try {
    backends = make_backends(modules, keys, description, deadline, master_host, look);
  } catch (...) {
    const std::exception_ptr error = std::current_exception();
    if (is_store_error(error) && !has_passed(deadline))
      wait_for_root_error(deadline_after(loss_propagation_delay), look);
    detector.report(error);
    wait_until_peers_informed(*keys, self, world_size - 1, deadline_after(loss_propagation_delay));
    throw;
  }
  return {make_group(std::move(description), std::move(backends), keys, identity_), keys,
          std::move(master_host), std::move(peers)};
}

// Ranks that are threads, or a worker's own children, are none that the agent knows.
std::shared_ptr<GroupImpl> World::make_group(GroupDescription description,
                                             std::vector<GroupImpl::DeviceBackend> backends,
                                             std::shared_ptr<Store> keys, const std::string& identity) const {
  GroupRecorder record;
  if (description.rank >= 0 && !preset_) {
    record = recorder().add(
        {identity, description.name, description.backend, description.rank, description.ranks});
  }
  return std::make_shared<GroupImpl>(std::move(description), std::move(backends), std::move(keys), record);
}

void World::init(const InitOptions& options) {
  (void)get_debug_level();  // a wrong variable is said now
  require_own_process("init_process_group");
  own_process_ = OwnProcess();
  const std::lock_guard making(making_);
  if (is_initialized()) throw DistError("the default process group is already initialized");
  if (!is_timeout(options.timeout)) throw DistError(no_timeout_at_all);
  init_with(options);
}

std::shared_ptr<Store> World::open_store(const InitOptions& options, const InitMethod& method,
                                         const Identity& self, Deadline deadline) const {
  if (options.store) return inner_store(options.store);
  if (preset_) return preset_->store;
  if (method.kind == InitMethod::Kind::file) {
    FileStoreOptions file;
    file.path = method.path;
    file.world_size = self.world_size;
    file.timeout = time_left(deadline);
    return std::make_shared<FileStore>(file);
  }
  if (self.rank == 0 && !self.store_is_served) serve_store_of_rank_zero(self.master);
  return connect(self, deadline);
}

// That the attempt has failed, as this rank has. Where this rank serves the store, which may end with its
// process now, it stays until as many ranks as hear of it have heard, or have had time to.
void World::wait_until_peers_informed(Store& keys, const Identity& self, int informed_ranks,
                                      Deadline deadline) {
  const std::string done = "all have heard";
  try {
    if (keys.add("heard", 1) == informed_ranks) keys.set(done, "");
    if (self.rank == 0 && !self.store_is_served) keys.wait({&done, 1}, time_left(deadline));
  } catch (const StoreError&) {  // NOLINT(bugprone-empty-catch): somebody is late, or it was not only refused
  }
}

// Before anything is waited for. Where the backend is not usable here the others hear it, if there is a store
// soon: they would wait for this rank.
std::vector<ChosenModule> World::choose_or_decline(const std::string& backend, const InitOptions& options,
                                                   const InitMethod& method, const Identity& self,
                                                   Deadline deadline) {
  try {
    return choose_modules(registry(), backend);
  } catch (const DistBackendError& e) {
    try {
      const Deadline soon = std::min(deadline, deadline_after(patience));
      const std::shared_ptr<Store> store = open_store(options, method, self, soon);
      int& generation = generation_in(*store);
      PrefixStore keys(identity(options, self.round, generation), store);
      reject_rendezvous(keys, self.rank, e.reason());
      ++generation;
      wait_until_peers_informed(keys, self, self.world_size, soon);
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): then they find out by themselves
    }
    throw;
  }
}

int& World::generation_in(Store& store) {
  return generations_[store.compare_set("dlaunch/store", "", std::to_string(random_u64()))];
}

// Which rank this process is, and where the store is.
Identity World::identify_self(const InitOptions& options, const InitMethod& method) const {
  if (options.store && !options.init_method.empty()) {
    throw DistError("init_process_group was given a store and the init_method '" + options.init_method +
                    "': the ranks find each other through one of them; leave the other out");
  }
  const GivenRank given = value_of(combine(options.rank, options.world_size, method.given));
  Identity self;
  if (preset_) {
    self.rank = preset_->rank;
    self.world_size = preset_->size;
    require_agreement("rank", given.rank, self.rank);
    require_agreement("world_size", given.world_size, self.world_size);
  } else if (!options.store && method.kind == InitMethod::Kind::env) {
    return value_of(identify(process_environment, given));
  } else {
    self = value_of(identify(given));
  }
  if (options.store || preset_ || method.kind == InitMethod::Kind::file) {
    self.store_is_served = true;
  } else {
    self.master = method.address;
  }
  return self;
}

// With making_ held.
void World::init_with(const InitOptions& options) {
  const InitMethod method = value_of(parse_init_method(options.init_method));
  const Identity self = identify_self(options, method);
  try {
    const std::string backend =
        !options.backend.empty() ? plain_name(options.backend) : (preset_ ? preset_->backend : "gloo");
    const Deadline deadline = deadline_after(options.timeout);
    const std::vector<ChosenModule> modules = choose_or_decline(backend, options, method, self, deadline);
    const std::shared_ptr<Store> store = open_store(options, method, self, deadline);
    liveness_socket_ = open_liveness_socket(preset_ ? "localhost" : self.master.host);
    if (const auto page = process_environment(env::worker_page); page && !preset_) {
      recorder().open(*page, self.rank, self.world_size);
    }
    // To the first one a program may take its time: it starts, and reads its data.
    std::optional<WaitRecord> waiting;
    if (!generations_.empty()) waiting.emplace();
    Made made = make_default(options, self, store, modules, deadline);
    waiting.reset();
    if (const auto trace = process_environment("DLAUNCH_TRACE"); trace && !trace->empty()) {
      start_trace(trace_path(*trace, self.rank));
    }
    if (logs(LogLevel::info)) {
      log(LogLevel::info, "rank " + std::to_string(self.rank) + " of " + std::to_string(self.world_size) +
                              " has met the others; backend " + backend);
    }
    if (!this_threads_world) at_process_end<leave_at_process_end>();
    const std::lock_guard lock(mutex_);
    default_ = std::move(made.group);
    keys_ = std::move(made.keys);
    master_host_ = std::move(made.master_host);
    peers_ = std::move(made.peers);
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

// With local synchronization nobody can be told of wrong members, since they are who would be.
namespace {

// A rank that is no member only compares what it says. It may come when the members have done all that they
// wanted and left, and with them the one that served the store: then there is nothing to compare with.
void join_group(Store& keys, const RendezvousOptions& rendezvous_options, const GroupImpl& all,
                const ErrorContext& here) {
  try {
    rendezvous(keys, rendezvous_options);
  } catch (const StoreError& lost) {
    if (rendezvous_options.rank >= 0 || lost.error().kind == ErrorKind::timeout) throw;
    try {
      all.explain_lost_store(lost.what(), here);
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
  ErrorContext here{.rank = all->description().rank, .operation = operation};
  std::string key;
  std::string name;
  // The number first: the others have taken theirs, whatever may be wrong on this rank.
  if (options.use_local_synchronization) {
    const std::vector<int> members = checked_members(ranks, all->description().size);
    if (!std::ranges::binary_search(members, all->description().rank)) return {};
    here.sequence = static_cast<std::uint64_t>(++local_groups_made_[members]);
    key = "local/" + hash_of(members) + "/" + std::to_string(here.sequence);
    name = "local " + comma_separated(members);
  } else {
    here.sequence = static_cast<std::uint64_t>(groups_made_ + 1);
    compare_with_all(*all, operation, options.timeout, here);
    name = std::to_string(++groups_made_);
    key = "group/" + name;
  }
  if (!options.name.empty()) name = options.name;
  here.group = name;
  const auto keys = std::make_shared<PrefixStore>(key, store());
  const GroupPlan plan =
      or_refuse(*keys, *all, here, [&] { return plan_group(std::move(name), ranks, options, *all); });
  GroupDescription description = plan.description;
  try {
    const std::vector<int>& members = plan.description.ranks;
    const Timeout limit = timeout_from_now(description.timeout);
    const Deadline deadline = limit.deadline();
    FailureDetector detector(
        {keys, members_of(members, peers_), description.rank, {}, liveness_socket_.get(), [&] {
           all->throw_if_lost(members);
         }});
    const auto check = [&detector] { detector.check(); };
    const WaitRecord waiting;
    Recording recording(all->recorder(),
                        all->recorder().begin({.operation = recorded_as(operation), .input = members.size()},
                                              group_count(), -1, limit));
    join_group(
        *keys,
        {.call = operation,
         .statement = "the ranks " + comma_separated(members) + " and the backend " + in_words(plan.modules),
         .self = here.rank,
         .rank = description.rank,
         .members = members,
         .hosts = all->description().hosts,
         .deadline = deadline,
         .check = check},
        *all, here);
    std::vector<GroupImpl::DeviceBackend> backends;
    if (description.rank >= 0) {
      try {
        backends = make_backends(plan.modules, keys, description, deadline, master_host_, check);
      } catch (...) {
        const std::exception_ptr error = std::current_exception();
        if (is_store_error(error) && !has_passed(deadline)) all->explain_lost_store(reason_of(error), here);
        detector.report(error);
        throw;
      }
    }
    const auto made = make_group(std::move(description), std::move(backends), keys, identity_ + "/" + key);
    all->recorder().end(recording.hand_over(), true);
    const std::lock_guard lock(mutex_);
    groups_.push_back(made);
    return GroupImpl::handle(made);
  } catch (const StoreError& e) {
    all->explain(e, here);
  } catch (...) {
    std::rethrow_exception(in_context(std::current_exception(), here));
  }
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

void World::agree(const Agreement& agreement, const std::function<void()>& check_arguments) {
  require_own_process(agreement.operation);
  const std::lock_guard making(making_);
  const std::shared_ptr<GroupImpl> all = default_group();
  const ErrorContext here{.rank = all->description().rank,
                          .operation = agreement.operation,
                          .sequence = static_cast<std::uint64_t>(agreements_ + 1),
                          .group = all->description().name};
  compare_with_all(*all, agreement.operation, agreement.timeout, here);
  PrefixStore keys("meeting/" + std::to_string(++agreements_), store());
  or_refuse(keys, *all, here, check_arguments);
  const auto own = std::ranges::find(agreement.ranks, here.rank);
  const WaitRecord waiting;
  const Timeout limit = timeout_from_now(agreement.timeout.value_or(all->timeout()));
  Recording recording(all->recorder(), all->recorder().begin({.operation = recorded_as(agreement.operation),
                                                              .input = agreement.ranks.size()},
                                                             0, -1, limit));
  try {
    rendezvous(keys,
               {.call = agreement.operation,
                .statement = agreement.statement,
                .self = here.rank,
                .rank = own == agreement.ranks.end() ? -1 : static_cast<int>(own - agreement.ranks.begin()),
                .members = agreement.ranks,
                .hosts = all->description().hosts,
                .deadline = limit.deadline(),
                .check = [&] { all->throw_if_lost(agreement.ranks); }});
    all->recorder().end(recording.hand_over(), true);
  } catch (const StoreError& e) {
    all->explain(e, here);
  } catch (...) {
    std::rethrow_exception(in_context(std::current_exception(), here));
  }
}

void World::abort_all(const std::string& reason) {
  require_own_process("abort_process_group");
  std::vector<std::shared_ptr<GroupImpl>> all;
  {
    const std::lock_guard lock(mutex_);
    all = groups_;
    if (default_) all.push_back(default_);
  }
  for (const std::shared_ptr<GroupImpl>& group : all) {
    if (group->description().rank >= 0) group->abort(reason);
  }
}

void World::leave() {
  if (!own_process_.load().is_this()) return;
  // A peer that is there answers at once, a dead one needs nothing; so this is for one that stands still.
  // Each group has time for its own goodbye.
  constexpr auto limit = std::chrono::seconds(2);
  constexpr auto least = std::chrono::milliseconds(50);
  std::vector<std::shared_ptr<GroupImpl>> all;
  {
    const std::lock_guard lock(mutex_);
    all = groups_;
    if (default_) all.push_back(default_);
  }
  const Deadline deadline = deadline_after(limit);
  for (const std::shared_ptr<GroupImpl>& group : all) group->leave(std::max(deadline, deadline_after(least)));
}

void World::destroy_all() {
  if (is_copied()) {
    if (!this_threads_world) worlds_of_process().push_back(new World);
    return;
  }
  const std::lock_guard making(making_);
  const std::shared_ptr<GroupImpl> last = default_group();
  // Before the other ranks hear of it, and their agents look.
  if (!preset_ && std::uncaught_exceptions() > 0) recorder().leave_in_exception();
  std::vector<std::shared_ptr<GroupImpl>> others;
  {
    const std::lock_guard lock(mutex_);
    others.swap(groups_);
  }
  for (const std::shared_ptr<GroupImpl>& group : others) group->destroy();
  last->destroy();
  if (!this_threads_world) stop_trace();  // of several ranks in one process none speaks for all
  const std::lock_guard lock(mutex_);
  default_ = nullptr;
  keys_ = nullptr;
}

}  // namespace dlaunch
