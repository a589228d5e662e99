// Which MPI a program is linked with, by the libraries that its file names.
#pragma once

#include <string>
#include <vector>

#include "launcher/options/plan.h"

namespace dlaunch::launcher {

// Of the program as typed. none: it is linked with no MPI, is a script, or cannot be read.
MpiLibrary mpi_library(const std::string& program);

// The same by the libraries' names ("libmpich.so.12").
MpiLibrary mpi_library(const std::vector<std::string>& libraries);

}  // namespace dlaunch::launcher
