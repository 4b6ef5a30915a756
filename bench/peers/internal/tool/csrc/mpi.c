/*
 * MPI: rank 0 is the client, rank 1 the server. Messages one way go in windows, all of one posted before the first is
 * waited for, on both sides.
 *
 *	mpirun -n 2 mpi JOBS
 */
#include <mpi.h>

#include "measure.h"

#define WINDOW 64
#define MEMORY (8 << 20)

enum { TAG_SIZE = 1, TAG_DATA, TAG_COUNT };

static MPI_Request requests[WINDOW];

/* How many messages of a size are under way at a time: both sides must agree. */
static int window_of(size_t size)
{
	size_t n = MEMORY / size;
	return n > WINDOW ? WINDOW : n < 2 ? 2 : (int)n;
}

/* The server has to know what comes: how long, and whether it is to be sent back. 0 is the end. */
static void announce(size_t size, int back)
{
	long told[2] = { (long)size, back };
	MPI_Send(told, 2, MPI_LONG, 1, TAG_SIZE, MPI_COMM_WORLD);
}

static size_t announced;

static void echo(char *message, size_t size)
{
	if (announced != size) {
		announce(size, 1);
		announced = size;
	}
	MPI_Send(message, size, MPI_BYTE, 1, TAG_DATA, MPI_COMM_WORLD);
	MPI_Recv(message, size, MPI_BYTE, 1, TAG_DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* leave ends the round trips of one size, so that the server looks for what is announced. */
static void leave(char *message)
{
	if (!announced)
		return;
	message[0] = LAST;
	MPI_Send(message, announced, MPI_BYTE, 1, TAG_DATA, MPI_COMM_WORLD);
	announced = 0;
}

static int64_t pour(char *message, size_t size, int64_t until)
{
	int window = window_of(size);
	long count;

	leave(message);
	announce(size, 0);
	for (message[0] = DATA; message[0] != LAST;) {
		message[0] = now() < until ? DATA : LAST;
		for (int i = 0; i < window; i++)
			MPI_Isend(message, size, MPI_BYTE, 1, TAG_DATA, MPI_COMM_WORLD, &requests[i]);
		MPI_Waitall(window, requests, MPI_STATUSES_IGNORE);
	}
	MPI_Recv(&count, 1, MPI_LONG, 1, TAG_COUNT, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	return count;
}

static void serve_echo(char *buf, size_t size)
{
	for (;;) {
		MPI_Recv(buf, size, MPI_BYTE, 0, TAG_DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		if (buf[0] == LAST)
			return;
		MPI_Send(buf, size, MPI_BYTE, 0, TAG_DATA, MPI_COMM_WORLD);
	}
}

static void serve_pour(char *buf, size_t size)
{
	int window = window_of(size);
	long count = 0;

	buf[0] = DATA;
	while (buf[0] != LAST) {
		for (int i = 0; i < window; i++)
			MPI_Irecv(buf + i * size, size, MPI_BYTE, 0, TAG_DATA, MPI_COMM_WORLD, &requests[i]);
		MPI_Waitall(window, requests, MPI_STATUSES_IGNORE);
		count += window;
	}
	MPI_Send(&count, 1, MPI_LONG, 0, TAG_COUNT, MPI_COMM_WORLD);
}

static void serve(void)
{
	char *buf = malloc(2 * MEMORY);
	long told[2];

	for (;;) {
		MPI_Recv(told, 2, MPI_LONG, 0, TAG_SIZE, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		if (!told[0])
			return;
		if (told[1])
			serve_echo(buf, told[0]);
		else
			serve_pour(buf, told[0]);
	}
}

/* Round trips of one size end before those of the next begin. */
static void echo_of_any_size(char *message, size_t size)
{
	if (announced && announced != size)
		leave(message);
	message[0] = ECHO;
	echo(message, size);
}

int main(int argc, char **argv)
{
	struct peer peer = { echo_of_any_size, pour };
	char *end = calloc(1, MAX_SIZE);
	int rank;

	MPI_Init(&argc, &argv);
	if (argc != 2)
		fail("arguments", "expected JOBS");
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	if (rank == 1) {
		serve();
	} else {
		measure(&peer, argv[1]);
		leave(end);
		announce(0, 0);
	}
	MPI_Finalize();
	return 0;
}
