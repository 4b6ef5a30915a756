/*
 * ZeroMQ: two sockets of type PAIR.
 *
 *	zmq server ENDPOINT
 *	zmq client ENDPOINT JOBS
 */
#include <zmq.h>

#include "measure.h"

static void *sock;

static void ok(int result, const char *what)
{
	if (result < 0)
		fail(what, zmq_strerror(zmq_errno()));
}

static void echo(char *message, size_t size)
{
	ok(zmq_send(sock, message, size, 0), "send");
	ok(zmq_recv(sock, message, size, 0), "receive");
}

static int64_t pour(char *message, size_t size, int64_t until)
{
	int64_t sent = 0, count;
	message[0] = DATA;
	while (more(sent, size, until)) {
		ok(zmq_send(sock, message, size, 0), "send");
		sent++;
	}
	message[0] = LAST;
	ok(zmq_send(sock, message, size, 0), "send");
	ok(zmq_recv(sock, &count, sizeof count, 0), "receive");
	return count;
}

static void serve(void)
{
	char *buf = malloc(MAX_SIZE);
	int64_t count = 0;
	for (;;) {
		int n = zmq_recv(sock, buf, MAX_SIZE, 0);
		ok(n, "receive");
		switch (buf[0]) {
		case DATA:
			count++;
			break;
		case LAST:
			count++;
			ok(zmq_send(sock, &count, sizeof count, 0), "send");
			count = 0;
			break;
		default:
			ok(zmq_send(sock, buf, n, 0), "send");
		}
	}
}

int main(int argc, char **argv)
{
	struct peer peer = { echo, pour };
	void *context = zmq_ctx_new();

	sock = zmq_socket(context, ZMQ_PAIR);
	if (argc == 3 && !strcmp(argv[1], "server")) {
		ok(zmq_bind(sock, argv[2]), argv[2]);
		puts("ready");
		fflush(stdout);
		serve();
	}
	if (argc != 4)
		fail("arguments", "expected server ENDPOINT or client ENDPOINT JOBS");
	ok(zmq_connect(sock, argv[2]), argv[2]);
	measure(&peer, argv[3]);
	return 0;
}
