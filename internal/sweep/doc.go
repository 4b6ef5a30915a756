// Package sweep does the work of `weft sim`. It runs many simulated fabrics, each from one seed,
// under a workload that uses every feature and under faults of every kind. It checks each run
// against the promises of Weft.
//
//	seed ─► plan (plan.go): sizes, rates, link, faults, acts
//	          │
//	          ▼              the fabric, package sim
//	        world (world.go) ─► lives (life.go): sender, receiver, putter, getter, like user code
//	          │                   │ every post, end and arrival
//	          │                   ▼
//	          │                 ledger (ledger.go): what was sent and what came
//	          ├─ acts (acts.go): partitions, clogs, stalls, stopped NICs, killed/hostile processes
//	          ▼
//	        verdict (audit.go, verdict.go): the promises, the order, leaks, limits, statistics
//
// A violation contains the seed. `weft sim --seed N` repeats the run, event for event.
package sweep
