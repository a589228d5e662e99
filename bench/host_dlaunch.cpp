// Our side of host_bench.py, started by dlaunch.
#include "bench/host_dlaunch.h"

int main(int argc, char** argv) {
  dlaunch::init_process_group();
  {
    HostDlaunch library;
    HostCollectives(library).run(argc, argv);
  }
  dlaunch::destroy_process_group();
  return 0;
}
