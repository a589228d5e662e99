// The commit that this program was built from. cmake/WriteCommit.cmake writes the source when a build begins.
#pragma once

namespace dlaunch::launcher {

// "abcdef123456", with "-dirty" if files of the checkout had changed. Empty: the build did not know it.
extern const char* const build_commit;

}  // namespace dlaunch::launcher
