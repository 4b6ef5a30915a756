// Package sim runs programs on a simulated fabric: in one goroutine, on virtual time, from one
// seed. The seed decides everything that happens, so a run that fails can be repeated.
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
// A fabric has Config.NICs hosts, numbered from 0, with one NIC and any number of processes each:
//
//	f := sim.New(sim.Config{Seed: sim.Seed(1), NICs: 2})
//	f.Serve(0, "server/0", func(p *sim.Process) error { return serve(ctx, p.Weft()) })
//	f.Process(1, "client/0", func(p *sim.Process) error { return ask(ctx, p.Weft()) })
//	if err := f.Run(time.Minute); err != nil {
//		t.Fatal(err)
//	}
//
// Run waits for the functions that [Fabric.Process] started. It ends those that [Fabric.Serve]
// started. A function may wait for another process with WaitName.
//
// # Time
//
// Time stands still while code runs. When all functions wait, it jumps to the next event, so an
// idle hour costs nothing. All times and limits are virtual. [Fabric.After] calls a function later.
//
// # What code may not do
//
// One function runs at a time, so functions may share variables without locks. They may wait only
// in operations of Weft and of this package. Any other wait stops the whole simulation, and a
// goroutine of another kind runs outside it:
//
//   - In place of time.Now, time.Sleep and context.WithTimeout, use p.Runtime().Now, Sleep and
//     WithTimeout. Operations refuse a context with a real deadline, or derived from one.
//   - In place of a go statement, use p.Start or p.Runtime().Go. Both end with the process. An
//     error of a function that p.Start started ends the run.
//   - In place of a channel or a sync.Cond between functions, use p.Runtime().WaitUntil and Wake,
//     or p.Runtime().NewGate.
//   - In place of math/rand, use [Process.Rand] or p.Runtime().Random.
//   - Let nothing depend on the order of a map, which differs from run to run.
//
// The methods of Runtime are the same outside a simulation, so code that uses them runs in both.
//
// # Faults
//
// Config.Faults makes faults happen at random. Methods of [Fabric] cause one at a chosen time. This
// cuts host 1 off from second 1 to second 6:
//
//	f.After(time.Second, func() {
//		heal := f.Partition(1)
//		f.After(5*time.Second, heal)
//	})
//
// The NICs report a silent peer after Config.UnreachableAfter.
//
// # Repeating a run
//
// Run returns a [Failure] with the seed and a command that repeats the run. If a test takes its
// seed from [Seed], that is WEFT_SIM_SEED=4711 go test -run NAME. A seed holds for one version of
// the code: a change of the program or of Weft may change what happens.
package sim

import "time"

// wakeUpTime is the longest time from a wake until the coroutine runs. Each time is drawn.
const wakeUpTime = 3 * time.Microsecond
