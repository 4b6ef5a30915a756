// Package rel makes a link that loses, repeats, reorders and damages frames into one on which
// every segment is delivered exactly once, in the order of arrival. It is the endpoint of Open
// MPI's usNIC driver (USNIC-1…61), read for today. There is one Module per NIC and one Endpoint
// per peer NIC. docs/rel.md explains it to newcomers.
//
//	Reserve, Control              Progress: number,
//	Post         ┌──────────────┐ window, room       ┌──────────────────────────┐
//	───────────► │ to-send      ├──────────────────► │ send window,             ├─────────► frames
//	             │ queues, 2    │                    │ flight, hotel            │
//	             └──────────────┘   lost, timed out  └──┬────┬───────────────▲──┘
//	                     ┌───────────────────┐ ◄────────┘    │ acknowledged  │  Progress:
//	                     │ resend list       ├──────────────────────────────►│  data queue
//	                     └───────────────────┘               ▼
//	                                                     Released
//
//	                ┌───────────────┐ Data ┌─────────────────────────────┐
//	Deliver ◄───────┤ receive window│ ◄────┤ session: index, address,    │ ◄─────────────── frames
//	                └───────┬───────┘      │ packet counter, tag         │
//	                        ▼              └──────────────┬──────────────┘
//	   ACK: taken along, within 50 µs, or at once         └─► acknowledgements, to the send window
//
// The package is pure: input and time in, frames and calls out. It starts no goroutine, reads no
// clock and takes its random numbers from Config.Secrets. No input from a network can make it
// panic or use memory without bound. An error of the owner, or of the package itself, does make
// it panic, and the panic names the broken fact.
package rel
