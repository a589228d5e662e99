// MPI's side of host_bench.py and mpi_bench.py. With BACKEND: and the backend mpi beside it, in one process.
#include "host_mpi.h"

#ifdef BACKEND
#include "host_dlaunch.h"
#endif

int main(int argc, char** argv) {
#ifdef BACKEND
  int provided = MPI_THREAD_SINGLE;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  dlaunch::init_process_group({.backend = "mpi"});
  {
    HostMpi mpi;
    HostDlaunch backend;
    HostCollectives(mpi, backend).run(argc, argv);
  }
  dlaunch::destroy_process_group();
#else
  MPI_Init(&argc, &argv);
  {
    HostMpi mpi;
    HostCollectives(mpi).run(argc, argv);
  }
#endif
  MPI_Finalize();
  return 0;
}
