// Package sweep is the work behind `weft sim`: it runs many simulated fabrics, each from one seed, under a workload that
// uses everything and under faults that hit everything, and holds each run against the promises of Weft.
//
//	seed ─► plan (plan.go): sizes, rates, link, faults, acts
//	          │
//	          ▼              the fabric, package sim
//	        world (world.go) ─► lives (life.go): senders, receivers, putters, getters, each process as a user would write it
//	          │                   │ every post, end and arrival
//	          │                   ▼
//	          │                 ledger (ledger.go): what was sent and what came
//	          ├─ acts (acts.go): partitions, clogs, stalls, stopped NICs, killed and hostile processes
//	          ▼
//	        verdict (audit.go, verdict.go): the promises, the order, leaks, limits, statistics
//
// A violation names the seed. `weft sim --seed N` has the same run again, event for event.
package sweep
