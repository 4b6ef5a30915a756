// Package sim runs whole Weft fabrics in one goroutine, on virtual time, from one seed.
//
// NICs are the real engines, processes are the real process halves, and the code of the application is ordinary
// blocking code. Only the network, the clock and the scheduler are simulated:
//
//	func(p *sim.Process) error   …   func(p *sim.Process) error      the application, as coroutines
//	        │ Send, Recv, Put, Get, Sleep          │
//	   process half (VNI)                     process half
//	        │                                      │
//	     NIC engine ◄──────── network ────────► NIC engine           latency, bandwidth, queues, faults
//	        └──────────────┬───────┴──────────────┘
//	                   scheduler: the earliest event happens; of two at one instant, the seed decides
//
// One thing happens at a time, and what happens next is drawn from the seed alone. So a run that fails can be had
// again: the failure prints its seed. Idle time costs nothing, so a time-out of seconds takes microseconds to test.
//
// The rules for application code are those of any simulation. It waits only through this package and through Weft's
// operations, makes contexts with deadlines by Process.WithTimeout, asks Process.Now for the time and Process.Rand for
// chance, and starts functions beside its main one with Process.Go. A goroutine, a channel that another must fill, or
// a sleep of package time would be outside of the simulation, and a context with a real deadline is refused, as are
// those that Process.WithTimeout derives from it.
package sim

import "time"

// wakeUpTime bounds how long a parked coroutine takes to go on after it was woken; each time is drawn.
const wakeUpTime = 3 * time.Microsecond
