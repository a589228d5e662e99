# Writes the commit that SOURCE has checked out into the C++ source OUTPUT, only if it changed:
#
#   cmake -DSOURCE=<checkout> -DOUTPUT=<file> -P WriteCommit.cmake
#
# The commit is empty if SOURCE is no checkout of its own (an unpacked archive, perhaps inside another project's checkout),
# and if there is no git.
cmake_minimum_required(VERSION 3.25)

# git's output; empty if it fails. It takes no lock, so another git is not disturbed, and accepts a checkout of another user,
# as in a container: the build runs that user's code anyway.
function(ask_git result)
  execute_process(COMMAND ${GIT} --no-optional-locks -c safe.directory=${SOURCE} -C ${SOURCE} ${ARGN}
    OUTPUT_VARIABLE output OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(failed)
    set(output "")
  endif()
  set(${result} "${output}" PARENT_SCOPE)
endfunction()

set(commit "")
find_program(GIT git)
if(GIT AND EXISTS ${SOURCE}/.git)
  ask_git(commit rev-parse --short=12 HEAD)
  ask_git(changes status --porcelain --untracked-files=no)
  if(commit AND changes)
    string(APPEND commit "-dirty")
  endif()
endif()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT [[
#include "launcher/build_commit.h"

namespace dlaunch::launcher {

const char* const build_commit = "@commit@";

}  // namespace dlaunch::launcher
]] @ONLY)
