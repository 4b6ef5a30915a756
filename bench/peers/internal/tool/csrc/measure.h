/*
 * What the clients in C have in common: reading jobs, the clock, the histogram, and printing samples as JSON, one a line.
 * Jobs are MEASURE:BYTES:MILLISECONDS, with commas between them.
 */
#ifndef MEASURE_H
#define MEASURE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The first byte of a message says what is to be done with it. */
enum { DATA, LAST, ECHO };

#define MAX_SIZE (4 << 20)
#define BUCKETS (58 * 128)

/* A library: one round trip; and messages for a time, of which the number that has arrived is returned. */
struct peer {
	void (*echo)(char *message, size_t size);
	int64_t (*pour)(char *message, size_t size, int64_t until);
};

static int64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static void fail(const char *what, const char *why)
{
	fprintf(stderr, "%s: %s\n", what, why);
	exit(1);
}

/* Below 256 ns, one bucket each; beyond, 128 for each doubling. */
static int bucket_of(uint64_t ns)
{
	int doublings = ns < 256 ? 0 : 64 - __builtin_clzll(ns) - 8;
	return doublings * 128 + (int)(ns >> doublings);
}

static double middle_of(int bucket)
{
	int doublings = bucket < 256 ? 0 : bucket / 128 - 1;
	return (bucket - doublings * 128 + 0.5) * (double)(UINT64_C(1) << doublings);
}

static void bounce(struct peer *p, char *message, size_t size, int64_t ns, int64_t *counts)
{
	int64_t begin = now(), last = begin;
	while (last - begin < ns) {
		message[0] = ECHO;
		p->echo(message, size);
		int64_t t = now();
		if (counts)
			counts[bucket_of(t - last)]++;
		last = t;
	}
}

static void latency(struct peer *p, char *message, size_t size, int64_t ns)
{
	static int64_t counts[BUCKETS];
	int64_t total = 0, seen = 0;
	double median = 0;
	const char *comma = "";

	bounce(p, message, size, ns / 10, NULL);
	memset(counts, 0, sizeof counts);
	bounce(p, message, size, ns, counts);
	printf("{\"measure\":\"latency\",\"size\":%zu,\"steps\":[", size);
	for (int i = 0; i < BUCKETS; i++)
		total += counts[i];
	for (int i = 0; i < BUCKETS; i++) {
		if (!counts[i])
			continue;
		printf("%s{\"ns\":%.1f,\"n\":%lld}", comma, middle_of(i), (long long)counts[i]);
		comma = ",";
		seen += counts[i];
		if (!median && 2 * seen >= total)
			median = middle_of(i);
	}
	printf("],\"value\":%.1f}\n", median);
}

static void stream(struct peer *p, const char *measure, char *message, size_t size, int64_t ns)
{
	p->pour(message, size, now() + ns / 10);
	int64_t begin = now();
	double n = p->pour(message, size, begin + ns);
	double value = n * 1e9 / (now() - begin);
	if (!strcmp(measure, "bandwidth"))
		value *= size;
	printf("{\"measure\":\"%s\",\"size\":%zu,\"value\":%.1f}\n", measure, size, value);
}

static void measure(struct peer *p, char *jobs)
{
	char *message = calloc(1, MAX_SIZE);
	if (!message)
		fail("memory", "there is none");
	for (char *job = strtok(jobs, ","); job; job = strtok(NULL, ",")) {
		char what[16];
		size_t size;
		long ms;
		if (sscanf(job, "%15[a-z]:%zu:%ld", what, &size, &ms) != 3 || size < 1 || size > MAX_SIZE)
			fail(job, "expected a measure, bytes and milliseconds");
		if (!strcmp(what, "latency"))
			latency(p, message, size, ms * INT64_C(1000000));
		else
			stream(p, what, message, size, ms * INT64_C(1000000));
		fflush(stdout);
	}
}

/* The clock costs as much as a short message, so it is read once for 16 of them. */
static inline int more(int64_t sent, size_t size, int64_t until)
{
	return (size < 4096 && sent % 16) || now() < until;
}

#endif
