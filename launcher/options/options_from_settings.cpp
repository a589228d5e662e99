#include "launcher/options/options_from_settings.h"

#include <algorithm>
#include <cctype>
#include <limits>

#include "launcher/flags/shell_words.h"
#include "launcher/flags/value_parsers.h"
#include "launcher/options/check_combinations.h"
#include "launcher/options/failure_flags.h"
#include "launcher/options/rdzv_conf.h"
#include "launcher/options/settings_reader.h"
#include "launcher/topology/accelerators.h"

namespace dlaunch::launcher {
namespace {

constexpr int most_workers = 65'536;
constexpr int most_nodes = 65'536;

// --- workers ---

void parse_slots(SettingsReader& in, Options& out) {
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
    out.node.slots = *n;
  } else {
    in.fail(std::move(n).error().with_hint("give a number from 1 to " + std::to_string(most_workers) +
                                           ", auto, cpu, or a device: " + join(accelerator_names(), ", ")));
  }
}

void parse_program_kind(SettingsReader& in, Options& out) {
  out.module = in.on("module");
  out.no_python = in.on("no-python");
  out.run_path = in.on("run-path");
  out.pass_local_rank = in.on("pass-local-rank");
  out.env_defaults = !in.on("no-env-defaults");
  if (const auto mpi = in.one_of("mpi", {"auto", "pmi", "pmix", "none"}); mpi && *mpi != "auto")
    out.mpi = *mpi == "pmi" ? Mpi::pmi : *mpi == "pmix" ? Mpi::pmix : Mpi::none;
  out.job.accelerate = in.one_of("accelerate", {"gloo"}).value_or("");
  if (const auto port = in.integer("worker-store", 1, 65535))
    out.node.worker_store = static_cast<std::uint16_t>(*port);
  in.one_of("start-method", {"spawn", "fork", "forkserver"});
}

// --- nodes ---

// "2" or "1:4".
void parse_nnodes(SettingsReader& in, Options& out) {
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
  out.job.min_nodes = out.job.nnodes = *least;
  if (colon == std::string::npos) return;
  const auto most = in.keep(number(setting->from, text.substr(colon + 1), 1, most_nodes));
  if (!most) return;
  out.job.nnodes = *most;
  if (*least > *most) {
    in.fail(usage(as_given(*setting) + ": the smallest number of nodes is larger than the largest", "",
                  "write MIN:MAX"));
  }
}

// "host", "host:port", or several of these.
void parse_endpoints(SettingsReader& in, Options& out) {
  constexpr std::size_t most = 16;
  const Setting* setting = in.given("rdzv-endpoint");
  if (!setting || setting->value.empty()) return;
  for (const std::string& text : comma_list(setting->value)) {
    // The results differ only if the text has no port.
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

void apply_rdzv_conf(SettingsReader& in, Options& out) {
  const Setting* setting = in.given("rdzv-conf");
  if (!setting) return;
  auto conf = in.keep(parse_rdzv_conf(*setting));
  if (!conf) return;
  const auto take = [&](const char* flag, const std::optional<Duration>& from, Duration& value) {
    if (from && in.given(flag) == nullptr) value = *from;
  };
  take("join-timeout", conf->join_timeout, out.job.join_timeout);
  take("last-call-timeout", conf->last_call, out.job.last_call);
  take("node-timeout", conf->node_timeout, out.job.node_timeout);
  if (conf->hosts_endpoint) out.hosts_endpoint = conf->hosts_endpoint;
  if (!conf->etcd_prefix.empty()) out.etcd_prefix = conf->etcd_prefix;
  for (std::string& warning : conf->warnings) out.warnings.push_back(std::move(warning));
}

// If no backend is named, the other settings decide: given ranks are fixed ones.
void parse_backend(SettingsReader& in, Options& out) {
  const auto name = in.one_of("rdzv-backend", {"static", "c10d", "etcd", "etcd-v2"});
  const bool changes = out.job.min_nodes < out.job.nnodes || out.job.spares > 0 || out.endpoints.size() > 1;
  const bool finds_ranks = out.job.nnodes > 1 && !out.endpoints.empty() && !out.node_rank;
  if (!name && (changes || finds_ranks)) out.backend = Options::Backend::c10d;
  if (name == "static" && changes) {
    in.fail(usage(as_given(*in.given("rdzv-backend")) +
                      ": static cannot be combined with --nnodes=MIN:MAX, --spares or several endpoints",
                  "", "use --rdzv-backend=c10d"));
  }
  if (name == "c10d") out.backend = Options::Backend::c10d;
  if (name == "etcd") out.backend = Options::Backend::etcd;
  if (name == "etcd-v2") out.backend = Options::Backend::etcd_v2;
}

void parse_nodes(SettingsReader& in, Options& out) {
  parse_nnodes(in, out);
  out.node_rank = in.integer("node-rank", 0, std::numeric_limits<int>::max());
  out.master_addr = in.host("master-addr");
  if (const auto port = in.integer("master-port", 0, 65535))
    out.master_port = static_cast<std::uint16_t>(*port);
  out.local_addr = in.host("local-addr");
  parse_endpoints(in, out);
  if (const auto n = in.integer("spares", 0, most_nodes)) out.job.spares = *n;
  parse_backend(in, out);
  out.job.id = in.text("rdzv-id").value_or("");
  out.token_file = in.text("token-file").value_or("");
  out.tls = in.on("tls");
  out.store_max_total = in.size("store-max-total");
  if (const auto wait = in.duration("join-timeout")) out.job.join_timeout = *wait;
  if (const auto wait = in.duration("last-call-timeout")) out.job.last_call = *wait;
  if (const auto wait = in.duration("node-timeout")) out.job.node_timeout = *wait;
  apply_rdzv_conf(in, out);
  in.one_of("scheduler", {"auto", "none"});

  out.standalone = in.on("standalone");
  if (out.standalone) {
    out.job.min_nodes = out.job.nnodes = 1;
    out.node_rank.reset();
    out.master_addr.reset();
    out.master_port.reset();
    out.backend = Options::Backend::fixed;
    out.endpoints.clear();
    out.job.spares = 0;
  }
}

// --- hosts ---

bool is_variable_name(std::string_view name) {
  const auto fits = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; };
  return !name.empty() && std::isdigit(static_cast<unsigned char>(name.front())) == 0 &&
         std::all_of(name.begin(), name.end(), fits);
}

void parse_exports(SettingsReader& in, Options& out) {
  const Setting* setting = in.given("export");
  if (!setting) return;
  for (std::string_view rest = setting->value; !rest.empty();) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string one(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (one.empty()) continue;
    if (!is_variable_name(one.substr(0, one.find('=')))) {
      in.fail(usage(setting->from + ": '" + one + "' is not NAME or NAME=VALUE", "",
                    "give one variable per --export; give only its name if its value has several lines"));
    }
    out.exports.push_back(one);
  }
}

void parse_ssh(SettingsReader& in, Options& out) {
  const Setting* setting = in.given("ssh");
  if (!setting || setting->value.empty()) return;
  auto words = split_words(setting->value);
  if (words && !words->empty()) {
    out.ssh = std::move(*words);
  } else {
    in.fail(usage(as_given(*setting) + " is not a command", words ? "" : words.error().why, ""));
  }
}

void parse_hosts_flags(SettingsReader& in, Options& out) {
  out.hosts = in.text("hosts").value_or("");
  out.hostfile = in.text("hostfile").value_or("");
  parse_exports(in, out);
  if (const Setting* terms = in.given("lifeline")) {
    out.lifeline = in.keep(parse_lifeline(terms->from, terms->value));
    return;
  }
  parse_ssh(in, out);
  if (const auto width = in.integer("tree-width", 0, most_nodes)) out.tree_width = *width;
  for (const char* flag : {"hosts", "hostfile"}) {
    const Setting* named = in.given(flag);
    if (named && named->value.empty()) {
      in.fail(usage(as_given(*named) + " names no host", "",
                    "is a shell variable empty? For a job on this machine only, leave the flag out"));
    }
  }
}

// --- output and placement ---

void parse_output(SettingsReader& in, const Settings& settings, Options& out) {
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

void parse_placement(SettingsReader& in, Options& out) {
  const auto bind = in.one_of("bind", {"none", "core", "numa", "gpu"});
  if (bind == "core") out.bind = Bind::core;
  if (bind == "numa") out.bind = Bind::numa;
  if (bind == "gpu") out.bind = Bind::gpu;
  const auto numa = in.one_of("numa-binding", {"node", "socket", "exclusive", "core-complex"});
  if (numa == "node") out.bind = Bind::node;
  if (numa == "socket") out.bind = Bind::socket;
  if (numa == "exclusive") out.bind = Bind::exclusive;
  if (numa == "core-complex") out.bind = Bind::core_complex;
  out.node.virtual_local_rank = in.on("virtual-local-rank");
}

}  // namespace

Result<Options> options_from_settings(const Settings& settings) {
  Options out;
  SettingsReader in(settings);
  parse_slots(in, out);
  out.node.role = in.text("role").value_or(out.node.role);
  parse_nodes(in, out);
  parse_hosts_flags(in, out);
  parse_failure_flags(in, out);
  parse_program_kind(in, out);
  parse_output(in, settings, out);
  parse_placement(in, out);
  out.verbose = in.on("verbose");
  out.dry_run = in.on("dry-run");
  check_combinations(in, out);
  if (in.error()) return std::move(*in.error());
  return out;
}

}  // namespace dlaunch::launcher
