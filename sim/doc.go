// Package sim runs programs on a simulated fabric, in one goroutine and on virtual time. One seed
// decides everything that happens, so a failed run can be repeated.
//
// The NICs and the processes are real Weft code, and the program under test is ordinary blocking
// code on a *weft.Process. Only the network, the clock and the scheduler are simulated:
//
//	func(p *sim.Process) error   …   func(p *sim.Process) error    the program, as coroutines
//	        │ Send, Recv, Put, Get, Sleep          │
//	     process                                process
//	        │                                      │
//	       NIC ◄──────────── network ──────────► NIC             latency, bandwidth, faults
//	        └──────────────┬───────────────────────┘
//	                   scheduler: earliest event first; the seed orders simultaneous ones
//
// # Starting hosts
//
// A fabric has Config.NICs hosts, numbered from 0. Each host has one NIC and any number of
// processes:
//
//	f := sim.New(sim.Config{Seed: sim.Seed(1), NICs: 2})
//	f.Serve(0, "server/0", func(p *sim.Process) error { return serve(ctx, p.Weft()) })
//	f.Process(1, "client/0", func(p *sim.Process) error { return ask(ctx, p.Weft()) })
//	if err := f.Run(time.Minute); err != nil {
//		t.Fatal(err)
//	}
//
// Run waits until all functions that [Fabric.Process] started have returned. Run then ends the
// functions that [Fabric.Serve] started. A function may call WaitName to wait for another process.
//
// # Time
//
// Virtual time stands still while code runs. When all functions wait, time jumps to the next event,
// so an idle hour costs nothing. All times and limits are virtual. [Fabric.After] calls a function
// at a later time.
//
// # What code may not do
//
// One function runs at a time, so functions may share variables without locks. Functions may wait
// only in operations of Weft and of this package. Any other wait stops the whole simulation. A go
// statement starts a goroutine outside the simulation. Therefore follow these rules:
//
//   - In place of time.Now, time.Sleep and context.WithTimeout, use p.Runtime().Now, Sleep and
//     WithTimeout. An operation fails if its context has a real deadline or is derived from a
//     context with a real deadline.
//   - In place of a go statement, use p.Start or p.Runtime().Go. Both start a function that ends
//     when the process ends. If a function that p.Start started returns an error, the run fails.
//   - In place of a channel or a sync.Cond between functions, use p.Runtime().WaitUntil and Wake,
//     or p.Runtime().NewGate.
//   - In place of math/rand, use [Process.Rand] or p.Runtime().Random.
//   - Do not depend on the iteration order of a map, which differs from run to run.
//
// The methods of Runtime also work outside a simulation, so code that uses these methods runs both
// inside and outside a simulation.
//
// # Faults
//
// Config.Faults causes faults at random times. Methods of [Fabric] cause a fault at a chosen time.
// This code cuts host 1 off between the virtual times 1 s and 6 s:
//
//	f.After(time.Second, func() {
//		heal := f.Partition(1)
//		f.After(5*time.Second, heal)
//	})
//
// A NIC reports a silent peer after Config.UnreachableAfter.
//
// # Repeating a run
//
// If a run fails, Run returns a [Failure] with the seed and a command that repeats the run. If the
// test takes its seed from [Seed], the command is, for example, WEFT_SIM_SEED=4711 go test -run
// NAME. A seed is valid for one version of the code: a change of the program or of Weft may change
// what happens.
package sim

import "time"

// wakeUpTime is the longest time from a wake until the coroutine runs. Each time is drawn.
const wakeUpTime = 3 * time.Microsecond
