// Package memfd makes files in memory that processes share: by memfd_create, or if a filter of
// system calls forbids that, without a name on a tmpfs of the host.
package memfd
