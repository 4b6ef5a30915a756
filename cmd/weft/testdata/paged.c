/* A program whose memory is network memory, if it is started by `weft mem map`; otherwise it is its own.
 *
 *     weft mem map --size 1GiB --resident 256MiB --server mem/0 -- ./paged
 *
 * It fills the memory with numbers that tell each word, has several threads change pages at random, looks at each number before it
 * changes it, and at all of them in the end. It says how long each took. With memory of its own and a limit on that it shows what swapping
 * costs.
 *
 *     paged [-b BYTES] [-t THREADS] [-n CHANGES]
 *
 * BYTES is how much memory of its own it has. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* network_memory asks the pager at a socket for memory, and says how much it is. It returns NULL, and says why, if there is none. The connection and
 * the userfaultfd stay open: their end is the end of the memory. */
static void *network_memory(const char *path, uint64_t *bytes) {
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	strncpy(at.sun_path, path, sizeof at.sun_path - 1);
	int s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (s < 0 || connect(s, (struct sockaddr *)&at, sizeof at)) return perror("network memory"), NULL;

	/* The pager sends how many bytes there are, and the memory as a descriptor, or what is wrong. */
	uint64_t address;
	char answer[256] = "";
	_Alignas(struct cmsghdr) char rights[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec part = {answer, sizeof answer - 1};
	struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = rights, .msg_controllen = sizeof rights};
	if (recvmsg(s, &m, MSG_CMSG_CLOEXEC) < 0) return perror("network memory"), NULL;
	if (!CMSG_FIRSTHDR(&m)) return fprintf(stderr, "network memory: %s\n", answer), NULL;
	int memory = *(int *)CMSG_DATA(CMSG_FIRSTHDR(&m));
	memcpy(bytes, answer, sizeof *bytes);
	void *mem = mmap(NULL, *bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, memory, 0);
	close(memory);
	if (mem == MAP_FAILED || madvise(mem, *bytes, MADV_DONTFORK)) return perror("network memory"), NULL;
	madvise(mem, *bytes, MADV_NOHUGEPAGE);

	/* It wants to know where that was mapped, and a userfaultfd to hear of its faults. */
	*(int *)CMSG_DATA(CMSG_FIRSTHDR(&m)) = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	address = (uint64_t)(uintptr_t)mem;
	part = (struct iovec){&address, sizeof address};
	memset(answer, 0, sizeof answer);
	if (sendmsg(s, &m, MSG_NOSIGNAL) != sizeof address || read(s, answer, sizeof answer - 1) < 0) return perror("network memory"), NULL;
	if (strcmp(answer, "ok")) return fprintf(stderr, "network memory: %s\n", answer), NULL;
	/* When the pager ends, end this program, which would wait for its memory for ever. */
	fcntl(s, F_SETOWN, getpid());
	fcntl(s, F_SETSIG, SIGKILL);
	fcntl(s, F_SETFL, O_ASYNC);
	return mem;
}

enum { words = 4096 / 8 };
static uint64_t *mem, pages;
static int threads = 2, changes = 10000;
static uint32_t *version; /* of each page */

static uint64_t number(uint64_t page, uint64_t version, uint64_t word) {
	uint64_t z = (page << 32 ^ version) * 0x9e3779b97f4a7c15 + word * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

static void fill(uint64_t page) {
	for (uint64_t i = 0; i < words; i++) mem[page * words + i] = number(page, version[page], i);
}

static void check(uint64_t page) {
	for (uint64_t i = 0; i < words; i++)
		if (mem[page * words + i] != number(page, version[page], i)) {
			fprintf(stderr, "page %llu, word %llu: %llx; expected %llx\n", (unsigned long long)page, (unsigned long long)i,
			        (unsigned long long)mem[page * words + i], (unsigned long long)number(page, version[page], i));
			exit(1);
		}
}

/* change changes pages whose number leaves a remainder: each thread has its own. */
static void *change(void *own) {
	uint64_t r = (uintptr_t)own + 1;
	for (int n = 0; n < changes; n++) {
		r = number(r, n, 7);
		uint64_t page = r % (pages / threads) * threads + (uintptr_t)own;
		check(page);
		if (r >> 60 < 8) {
			version[page]++;
			fill(page);
		}
	}
	return NULL;
}

/* took says how long it is since it was called last. */
static void took(const char *what) {
	static struct timespec last;
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	if (*what) printf("%s: %.3f s\n", what, now.tv_sec - last.tv_sec + (now.tv_nsec - last.tv_nsec) / 1e9);
	last = now;
}

int main(int argc, char **argv) {
	uint64_t bytes = 192 << 20;
	for (int c; (c = getopt(argc, argv, "b:t:n:")) != -1;)
		switch (c) {
		case 'b': bytes = strtoull(optarg, NULL, 0); break;
		case 't': threads = atoi(optarg); break;
		case 'n': changes = atoi(optarg); break;
		default: return 2;
		}
	const char *path = getenv("WEFT_MEM");
	if (path)
		mem = network_memory(path, &bytes);
	else if ((mem = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) == MAP_FAILED)
		return perror("memory"), 1;
	if (!mem) return 1;
	pages = bytes / 4096;
	version = calloc(pages, sizeof *version);
	took("");
	for (uint64_t p = 0; p < pages; p++) fill(p);
	took("filled in order");
	for (uint64_t p = 0; p < pages; p++) check(p);
	took("read in order");
	pthread_t t[64];
	if (threads < 1 || threads > 64 || (uint64_t)threads > pages) return 2;
	for (uintptr_t i = 0; i < (uintptr_t)threads; i++) pthread_create(&t[i], NULL, change, (void *)i);
	for (int i = 0; i < threads; i++) pthread_join(t[i], NULL);
	took("changed at random");
	for (uint64_t p = 0; p < pages; p++) check(p);
	printf("%llu bytes are as they were written\n", (unsigned long long)bytes);
	return 0;
}
