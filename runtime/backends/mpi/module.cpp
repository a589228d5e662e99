// The module that libdlaunch.so loads for the backend "mpi". It links no MPI: it loads the module of the one
// that this process uses (mpi_choice.h), once.

#include <dlfcn.h>

#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

#include "dlaunch/backend.h"
#include "dlaunch/error.h"
#include "runtime/backends/mpi/mpi_choice.h"
#include "runtime/base/process_environment.h"

namespace {

using namespace dlaunch;
using namespace dlaunch::internal;

// The file of an MPI's module, and of the library that shows that the process has loaded this MPI.
struct Files {
  MpiLibrary library;
  const char* module;
  const char* mpi;
};
constexpr Files files[] = {{MpiLibrary::open_mpi, "mpi_open_mpi.so", "libmpi.so.40"},
                           {MpiLibrary::mpich, "mpi_mpich.so", "libmpich.so.12"},
                           {MpiLibrary::other, "mpi_other.so", nullptr}};

std::filesystem::path own_folder() {
  Dl_info here{};
  std::error_code failed;
  if (dladdr(&dlaunch_backend_module, &here) == 0 || here.dli_fname == nullptr) return {};
  return std::filesystem::canonical(here.dli_fname, failed).parent_path();
}

bool is_loaded(const char* library) {
  void* const handle = library == nullptr ? nullptr : dlopen(library, RTLD_NOW | RTLD_NOLOAD);
  if (handle != nullptr) dlclose(handle);  // only the reference of this call
  return handle != nullptr;
}

MpiSituation situation() {
  MpiSituation now;
  for (const Files& one : files) {
    std::error_code failed;
    if (std::filesystem::exists(own_folder() / one.module, failed)) now.built.push_back(one.library);
    if (is_loaded(one.mpi)) now.loaded.push_back(one.library);
  }
  return now;
}

// Null, and why, if there is none.
std::pair<const BackendModule*, std::string> load() {
  const MpiChoice choice = choose_mpi(process_environment, situation());
  if (!choice.why_not.empty()) return {nullptr, choice.why_not};
  for (const Files& one : files) {
    if (one.library != choice.library) continue;
    const std::string path = (own_folder() / one.module).string();
    void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return {nullptr, dlerror()};
    return {static_cast<const BackendModule*>(dlsym(library, "dlaunch_backend_module")), ""};
  }
  return {nullptr, "it has no module of " + name_of(choice.library)};
}

// Once there is one, it stays.
const BackendModule* chosen(std::string& reason) {
  static std::mutex mutex;
  static const BackendModule* module = nullptr;
  const std::lock_guard lock(mutex);
  if (module == nullptr) std::tie(module, reason) = load();
  return module;
}

const BackendModule& required() {
  std::string reason;
  const BackendModule* const module = chosen(reason);
  if (module == nullptr) throw DistBackendError("backend 'mpi' cannot be used: " + reason);
  return *module;
}

bool viable(std::string& reason) { return chosen(reason) != nullptr; }
std::unique_ptr<Backend> create(const BackendContext& context) { return required().create(context); }
BackendWorld::Place place() { return required().world->place(); }
std::string share(const std::string& text, Deadline deadline) {
  return required().world->share(text, deadline);
}

constexpr BackendWorld world = {place, share};

}  // namespace

// MPI need not notice that a rank has died; the other backend does.
const BackendModule dlaunch_backend_module = {.abi = backend_abi_version,
                                              .name = "mpi",
                                              .devices = "cpu",
                                              .viable = viable,
                                              .create = create,
                                              .world = &world,
                                              .uses_control_plane = true,
                                              .stages_cuda = true};
