// Every row of torchrun's table of flags, in every form that a flag may be given in; and that the table,
// --help and the manual page name the same flags.

#include <algorithm>
#include <csignal>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>

#include "launcher/flags/command_line.h"
#include "launcher/flags/flag_table.h"
#include "launcher/flags/value_parsers.h"
#include "tests/launcher/flags/parsed_options.h"

namespace dlaunch::launcher {
namespace {

using agent::Streams;
using std::chrono::milliseconds;

using Holds = std::function<bool(const Options&)>;

struct Row {
  const char* flag;
  const char* value;  // of a switch: nullptr
  Holds holds;        // true with this value, and not without
  Words others = {};  // what else the command line needs for this value to be right
};

agent::StreamMap some(std::map<int, Streams> ranks) { return {Streams::none, std::move(ranks)}; }

// What a flag without effect leaves behind: that it was understood.
Holds kept(const char* flag, const char* value) {
  return [=](const Options& o) {
    const Setting* setting = find(o.settings, flag);
    return setting != nullptr && setting->value == value;
  };
}

const std::vector<Row> rows{
    {"nnodes", "3", [](const Options& o) { return o.job.min_nodes == 3 && o.job.nnodes == 3; }},
    {"nnodes", "2:2", [](const Options& o) { return o.job.min_nodes == 2 && o.job.nnodes == 2; }},
    {"nnodes", "1:4", [](const Options& o) { return o.job.min_nodes == 1 && o.job.nnodes == 4; }},
    {"nproc-per-node", "4", [](const Options& o) { return o.node.slots == 4; }},
    {"nproc-per-node", "cpu", [](const Options& o) { return o.slots_kind == Options::Slots::all_cpus; }},
    {"nproc-per-node", "gpu",
     [](const Options& o) { return o.slots_kind == Options::Slots::accelerators && o.accelerator == "gpu"; }},
    {"nproc-per-node", "xpu", [](const Options& o) { return o.accelerator == "xpu"; }},
    {"nproc-per-node", "auto", [](const Options& o) { return o.slots_kind == Options::Slots::gpus_or_cpus; }},
    {"rdzv-backend", "c10d", [](const Options& o) { return o.backend == Options::Backend::c10d; }},
    {"rdzv-backend", "etcd", [](const Options& o) { return o.backend == Options::Backend::etcd; }},
    {"rdzv-backend", "etcd-v2", [](const Options& o) { return o.backend == Options::Backend::etcd_v2; }},
    {"rdzv-endpoint", "h:1234",
     [](const Options& o) {
       return o.endpoints == std::vector<Endpoint>{{"h", 1234}};
     }},
    {"rdzv-endpoint", "h",
     [](const Options& o) {
       return o.endpoints == std::vector<Endpoint>{{"h", std::nullopt}};
     }},
    {"rdzv-endpoint", "[::1]:7",
     [](const Options& o) {
       return o.endpoints == std::vector<Endpoint>{{"::1", 7}};
     }},
    {"rdzv-endpoint", "a,b:7",
     [](const Options& o) {
       return o.endpoints == std::vector<Endpoint>{{"a", std::nullopt}, {"b", 7}};
     }},
    {"rdzv-id", "run_7", [](const Options& o) { return o.job.id == "run_7"; }},
    {"rdzv-conf", "join_timeout=7,is_host=1",
     [](const Options& o) { return o.job.join_timeout == milliseconds(7000); }},
    {"rdzv-conf", "is_host=0", [](const Options& o) { return o.hosts_endpoint == false; }},
    {"rdzv-conf", "last_call_timeout=4",
     [](const Options& o) { return o.job.last_call == milliseconds(4000); }},
    {"rdzv-conf", "keep_alive_interval=2",
     [](const Options& o) { return o.job.node_timeout == milliseconds(6000); }},
    {"rdzv-conf", "keep_alive_max_attempt=2",
     [](const Options& o) { return o.job.node_timeout == milliseconds(10'000); }},
    {"rdzv-conf", "timeout=8", [](const Options& o) { return o.job.join_timeout == milliseconds(8000); }},
    {"standalone", nullptr, [](const Options& o) { return o.standalone; }},
    {"max-restarts", "5", [](const Options& o) { return o.job.max_restarts == 5; }},
    {"monitor-interval", "0.25", kept("monitor-interval", "0.25")},
    {"start-method", "fork", kept("start-method", "fork")},
    {"start-method", "forkserver", kept("start-method", "forkserver")},
    {"event-log-handler", "dynamic_rendezvous", kept("event-log-handler", "dynamic_rendezvous")},
    {"event-log-handler", "console",
     [](const Options& o) { return o.events_on_console && o.warnings.empty(); }},
    {"role", "train_er", [](const Options& o) { return o.node.role == "train_er"; }},
    {"module", nullptr, [](const Options& o) { return o.module; }},
    {"no-python", nullptr, [](const Options& o) { return o.no_python; }},
    {"run-path", nullptr, [](const Options& o) { return o.run_path; }},
    {"log-dir", "/tmp/log_s", [](const Options& o) { return o.log.dir == "/tmp/log_s"; }},
    {"redirects", "3",
     [](const Options& o) {
       return o.log.redirects == agent::StreamMap{Streams::both, {}};
     }},
    {"redirects", "0:1,10:3,0:2",
     [](const Options& o) {
       return o.log.redirects == some({{0, Streams::err}, {10, Streams::both}});
     }},
    {"tee", "1",
     [](const Options& o) {
       return o.log.tee == agent::StreamMap{Streams::out, {}};
     }},
    {"tee", "2:3",
     [](const Options& o) {
       return o.log.tee == some({{2, Streams::both}});
     }},
    {"local-ranks-filter", "3,0,11,3",
     [](const Options& o) {
       return o.log.local_ranks_filter == std::vector<int>{0, 3, 11};
     }},
    {"global-ranks-filter", "12,3",
     [](const Options& o) {
       return o.log.global_ranks_filter == std::vector<int>{3, 12};
     }},
    {"duplicate-stdout-filters", "loss,a,,b",
     [](const Options& o) {
       return o.log.duplicate_stdout_filters == Words{"loss", "a,b"};
     }},
    {"duplicate-stderr-filters", "W_1",
     [](const Options& o) { return o.log.duplicate_stderr_filters == Words{"W_1"}; }},
    {"log-line-prefix-template",
     "${rank}_: ", [](const Options& o) { return o.log.line_prefix == "${rank}_: "; }},
    {"log-max-size", "64M", [](const Options& o) { return o.log.max_bytes == 64U << 20; }},
    {"preempt-signal", "SIGUSR1@60",
     [](const Options& o) {
       return o.node.preempt_signal == SIGUSR1 && o.node.preempt_notice == std::chrono::seconds(60);
     }},
    {"tls", nullptr, [](const Options& o) { return o.tls; }},
    {"preempt-ok", nullptr, [](const Options& o) { return o.node.preempt_ok; }},
    {"report", "/tmp/end_1.json", [](const Options& o) { return o.report == "/tmp/end_1.json"; }},
    {"output-timeout", "0.5", [](const Options& o) { return o.output_timeout == milliseconds(500); }},
    {"log-keep", "7", [](const Options& o) { return o.log.keep == 7; }},
    {"node-rank", "1", [](const Options& o) { return o.node_rank == 1; }, {"--nnodes=2"}},
    {"master-addr", "my_host", [](const Options& o) { return o.master_addr == "my_host"; }},
    {"master-addr", "[::1]", [](const Options& o) { return o.master_addr == "::1"; }},
    {"local-addr", "[fe80::1]", [](const Options& o) { return o.local_addr == "fe80::1"; }},
    {"events-format", "torchelastic",
     [](const Options& o) { return o.events_format == EventsFormat::torchelastic; }},
    {"pty", nullptr, [](const Options& o) { return o.pty; }},
    {"master-port", "1234", [](const Options& o) { return o.master_port == 1234; }},
    {"local-addr", "10.0.0.7", [](const Options& o) { return o.local_addr == "10.0.0.7"; }},
    {"logs-specs", "default", kept("logs-specs", "default")},
    {"numa-binding", "node", [](const Options& o) { return o.bind == Bind::node; }},
    {"numa-binding", "socket", [](const Options& o) { return o.bind == Bind::socket; }},
    {"numa-binding", "exclusive", [](const Options& o) { return o.bind == Bind::exclusive; }},
    {"numa-binding", "core-complex", [](const Options& o) { return o.bind == Bind::core_complex; }},
    {"signals-to-handle", "SIGTERM,SIGUSR1",
     [](const Options& o) {
       return o.node.stop_signals == std::vector<int>{SIGTERM, SIGUSR1};
     }},
    {"shutdown-timeout", "1.5",
     [](const Options& o) { return o.job.stop_timeout.usual == milliseconds(1500); }},
    {"virtual-local-rank", nullptr, [](const Options& o) { return o.node.virtual_local_rank; }},
    {"use-env", nullptr, kept("pass-local-rank", "false")},
    // dlaunch's own
    {"pass-local-rank", nullptr, [](const Options& o) { return o.pass_local_rank; }},
    {"join-timeout", "9", [](const Options& o) { return o.job.join_timeout == milliseconds(9000); }},
    {"last-call-timeout", "3", [](const Options& o) { return o.job.last_call == milliseconds(3000); }},
    {"spares", "2",
     [](const Options& o) { return o.job.spares == 2 && o.backend == Options::Backend::c10d; }},
    {"restart-limit", "3@60",
     [](const Options& o) { return o.job.policy.burst == 3 && o.job.policy.window == milliseconds(60'000); }},
    {"restart-backoff", "2:8",
     [](const Options& o) {
       return o.job.policy.first_delay == milliseconds(2000) &&
              o.job.policy.longest_delay == milliseconds(8000);
     }},
    {"no-restart-on", "64,2",
     [](const Options& o) {
       return o.job.policy.final_codes == std::vector<int>{64, 2};
     }},
    {"startup-grace", "600",
     [](const Options& o) { return o.job.policy.startup_grace == milliseconds(600'000); }},
    {"exclude-after", "3", [](const Options& o) { return o.job.policy.exclude_after == 3; }},
    {"health-check", "nvidia-smi", [](const Options& o) { return o.node.health_check == "nvidia-smi"; }},
    {"health-check-timeout", "3",
     [](const Options& o) { return o.node.health_timeout == milliseconds(3000); }},
    {"events", "e.json", [](const Options& o) { return o.events == "e.json"; }},
    {"token-file", "t", [](const Options& o) { return o.token_file == "t"; }},
    {"store-max-total", "3M", [](const Options& o) { return o.store_max_total == 3U << 20; }},
    {"count-membership-changes", nullptr, [](const Options& o) { return o.job.counts_membership; }},
    {"node-timeout", "1.5", [](const Options& o) { return o.job.node_timeout == milliseconds(1500); }},
    {"hang-timeout", "1.5", [](const Options& o) { return o.job.hang_timeout == milliseconds(1500); }},
    {"hang-note", "1.5", [](const Options& o) { return o.job.hang_note == milliseconds(1500); }},
    {"stop-timeout", "2", [](const Options& o) { return o.job.stop_timeout.usual == milliseconds(2000); }},
    {"scheduler", "none", kept("scheduler", "none")},
    {"worker-store", "1234", [](const Options& o) { return o.node.worker_store == 1234; }},
    {"accelerate", "gloo", [](const Options& o) { return o.job.accelerate == "gloo"; }},
    {"mpi", "pmi", [](const Options& o) { return o.mpi == Mpi::pmi; }},
    {"mpi", "none", [](const Options& o) { return o.mpi == Mpi::none; }},
    {"no-env-defaults", nullptr, [](const Options& o) { return !o.env_defaults; }},
    {"bind", "core", [](const Options& o) { return o.bind == Bind::core; }},
    {"bind", "numa", [](const Options& o) { return o.bind == Bind::numa; }},
    {"bind", "gpu", [](const Options& o) { return o.bind == Bind::gpu; }},
    {"hosts", "a,b_1:2", [](const Options& o) { return o.hosts == "a,b_1:2"; }},
    {"hostfile", "my_hosts", [](const Options& o) { return o.hostfile == "my_hosts"; }},
    {"ssh", "my_rsh -q",
     [](const Options& o) {
       return o.ssh == Words{"my_rsh", "-q"};
     }},
    {"tree-width", "8", [](const Options& o) { return o.tree_width == 8; }},
    {"export", "MY_NAME=x", [](const Options& o) { return o.exports == Words{"MY_NAME=x"}; }},
    {"verbose", nullptr, [](const Options& o) { return o.verbose; }},
};

std::string underscored(std::string text) {
  std::replace(text.begin(), text.end(), '-', '_');
  return text;
}

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  words.emplace_back("x");
  return words;
}

TEST(Flags, EachInEveryFormOfTheCommandLine) {
  for (const Row& row : rows) {
    const std::string name = std::string("--") + row.flag;
    const std::string other = "--" + underscored(row.flag);
    std::vector<Words> forms;
    if (!row.value) {
      forms = {{name}, {other}};
    } else {
      forms = {{name, row.value}, {other, row.value}, {name + "=" + row.value}, {other + "=" + row.value}};
    }
    EXPECT_FALSE(row.holds(good(with({}, row.others)))) << row.flag << " has this value by default";
    for (const Words& form : forms) EXPECT_TRUE(row.holds(good(with(form, row.others)))) << join(form, " ");
  }
}

TEST(Flags, EachByItsVariables) {
  std::size_t variables = 0;
  for (const Row& row : rows) {
    for (const std::string& variable : variables_of(*find_flag(row.flag))) {
      EXPECT_TRUE(row.holds(good(with({}, row.others), {{variable, row.value ? row.value : "1"}})))
          << variable;
      ++variables;
    }
  }
  EXPECT_GT(variables, rows.size());
}

TEST(Flags, PetVariablesAreTorchruns) {
  // As torchrun's own table has them: dest in capitals, and none for these four.
  const std::set<std::string_view> without{"logs-specs", "numa-binding", "use-env", "help",
                                           "print-completion"};
  for (const Flag& flag : flags()) {
    EXPECT_EQ(flag.pet, flag.torchrun && !without.contains(flag.name)) << flag.name;
  }
  EXPECT_EQ(variables_of(*find_flag("nproc-per-node")),
            (Words{"DLAUNCH_NPROC_PER_NODE", "PET_NPROC_PER_NODE"}));
  EXPECT_EQ(variables_of(*find_flag("shutdown-timeout")).back(), "TORCH_ELASTIC_SHUTDOWN_TIMEOUT");
}

TEST(Flags, EachByTheFile) {
  for (const Row& row : rows) {
    for (const std::string& key : {std::string(row.flag), underscored(row.flag)}) {
      const std::string value = row.value ? "\"" + std::string(row.value) + "\"" : "true";
      Words arguments{"--config=job.json"};
      arguments = with(arguments, row.others);
      EXPECT_TRUE(row.holds(good(arguments, {}, {{"job.json", "{\"" + key + "\": " + value + "}"}}))) << key;
    }
  }
}

TEST(Flags, NoneOfTheTableIsWithoutARow) {
  std::set<std::string_view> tested;
  for (const Row& row : rows) tested.insert(row.flag);
  for (const Flag& flag : flags()) {
    const bool needs_row = flag.settable && flag.name != "config";
    EXPECT_TRUE(!needs_row || tested.contains(flag.name)) << flag.name;
  }
}

TEST(Flags, HelpAndManualPageNameEach) {
  std::ifstream file(DLAUNCH_SOURCE_DIR "/man/dlaunch.1");
  std::stringstream page;
  page << file.rdbuf();
  std::string manual = page.str();
  manual.erase(std::remove(manual.begin(), manual.end(), '\\'), manual.end());
  const std::string help = help_text();
  ASSERT_FALSE(manual.empty());
  for (const Flag& flag : flags()) {
    const std::string name = "--" + std::string(flag.name);
    // The entry of its own, not a mention: ".BR --nnodes " ..." or ".B --standalone".
    const bool entry = manual.find(".BR " + name + " ") != std::string::npos ||
                       manual.find(".B " + name + "\n") != std::string::npos ||
                       manual.find(", \" " + name + "\n") != std::string::npos ||
                       manual.find(", \" " + name + " ") != std::string::npos;
    EXPECT_TRUE(entry) << name << " has no entry in man/dlaunch.1";
    EXPECT_NE(help.find(name), std::string::npos) << name;
  }
}

}  // namespace
}  // namespace dlaunch::launcher
