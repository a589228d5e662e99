// A directory for what workers leave for their agent: their error files.
#pragma once

#include <cstddef>
#include <string>

#include "store/base/result.h"
#include "store/base/time.h"

namespace dlaunch::agent {

// Makes one in `temporary`, readable by this user only. Whoever ends last, the keeper, removes it.
Result<std::string> make_scratch_dir(const std::string& temporary);
// With the files in it. No directory is no error.
void remove_scratch_dir(const std::string& path);

// Since the file was written last; zero where there is none.
Duration age_of(const std::string& path);

// At most `limit` bytes of a regular file; empty where there is none.
std::string read_bounded(const std::string& path, std::size_t limit);

}  // namespace dlaunch::agent
