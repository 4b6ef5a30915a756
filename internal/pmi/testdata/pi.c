/* pi adds up the area under 4/(1+x*x) from 0 to 1, each rank its share of the strips, and prints the
 * sum of all shares. Then a number goes around a ring of the ranks, and every rank adds its own. */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int strips = 100000;

static double share(int rank, int size) {
	double sum = 0;
	for (int i = rank; i < strips; i += size) {
		double x = (i + 0.5) / strips;
		sum += 4 / (1 + x * x) / strips;
	}
	return sum;
}

/* ring returns the sum of all ranks at rank 0. */
static int ring(int rank, int size) {
	int sum = 0, left = (rank + size - 1) % size, right = (rank + 1) % size;
	if (size == 1)
		return 0;
	if (rank > 0)
		MPI_Recv(&sum, 1, MPI_INT, left, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	sum += rank;
	MPI_Send(&sum, 1, MPI_INT, right, 7, MPI_COMM_WORLD);
	if (rank == 0)
		MPI_Recv(&sum, 1, MPI_INT, left, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	return sum;
}

int main(int argc, char **argv) {
	int rank, size;
	double own, all = 0;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	if (argc > 1 && !strcmp(argv[1], "abort") && rank == size - 1)
		MPI_Abort(MPI_COMM_WORLD, 9);
	own = share(rank, size);
	MPI_Reduce(&own, &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
	MPI_Barrier(MPI_COMM_WORLD);
	int sum = ring(rank, size);
	if (rank == 0)
		printf("%d ranks: pi is %.6f, off by less than 1e-6: %s; the ring adds up to %d\n", size, all,
		       fabs(all - M_PI) < 1e-6 ? "yes" : "no", sum);
	MPI_Finalize();
	return 0;
}
