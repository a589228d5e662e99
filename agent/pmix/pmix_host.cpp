#include "agent/pmix/pmix_host.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "store/base/base64.h"

namespace dlaunch::agent {
namespace {

PmixHost* the_host = nullptr;  // the library's calls have no other way to it

// As base64 in a line.
constexpr std::size_t piece_size = 2880;
static_assert(piece_size / 3 * 4 + 64 < longest_pmi_line);

int fail(const char* what, pmix_status_t status) {
  std::fprintf(stderr, "dlaunch-pmix: %s: %s\n", what, PMIx_Error_string(status));
  return 1;
}

// Of the process that started dlaunch, if that was a PMIx server, too.
void forget_other_servers() {
  std::vector<std::string> names;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    if (text.starts_with("PMIX_") && !text.starts_with("PMIX_MCA_"))
      names.emplace_back(text.substr(0, text.find('=')));
  }
  for (const std::string& name : names) unsetenv(name.c_str());  // NOLINT(concurrency-mt-unsafe)
  setenv("PMIX_MCA_gds", "hash", 0);  // NOLINT(concurrency-mt-unsafe): job data need no files of their own
}

// A blocking call of the library reports this, too.
bool is_done(pmix_status_t status) { return status == PMIX_SUCCESS || status == PMIX_OPERATION_SUCCEEDED; }

void free_data(void* data) { delete static_cast<std::string*>(data); }

// `data` lives until the library has read it.
void answer(pmix_modex_cbfunc_t done, void* context, std::string data) {
  auto* const kept = new std::string(std::move(data));
  done(PMIX_SUCCESS, kept->data(), kept->size(), context, free_data, kept);
}

}  // namespace

int PmixHost::serve() {
  the_host = this;
  agent_.send("cmd=world\n");
  const auto description = agent_.receive();
  const std::optional<PmixWorld> world = description ? world_of(*description) : std::nullopt;
  if (!world) return 1;
  world_ = *world;
  if (!make_folder()) return 1;
  if (const int code = begin(world_); code != 0) return code;
  while (const auto line = agent_.receive()) {
    if (line->command() == "released" && !end_fence()) break;
  }
  // The ranks have ended, or will soon. What they have registered for removal goes with the server, and then
  // the memory of ranks that were killed.
  PMIx_server_finalize();
  std::error_code ignored;
  if (!world_.folder.empty()) std::filesystem::remove_all(world_.folder, ignored);
  return 0;
}

// One of its own for each round: Open MPI has the library remove it with the round. That of the job stays,
// whose lock tells other jobs that this one lives.
bool PmixHost::make_folder() {
  if (world_.folder.empty()) return true;
  world_.folder += "/" + world_.name;
  if (mkdir(world_.folder.c_str(), S_IRWXU) == 0 || errno == EEXIST) return true;
  std::fprintf(stderr, "dlaunch-pmix: cannot make the directory %s: %s\n", world_.folder.c_str(),
               std::strerror(errno));  // NOLINT(concurrency-mt-unsafe): one thread
  return false;
}

int PmixHost::begin(const PmixWorld& world) {
  forget_other_servers();
  pmix_server_module_t module = calls();
  const std::string own_name = world.node_name(world.own_node);
  std::vector<pmix_info_t> options(world.folder.empty() ? 1 : 3);
  PMIx_Info_load(options.data(), PMIX_HOSTNAME, own_name.c_str(), PMIX_STRING);
  if (!world.folder.empty()) {
    PMIx_Info_load(&options[1], PMIX_SERVER_TMPDIR, world.folder.c_str(), PMIX_STRING);
    PMIx_Info_load(&options[2], PMIX_SYSTEM_TMPDIR, world.folder.c_str(), PMIX_STRING);
  }
  pmix_status_t status = PMIx_server_init(&module, options.data(), options.size());
  for (pmix_info_t& option : options) PMIX_INFO_DESTRUCT(&option);
  if (!is_done(status)) return fail("cannot start a PMIx server", status);
  JobData job(world);
  status =
      PMIx_server_register_nspace(world.name.c_str(), world.slots, job.data(), job.size(), nullptr, nullptr);
  if (!is_done(status)) return fail("cannot describe the job to PMIx", status);
  for (int i = 0; i < world.slots; ++i) {
    const pmix_proc_t proc = proc_of(i);
    status = PMIx_server_register_client(&proc, getuid(), getgid(), nullptr, nullptr, nullptr);
    if (!is_done(status)) return fail("cannot describe a rank to PMIx", status);
    if (!send_variables(i)) return 1;
  }
  return agent_.send("cmd=ready\n") ? 0 : 1;
}

// What the library would set in the environment of a process that this one forks.
bool PmixHost::send_variables(int local_rank) {
  const pmix_proc_t proc = proc_of(local_rank);
  char** variables = nullptr;
  const pmix_status_t status = PMIx_server_setup_fork(&proc, &variables);
  if (!is_done(status)) return fail("cannot set up a rank", status) == 0;
  std::string lines;
  for (char** variable = variables; variable != nullptr && *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const std::size_t sign = text.find('=');
    if (sign == std::string_view::npos) continue;
    lines.append("cmd=variable rank=").append(std::to_string(local_rank));
    lines.append(" name=").append(text.substr(0, sign));
    lines.append(" value=").append(to_base64(text.substr(sign + 1))).append("\n");
  }
  pmix_argv_free(variables);
  return agent_.send(lines);
}

