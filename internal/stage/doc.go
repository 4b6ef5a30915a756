// Package stage copies a program from the launcher of a job to the job's hosts.
//
// A file is named by the SHA-256 of its content. A host that has the content asks for nothing. A
// host that lacks it asks its parent in a tree for one chunk after the other, and answers its own
// children as soon as it has checked a chunk:
//
//	launcher ══ chunks ══► keeper of host 0 ══► keeper of host 1 ══► …    up to 32 hosts: a chain
//	   ▲                         │ checks each chunk, stores it, passes it on
//	   └── asked instead of a parent that has died, that is silent, or that sends a wrong chunk
//
// A request is a call on a separate port, and the reply is the chunk:
//
//	request:  sha256 of the file (32 bytes) │ number of the chunk (4, little-endian)
//	reply:    code (1 byte) │ the chunk, if the code is "here"
//
// In a chain the launcher's host sends the file once, however many hosts there are. If there are
// too many hosts for a chain, each host has two children.
//
// A [Cache] keeps the content in a directory of the user, and places it into the directory of a
// job:
//
//	ROOT (0700)/entries/SHA256   content that was complete; its hash is checked before each use
//	            drafts/NUMBER    content that is arriving
//	            jobs/JOB-HOST/   directory of one job on one host; jobs/JOB-HOST.lock is its lock
//	            lock             held while one of the above is added or removed
package stage
