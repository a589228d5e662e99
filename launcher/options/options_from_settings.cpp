#include "launcher/options/options_from_settings.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <csignal>
#include <cstring>
#include <limits>

#include "launcher/flags/shell_words.h"
#include "launcher/flags/spelling.h"
#include "launcher/flags/value_parsers.h"
#include "launcher/options/rdzv_conf.h"
#include "launcher/topology/accelerators.h"

namespace dlaunch::launcher {
namespace {

constexpr int most_workers = 65'536;
constexpr int most_nodes = 65'536;
constexpr std::chrono::seconds longest_health_check(25);  // the others wait for it
// Not those that nobody can handle, that mean a broken program, or that dlaunch itself lives by (SIGCHLD,
// SIGPIPE, the terminal's).
constexpr std::array may_be_handled{SIGTERM, SIGINT,  SIGHUP,    SIGQUIT, SIGUSR1,  SIGUSR2, SIGALRM, SIGXCPU,
                                    SIGPWR,  SIGXFSZ, SIGVTALRM, SIGPROF, SIGWINCH, SIGCONT, SIGIO,   SIGURG};

// Reads one setting after the other, and keeps the first mistake.
class Reader {
 public:
  explicit Reader(const Settings& settings) : settings_(settings) {}

  [[nodiscard]] const Setting* given(std::string_view flag) const { return find(settings_, flag); }
  [[nodiscard]] bool on(std::string_view flag) const { return given(flag) && given(flag)->value == "true"; }
  // As given; an empty one counts as unset.
  [[nodiscard]] std::optional<std::string> text(std::string_view flag) const {
    const Setting* setting = given(flag);
    return setting && !setting->value.empty() ? std::optional(setting->value) : std::nullopt;
  }
  // A host's name or address; an IPv6 address may stand in brackets, as torchrun wants it.
  [[nodiscard]] std::optional<std::string> host(std::string_view flag) const {
    std::optional<std::string> given = text(flag);
    const bool in_brackets = given && given->size() > 2 && given->front() == '[' && given->back() == ']';
    return in_brackets ? given->substr(1, given->size() - 2) : given;
  }
  std::optional<int> integer(std::string_view flag, int least, int most) {
    const Setting* setting = given(flag);
    return setting ? keep(number(setting->from, setting->value, least, most)) : std::nullopt;
  }
  std::optional<std::uint64_t> size(std::string_view flag) {
    const Setting* setting = given(flag);
    return setting ? keep(byte_size(setting->from, setting->value)) : std::nullopt;
  }
  std::optional<Duration> duration(std::string_view flag) {
    const Setting* setting = given(flag);
    return setting ? keep(seconds(setting->from, setting->value)) : std::nullopt;
  }
  std::optional<Duration> positive_duration(std::string_view flag, std::chrono::seconds most = longest_time) {
    const Setting* setting = given(flag);
    return setting ? keep(positive_seconds(setting->from, setting->value, most)) : std::nullopt;
  }
  std::optional<std::string> one_of(std::string_view flag, const std::vector<std::string>& choices) {
    const Setting* setting = given(flag);
    return setting ? keep(choice(setting->from, setting->value, choices)) : std::nullopt;
  }

  template <class T>
  std::optional<T> keep(Result<T> result) {
    if (result) return std::move(*result);
    fail(std::move(result).error());
    return std::nullopt;
  }
  void fail(Error error) {
    if (!error_) error_ = std::move(error);
  }
  [[nodiscard]] std::optional<Error>& error() { return error_; }

