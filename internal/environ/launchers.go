package environ

import (
	"strconv"

	"github.com/weftnet/weft/internal/vni"
)

// weft reads the environment that weft run gives to its ranks. WEFT_RANK marks it: manifests may
// set the other variables, to add facts that another launcher does not tell.
func (e *environment) weft() (p Place, found bool) {
	if !e.has("WEFT_RANK") {
		return p, false
	}
	p = Place{Launcher: Weft, App: e.getenv("WEFT_NAME"), Machine: e.getenv("WEFT_MACHINE"),
		Link: e.getenv("WEFT_LINK")}
	p.Rank, p.Size = e.ranks("WEFT_RANK", "WEFT_SIZE")
	p.Restart = e.restart()
	// weft run may serve PMI-1 as well. Other variables of PMI come from a launcher around weft
	// run.
	if e.getenv("PMI_RANK") == e.getenv("WEFT_RANK") && e.getenv("PMI_SIZE") == e.getenv("WEFT_SIZE") &&
		e.has("PMI_FD") {
		p.PMI.FD = e.number("PMI_FD", 3, 1<<31-1)
	}
	if _, err := vni.MakeName(p.App, 0); err != nil && e.err == nil {
		e.refuse("WEFT_NAME", "the application of the job: 1 to 24 bytes of a-z, 0-9, '.', '_' or '-'")
	}
	return p, true
}

// mpi reads the environments of PMI-1 (MPICH's mpiexec.hydra, Flux, srun --mpi=pmi2) and of PMIx
// (Open MPI, PRRTE). If both are there, one launcher serves both, and the ranks must agree. If they
// differ, one of two launchers started the other, and nothing tells which.
func (e *environment) mpi() (p Place, found bool) {
	pmi, ompi := e.has("PMI_RANK") || e.has("PMI_PORT") && e.has("PMI_ID"), e.has("OMPI_COMM_WORLD_RANK")
	switch {
	case pmi:
		if p = e.pmi(); p.Size > 0 {
			e.equal("OMPI_COMM_WORLD_RANK", p.Rank, "PMI_RANK")
			e.equal("PMIX_RANK", p.Rank, "PMI_RANK")
			e.equal("OMPI_COMM_WORLD_SIZE", p.Size, "PMI_SIZE")
		}
	case ompi:
		p.Launcher = OpenMPI
		p.Rank, p.Size = e.ranks("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")
		e.equal("PMIX_RANK", p.Rank, "OMPI_COMM_WORLD_RANK")
	case e.has("PMIX_RANK") && e.has("SLURM_STEP_ID"):
		return p, false // srun --mpi=pmix: the step's variables say all
	case e.has("PMIX_RANK"): // prterun without the personality of Open MPI tells no size
		p.Launcher = OpenMPI
		p.Rank, p.Size = e.ranks("PMIX_RANK", "WEFT_SIZE")
	default:
		return p, false
	}
	p.Restart = e.restart("SLURM_RESTART_COUNT")
	switch {
	case e.has("WEFT_NAME"):
		p.App = e.fit(e.getenv("WEFT_NAME"), p.Restart)
	case e.inStep(p):
		p.App = e.step(p.Restart)
	case e.has("PMIX_NAMESPACE"):
		p.App = e.fit("pmix-"+e.getenv("PMIX_NAMESPACE"), p.Restart)
	case p.PMI.None():
		e.refuse("PMIX_NAMESPACE", "the name of the job; set WEFT_NAME to a name that only this job has")
	}
	return p, true
}

// pmi reads the environment of a PMI-1 server. A server at a port tells rank and size only over the
// connection.
func (e *environment) pmi() (p Place) {
	p.Launcher = Hydra
	const most = 1<<31 - 1
	if !e.has("PMI_RANK") {
		p.PMI = PMI{Port: e.getenv("PMI_PORT"), ID: e.number("PMI_ID", 0, most)}
		return p
	}
	p.Rank, p.Size = e.ranks("PMI_RANK", "PMI_SIZE")
	switch {
	case e.has("PMI_FD"):
		p.PMI.FD = e.number("PMI_FD", 3, most)
	case e.has("PMI_PORT"):
		p.PMI = PMI{Port: e.getenv("PMI_PORT"), ID: e.numberOr("PMI_ID", 0, most, p.Rank)}
	}
	return p
}

// slurm reads the environment that srun gives to the tasks of a step. A batch script also has
// SLURM_PROCID, and is alone: it has no step, or a step with one of the reserved numbers.
func (e *environment) slurm() (p Place, found bool) {
	if !e.has("SLURM_PROCID") || !e.has("SLURM_STEP_ID") || e.reservedStep() {
		return p, false
	}
	p.Launcher = Slurm
	size := "SLURM_STEP_NUM_TASKS"
	if !e.has(size) {
		size = "SLURM_NTASKS"
	}
	p.Rank, p.Size = e.ranks("SLURM_PROCID", size)
	p.Restart = e.restart("SLURM_RESTART_COUNT")
	if p.App = e.step(p.Restart); e.has("WEFT_NAME") {
		p.App = e.fit(e.getenv("WEFT_NAME"), p.Restart)
	}
	return p, true
}

// firstReserved is the first of the numbers that are not steps of srun: the batch script, an
// interactive shell, external processes. The numbers of jobs and steps have 32 bits.
const firstReserved = 0xffff_fff0

func (e *environment) reservedStep() bool {
	n, err := strconv.ParseUint(e.getenv("SLURM_STEP_ID"), 10, 32)
	return err == nil && n >= firstReserved
}

// inStep reports whether a place of another launcher is the place of this task in a step of srun.
// Then srun itself serves PMI. If not, the other launcher runs inside of a step or a batch script.
func (e *environment) inStep(p Place) bool {
	return e.has("SLURM_STEP_ID") && !e.reservedStep() && e.getenv("SLURM_PROCID") == strconv.Itoa(p.Rank) &&
		e.getenv("SLURM_STEP_NUM_TASKS") == strconv.Itoa(p.Size)
}

// step returns the application of a step of srun.
func (e *environment) step(restart int) string {
	for _, name := range []string{"SLURM_JOB_ID", "SLURM_STEP_ID"} {
		if n, err := strconv.ParseUint(e.getenv(name), 10, 32); err != nil ||
			strconv.FormatUint(n, 10) != e.getenv(name) {
			e.refuse(name, "a decimal number below 2^32")
		}
	}
	return e.fit("slurm-"+e.getenv("SLURM_JOB_ID")+"."+e.getenv("SLURM_STEP_ID"), restart)
}
