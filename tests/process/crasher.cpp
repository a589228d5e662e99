// A rank that crashes in a function of its own, `broken`, after the ranks have formed a group.
//
//   crasher RANK HOW     null, call, overflow, divide, abort, throw, sent: what this rank does
//                        handled: its own handler goes on after a fault; then it throws
//                        own: its own handler, installed before the group is formed, ends it with code 7
#include <dlaunch/distributed.h>
#include <unistd.h>

#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>

namespace crasher {

sigjmp_buf before_the_fault;

void jump_back(int) { siglongjmp(before_the_fault, 1); }
void end_with_seven(int) { _exit(7); }

[[gnu::noinline]] int deepen(volatile char* above, int depth) {
  volatile char here[4096];
  here[0] = above[0];
  if (depth < 0) return 0;
  return deepen(here, depth + 1) + here[0];
}

[[gnu::noinline]] int broken(const std::string& how) {
  volatile int zero = 0;
  int* volatile nowhere = nullptr;
  if (how == "null" || how == "own") *nowhere = 1;
  if (how == "call") reinterpret_cast<void (*)()>(nowhere)();
  if (how == "overflow") {
    volatile char begin = 0;
    return deepen(&begin, 0);
  }
  if (how == "divide") return 7 / zero;
  if (how == "abort") std::abort();
  if (how == "sent") kill(getpid(), SIGSEGV);
  throw std::runtime_error("loss is NaN");
}

// Its handler goes on behind the fault.
void survive_a_fault() {
  int* volatile nowhere = nullptr;
  if (sigsetjmp(before_the_fault, 1) == 0) *nowhere = 1;
}

}  // namespace crasher

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const std::string how = argv[2];
  const char* const rank = std::getenv("RANK");
  const bool crashes = rank != nullptr && std::string(rank) == argv[1];
  if (crashes && how == "own") (void)std::signal(SIGSEGV, crasher::end_with_seven);
  if (crashes && how == "handled") (void)std::signal(SIGSEGV, crasher::jump_back);
  dlaunch::init_process_group();
  if (crashes && how == "handled") crasher::survive_a_fault();
  if (crashes) std::printf("%d\n", crasher::broken(how));
  dlaunch::barrier();
  return 0;
}
