// Records in the worker's page how this process crashes: signal, address and stack on SIGSEGV, SIGBUS,
// SIGFPE, SIGILL and SIGABRT, the exception and its stack on std::terminate. The process then ends as it
// would have. On SIGURG it records the stack of the thread that takes the signal, and goes on: so the agent
// learns where a rank is for which others wait.
#pragma once

#include "store/contract/worker_page.h"

namespace dlaunch::internal {

// Installs the handlers, once, and gives the calling thread an alternate signal stack, so that an overflow of
// its stack is recorded, too. A handler that the program has installed before is called after the record; if
// it returns, the record is removed. One that the program installs later replaces this one; if it has one for
// SIGURG already, none is installed for that. Does nothing
// without a page, or if DLAUNCH_CRASH_STACK is 0. A forked child records nothing.
void record_crashes(page::Page* page);

}  // namespace dlaunch::internal