 private:
  const Settings& settings_;
  std::optional<Error> error_;
};

std::string as_given(const Setting& setting) { return setting.from + "=" + setting.value; }

// --- workers ---

void parse_slots(Reader& in, Options& out) {
  const Setting* setting = in.given("nproc-per-node");
  if (!setting) return;
  const std::string& value = setting->value;
  if (value == "auto") {
    out.slots_kind = Options::Slots::gpus_or_cpus;
  } else if (value == "cpu") {
    out.slots_kind = Options::Slots::all_cpus;
  } else if (is_accelerator(value)) {
    out.slots_kind = Options::Slots::accelerators;
    out.accelerator = value;
  } else if (value == "mps") {
    in.fail(usage(as_given(*setting) + ": Linux has no such device (it is a GPU of macOS)", "",
                  "give a number, auto or cpu"));
  } else if (auto n = number(setting->from, value, 1, most_workers)) {
    out.slots = *n;
  } else {
    in.fail(std::move(n).error().with_hint("give a number from 1 to " + std::to_string(most_workers) +
                                           ", auto, cpu, or a device: " + join(accelerator_names(), ", ")));
  }
}

void parse_program_kind(Reader& in, Options& out) {
  out.module = in.on("module");
  out.no_python = in.on("no-python");
  out.run_path = in.on("run-path");
  out.pass_local_rank = in.on("pass-local-rank");
  out.env_defaults = !in.on("no-env-defaults");
  if (const auto port = in.integer("worker-store", 1, 65535))
    out.worker_store = static_cast<std::uint16_t>(*port);
  in.one_of("start-method", {"spawn", "fork", "forkserver"});
  if (out.module && out.no_python) in.fail(usage("--module and --no-python exclude each other"));
  if (out.module && out.run_path) in.fail(usage("--module and --run-path exclude each other"));
}

// --- nodes ---

// "2" or "1:4".
void parse_nnodes(Reader& in, Options& out) {
  const Setting* setting = in.given("nnodes");
  if (!setting) return;
  const std::string& text = setting->value;
  const auto colon = text.find(':');
  if (colon != text.rfind(':')) {
    in.fail(usage(as_given(*setting) + " is neither N nor MIN:MAX", "", "write one number, or two"));
    return;
  }
  const auto least = in.keep(number(setting->from, text.substr(0, colon), 1, most_nodes));
  if (!least) return;
  out.min_nodes = out.nnodes = *least;
  if (colon == std::string::npos) return;
  const auto most = in.keep(number(setting->from, text.substr(colon + 1), 1, most_nodes));
  if (!most) return;
  out.nnodes = *most;
  if (*least > *most) {
    in.fail(usage(as_given(*setting) + ": the smallest number of nodes is larger than the largest", "",
                  "write MIN:MAX"));
  }
}

// "host", "host:port", or several of these.
void parse_endpoints(Reader& in, Options& out) {
  constexpr std::size_t most = 16;
  const Setting* setting = in.given("rdzv-endpoint");
  if (!setting || setting->value.empty()) return;
  for (const std::string& text : comma_list(setting->value)) {
    // Only where the port is missing do the two defaults show.
    auto zero = parse_address(text, 0);
    auto one = parse_address(text, 1);
    if (!zero || !one) {
      Error error = std::move(zero).error();
      in.fail(usage(setting->from + ": " + error.what + " " + error.where, error.why, error.hint));
      return;
    }
    const Endpoint endpoint{zero->host, zero->port == one->port ? std::optional(zero->port) : std::nullopt};
    if (std::find(out.endpoints.begin(), out.endpoints.end(), endpoint) != out.endpoints.end()) {
      in.fail(usage(as_given(*setting) + " names " + text + " twice"));
      return;
    }
    out.endpoints.push_back(endpoint);
  }
  if (out.endpoints.size() > most)
    in.fail(usage(setting->from + ": more than " + std::to_string(most) + " endpoints"));
}

void apply_rdzv_conf(Reader& in, Options& out) {
  const Setting* setting = in.given("rdzv-conf");
  if (!setting) return;
  auto conf = in.keep(parse_rdzv_conf(*setting));
  if (!conf) return;
  const auto take = [&](const char* flag, const std::optional<Duration>& from, Duration& value) {
    if (from && in.given(flag) == nullptr) value = *from;
  };
  take("join-timeout", conf->join_timeout, out.join_timeout);
  take("last-call-timeout", conf->last_call, out.last_call);
  take("node-timeout", conf->node_timeout, out.node_timeout);
  if (conf->hosts_endpoint) out.hosts_endpoint = conf->hosts_endpoint;
  if (!conf->etcd_prefix.empty()) out.etcd_prefix = conf->etcd_prefix;
  for (std::string& warning : conf->warnings) out.warnings.push_back(std::move(warning));
}

// Where none is named, what else was said decides: ranks that are given are fixed ones.
void parse_backend(Reader& in, Options& out) {
  const auto name = in.one_of("rdzv-backend", {"static", "c10d", "etcd", "etcd-v2"});
  const bool changes = out.min_nodes < out.nnodes || out.spares > 0 || out.endpoints.size() > 1;
  const bool finds_ranks = out.nnodes > 1 && !out.endpoints.empty() && !out.node_rank;
  if (!name && (changes || finds_ranks)) out.backend = Options::Backend::c10d;
  if (name == "static" && changes) {
    in.fail(
        usage(as_given(*in.given("rdzv-backend")) + ": a job that may change has to find its nodes itself",
              "", "use --rdzv-backend=c10d"));
  }
  if (name == "c10d") out.backend = Options::Backend::c10d;
  if (name == "etcd") out.backend = Options::Backend::etcd;
  if (name == "etcd-v2") out.backend = Options::Backend::etcd_v2;
}

void parse_nodes(Reader& in, Options& out) {
  parse_nnodes(in, out);
  out.node_rank = in.integer("node-rank", 0, std::numeric_limits<int>::max());
  out.master_addr = in.host("master-addr");
  if (const auto port = in.integer("master-port", 0, 65535))
    out.master_port = static_cast<std::uint16_t>(*port);
  out.local_addr = in.host("local-addr");
  parse_endpoints(in, out);
  if (const auto n = in.integer("spares", 0, most_nodes)) out.spares = *n;
  parse_backend(in, out);
  out.job_id = in.text("rdzv-id").value_or("");
  out.token_file = in.text("token-file").value_or("");
  out.tls = in.on("tls");
  out.store_max_total = in.size("store-max-total");
  if (const auto wait = in.duration("join-timeout")) out.join_timeout = *wait;
  if (const auto wait = in.duration("last-call-timeout")) out.last_call = *wait;
  if (const auto wait = in.duration("node-timeout")) out.node_timeout = *wait;
  apply_rdzv_conf(in, out);
  in.one_of("scheduler", {"auto", "none"});

  out.standalone = in.on("standalone");
  if (out.standalone) {
    out.min_nodes = out.nnodes = 1;
    out.node_rank.reset();
    out.master_addr.reset();
    out.master_port.reset();
    out.backend = Options::Backend::fixed;
    out.endpoints.clear();
    out.spares = 0;
  }
  const bool endpoint_wins =
      !out.endpoints.empty() && out.master_addr && out.endpoints.front().host != *out.master_addr;
  if (endpoint_wins) {
    out.warnings.push_back(as_given(*in.given("rdzv-endpoint")) + " is used, " +
                           as_given(*in.given("master-addr")) + " is not");
  }
  // Where hosts are named, that is the mistake (parse_hosts_flags).
  const bool hosts_are_named = in.text("hosts") || in.text("hostfile");
  if (out.node_rank && *out.node_rank >= out.nnodes && !hosts_are_named) {
    in.fail(usage(as_given(*in.given("node-rank")) + " is outside --nnodes=" + std::to_string(out.nnodes), "",
                  out.nnodes == 1 ? "say how many nodes there are with --nnodes"
                                  : "node ranks go from 0 to " + std::to_string(out.nnodes - 1)));
  }
  const int all = out.nnodes + out.spares;
  if (out.backend == Options::Backend::c10d && out.endpoints.size() > 1 && out.min_nodes <= all / 2) {
    out.warnings.push_back(
        "fewer than " + std::to_string(all / 2 + 1) + " of " + std::to_string(all) +
        " nodes wait for others, also where --nnodes allows fewer: with several endpoints, only a "
        "majority can know that no other part of the job goes on");
  }
  const bool named = !out.endpoints.empty() && out.endpoints.front().port;
  const bool endpoint_without =
      std::any_of(out.endpoints.begin(), out.endpoints.end(), [](const Endpoint& e) { return e.port == 0; });
  if (out.nnodes + out.spares > 1 && (endpoint_without || (!named && out.master_port == 0))) {
    const Setting& said = *in.given(endpoint_without ? "rdzv-endpoint" : "master-port");
    in.fail(usage(as_given(said) + ": several nodes cannot find a port that is not named"));
  }
}

// --- hosts ---

bool is_variable_name(std::string_view name) {
  const auto fits = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; };
  return !name.empty() && std::isdigit(static_cast<unsigned char>(name.front())) == 0 &&
         std::all_of(name.begin(), name.end(), fits);
}

void parse_exports(Reader& in, Options& out) {
  const Setting* setting = in.given("export");
  if (!setting) return;
  for (std::string_view rest = setting->value; !rest.empty();) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string one(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (one.empty()) continue;
    if (!is_variable_name(one.substr(0, one.find('=')))) {
      in.fail(usage(setting->from + ": '" + one + "' is not NAME or NAME=VALUE", "",
                    "give one variable each time, and by its name alone where its value has several lines"));
    }
    out.exports.push_back(one);
  }
}

void parse_ssh(Reader& in, Options& out) {
  const Setting* setting = in.given("ssh");
  if (!setting || setting->value.empty()) return;
  auto words = split_words(setting->value);
  if (words && !words->empty()) {
    out.ssh = std::move(*words);
  } else {
    in.fail(usage(as_given(*setting) + " is no command", words ? "" : words.error().why, ""));
  }
}

void parse_hosts_flags(Reader& in, Options& out) {
  out.hosts = in.text("hosts").value_or("");
  out.hostfile = in.text("hostfile").value_or("");
  parse_exports(in, out);
  if (const Setting* terms = in.given("lifeline")) {
    out.lifeline = in.keep(parse_lifeline(terms->from, terms->value));
    return;
  }
  parse_ssh(in, out);
  for (const char* flag : {"hosts", "hostfile"}) {
    const Setting* named = in.given(flag);
    if (named && named->value.empty()) {
      in.fail(usage(as_given(*named) + " names no host", "",
                    "is a variable of the shell empty? Leave it out for a job on this machine alone"));
    }
  }
  if (out.hosts.empty() && out.hostfile.empty()) return;
  if (!out.hosts.empty() && !out.hostfile.empty()) {
    in.fail(usage(
        as_given(*in.given("hosts")) + " and " + as_given(*in.given("hostfile")) + " exclude each other", "",
        "name the hosts once"));
  }
  const Setting& hosts = *in.given(out.hosts.empty() ? "hostfile" : "hosts");
  for (const char* flag : {"node-rank", "local-addr", "standalone"}) {
    const Setting* other = in.given(flag);
    if (!other || other->value == "false") continue;
    in.fail(usage(as_given(hosts) + " and " + as_given(*other) + " exclude each other", "",
                  "with named hosts dlaunch is started once, and gives each host its rank and name"));
  }
}

// --- failure and end ---

std::vector<std::string> names_of_signals() {
  std::vector<std::string> names;
  names.reserve(may_be_handled.size());
  for (const int signo : may_be_handled) names.push_back(std::string("SIG") + sigabbrev_np(signo));
  return names;
}

Error not_to_be_caught(const std::string& from, const std::string& name) {
  return usage(from + ": " + name + " cannot be caught or passed on by any process", "",
               "name one that can, such as SIGTERM");
}

// "SIGTERM", or "TERM" as kill(1) and Slurm write it.
Result<int> signal_named(const std::string& from, const std::string& name) {
  static const std::vector<std::string> names = names_of_signals();
  const std::string full = name.starts_with("SIG") ? name : "SIG" + name;
  if (full == "SIGKILL" || full == "SIGSTOP") return not_to_be_caught(from, full);
  auto known = choice(from, full, names);
  if (!known) return std::move(known).error();
  const auto at = std::find(names.begin(), names.end(), *known) - names.begin();
  return may_be_handled[static_cast<std::size_t>(at)];
}

// As torchrun: what is no such signal is only said.
void parse_signals(Reader& in, Options& out) {
  const Setting* setting = in.given("signals-to-handle");
  if (!setting) return;
  out.stop_signals.clear();
  for (const std::string& name : comma_list(setting->value)) {
    if (auto signo = signal_named(setting->from, name)) {
      out.stop_signals.push_back(*signo);
    } else {
      out.warnings.push_back(signo.error().message() + "; it is left out");
    }
  }
}

// "30", or "30,INT@5": after SIGINT another time than after other signals.
void parse_stop_timeout(Reader& in, agent::StopGrace& grace) {
  const Setting* setting = in.given("stop-timeout");
  if (!setting) return;
  grace.after.clear();
  bool usual_given = false;
  for (const std::string& item : comma_list(setting->value)) {
    const auto at_sign = item.find('@');
    const auto time =
        in.keep(seconds(setting->from, at_sign == std::string::npos ? item : item.substr(at_sign + 1)));
    if (!time) return;
    if (at_sign == std::string::npos) {
      if (std::exchange(usual_given, true))
        in.fail(usage(as_given(*setting) + " gives two times for all signals", "", "write 30,INT@5"));
      grace.usual = *time;
    } else if (const auto signo = in.keep(signal_named(setting->from, item.substr(0, at_sign)))) {
      grace.after[*signo] = *time;
    }
  }
}

// "SIGUSR1", or "SIGUSR1@60".
void parse_preempt_signal(Reader& in, Options& out) {
  out.preempt_ok = in.on("preempt-ok");
  const Setting* setting = in.given("preempt-signal");
  if (!setting) return;
  const auto at_sign = setting->value.find('@');
  const auto signo = in.keep(signal_named(setting->from, setting->value.substr(0, at_sign)));
  if (!signo) return;
  out.preempt_signal = *signo;
  if (at_sign == std::string::npos) return;
  if (auto notice = in.keep(seconds(setting->from, setting->value.substr(at_sign + 1))))
    out.preempt_notice = *notice;
}

// "3@3600": three within an hour.
void parse_restart_limit(Reader& in, agent::RestartPolicy& policy) {
  const Setting* setting = in.given("restart-limit");
  if (!setting) return;
  const auto at_sign = setting->value.find('@');
  if (at_sign == std::string::npos) {
    in.fail(
        usage(as_given(*setting) + " is not N@S", "", "write 3@3600 for at most 3 restarts within an hour"));
    return;
  }
  const auto count =
      in.keep(number(setting->from, setting->value.substr(0, at_sign), 1, agent::Outcome::max_restarts));
  const auto window = in.keep(seconds(setting->from, setting->value.substr(at_sign + 1)));
  if (count) policy.burst = *count;
  if (window) policy.window = *window;
}

// "1:60": one second, doubled up to a minute.
void parse_restart_backoff(Reader& in, agent::RestartPolicy& policy) {
  const Setting* setting = in.given("restart-backoff");
  if (!setting) return;
  const auto colon = setting->value.find(':');
  if (const auto first = in.keep(seconds(setting->from, setting->value.substr(0, colon))))
    policy.first_delay = *first;
  if (colon != std::string::npos) {
    if (const auto most = in.keep(seconds(setting->from, setting->value.substr(colon + 1))))
      policy.longest_delay = *most;
  }
  policy.longest_delay = std::max(policy.longest_delay, policy.first_delay);
}

void parse_restart_policy(Reader& in, agent::RestartPolicy& policy) {
  parse_restart_limit(in, policy);
  parse_restart_backoff(in, policy);
  if (const auto n = in.integer("exclude-after", 0, agent::Outcome::max_restarts)) policy.exclude_after = *n;
  if (const auto grace = in.duration("startup-grace")) policy.startup_grace = *grace;
  const Setting* codes = in.given("no-restart-on");
  if (!codes) return;
  for (const std::string& text : comma_list(codes->value)) {
    if (const auto code = in.keep(number(codes->from, text, 1, 255))) policy.final_codes.push_back(*code);
  }
}

void parse_failure(Reader& in, Options& out) {
  if (const auto n = in.integer("max-restarts", 0, 1'000'000)) out.max_restarts = *n;
  out.counts_membership = in.on("count-membership-changes");
  parse_restart_policy(in, out.restart_policy);
  out.health_check = in.text("health-check").value_or("");
  if (const auto limit = in.positive_duration("health-check-timeout", longest_health_check))
    out.health_timeout = *limit;
  if (const auto limit = in.duration("hang-timeout")) out.hang_timeout = *limit;
  parse_stop_timeout(in, out.stop_timeout);
  in.positive_duration("monitor-interval");  // as torchrun has it; nothing here is looked at in intervals
  parse_signals(in, out);
  parse_preempt_signal(in, out);
}

// --- output and placement ---

void parse_output(Reader& in, const Settings& settings, Options& out) {
  if (auto log = in.keep(parse_log_flags(settings))) out.log = std::move(*log);
  if (const Setting* report = in.given("report")) out.report = report->value;
  out.events = in.text("events").value_or("");
  if (const auto wait = in.duration("output-timeout")) out.output_timeout = *wait;
  const auto events = in.one_of("event-log-handler", {"null", "console", "dynamic_rendezvous"});
  out.events_on_console = events == "console";
  if (in.one_of("events-format", {"dlaunch", "torchelastic"}) == "torchelastic")
    out.events_format = EventsFormat::torchelastic;
  out.pty = in.on("pty");
  const Setting* specs = in.given("logs-specs");
  if (specs && specs->value != "default") {
    in.fail(usage(as_given(*specs) + " names a Python class, which dlaunch does not load", "",
                  "use --log-dir, --redirects, --tee and --local-ranks-filter"));
  }
}

void parse_placement(Reader& in, Options& out) {
  const auto bind = in.one_of("bind", {"none", "core", "numa", "gpu"});
  if (bind == "core") out.bind = Bind::core;
  if (bind == "numa") out.bind = Bind::numa;
  if (bind == "gpu") out.bind = Bind::gpu;
  const auto numa = in.one_of("numa-binding", {"node", "socket", "exclusive", "core-complex"});
  if (numa && out.bind != Bind::none) in.fail(usage("--bind and --numa-binding exclude each other"));
  if (numa == "node") out.bind = Bind::node;
  if (numa == "socket") out.bind = Bind::socket;
  if (numa == "exclusive") out.bind = Bind::exclusive;
  if (numa == "core-complex") out.bind = Bind::core_complex;
  out.virtual_local_rank = in.on("virtual-local-rank");
}

}  // namespace

Result<Options> options_from_settings(const Settings& settings) {
  Options out;
  Reader in(settings);
  parse_slots(in, out);
  out.role = in.text("role").value_or(out.role);
  parse_nodes(in, out);
  parse_hosts_flags(in, out);
  parse_failure(in, out);
  parse_program_kind(in, out);
  parse_output(in, settings, out);
  parse_placement(in, out);
  out.verbose = in.on("verbose");
  out.dry_run = in.on("dry-run");
  if (in.error()) return std::move(*in.error());
  return out;
}

}  // namespace dlaunch::launcher
