#include "runtime/group/default_group.h"

#include <algorithm>
#include <cstddef>
#include <exception>
#include <numeric>
#include <utility>

#include "dlaunch/error.h"
#include "runtime/backends/threads/module.h"
#include "runtime/base/comma_separated.h"
#include "runtime/base/deadline.h"
#include "runtime/base/log.h"
#include "runtime/group/backend_world.h"
#include "runtime/group/group_rendezvous.h"
#include "runtime/rendezvous/job_store.h"
#include "runtime/rendezvous/key_value_store.h"
#include "runtime/rendezvous/loss_propagation.h"
#include "runtime/rendezvous/rendezvous.h"
#include "store/base/random.h"
#include "store/client/prefix_store.h"

namespace dlaunch::internal {

namespace {

// If all ranks are on one host, its loopback interface suffices. Otherwise the backend must choose the
// interface that reaches the other hosts.
std::string meeting_point(const std::vector<std::string>& hosts, const std::string& master_host) {
  const bool one_host = std::ranges::adjacent_find(hosts, std::ranges::not_equal_to{}) == hosts.end();
  return master_host.empty() && one_host ? "localhost" : master_host;
}

// A rank that is a thread, or that spawn() has started, cannot choose another number.
void require_agreement(const char* what, std::optional<int> given, int told) {
  if (!given || *given == told) return;
  throw DistError(std::string("init_process_group: the option ") + what + " is " + std::to_string(*given) +
                  ", but the program that started this rank set it to " + std::to_string(told) +
                  ": leave the option out");
}

template <class T>
const T& value_of(const Result<T>& result) {
  if (!result) throw DistError(result.error().message());
  return *result;
}

// How long a rank that gives up keeps the store alive for ranks that are still to read the reason.
constexpr auto patience = std::chrono::seconds(10);

// If only some ranks compare their calls, they time out waiting for the others.
void warn_of_levels(const std::vector<PeerInfo>& peers) {
  std::vector<int> silent;
  for (std::size_t rank = 0; rank < peers.size(); ++rank) {
    if (!peers[rank].compares) silent.push_back(static_cast<int>(rank));
  }
  if (silent.empty() || silent.size() == peers.size() || !logs(LogLevel::warning)) return;
  log(LogLevel::warning, "the debug level is DETAIL, but not on " + describe_ranks(silent) +
                             ": collectives of the other ranks will time out. "
                             "Set one level on all ranks: set_debug_level()");
}

std::string backend_name(const InitOptions& options, const std::optional<RankPreset>& preset) {
  if (!options.backend.empty()) return plain_name(options.backend);
  if (preset) return preset->backend;
  return registry().find("nccl") ? "cpu:gloo,cuda:nccl" : "gloo";
}

}  // namespace

Registry& registry() {
  // Never destroyed, like the modules: it is unknown when the last thread has left their code.
  static Registry& only = []() -> Registry& {
    auto& made = *new Registry(backend_folders());
    (void)made.add(threads_module());  // the name is free: it is the first
    return made;
  }();
  return only;
}

DefaultGroupInit::DefaultGroupInit(const InitOptions& options, const std::optional<RankPreset>& preset,
                                   Generations& generations)
    : options_(options),
      preset_(preset),
      generations_(generations),
      method_(value_of(parse_init_method(options.init_method))),
      self_(identify_self()) {}

void DefaultGroupInit::prepare() {
  backend_ = backend_name(options_, preset_);
  deadline_ = deadline_after(options_.timeout);
  modules_ = choose_or_reject();
  store_ = open_store(deadline_);
}

// Which rank this process is, and where the store is.
Identity DefaultGroupInit::identify_self() const {
  if (options_.store && !options_.init_method.empty()) {
    throw DistError("init_process_group was given a store and the init_method '" + options_.init_method +
                    "': the ranks find each other through one of them; leave the other out");
  }
  const GivenRank given = value_of(combine(options_.rank, options_.world_size, method_.given));
  Identity self;
  if (preset_) {
    self.rank = preset_->rank;
    self.world_size = preset_->size;
    require_agreement("rank", given.rank, self.rank);
    require_agreement("world_size", given.world_size, self.world_size);
  } else if (!options_.store && method_.kind == InitMethod::Kind::env) {
    if (!given.rank && !given.world_size) {
      const std::optional<Identity> found = identify_by_backend(
          backend_name(options_, preset_), process_environment, deadline_after(options_.timeout));
      if (found) return *found;
    }
    return value_of(identify(process_environment, given));
  } else {
    self = value_of(identify(given));
  }
  if (options_.store || preset_ || method_.kind == InitMethod::Kind::file) {
    self.store_is_served = true;
  } else {
    self.master = method_.address;
  }
  return self;
}

std::shared_ptr<Store> DefaultGroupInit::open_store(Deadline deadline) const {
  if (options_.store) return inner_store(options_.store);
  if (preset_) return preset_->store;
  return open_job_store(method_, self_, deadline);
}

// Before anything is waited for. If there is a store soon, the others are informed there: they would wait for
// this rank.
std::vector<ChosenModule> DefaultGroupInit::choose_or_reject() {
  try {
    return choose_modules(registry(), backend_);
  } catch (const DistBackendError& e) {
    try {
      const Deadline soon = std::min(deadline_, deadline_after(patience));
      const std::shared_ptr<Store> store = open_store(soon);
      int& generation = generation_in(*store);
      PrefixStore keys(identity(generation), store);
      reject_rendezvous(keys, self_.rank, e.reason());
      ++generation;
      wait_until_peers_informed(keys, self_.world_size, soon);
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): the others detect it themselves
    }
    throw;
  }
}

