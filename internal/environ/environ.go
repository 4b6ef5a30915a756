// Package environ reads the environment that a launcher gives to the processes of a parallel job.
// It reports the process's place in the job: the job's name, the rank and the number of ranks.
//
// The launchers, in the order in which From looks for them:
//
//	weft run          WEFT_RANK, WEFT_SIZE, WEFT_NAME, WEFT_MACHINE, WEFT_RESTART
//	PMI-1             PMI_RANK, PMI_SIZE; the job's name comes from the key-value space of the job
//	Open MPI, PRRTE   OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE, PMIX_RANK, PMIX_NAMESPACE
//	srun              SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_JOB_ID, SLURM_STEP_ID
//	JobSet            JOBSET_NAME, JOB_COMPLETION_INDEX, variables of the manifest: kubernetes.go
//	Indexed Job       JOB_COMPLETION_INDEX and variables of the manifest: kubernetes.go
//	LeaderWorkerSet   LWS_LEADER_ADDRESS, LWS_GROUP_SIZE, LWS_WORKER_INDEX
//
// A launcher that another launcher starts comes first: weft run and mpiexec run inside of Slurm and
// of pods.
package environ

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/weftnet/weft/internal/limits"
)

// ErrNone is the error of From if no launcher started the process.
var ErrNone = errors.New("no launcher started this process: expected WEFT_RANK, PMI_RANK, OMPI_COMM_WORLD_RANK, " +
	"SLURM_PROCID with SLURM_STEP_ID, JOB_COMPLETION_INDEX or LWS_WORKER_INDEX in the environment")

// The launchers.
const (
	Weft       = "weft run"
	Hydra      = "PMI-1"
	OpenMPI    = "Open MPI"
	Slurm      = "srun"
	JobSet     = "JobSet"
	IndexedJob = "Indexed Job"
	LWS        = "LeaderWorkerSet"
)

// Place is the place of a process in a parallel job.
type Place struct {
	Launcher string // one of the constants above
	App      string // application of the job's processes; empty if only the PMI server knows the job's name
	Rank     int    // 0 to Size-1
	Size     int    // number of ranks, 1 to limits.GroupMembers; 0 if only the PMI server knows rank and size
	Restart  int    // how often the job was restarted; part of App if it is not 0
	Machine  string // parallel machine; only of weft run
	Socket   string // socket of the NIC daemon
	Link     string // name of the daemon's network; only of weft run
	PMI      PMI    // connection to a PMI-1 server

	// Two processes of one rank may live at the same time. The one with the higher incarnation
	// wins, if both have the key of the job.
	Incarnation uint64 // WEFT_INCARNATION; 0: not set
	JobKey      string // WEFT_JOB_KEY, at least leastKey characters; empty: not set
}

// PMI says how to reach a PMI-1 server.
type PMI struct {
	FD   int    // open descriptor; 0: none
	Port string // HOST:PORT; empty: none
	ID   int    // identifies the process to the server at Port
}

// None reports whether there is no PMI-1 server.
func (p PMI) None() bool { return p.FD == 0 && p.Port == "" }

// From returns the place that the environment describes. getenv returns the value of a variable, or
// the empty string. From fails with ErrNone if no launcher started the process. Any other error
// names the variable, its value and the expected value.
func From(getenv func(string) string) (Place, error) {
	e := &environment{getenv: getenv}
	for _, read := range []func() (Place, bool){e.weft, e.mpi, e.slurm, e.kubernetes, e.leaderWorkerSet} {
		p, found := read()
		if e.err != nil {
			return Place{}, e.err
		}
		if found {
			p.Socket = getenv("WEFT_SOCKET")
			if e.life(&p); e.err != nil {
				return Place{}, e.err
			}
			return p, nil
		}
	}
	return Place{}, ErrNone
}

// leastKey is the least length of a job key.
const leastKey = 16

// life reads which process of its rank this one is, and the key of the job. No error shows the key.
func (e *environment) life(p *Place) {
	const incarnation = "WEFT_INCARNATION"
	if e.has(incarnation) {
		var err error
		if p.Incarnation, err = strconv.ParseUint(e.getenv(incarnation), 10, 64); err != nil || p.Incarnation == 0 {
			e.refuse(incarnation, "a decimal number from 1 to 2^64-1, higher for each later process of the rank")
		}
	}
	if p.JobKey = e.getenv("WEFT_JOB_KEY"); p.JobKey != "" && len(p.JobKey) < leastKey && e.err == nil {
		e.err = fmt.Errorf("WEFT_JOB_KEY has %d characters; expected at least %d, from a random source",
			len(p.JobKey), leastKey)
	}
}

// environment reads variables. It keeps the first error.
type environment struct {
	getenv func(string) string
	err    error
}

// has reports whether a variable is set and not empty.
func (e *environment) has(name string) bool { return e.getenv(name) != "" }

// refuse records that the value of a variable is not the expected one.
func (e *environment) refuse(name, expected string) {
	if e.err == nil {
		e.err = fmt.Errorf("%s is %.80q; expected %s", name, e.getenv(name), expected)
	}
}

// number returns the value of a variable, which must be a decimal number from least to most.
func (e *environment) number(name string, least, most int) int {
	text := e.getenv(name)
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most || strconv.Itoa(n) != text {
		e.refuse(name, fmt.Sprintf("a decimal number from %d to %d", least, most))
		return least
	}
	return n
}

// numberOr is number, or the default if the variable is not set.
func (e *environment) numberOr(name string, least, most, otherwise int) int {
	if !e.has(name) {
		return otherwise
	}
	return e.number(name, least, most)
}

// ranks reads the size from one variable and the rank from another one.
func (e *environment) ranks(rank, size string) (r, n int) {
	n = e.number(size, 1, limits.GroupMembers)
	if r = e.number(rank, 0, limits.GroupMembers-1); e.err == nil && r >= n {
		e.refuse(rank, fmt.Sprintf("a rank below %s, which is %d", size, n))
	}
	return r, n
}

// equal requires that a variable that is set holds the number that another variable says.
func (e *environment) equal(name string, want int, as string) {
	if e.err == nil && e.has(name) && e.getenv(name) != strconv.Itoa(want) {
		e.refuse(name, fmt.Sprintf("%d, as %s says", want, as))
	}
}

// mostRestarts bounds restart numbers, which are part of names.
const mostRestarts = 999_999

// restart returns the restart number that the first of some variables holds. WEFT_RESTART comes
// before all of them.
func (e *environment) restart(names ...string) int {
	for _, name := range append([]string{"WEFT_RESTART"}, names...) {
		if e.has(name) {
			return e.number(name, 0, mostRestarts)
		}
	}
	return 0
}
