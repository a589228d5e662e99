/* A plain MPI program, with no word of dlaunch in it.
 *
 *   mpi_program                    all ranks add up their numbers
 *   mpi_program abort CODE         rank 1 calls MPI_Abort while the others wait for it
 *   mpi_program die                rank 1 kills itself while the others wait for it
 *   mpi_program leave              rank 1 returns 0 without MPI
 *   mpi_program again              rank 1 exits with 3 in the first round, after MPI_Init
 */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int is(int argc, char** argv, const char* what) { return argc > 1 && strcmp(argv[1], what) == 0; }

int main(int argc, char** argv) {
  int rank = 0;
  int size = 0;
  int sum = 0;
  const char* own = getenv("RANK");
  const char* round = getenv("DLAUNCH_ROUND");
  if (is(argc, argv, "leave") && own != NULL && strcmp(own, "1") == 0) return 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (rank == 1 && is(argc, argv, "abort")) MPI_Abort(MPI_COMM_WORLD, atoi(argv[2]));
  if (rank == 1 && is(argc, argv, "die")) raise(SIGKILL);
  if (rank == 1 && is(argc, argv, "again") && round != NULL && strcmp(round, "0") == 0) exit(3);
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  printf("rank %d of %d: sum %d, RANK %s\n", rank, size, sum, own != NULL ? own : "none");
  MPI_Finalize();
  return 0;
}
