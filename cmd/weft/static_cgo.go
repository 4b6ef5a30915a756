//go:build cgo && linux && !race

package main

// If a C compiler is installed, Go builds with cgo, and its packages net and os/user then link
// the C library. This file links that library statically, so `go install` gives a static binary
// there too. Without a compiler, or with CGO_ENABLED=0, the binary is static anyway.
//
// In glibc, the functions that look up names of hosts and users load shared libraries at run
// time, even if they are linked statically. These libraries must have the very version that the
// binary was built with. So those functions are left out: Go's own resolver looks up hosts
// (netdns in main.go), and this file looks up users and groups, in the files that Go without cgo
// reads, too.

/*
#cgo LDFLAGS: -static
#define _GNU_SOURCE
#include <errno.h>
#include <grp.h>
#include <netdb.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>

#ifdef __GLIBC__

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
		struct addrinfo **res) {
	return EAI_FAIL;
}

void freeaddrinfo(struct addrinfo *ai) {
}

int getnameinfo(const struct sockaddr *sa, socklen_t salen, char *host, socklen_t hostlen,
		char *serv, socklen_t servlen, int flags) {
	return EAI_FAIL;
}

// user finds a user by name, or else by uid. The results are those of getpwnam_r: 0 and no user
// means "there is none".
static int user(const char *name, uid_t uid, struct passwd *pw, char *buf, size_t n,
		struct passwd **res) {
	FILE *f = fopen("/etc/passwd", "re");
	int err;
	*res = NULL;
	if (f == NULL)
		return errno == ENOENT ? 0 : errno;
	while ((err = fgetpwent_r(f, pw, buf, n, res)) == 0)
		if (name != NULL ? strcmp(pw->pw_name, name) == 0 : pw->pw_uid == uid)
			break;
	fclose(f);
	if (err != 0)
		*res = NULL;
	return err == ENOENT ? 0 : err;
}

int getpwnam_r(const char *name, struct passwd *pw, char *buf, size_t n, struct passwd **res) {
	return user(name, 0, pw, buf, n, res);
}

int getpwuid_r(uid_t uid, struct passwd *pw, char *buf, size_t n, struct passwd **res) {
	return user(NULL, uid, pw, buf, n, res);
}

// group finds a group by name, or else by gid.
static int group(const char *name, gid_t gid, struct group *gr, char *buf, size_t n,
		struct group **res) {
	FILE *f = fopen("/etc/group", "re");
	int err;
	*res = NULL;
	if (f == NULL)
		return errno == ENOENT ? 0 : errno;
	while ((err = fgetgrent_r(f, gr, buf, n, res)) == 0)
		if (name != NULL ? strcmp(gr->gr_name, name) == 0 : gr->gr_gid == gid)
			break;
	fclose(f);
	if (err != 0)
		*res = NULL;
	return err == ENOENT ? 0 : err;
}

int getgrnam_r(const char *name, struct group *gr, char *buf, size_t n, struct group **res) {
	return group(name, 0, gr, buf, n, res);
}

int getgrgid_r(gid_t gid, struct group *gr, char *buf, size_t n, struct group **res) {
	return group(NULL, gid, gr, buf, n, res);
}

// getgrouplist lists a user's groups, the given one first. If there are more than room, it sets
// *room to their number and returns -1.
int getgrouplist(const char *name, gid_t first, gid_t *groups, int *room) {
	static __thread char buf[65536];
	struct group gr, *res;
	int n = 0;
	FILE *f = fopen("/etc/group", "re");
	if (n++ < *room)
		groups[0] = first;
	while (f != NULL && fgetgrent_r(f, &gr, buf, sizeof buf, &res) == 0)
		for (char **m = gr.gr_mem; gr.gr_gid != first && *m != NULL; m++)
			if (strcmp(*m, name) == 0) {
				if (n++ < *room)
					groups[n - 1] = gr.gr_gid;
				break;
			}
	if (f != NULL)
		fclose(f);
	int fits = n <= *room;
	*room = n;
	return fits ? n : -1;
}

#endif
*/
import "C"
