#include "launcher/node/node_agent.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>

#include "agent/model/world_view.h"
#include "agent/observe/cpu_time.h"
#include "launcher/console/terminal_suspend.h"
#include "launcher/machine/local_addresses.h"
#include "launcher/machine/process_limits.h"
#include "launcher/node/secret.h"
#include "launcher/node/tls.h"
#include "launcher/node/wall_clock.h"
#include "launcher/page/page.h"
#include "store/base/log.h"
#include "store/base/number.h"
#include "store/base/random.h"

namespace dlaunch::launcher {
namespace {

void warn(const std::string& sentence) { log::warning(sentence); }

// The value of the election's key: this agent's address and id.
std::string own_name(const JobPlan& plan) {
  return to_string(plan.own) + " " + std::to_string(plan.node.agent);
}

std::optional<agent::Runner::Config::Leader> leader_of(const std::optional<std::string>& name,
                                                       const std::string& own) {
  if (!name) return std::nullopt;
  const auto address = parse_address(name->substr(0, name->find(' ')), 0);
  if (!address) return std::nullopt;
  return agent::Runner::Config::Leader{*address, *name == own};
}

// Nodes may share a machine, and this machine has workers of the new round.
std::set<std::string> without_local_addresses(std::set<std::string> addresses) {
  if (addresses.empty()) return addresses;
  for (const std::string& own : local_addresses()) addresses.erase(own);
  return addresses;
}

bool is_all_taken(const agent::Output& output) {
  const auto consoles = output.consoles();
  return std::all_of(consoles.begin(), consoles.end(),
                     [](const agent::Console* one) { return one->is_empty(); });
}

// Runs the loop a last time, because it closes connections.
void let_connections_end(UvLoop& loop) {
  struct Stop final : TimerHandler {
    explicit Stop(UvLoop& running) : loop(running) {}
    void on_timer(TimerId) override { loop.stop(); }
    UvLoop& loop;
  } stop(loop);
  loop.arm(loop.now() + std::chrono::milliseconds(20), stop);
  loop.run();
}

StoreLimits store_limits(const Options& options) {
  StoreLimits limits;
  limits.total_bytes = options.store_max_total.value_or(usual_store_total());
  return limits;
}

}  // namespace

NodeAgent::NodeAgent(Dependencies dependencies, agent::Keeper keeper)
    : dependencies_(dependencies),
      pmi_sockets_(dependencies.poller, dependencies.plan.node.pmix_program),
      spawner_(dependencies.poller, dependencies.output, dependencies.postmortem, std::move(keeper)),
      network_(
          dependencies.loop, dependencies.loop,
          dependencies.options.tls ? tls_sessions(dependencies.options.secret) : SecureNetwork::Sessions{}),
      page_(dependencies.loop),
      server_(network_, dependencies.loop, dependencies.loop, server_options()),
      health_(dependencies.loop, dependencies.loop, dependencies.loop, warn),
      pages_(dependencies.plan.node.pages_dir, dependencies.files.log_dir) {
  page_.show(server_, store_limits(dependencies_.options));
  spawner_.offer_pmi(pmi_sockets_);
}

ServerOptions NodeAgent::server_options() {
  const Options& options = dependencies_.options;
  const JobPlan& plan = dependencies_.plan;
  ServerOptions server;
  server.agents = &acceptor_;
  server.https = &page_;
  server.port = port_limits(plan.node.slots, plan.job.nnodes + plan.job.spares);
  server.limits = store_limits(options);
  server.http_rules = http_rules_of(plan, options.secret);
  server.key = key_of_store(options.secret, options.tls);
  if (options.tls) server.secure = &network_;
  server.report = warn;
  return server;
}

Result<void> NodeAgent::open_endpoints() {
  auto served = serve_endpoint(server_, dependencies_.plan);
  if (!served) return std::move(served).error();
  served_ = *served;
  const auto health_port = dependencies_.environment.find("TORCHELASTIC_HEALTH_CHECK_PORT");
  if (health_port == dependencies_.environment.end() || health_port->second.empty()) return {};
  return health_.open(health_port->first, health_port->second);
}

std::string NodeAgent::open_port_notice() const {
  return launcher::open_port_notice(served_, dependencies_.plan, dependencies_.options.secret);
}

agent::Runner::Config NodeAgent::runner_config() {
  const JobPlan& plan = dependencies_.plan;
  agent::Runner::Config config{plan.job,
                               plan.node,
                               DLAUNCH_VERSION,
                               inherited_environment(dependencies_.options, dependencies_.environment),
                               served_.endpoint,
                               [this](std::uint32_t, std::set<std::string> blocked_hosts) {
                                 keep_leader_mark();
                                 server_.new_round(without_local_addresses(std::move(blocked_hosts)));
                               },
                               [this] { dependencies_.loop.stop(); }};
  config.records = &pages_;
  config.worker_usage = [this](std::span<const agent::WorkerHere> workers) { return worker_usage(workers); };
  config.inspect = [this](std::uint32_t round, int world_size,
                          const std::vector<agent::WorkerHere>& workers) {
    inspector_->inspect(round, world_size, workers);
  };
  config.on_phase = [this] {
    if (ranks_) ranks_->on_phase();
  };
  config.node_ranks = [this](int rank_with_lines) {
    return ranks_ ? ranks_->ranks(rank_with_lines) : agent::NodeRanks{};
  };
  config.on_lateness = [this](const agent::Lateness& lateness) {
    if (ranks_) ranks_->take(lateness);
  };
  config.node_times = [this](const agent::JobStatus& ended) {
    if (!ranks_) return agent::TimeSums{};
    ranks_->on_end(ended);
    return ranks_->times().sums();
  };
  if (plan.job.mpi != agent::MpiStart::none) config.pmi = &pmi_sockets_;
  config.unix_us = unix_us();
  config.had_predecessor = leader_mark_ && leader_mark_->was_left_within(
                                               agent::LeaseRules(plan.job.node_timeout).mark_counts_for());
  config.secret = dependencies_.options.secret;
  config.on_proved = [this](const std::string& host) { server_.trust(host); };
  config.draw_nonce = [] { return random_bytes(agent::nonce_size); };
  if (dependencies_.files.events || dependencies_.options.events_on_console) {
    config.on_event = [this, facts = event_facts_of(plan)](const agent::Event& event) {
      write_event(event, facts);
    };
  }
  if (plan.job.elected) {
    config.find_leader = [this] { return leader_of(election_->leader(), own_name(dependencies_.plan)); };
    config.own = plan.own;
  }
  return config;
}

agent::WorkerUsage NodeAgent::worker_usage(std::span<const agent::WorkerHere> workers) const {
  agent::WorkerUsage usage;
  for (const agent::WorkerHere& worker : workers)
    usage.cpu.push_back(worker.pid > 0 ? agent::cpu_time_of_tree(worker.pid) : Duration(0));
  usage.printed = dependencies_.output.printed();
  return usage;
}

void NodeAgent::write_event(const agent::Event& event, const EventFacts& facts) {
  const Options& options = dependencies_.options;
  const std::string line = options.events_format == EventsFormat::torchelastic
                               ? torchelastic_event(event, facts, unix_ms())
                               : event_line(event, dependencies_.plan.job.id);
  if (dependencies_.files.events) dependencies_.files.events->write(line);
  if (options.events_on_console) dependencies_.output.write_own(line);
}

void NodeAgent::make_leader_mark() {
  UvLoop& loop = dependencies_.loop;
  const agent::JobSpec& job = dependencies_.plan.job;
  const agent::LeaseRules leases(job.node_timeout);
  if (!served_.endpoint || job.nnodes + job.spares == 1 || !leases.exist()) return;
  leader_mark_.emplace(agent::LeaderMark::Dependencies{loop, loop}, temporary_folder(), job.id,
                       job.endpoint(*served_.endpoint), leases.mark_interval());
}

void NodeAgent::keep_leader_mark() {
  if (!leader_mark_) return;
  if (const auto kept = leader_mark_->keep(); !kept)
    log::debug(kept.error().message() +
               ": if this agent is killed, the next one will not wait for its leases");
}

// A node that is not here may run workers yet, of which the next agent must know.
void NodeAgent::end_leader_mark() {
  const agent::Coordinator* coordinator = runner_->coordinator();
  if (leader_mark_ && coordinator != nullptr && !coordinator->may_leave_workers(dependencies_.loop.now()))
    leader_mark_->remove();
}

void NodeAgent::make_inspector() {
  UvLoop& loop = dependencies_.loop;
  inspector_.emplace(
      Inspector::Dependencies{dependencies_.poller, loop, loop},
      Inspector::Config{dependencies_.plan.node.scratch_dir, dependencies_.files.log_dir,
                        [this](const agent::LogMessage& message) { dependencies_.reporter.report(message); },
                        [this](std::uint32_t round, std::vector<agent::GroupProgress> groups) {
                          runner_->on_inspected(round, std::move(groups));
                        }});
}

void NodeAgent::make_runner() {
  UvLoop& loop = dependencies_.loop;
  make_inspector();
  make_leader_mark();
  shorten_straggler_window();
  runner_.emplace(agent::Runner::Dependencies{loop, loop, network_, spawner_, dependencies_.reporter},
                  runner_config());
  acceptor_.runner = &*runner_;
  if (served_.endpoint.has_value()) show_world();
  if (dependencies_.plan.job.elected) make_election();
}

// For tests.
void NodeAgent::shorten_straggler_window() {
  const auto setting = dependencies_.environment.find("DLAUNCH_STRAGGLER_WINDOW");
  if (setting == dependencies_.environment.end()) return;
  if (const auto seconds = parse_number<int>(setting->second))
    dependencies_.plan.job.straggler_window = std::chrono::seconds(*seconds);
}

agent::WorldView NodeAgent::world_view() const {
  const agent::Coordinator* coordinator = runner_->coordinator();
  return coordinator != nullptr ? coordinator->view(dependencies_.loop.now()) : agent::WorldView{};
}

void NodeAgent::show_world() {
  // The other nodes send what their ranks do only when somebody looks.
  const auto ranks = [this](int rank_with_lines) {
    runner_->ask_for_ranks(rank_with_lines);
    return runner_->coordinator()->ranks();
  };
  page_.add("/", "text/html; charset=utf-8",
            [this, ranks](std::string_view) { return page_html(world_view(), ranks(-1)); });
  page_.add("/page.css", "text/css; charset=utf-8",
            [](std::string_view) { return std::string(embedded_page_css); });
  page_.add("/page.js", "text/javascript; charset=utf-8",
            [](std::string_view) { return std::string(embedded_page_js); });
  page_.add("/job", "application/json", [this](std::string_view) { return agent::to_json(world_view()); });
  page_.add("/ranks", "application/json", [ranks](std::string_view query) {
    constexpr std::string_view key = "rank=";
    if (query.starts_with(key)) query.remove_prefix(key.size());
    return agent::to_json(ranks(parse_number<int>(query).value_or(-1)));
  });
  page_.add_metrics(
      [this] { return agent::metrics(world_view()) + agent::metrics(runner_->coordinator()->stragglers()); });
}

std::optional<agent::JobTimes> NodeAgent::times() {
  if (!ranks_) return std::nullopt;
  ranks_->on_phase();
  return ranks_->times();
}

void NodeAgent::make_election() {
  UvLoop& loop = dependencies_.loop;
  const JobPlan& plan = dependencies_.plan;
  election_.emplace(
      agent::EtcdElection::Dependencies{loop, loop, loop},
      agent::EtcdElection::Config{
          plan.job.endpoints, plan.etcd_key, own_name(plan), plan.job.node_timeout,
          [this](TimePoint until, const std::optional<std::string>& left_behind) {
            runner_->on_election(until, left_behind);
          },
          [this] { runner_->on_election(std::nullopt); },
          [this](const agent::LogMessage& message) { dependencies_.reporter.report(message); }});
}

std::string NodeAgent::status_json() const {
  agent::JobStatus status = runner_->status();
  status.agent = getpid();
  status.log_dir = dependencies_.files.log_dir;
  status.pages_dir = dependencies_.plan.node.pages_dir;
  if (ranks_) ranks_->add_to(status);
  return agent::to_json(status);
}

void NodeAgent::watch_ranks() {
  const JobPlan& plan = dependencies_.plan;
  ranks_.emplace(RankWatch::Dependencies{dependencies_.loop, dependencies_.loop, dependencies_.output},
                 RankWatch::Config{plan.node.slots, plan.job.straggler_window, plan.node.pages_dir,
                                   [this] { return runner_->status(); },
                                   [this](std::uint32_t round, agent::Arrivals arrivals) {
                                     runner_->report_arrivals(round, std::move(arrivals));
                                   }});
}

Result<void> NodeAgent::start(const agent::TimerFifo& timer_fifo) {
  watch_ranks();
  suspend_with_terminal(dependencies_.poller, spawner_, dependencies_.output);
  status_socket_.emplace(dependencies_.poller, [this] { return status_json(); });
  if (election_) election_->begin();
  const JobPlan& plan = dependencies_.plan;
  // A few workers are requested before the keeper is there, and guarded when they run: that is fastest.
  // Requesting many takes long.
  constexpr int few = 8;
  const bool are_few = plan.node.slots <= few;
  if (are_few) runner_->begin();
  if (auto keeper = spawner_.await_keeper(); !keeper) return keeper;
  UvLoop& loop = dependencies_.loop;
  spawner_.begin_guard(loop, loop, std::chrono::milliseconds(are_few ? 20 : 0), warn);
  if (!are_few) runner_->begin();
  if (plan.job.nnodes == 1 && plan.job.spares == 0) spawner_.expect_success();
  log::debug("the workers' cgroup: " + spawner_.about_cgroup());
  if (timer_fifo.exists()) watch_timers(timer_fifo);
  return {};
}

void NodeAgent::watch_timers(const agent::TimerFifo& fifo) {
  UvLoop& loop = dependencies_.loop;
  timers_.emplace(agent::TimerWatch::Dependencies{dependencies_.poller, loop, loop},
                  agent::TimerWatch::Config{
                      fifo.fd, [this] { return spawner_.keeper(); }, [this] { return runner_->status(); },
                      [this](const agent::LogMessage& message) { dependencies_.reporter.report(message); }});
  dependencies_.postmortem.ask_of_signals([this](agent::ProcKey worker) { return timers_->sent_to(worker); });
}

void NodeAgent::close() {
  UvLoop& loop = dependencies_.loop;
  inspector_->finish();
  if (election_) {
    std::optional<agent::EtcdElection::EndingRecord> ending_record;
    if (const auto ending = runner_->job_ending())
      ending_record = {agent::to_text(*ending), agent::JobEnding::kept};
    election_->resign(ending_record, [&loop] { loop.stop(); });
    loop.run();
  }
  end_leader_mark();
  server_.close();
  // The other nodes do not wait for this node's readers.
  if (!is_all_taken(dependencies_.output)) let_connections_end(loop);
}

}  // namespace dlaunch::launcher
