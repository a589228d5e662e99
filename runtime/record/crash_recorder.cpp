#include "runtime/record/crash_recorder.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <typeinfo>

#include "runtime/base/demangled.h"
#include "runtime/base/process_environment.h"
#include "runtime/record/interrupted_wait.h"
#include "runtime/record/page_words.h"

namespace dlaunch::internal {
namespace {

constexpr std::array signals{SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
static_assert(page::stack_signal == SIGURG);
constexpr std::size_t alternate_stack_size = 256 * 1024;

// Everything that the handlers need, set before they are installed.
struct Installed {
  page::Page* page = nullptr;
  std::array<struct sigaction, signals.size()> before{};
  std::terminate_handler terminate_before = nullptr;
  std::array<char, 160> program{};  // its path
};
Installed installed;

// A handler of the program was called, which may have gone on by siglongjmp: a later crash replaces the
// record.
std::atomic<bool> may_have_gone_on = false;

// --- async-signal-safe, down to the end of this section ---

template <std::size_t N>
void put_text(std::array<char, N>& into, const char* text) {
  std::size_t length = 0;
  for (; length + 1 < N && text[length] != '\0'; ++length) into[length] = text[length];
  into[length] = '\0';
}

// Another thread records its crash: this one must not end the process meanwhile.
void await_other(std::uint32_t& state) {
  constexpr int most = 500;
  for (int i = 0; i < most && std::atomic_ref(state).load() == page::Crash::writing; ++i) {
    const timespec moment{0, 1'000'000};
    nanosleep(&moment, nullptr);
  }
}

// nullptr: there is no page, or it is another process's.
page::Crash* own_crash() {
  if (installed.page == nullptr) return nullptr;
  page::Header& header = installed.page->header;
  return std::atomic_ref(header.owner).load() == getpid() ? &header.crash : nullptr;
}

// Whether this thread writes the record from now on. No record, and that of a living process, may be
// replaced.
bool take(page::Crash& crash, bool may_replace_crash) {
  std::atomic_ref<std::uint32_t> state(crash.state);
  std::uint32_t before = state.load();
  const bool may = before == page::Crash::none || before == page::Crash::sampled ||
                   (before == page::Crash::whole && may_replace_crash);
  if (!may || !state.compare_exchange_strong(before, page::Crash::writing)) return false;
  put(crash.thread, std::int32_t{gettid()});
  return true;
}

// nullptr: as own_crash(), or the first crash is recorded already.
page::Crash* begin_record(bool may_replace) {
  page::Crash* const crash = own_crash();
  if (crash == nullptr) return nullptr;
  const bool may_replace_crash = may_replace && may_have_gone_on;
  if (take(*crash, may_replace_crash)) return crash;
  const bool another_writes = std::atomic_ref(crash->state).load() == page::Crash::writing &&
                              std::atomic_ref(crash->thread).load() != gettid();
  if (!another_writes) return nullptr;
  await_other(crash->state);
  return take(*crash, may_replace_crash) ? crash : nullptr;  // the other one did not crash
}

std::uint8_t module_number(page::Crash& crash, const char* path) {
  if (path[0] == '\0') path = installed.program.data();
  std::array<char, 160> wanted{};
  put_text(wanted, path);
  for (std::uint32_t i = 0; i < crash.modules; ++i) {
    if (crash.paths[i] == wanted) return static_cast<std::uint8_t>(i);
  }
  if (crash.modules == page::Crash::max_modules) return page::Crash::no_module;
  crash.paths[crash.modules] = wanted;
  return static_cast<std::uint8_t>(crash.modules++);
}

// Addresses come as numbers, from registers and from the unwinder.
void* pointer_to(std::uintptr_t address) {
  return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
}

// `address` is within the instruction.
void add_frame(page::Crash& crash, std::uintptr_t address) {
  if (crash.frames == page::Crash::max_frames) return;
  std::uint8_t module = page::Crash::no_module;
  std::uint64_t offset = address;
  dl_find_object found{};
  if (_dl_find_object(pointer_to(address), &found) == 0 && found.dlfo_link_map != nullptr) {
    module = module_number(crash, found.dlfo_link_map->l_name);
    if (module != page::Crash::no_module) offset = address - found.dlfo_link_map->l_addr;
  }
  crash.module_of[crash.frames] = module;
  crash.offsets[crash.frames++] = offset;
}

// A return address is behind the call.
void add_callers(page::Crash& crash, std::span<void* const> addresses) {
  for (void* const address : addresses) add_frame(crash, reinterpret_cast<std::uintptr_t>(address) - 1);
}

struct Registers {
  std::uintptr_t instruction = 0;
  std::uintptr_t stack = 0;
};
Registers registers_of(const void* context) {
  const auto* const all = static_cast<const ucontext_t*>(context);
#if defined(__x86_64__)
  return {static_cast<std::uintptr_t>(all->uc_mcontext.gregs[REG_RIP]),
          static_cast<std::uintptr_t>(all->uc_mcontext.gregs[REG_RSP])};
#elif defined(__aarch64__)
  return {all->uc_mcontext.pc, all->uc_mcontext.sp};
#else
  (void)all;
  return {};
#endif
}

// The interrupted function is behind the handler and the kernel's frame for it.
void put_interrupted_stack(page::Crash& crash, const void* context) {
  std::array<void*, page::Crash::max_frames + 8> addresses{};
  const auto count =
      static_cast<std::size_t>(backtrace(addresses.data(), static_cast<int>(addresses.size())));
  const std::span<void*> all = std::span(addresses).first(count);
  const Registers registers = registers_of(context);
  const auto at = std::find(all.begin(), all.end(), pointer_to(registers.instruction));
  add_frame(crash, registers.instruction);
  if (at != all.end()) return add_callers(crash, {at + 1, all.end()});
#if defined(__x86_64__)
  // A call of what is no function: the unwinder stops there, but the return address is on the stack.
  dl_find_object found{};
  if (_dl_find_object(pointer_to(registers.instruction), &found) != 0 && registers.stack != 0)
    add_frame(crash, *static_cast<const std::uintptr_t*>(pointer_to(registers.stack)) - 1);
#endif
}

void clear(page::Crash& crash) {
  crash.signal = crash.code = 0;
  crash.address = 0;
  crash.frames = crash.modules = 0;
  crash.terminate = 0;
  crash.what[0] = '\0';
}

std::uint64_t steady_now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  constexpr std::uint64_t second = 1'000'000'000;
  return static_cast<std::uint64_t>(now.tv_sec) * second + static_cast<std::uint64_t>(now.tv_nsec);
}

void on_stack_signal(int signo, siginfo_t* /*info*/, void* context) {
  const int error = errno;
  page::Crash* const crash = own_crash();
  if (crash != nullptr && take(*crash, false)) {
    clear(*crash);
    crash->signal = signo;
    put_interrupted_stack(*crash, context);
    crash->address = steady_now();
    put(crash->state, std::uint32_t{page::Crash::sampled});
  }
  repeat_interrupted_wait(context);
  errno = error;
}

void on_signal(int signo, siginfo_t* info, void* context);

bool is_ours(int signo) {
  struct sigaction now {};
  return sigaction(signo, nullptr, &now) == 0 && (now.sa_flags & SA_SIGINFO) != 0 &&
         now.sa_sigaction == on_signal;
}

// As if this handler were not there. Returns whether the program goes on.
bool pass_on(int signo, siginfo_t* info, void* context) {
  const auto place =
      static_cast<std::size_t>(std::find(signals.begin(), signals.end(), signo) - signals.begin());
  const struct sigaction& before = installed.before[place];
  may_have_gone_on = (before.sa_flags & SA_SIGINFO) != 0 || before.sa_handler != SIG_DFL;
  if ((before.sa_flags & SA_SIGINFO) != 0) {
    before.sa_sigaction(signo, info, context);
    return is_ours(signo);  // faulthandler and its kind put another in their place, and raise the signal
  }
  if (before.sa_handler != SIG_DFL) {
    before.sa_handler(signo);
    return is_ours(signo);
  }
  // The instruction is repeated, and the kernel ends the process there; a signal that was sent is sent again.
  sigaction(signo, &before, nullptr);
  if (info->si_code <= 0) (void)raise(signo);
  return false;
}

void on_signal(int signo, siginfo_t* info, void* context) {
  const int error = errno;
  page::Crash* const crash =
      begin_record(signo != SIGABRT);  // which may be how that handler ends the process
  if (crash != nullptr) {
    clear(*crash);
    crash->signal = signo;
    crash->code = info->si_code;
    crash->address = info->si_code <= 0 ? static_cast<std::uint64_t>(info->si_pid)
                                        : reinterpret_cast<std::uintptr_t>(info->si_addr);
    put_interrupted_stack(*crash, context);
    put(crash->state, std::uint32_t{page::Crash::whole});
  }
  if (pass_on(signo, info, context) && crash != nullptr) put(crash->state, std::uint32_t{page::Crash::none});
  errno = error;
}

// --- not in a signal handler ---

std::string current_exception_text() {
  const std::type_info* const type = abi::__cxa_current_exception_type();
  if (type == nullptr) return "";
  std::string text = demangled(type->name());
  try {
    throw;
  } catch (const std::exception& e) {
    text.append(": ").append(e.what());
  } catch (...) {
    text += " (not a std::exception)";
  }
  return text;
}

// The stack still has the function that threw.
[[noreturn]] void on_terminate() {
  if (page::Crash* const crash = begin_record(true)) {
    clear(*crash);
    crash->signal = SIGABRT;
    crash->terminate = 1;
    std::array<void*, page::Crash::max_frames> addresses{};
    const int count = backtrace(addresses.data(), static_cast<int>(addresses.size()));
    const std::span<void*> all = std::span(addresses).first(static_cast<std::size_t>(count));
    add_callers(*crash, all.subspan(all.empty() ? 0 : 1));  // without this function
    put_text(crash->what, current_exception_text().c_str());
    put(crash->state, std::uint32_t{page::Crash::whole});
  }
  if (installed.terminate_before != nullptr) installed.terminate_before();
  std::abort();
}

// The calling thread's, if it has none; gone with the thread.
class AlternateStack {
 public:
  AlternateStack() {
    stack_t now{};
    if (sigaltstack(nullptr, &now) != 0 || (now.ss_flags & SS_DISABLE) == 0) return;
    void* const memory = mmap(nullptr, alternate_stack_size, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (memory == MAP_FAILED) return;
    stack_t own{};
    own.ss_sp = memory;
    own.ss_size = alternate_stack_size;
    if (sigaltstack(&own, nullptr) == 0) {
      memory_ = memory;
    } else {
      munmap(memory, alternate_stack_size);
    }
  }
  ~AlternateStack() {
    stack_t now{};
    if (memory_ == nullptr || sigaltstack(nullptr, &now) != 0 || now.ss_sp != memory_) return;
    stack_t none{};
    none.ss_flags = SS_DISABLE;
    if (sigaltstack(&none, nullptr) == 0) munmap(memory_, alternate_stack_size);
  }
  AlternateStack(const AlternateStack&) = delete;
  AlternateStack& operator=(const AlternateStack&) = delete;

 private:
  void* memory_ = nullptr;
};

void offer_stacks(page::Page& page) {
  struct sigaction before {};
  if (sigaction(page::stack_signal, nullptr, &before) != 0) return;
  if ((before.sa_flags & SA_SIGINFO) != 0 || before.sa_handler != SIG_DFL) return;
  struct sigaction own {};
  own.sa_sigaction = on_stack_signal;
  own.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
  sigemptyset(&own.sa_mask);
  if (sigaction(page::stack_signal, &own, nullptr) == 0) put(page.header.crash.samples, std::uint8_t{1});
}

void install(page::Page* page) {
  installed.page = page;
  if (readlink("/proc/self/exe", installed.program.data(), installed.program.size() - 1) < 0)
    installed.program[0] = '\0';
  void* warm_up = nullptr;  // the first call loads the unwinder
  (void)backtrace(&warm_up, 1);
  for (std::size_t i = 0; i < signals.size(); ++i) {
    struct sigaction& before = installed.before[i];
    if (sigaction(signals[i], nullptr, &before) != 0) continue;
    const bool is_ignored = (before.sa_flags & SA_SIGINFO) == 0 && before.sa_handler == SIG_IGN;
    if (is_ignored) continue;
    struct sigaction own {};
    own.sa_sigaction = on_signal;
    own.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&own.sa_mask);
    (void)sigaction(signals[i], &own, nullptr);
  }
  installed.terminate_before = std::set_terminate(on_terminate);
  offer_stacks(*page);
}

}  // namespace

void record_crashes(page::Page* page) {
  if (page == nullptr || process_environment("DLAUNCH_CRASH_STACK").value_or("") == "0") return;
  static std::once_flag once;
  std::call_once(once, install, page);
  thread_local const AlternateStack stack;
}

}  // namespace dlaunch::internal
