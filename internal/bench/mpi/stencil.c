/* A star stencil of radius 2 on a square grid, as in the Parallel Research Kernels, for MPI.
 *
 * The ranks hold contiguous rows. An iteration exchanges two rows with each neighbor, adds the
 * stencil of the input to the output at the inner positions, and adds 1 to the input.
 *
 *     stencil SIDE WARM ITERATIONS
 *
 * The first WARM iterations are not timed. Rank 0 prints the seconds of the others, and the
 * sum of the output. */
#include <mpi.h>
#ifndef MPICH_VERSION
#error "this program is a baseline by MPICH; expected the compiler of MPICH"
#endif
#include <stdio.h>
#include <stdlib.h>

enum { R = 2 };

static void exchange(double *in, long n, long rows, int below, int above) {
	MPI_Request all[4];
	MPI_Status each[4];
	int k = 0;
	if (below >= 0) {
		MPI_Irecv(in, R * n, MPI_DOUBLE, below, 0, MPI_COMM_WORLD, &all[k++]);
		MPI_Isend(in + R * n, R * n, MPI_DOUBLE, below, 1, MPI_COMM_WORLD, &all[k++]);
	}
	if (above >= 0) {
		MPI_Irecv(in + (R + rows) * n, R * n, MPI_DOUBLE, above, 1, MPI_COMM_WORLD, &all[k++]);
		MPI_Isend(in + rows * n, R * n, MPI_DOUBLE, above, 0, MPI_COMM_WORLD, &all[k++]);
	}
	MPI_Waitall(k, all, each);
}

static void row(double *restrict out, const double *restrict in, long n) {
	for (long j = R; j < n - R; j++)
		out[j] += 0.25 * ((in[j + 1] - in[j - 1]) + (in[j + n] - in[j - n])) +
			  0.125 * ((in[j + 2] - in[j - 2]) + (in[j + 2 * n] - in[j - 2 * n]));
}

int main(int argc, char **argv) {
	MPI_Init(&argc, &argv);
	int rank, size;
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	if (argc != 4) {
		if (rank == 0)
			fprintf(stderr, "usage: stencil SIDE WARM ITERATIONS\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	long n = atol(argv[1]), warm = atol(argv[2]), iterations = atol(argv[3]);
	long first = n * rank / size, rows = n * (rank + 1) / size - first;
	int below = rank > 0 ? rank - 1 : -1, above = rank < size - 1 ? rank + 1 : -1;
	double *in = calloc((rows + 2 * R) * n, sizeof *in), *out = calloc(rows * n, sizeof *out);
	if (!in || !out)
		MPI_Abort(MPI_COMM_WORLD, 3);
	for (long i = 0; i < rows; i++)
		for (long j = 0; j < n; j++)
			in[(R + i) * n + j] = first + i + j;
	double began = 0;
	for (long it = 0; it < warm + iterations; it++) {
		if (it == warm) {
			MPI_Barrier(MPI_COMM_WORLD);
			began = MPI_Wtime();
		}
		exchange(in, n, rows, below, above);
		for (long i = 0; i < rows; i++)
			if (first + i >= R && first + i < n - R)
				row(out + i * n, in + (R + i) * n, n);
		for (double *p = in + R * n; p < in + (R + rows) * n; p++)
			*p += 1;
	}
	MPI_Barrier(MPI_COMM_WORLD);
	double took = MPI_Wtime() - began, sum = 0, all = 0;
	for (long i = 0; i < rows * n; i++)
		sum += out[i];
	MPI_Reduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
	if (rank == 0)
		printf("%.9f %.0f\n", took, all);
	MPI_Finalize();
	return 0;
}