int& DefaultGroupInit::generation_in(Store& store) {
  return generations_[store.compare_set("dlaunch/store", "", std::to_string(random_u64()))];
}

std::string DefaultGroupInit::identity(int generation) const {
  const std::string& name = options_.group_name;
  return "dlaunch/" + self_.round + "/" + (name.empty() ? "default" : name) + "/" +
         std::to_string(generation);
}

// The attempt has failed on this rank. If this rank serves the store, which may end with its process now, it
// stays until `informed_ranks` have read of the failure, or have had time to.
void DefaultGroupInit::wait_until_peers_informed(Store& keys, int informed_ranks, Deadline deadline) const {
  const std::string done = "all have heard";
  try {
    if (keys.add("heard", 1) == informed_ranks) keys.set(done, "");
    if (serves_store()) keys.wait({&done, 1}, time_left(deadline));
  } catch (const StoreError&) {  // NOLINT(bugprone-empty-catch): a rank is late or lost, too
  }
}

// All ranks leave this with the same generation.
std::vector<PeerInfo> DefaultGroupInit::meet(GroupRendezvous& forming, Store& keys, int& generation) const {
  std::vector<PeerInfo> peers;
  try {
    peers = forming.meet();
  } catch (const RendezvousRejected&) {
    ++generation;
    wait_until_peers_informed(keys, self_.world_size, std::min(deadline_, deadline_after(patience)));
    throw;
  } catch (const RendezvousPeerLost&) {
    ++generation;
    wait_until_peers_informed(keys, self_.world_size - 1, deadline_after(loss_propagation_delay));
    throw;
  }
  ++generation;
  return peers;
}

DefaultGroup DefaultGroupInit::form(const LivenessSocket* liveness_socket, std::vector<int> ranks) {
  const int rank = self_.rank;
  const std::string& name = options_.group_name;
  GroupDescription description{name.empty() ? "default" : name, rank, self_.world_size, options_.timeout,
                               backend_};
  description.cuda_device = options_.device_id;
  description.ranks.resize(static_cast<std::size_t>(self_.world_size));
  std::iota(description.ranks.begin(), description.ranks.end(), 0);

  DefaultGroup made;
  std::optional<GroupRendezvous> forming;
  try {
    int& generation = generation_in(*store_);
    made.identity = identity(generation);
    made.keys = std::make_shared<PrefixStore>(made.identity, store_);
    forming.emplace(made.keys,
                    RendezvousOptions{.call = "init_process_group",
                                      .statement = "a world of " + std::to_string(self_.world_size) +
                                                   " ranks and the backend " + in_words(modules_),
                                      .self = rank,
                                      .rank = rank,
                                      .members = description.ranks,
                                      .deadline = deadline_,
                                      .check = preset_ ? preset_->check : nullptr,
                                      .serves_store = serves_store(),
                                      .liveness_socket = liveness_socket});
    made.peers = meet(*forming, *made.keys, generation);
  } catch (const StoreError& e) {
    if (e.error().kind != ErrorKind::network || self_.store_is_served || rank == 0) throw;
    throw DistNetworkError(lost_with_the_store + e.what(), {.peer = 0, .host = self_.master.host});
  }
  // All ranks are here: what follows may rely on their answers.
  for (const PeerInfo& info : made.peers) {
    description.hosts.push_back(info.host);
    description.compares.push_back(info.compares);
  }
  if (rank == 0) warn_of_levels(made.peers);
  made.master_host = meeting_point(description.hosts, self_.master.host);
  forming->detect_failures(description.ranks, made.peers,
                           self_.store_is_served ? std::nullopt : std::optional(0), liveness_socket);
  std::vector<GroupImpl::DeviceBackend> backends;
  try {
    backends = forming->connect(modules_, description, made.master_host);
  } catch (...) {
    forming->report_failure(std::current_exception(), [&] {
      wait_for_root_error(deadline_after(loss_propagation_delay), [&] { forming->check(); });
    });
    wait_until_peers_informed(*made.keys, self_.world_size - 1, deadline_after(loss_propagation_delay));
    throw;
  }
  if (!ranks.empty()) description.ranks = std::move(ranks);
  // Ranks that are threads, or a worker's own children, are unknown to the agent.
  made.group = make_group(std::move(description), std::move(backends), made.keys, made.identity, !preset_);
  return made;
}

}  // namespace dlaunch::internal
