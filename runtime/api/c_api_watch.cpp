// Where this process runs, debugging and profiling in C.

#include <cstdint>
#include <string>

#include "dlaunch/debug.h"
#include "dlaunch/profiling.h"
#include "runtime/api/c_api.h"
#include "runtime/base/process_environment.h"
#include "runtime/record/recorder.h"

using namespace dlaunch::internal::c;
using dlaunch::DistError;
using dlaunch::internal::process_environment;

static_assert(static_cast<int>(dlaunch::DebugLevel::off) == DLAUNCH_DEBUG_OFF);
static_assert(static_cast<int>(dlaunch::DebugLevel::detail) == DLAUNCH_DEBUG_DETAIL);
static_assert(static_cast<int>(dlaunch::LogLevel::error) == DLAUNCH_LOG_ERROR);
static_assert(static_cast<int>(dlaunch::LogLevel::trace) == DLAUNCH_LOG_TRACE);

int dlaunch_is_backend_available(const char* name) {
  return answer(0, [&] { return dlaunch::is_backend_available(&required(name, "the name")) ? 1 : 0; });
}
int dlaunch_is_gloo_available() { return dlaunch_is_backend_available("gloo"); }
int dlaunch_is_nccl_available() { return dlaunch_is_backend_available("nccl"); }
int dlaunch_is_mpi_available() { return dlaunch_is_backend_available("mpi"); }
int dlaunch_is_dlaunch_launched() { return dlaunch::is_dlaunch_launched() ? 1 : 0; }
int dlaunch_is_torchelastic_launched() { return dlaunch::is_torchelastic_launched() ? 1 : 0; }
uint64_t dlaunch_fencing_token() {
  return answer(UINT64_MAX, [] { return dlaunch::fencing_token(); });
}
const char* dlaunch_get_default_backend_for_device(const char* device) {
  return text_answer(
      [&] { return dlaunch::get_default_backend_for_device(&required(device, "the device")); });
}

uint32_t dlaunch_add_call_site(const char* file, uint32_t line, const char* function) {
  if (file == nullptr || function == nullptr) return 0;
  return answer(std::uint32_t{0}, [&] {
    const bool is_off = process_environment("DLAUNCH_CALL_SITES").value_or("") == "0";
    return is_off ? std::uint32_t{0} : dlaunch::internal::recorder().add_call_site(file, line, function);
  });
}
uint32_t* dlaunch_thread_call_site() { return &dlaunch::internal::thread_call_site(); }

int dlaunch_breakpoint(int rank, const dlaunch_group* group) {
  return guarded([&] { dlaunch::breakpoint(rank, group_of(group)); });
}
int dlaunch_get_debug_level() {
  return answer(DLAUNCH_DEBUG_OFF, [] { return static_cast<int>(dlaunch::get_debug_level()); });
}
int dlaunch_set_debug_level(int level) {
  return guarded([&] {
    if (level < DLAUNCH_DEBUG_OFF || level > DLAUNCH_DEBUG_DETAIL) {
      throw DistError(std::to_string(level) + " is not a debug level");
    }
    dlaunch::set_debug_level(static_cast<dlaunch::DebugLevel>(level));
  });
}
int dlaunch_start_trace(const char* path) {
  return guarded([&] { dlaunch::start_trace(&required(path, "the path")); });
}
int dlaunch_stop_trace() {
  return guarded([] { dlaunch::stop_trace(); });
}

int dlaunch_set_profiling_callback(dlaunch_profiling_callback callback, void* context) {
  return guarded([&] {
    if (!callback) return dlaunch::set_profiling_callback({});
    dlaunch::set_profiling_callback([callback, context](const dlaunch::ProfilingEvent& event) {
      const std::string name(event.name);
      const std::string group(event.group);
      const dlaunch_profiling_event told = {
          event.kind == dlaunch::ProfilingEvent::Kind::begin ? DLAUNCH_BEGIN : DLAUNCH_END,
          event.id,
          name.c_str(),
          group.c_str(),
          event.rank,
          event.sequence,
          event.bytes,
          event.time_ns,
          event.success ? 1 : 0};
      callback(&told, context);
    });
  });
}
int dlaunch_set_log_handler(dlaunch_log_handler handler, void* context) {
  return guarded([&] {
    if (!handler) return dlaunch::set_log_handler({});
    dlaunch::set_log_handler([handler, context](dlaunch::LogLevel level, const std::string& message) {
      handler(static_cast<int>(level), message.c_str(), context);
    });
  });
}
