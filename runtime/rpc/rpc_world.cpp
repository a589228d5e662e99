#include "runtime/rpc/rpc_world.h"

#include <unistd.h>

#include <optional>
#include <sstream>
#include <utility>

#include "dlaunch/error.h"
#include "runtime/base/deadline.h"
#include "runtime/base/host_name.h"
#include "runtime/base/process_end.h"
#include "runtime/group/profiler.h"
#include "runtime/group/world.h"
#include "runtime/record/crash_recorder.h"
#include "runtime/record/recorder.h"
#include "runtime/rendezvous/failure_detector.h"
#include "runtime/rendezvous/job_store.h"
#include "runtime/rendezvous/key_value_store.h"
#include "runtime/rendezvous/local_address.h"
#include "runtime/rpc/device_hooks.h"
#include "runtime/rpc/device_maps.h"
#include "runtime/rpc/serve.h"
#include "store/base/number.h"
#include "store/base/random.h"
#include "store/base/text.h"
#include "store/client/prefix_store.h"
#include "store/contract/worker_env.h"

namespace dlaunch::internal {

namespace {

constexpr const char* ended_here = "was not waited for: this worker has ended its remote calls";
// For threads that run no function.
constexpr auto end_limit = std::chrono::seconds(1);

template <class T>
const T& value_of(const Result<T>& result) {
  if (!result) throw DistError("init_rpc: " + result.error().message());
  return *result;
}

struct Place {
  Identity self;  // world size -1: workers come and go
  std::shared_ptr<Store> store;
};

Place find_place(const rpc::RpcOptions& options, Deadline deadline) {
  if (const auto& preset = world().preset()) {
    Place place;
    place.self.rank = preset->rank;
    place.self.world_size = preset->size;
    place.self.store_is_served = true;
    place.store = preset->store;
    return place;
  }
  const InitMethod method = value_of(parse_init_method(options.init_method));
  const GivenRank given = value_of(combine(options.rank, options.world_size, method.given));
  const bool in_environment = !options.store && method.kind == InitMethod::Kind::env;
  const Environment environment = process_environment;
  const auto identify_self = [&] {
    if (!given.world_size && !(in_environment && process_environment(store::env::world_size)))
      return identify_member(in_environment ? &environment : nullptr, given);
    return in_environment ? identify(environment, given) : identify(given);
  };
  Place place{value_of(identify_self()), nullptr};
  if (options.store) {
    place.self.store_is_served = true;
    place.store = inner_store(options.store);
    return place;
  }
  if (method.kind == InitMethod::Kind::tcp) place.self.master = method.address;
  if (method.kind == InitMethod::Kind::file) place.self.store_is_served = true;
  place.store = open_job_store(method, place.self, deadline);
  return place;
}

// What the job wants to know of this process: init_process_group may come later, or never. Returns the
// process's rank in the job.
int open_records(int rank) {
  const auto job = identify(process_environment);
  if (!job || world().preset()) return rank;
  const auto page = process_environment(store::env::worker_page);
  if (page && recorder().page() == nullptr) {
    recorder().open(*page, job->rank, job->world_size);
    record_crashes(recorder().page());
  }
  const auto trace = process_environment("DLAUNCH_TRACE");
  if (trace && !trace->empty()) profiler().start_trace_once(trace_path(*trace, job->rank));
  return job->rank;
}

void end_at_process_end() {
  try {
    RpcWorld::get().shutdown(false, {});
  } catch (const DistError&) {  // NOLINT(bugprone-empty-catch): it has ended already
  }
}

int connections_of_environment() {
  const std::optional<std::string> text = process_environment("DLAUNCH_RPC_CONNECTIONS");
  if (!text || text->empty()) return Agent::Options{}.connections;
  const std::optional<int> number = parse_number<int>(*text);
  if (number && *number >= 1 && *number <= static_cast<int>(SideLinks::most)) return *number;
  throw DistError("init_rpc: DLAUNCH_RPC_CONNECTIONS is " + quoted(*text) + ", not a number from 1 to " +
                  std::to_string(SideLinks::most));
}

void require_arguments(const std::string& name, const rpc::RpcOptions& options) {
  const auto reject = [](const std::string& why) { throw DistError("init_rpc: " + why); };
  if (const std::string why = why_no_worker_name(name); !why.empty()) reject(why);
  if (options.num_worker_threads < 1 || options.num_worker_threads > 4096)
    reject("num_worker_threads is " + std::to_string(options.num_worker_threads) +
           ", not between 1 and 4096");
  if (options.rpc_timeout.count() < 0) reject("rpc_timeout is negative");
  if (options.reference_lease.count() < 0) reject("reference_lease is negative");
  if (!is_timeout(options.init_timeout)) reject(no_timeout_at_all);
  (void)connections_of_environment();
  const std::string conflict = FunctionTable::get().conflict();
  if (!conflict.empty()) reject("two functions are registered by the name " + quoted(conflict));
}

}  // namespace

RpcWorld& RpcWorld::get() {
  static RpcWorld& only = *new RpcWorld;
  return only;
}

const WorkerContact& RpcWorld::Member::worker(std::string_view name) const {
  if (known) return known->find(name);
  const auto at = ids.find(name);
  if (at != ids.end()) return workers->workers()[at->second];
  ShortList names;
  for (const auto& [name_there, id] : ids) names.add(name_there);
  throw DistError("there is no worker " + quoted(name) + "; there are " + names.text());
}

const WorkerContact& RpcWorld::Member::worker(int rank) const {
  if (known) return known->find(rank);
  const std::vector<WorkerContact>& all = workers->workers();
  if (rank >= 0 && static_cast<std::size_t>(rank) < all.size()) return all[static_cast<std::size_t>(rank)];
  throw DistError("there is no worker " + std::to_string(rank) + "; there are " + std::to_string(all.size()));
}

const WorkerContact& RpcWorld::Member::worker_with(std::uint32_t id) const {
  return known ? known->find_id(id) : worker(static_cast<int>(id));
}

const WorkerContact& RpcWorld::Member::present_worker(std::string_view name) const {
  const WorkerContact& found = worker(name);
  if (agent->has_left(found.id)) throw DistError(describe(found) + " has left");
  return found;
}

std::vector<WorkerContact> RpcWorld::Member::all() const { return known ? known->all() : workers->workers(); }

const WorkerContact& RpcWorld::Member::destination(const rpc::Destination& to) const {
  return to.id() >= 0 ? worker(to.id()) : worker(std::string_view(to.name()));
}

std::chrono::milliseconds RpcWorld::Member::timeout_of(rpc::Destination::Timeout given) const {
  if (given && given->count() < 0) throw DistError("the timeout of a remote call is negative");
  return given.value_or(timeout);
}

std::shared_ptr<const RpcWorld::Member> RpcWorld::member(const char* operation) const {
  const std::lock_guard lock(mutex_);
  if (member_ && !process_.is_this()) throw DistError(forked_copy, {.operation = operation});
  if (!member_) throw DistError("remote calls have not begun: call init_rpc first", {.operation = operation});
  return member_;
}

void RpcWorld::init(const std::string& name, const rpc::RpcOptions& options) {
  require_arguments(name, options);
  const std::lock_guard making(making_);
  {
    const std::lock_guard lock(mutex_);
    if (member_ && !process_.is_this()) {
      // Those of the original. Never destroyed: their threads are not here.
      static auto& originals = *new std::vector<std::shared_ptr<Member>>;
      originals.push_back(std::exchange(member_, nullptr));
    }
    process_ = OwnProcess();
    if (member_) throw DistError("init_rpc: this process is already " + describe(member_->agent->self()));
  }
  std::shared_ptr<Member> made = with_store_errors([&] { return join(name, options); });
  const std::lock_guard lock(mutex_);
  member_ = std::move(made);
  at_process_end<end_at_process_end>();
}

namespace {

void start(const RpcWorld::Member& member, const std::shared_ptr<MemberDirectory>& directory) {
  const std::shared_ptr<References> references = member.references;
  const auto contact = [workers = member.workers,
                        directory](std::uint32_t id) -> std::optional<WorkerContact> {
    if (directory) return KnownWorkers::find_present(*directory, id);
    return workers->workers()[id];
  };
  const ServeContext context{FunctionTable::get(), member.agent, references,
                             std::make_shared<CallerDevices>(member.agent->self().name, contact)};
  Agent::Observer observer{
      .on_arrival = [references](const IncomingCall& call) { return on_arrival(*references, call); },
      .on_link_lost = [references](std::uint32_t worker) { references->on_link_lost(worker); },
      .on_late_result = [references](
                            std::uint32_t worker,
                            const codec::Bytes& result) { references->discard(worker, result.front); },
      .find_worker = {}};
  if (directory)
    observer.find_worker = [directory](std::uint32_t id) {
      return KnownWorkers::find_present(*directory, id);
    };
  member.agent->start(
      member.known ? std::vector{member.agent->self()} : member.workers->workers(),
      [context](IncomingCall call) { serve(context, std::move(call)); }, std::move(observer));
}

// Claims a rank among workers that come and go; -1: a free one. By the socket others see that this worker
// lives, until it listens for calls.
WorkerContact claim(MemberDirectory& directory, const std::string& name, int rank,
                    const LivenessSocket* socket) {
  WorkerContact self{.name = name, .id = 0, .host = host_name(), .contact = {}, .rank = 0, .pid = getpid()};
  self.contact = {random_bytes(process_id_size), "-", 0, std::string(key_size, '\0')};
  if (socket) std::istringstream(socket->address()) >> self.contact.address >> self.contact.port;
  directory.claim_rank(rank == -1 ? std::nullopt : std::optional(static_cast<std::uint32_t>(rank)), self);
  return self;
}

WorkerDevices devices_of(const rpc::RpcOptions& options) {
  return {device_count(), options.devices, {options.device_maps.begin(), options.device_maps.end()}};
}

// All workers find the same, if they know each other.
void require_devices(int rank, const std::vector<WorkerContact>& known, bool all_known) {
  for (const WorkerContact& worker : known)
    if (const std::string why = why_wrong_devices(worker, known, all_known); !why.empty())
      throw DistError(why, {.rank = rank, .operation = "init_rpc"});
}

}  // namespace

std::shared_ptr<RpcWorld::Member> RpcWorld::join(const std::string& name, const rpc::RpcOptions& options) {
  const Deadline deadline = deadline_after(options.init_timeout);
  Place place = find_place(options, deadline);
  const std::string& master = place.self.master.host;
  const std::string prefix = "dlaunch/" + place.self.round + "/rpc/";
  const bool is_open = place.self.world_size == -1;
  const bool serves_store = place.self.rank == 0 && !place.self.store_is_served;
  const auto directory =
      std::make_shared<MemberDirectory>(std::make_shared<PrefixStore>(prefix + "members", place.store));
  const std::unique_ptr<LivenessSocket> shows_life = is_open ? open_liveness_socket(master) : nullptr;
  WorkerContact self;
  const WorkerDevices devices = devices_of(options);
  if (is_open) {
    const WorkerContact known{.name = name, .host = {}, .contact = {}, .devices = devices};
    require_devices(place.self.rank, {known}, false);
    self = claim(*directory, name, place.self.rank, shows_life.get());
  } else {
    self.id = self.rank = static_cast<std::uint32_t>(place.self.rank);
  }
  auto made = std::make_shared<Member>();
  made->timeout = options.rpc_timeout;
  const int job_rank = open_records(static_cast<int>(self.rank));
  int& generation = generations_[place.store->compare_set("dlaunch/store", "", std::to_string(random_u64()))];
  made->agent = Agent::make({.name = name,
                             .id = self.id,
                             .rank = self.rank,
                             .host = host_name(),
                             .address = probable_address(master),
                             .threads = options.num_worker_threads,
                             .devices = devices,
                             .on_host = process_environment("DLAUNCH_RPC_UNIX") != "0",
                             .in_memory = process_environment("DLAUNCH_SHM") != "0",
                             .connections = connections_of_environment(),
                             .page = recorder().page(),
                             .generation = static_cast<std::uint16_t>(generation),
                             .job_rank = job_rank});
  const std::string own_prefix = prefix + std::to_string(generation++);
  follow_streams(!options.device_maps.empty());
  if (is_open) {
    directory->join(made->agent->self());
    made->known = std::make_shared<KnownWorkers>(made->agent, directory);
  } else {
    made->workers = std::make_shared<WorkerSet>(std::make_shared<PrefixStore>(own_prefix, place.store),
                                                made->agent->self(), place.self.world_size, serves_store);
    for (const WorkerContact& worker : made->workers->meet(deadline, master))
      made->ids.emplace(worker.name, worker.id);
    require_devices(place.self.rank, made->workers->workers(), true);
  }
  made->references = std::make_shared<References>(made->agent, options.reference_lease);
  start(*made, is_open ? directory : nullptr);
  return made;
}

void RpcWorld::shutdown(bool graceful, std::chrono::milliseconds timeout) {
  if (PollingThreads::is_one_of_them()) {
    throw DistError(
        "shutdown was called by a function that runs for another worker: it would wait for itself");
  }
  const std::lock_guard making(making_);
  const std::shared_ptr<const Member> ending = member("shutdown");
  const Timeout limit = timeout_from_now(timeout.count() == 0 ? longest_timeout : timeout);
  std::exception_ptr error;
  try {
    if (graceful && ending->known) {
      ending->known->leave(limit.deadline(), timeout);
    } else if (graceful) {
      ending->workers->leave(limit.deadline(), [&] {
        const auto check = [&] { ending->workers->check(); };
        if (ending->agent->wait_until_idle(limit.deadline(), check)) return ending->agent->calls_so_far();
        const std::string calls = ending->agent->waiting_calls();
        throw DistNetworkError(
            "calls have not ended within " + in_words(timeout) + ": " +
                (calls.empty() ? "functions that run here for other workers" : calls),
            {.rank = static_cast<int>(ending->agent->self().rank), .operation = "shutdown"});
      });
    }
  } catch (const StoreError& e) {
    error = std::make_exception_ptr(store_error(e));
  } catch (...) {
    error = std::current_exception();
  }
  {
    const std::lock_guard lock(mutex_);
    member_ = nullptr;
  }
  ending->references->end();
  ending->agent->end(ended_here, deadline_after(end_limit));
  if (error) std::rethrow_exception(error);
}

}  // namespace dlaunch::internal
