// Package launch runs a parallel program on several hosts. It is the conversation between one
// launcher and the keepers of a job, one keeper on each host:
//
//	launcher (JOB.run/0)                    host's daemon             keeper (JOB.run/1+i)
//	   │ Reserve, to all hosts ───────────────► │ starts ───────────────► │ checks
//	   │ ◄─────────────── ready, or refusals ── │ ◄─── ready, refusals ── │
//	   │ all hosts are ready:                                             │
//	   │ start ─────────────────────────────────────────────────────────► │ starts its ranks
//	   │ ◄──────────────────────────── want, output, state, ended ─────── │
//	   │ stdin, signal, end ────────────────────────────────────────────► │
//	   │ ◄────────────────────────────────────────────────────── gone ─── │ all ranks have ended
//	   │ ack ───────────────────────────────────────────────────────────► │ exits
//
// If one host refuses, no rank starts anywhere. A keeper waits for messages from the address of
// the launcher, so it notices the end of the launcher's process, daemon or host, and then ends
// its ranks. The launcher watches its keepers in the same way: the ranks of a lost host count as
// failed.
//
// Output travels as ordinary messages, so permissions stop a keeper whose launcher is slow, and its
// pipes then stop its ranks. No daemon lies in this path.
//
// The code uses only the operations and the [weft.Runtime] of its process. So package sim runs it
// unchanged, on virtual time.
package launch
