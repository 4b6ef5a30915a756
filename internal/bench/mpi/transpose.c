/* A transposition of a square matrix, as in the Parallel Research Kernels, for MPI.
 *
 * The ranks hold contiguous rows of the matrices a and b. An iteration adds the transpose of a to
 * b, and adds 1 to a. A rank transposes the block of each other rank while it packs it.
 *
 *     transpose SIDE WARM ITERATIONS
 *
 * The first WARM iterations are not timed. Rank 0 prints the seconds of the others, and a
 * sum over b in which each row has a weight. */
#include <mpi.h>
#ifndef MPICH_VERSION
#error "this program is a baseline by MPICH; expected the compiler of MPICH"
#endif
#include <stdio.h>
#include <stdlib.h>

enum { TILE = 32 };

static long least(long a, long b) { return a < b ? a : b; }

/* to[j][i] = from[i][j], or += if add is not 0; from has h rows of w elements. */
static void turn(double *restrict to, long tostep, const double *restrict from, long fromstep, long h, long w, int add) {
	for (long i0 = 0; i0 < h; i0 += TILE)
		for (long j0 = 0; j0 < w; j0 += TILE)
			for (long j = j0; j < least(j0 + TILE, w); j++)
				for (long i = i0; i < least(i0 + TILE, h); i++)
					if (add)
						to[j * tostep + i] += from[i * fromstep + j];
					else
						to[j * tostep + i] = from[i * fromstep + j];
}

int main(int argc, char **argv) {
	MPI_Init(&argc, &argv);
	int rank, size;
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	if (argc != 4) {
		if (rank == 0)
			fprintf(stderr, "usage: transpose SIDE WARM ITERATIONS\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	long n = atol(argv[1]), warm = atol(argv[2]), iterations = atol(argv[3]);
	long first = n * rank / size, rows = n * (rank + 1) / size - first, most = n / size + 1;
	double *a = malloc(rows * n * sizeof *a), *b = calloc(rows * n, sizeof *b);
	double *out = malloc(most * most * sizeof *out), *in = malloc(most * most * sizeof *in);
	if (!a || !b || !out || !in)
		MPI_Abort(MPI_COMM_WORLD, 3);
	for (long i = 0; i < rows; i++)
		for (long j = 0; j < n; j++)
			a[i * n + j] = (3 * (first + i) + 5 * j) % 17;
	double began = 0;
	for (long it = 0; it < warm + iterations; it++) {
		if (it == warm) {
			MPI_Barrier(MPI_COMM_WORLD);
			began = MPI_Wtime();
		}
		turn(b + first, n, a + first, n, rows, rows, 1);
		for (int k = 1; k < size; k++) {
			int to = (rank + k) % size, from = (rank + size - k) % size;
			long tofirst = n * to / size, torows = n * (to + 1) / size - tofirst;
			long fromfirst = n * from / size, fromrows = n * (from + 1) / size - fromfirst;
			turn(out, rows, a + tofirst, n, rows, torows, 0);
			MPI_Sendrecv(out, rows * torows, MPI_DOUBLE, to, 0, in, rows * fromrows, MPI_DOUBLE, from, 0,
				     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			for (long i = 0; i < rows; i++)
				for (long j = 0; j < fromrows; j++)
					b[i * n + fromfirst + j] += in[i * fromrows + j];
		}
		for (long i = 0; i < rows * n; i++)
			a[i] += 1;
	}
	MPI_Barrier(MPI_COMM_WORLD);
	double took = MPI_Wtime() - began, sum = 0, all = 0;
	for (long i = 0; i < rows; i++)
		for (long j = 0; j < n; j++)
			sum += b[i * n + j] * ((first + i) % 7 + 1);
	MPI_Reduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
	if (rank == 0)
		printf("%.9f %.0f\n", took, all);
	MPI_Finalize();
	return 0;
}