// --- fences ---

// A name without ranks stands for all of them.
bool PmixHost::is_of_all(const pmix_proc_t procs[], std::size_t count) const {
  return count == static_cast<std::size_t>(world_.size()) ||
         std::any_of(procs, procs + count,
                     [](const pmix_proc_t& one) { return one.rank == PMIX_RANK_WILDCARD; });
}

bool PmixHost::is_of_this_node(const pmix_proc_t procs[], std::size_t count) const {
  return std::all_of(procs, procs + count, [&](const pmix_proc_t& one) {
    const auto rank = static_cast<std::int64_t>(one.rank);
    return one.rank == PMIX_RANK_LOCAL_PEERS ||
           (rank >= world_.base_rank && rank < world_.base_rank + world_.slots);
  });
}

pmix_status_t PmixHost::on_fence(const pmix_proc_t procs[], std::size_t count, const char* data,
                                 std::size_t size, pmix_modex_cbfunc_t done, void* context) {
  std::string own(data != nullptr ? std::string(data, size) : std::string());
  if (!is_of_all(procs, count)) {
    if (!is_of_this_node(procs, count)) return PMIX_ERR_NOT_SUPPORTED;
    answer(done, context, std::move(own));
    return PMIX_SUCCESS;
  }
  const std::lock_guard lock(mutex_);
  fences_.push_back({std::move(own), done, context});
  if (fences_.size() == 1) send_fence(fences_.front().data);
  return PMIX_SUCCESS;
}

void PmixHost::send_fence(const std::string& data) {
  std::string lines;
  for (std::size_t at = 0; at < data.size(); at += piece_size)
    lines += "cmd=data value=" + to_base64(std::string_view(data).substr(at, piece_size)) + "\n";
  agent_.send(lines + "cmd=fence\n");
}

// Takes the data of all nodes. False: the agent has ended.
bool PmixHost::end_fence() {
  std::string data;
  for (;;) {
    agent_.send("cmd=next\n");
    const auto line = agent_.receive();
    if (!line) return false;
    if (line->command() == "end") break;
    data += from_base64(line->value("value").value_or("")).value_or("");
  }
  std::optional<Fence> ended;
  {
    const std::lock_guard lock(mutex_);
    if (fences_.empty()) return true;
    ended = std::move(fences_.front());
    fences_.pop_front();
    if (!fences_.empty()) send_fence(fences_.front().data);
  }
  answer(ended->done, ended->context, std::move(data));
  return true;
}

// --- the library's calls ---

pmix_proc_t PmixHost::proc_of(int local_rank) const {
  pmix_proc_t proc;
  PMIX_LOAD_PROCID(&proc, world_.name.c_str(), static_cast<pmix_rank_t>(world_.base_rank + local_rank));
  return proc;
}

std::string PmixHost::local_rank_of(const pmix_proc_t& proc) const {
  return std::to_string(static_cast<std::int64_t>(proc.rank) - world_.base_rank);
}

pmix_server_module_t PmixHost::calls() {
  pmix_server_module_t module{};
  module.client_connected2 = [](const pmix_proc_t* proc, void*, pmix_info_t*, std::size_t, pmix_op_cbfunc_t,
                                void*) -> pmix_status_t {
    the_host->agent_.send("cmd=connected rank=" + the_host->local_rank_of(*proc) + "\n");
    return PMIX_OPERATION_SUCCEEDED;
  };
  module.client_finalized = [](const pmix_proc_t* proc, void*, pmix_op_cbfunc_t, void*) -> pmix_status_t {
    the_host->agent_.send("cmd=finalized rank=" + the_host->local_rank_of(*proc) + "\n");
    return PMIX_OPERATION_SUCCEEDED;
  };
  module.abort = [](const pmix_proc_t* proc, void*, int status, const char*, pmix_proc_t*, std::size_t,
                    pmix_op_cbfunc_t, void*) -> pmix_status_t {
    the_host->agent_.send("cmd=abort rank=" + the_host->local_rank_of(*proc) +
                          " code=" + std::to_string(status) + "\n");
    return PMIX_OPERATION_SUCCEEDED;
  };
  module.fence_nb = [](const pmix_proc_t procs[], std::size_t count, const pmix_info_t*, std::size_t,
                       char* data, std::size_t size, pmix_modex_cbfunc_t done,
                       void* context) { return the_host->on_fence(procs, count, data, size, done, context); };
  // Files that a rank wants removed when it has ended the library removes by itself, but only for a host that
  // controls jobs.
  module.job_control = [](const pmix_proc_t*, const pmix_proc_t*, std::size_t, const pmix_info_t*,
                          std::size_t, pmix_info_cbfunc_t,
                          void*) -> pmix_status_t { return PMIX_ERR_NOT_SUPPORTED; };
  return module;
}

}  // namespace dlaunch::agent
