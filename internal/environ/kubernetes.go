package environ

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/weftnet/weft/internal/limits"
)

// kubernetes reads the environment of a pod of an Indexed Job or of a JobSet. Kubernetes sets only
// JOB_COMPLETION_INDEX by itself. The manifest sets the other variables, by value or by a fieldRef:
//
//	WEFT_SIZE                number of ranks: completions × number of jobs
//	WEFT_JOB_SIZE            completions of each job; needed with JOB_GLOBAL_INDEX or JOB_INDEX
//	JOBSET_NAME              metadata.labels['jobset.sigs.k8s.io/jobset-name']
//	JOBSET_RESTART_ATTEMPT   metadata.labels['jobset.sigs.k8s.io/restart-attempt']
//	JOB_GLOBAL_INDEX         metadata.labels['jobset.sigs.k8s.io/job-global-index']
//	JOB_INDEX                metadata.labels['jobset.sigs.k8s.io/job-index'], of a set with one
//	                         kind of job
//	JOB_NAME                 metadata.labels['batch.kubernetes.io/job-name']
//	POD_NAMESPACE            metadata.namespace
//	WEFT_NAME                any other name of the job, such as the label of its controller's uid
//
// The rank is JOB_GLOBAL_INDEX × WEFT_JOB_SIZE + JOB_COMPLETION_INDEX. Without JOB_NAME, the name
// of an Indexed Job is HOSTNAME without "-INDEX" at its end, because the hostname of its pods is
// JOB-INDEX.
func (e *environment) kubernetes() (p Place, found bool) {
	const index = "JOB_COMPLETION_INDEX"
	if !e.has(index) {
		return p, false
	}
	if !e.has("WEFT_SIZE") {
		e.refuse("WEFT_SIZE", "the number of ranks, which is completions times the number of jobs; "+
			"set it in the manifest")
		return p, true
	}
	job := e.jobName()
	if p.Launcher = IndexedJob; e.has("JOBSET_NAME") {
		p.Launcher, job = JobSet, e.getenv("JOBSET_NAME")
		p.Rank, p.Size = e.rankInSet(index)
	} else {
		p.Rank, p.Size = e.ranks(index, "WEFT_SIZE")
	}
	p.Restart = e.restart("JOBSET_RESTART_ATTEMPT", "RESTART_ATTEMPT")
	switch {
	case e.has("WEFT_NAME"):
		p.App = e.fit(e.getenv("WEFT_NAME"), p.Restart)
	case job == "":
		e.refuse("JOB_NAME", "the name of the job; set JOB_NAME or WEFT_NAME in the manifest, "+
			"since HOSTNAME is not the job's name and "+index)
	case e.has("POD_NAMESPACE"):
		p.App = e.fit(job+"."+e.getenv("POD_NAMESPACE"), p.Restart)
	default:
		p.App = e.fit(job, p.Restart)
	}
	return p, true
}

// jobName returns the name of an Indexed Job, or the empty string.
func (e *environment) jobName() string {
	if e.has("JOB_NAME") {
		return e.getenv("JOB_NAME")
	}
	if name, cut := strings.CutSuffix(e.getenv("HOSTNAME"), "-"+e.getenv("JOB_COMPLETION_INDEX")); cut {
		return name
	}
	return ""
}

// rankInSet returns the rank and the number of ranks of a pod of a JobSet.
func (e *environment) rankInSet(index string) (rank, size int) {
	job := ""
	for _, name := range []string{"JOB_INDEX", "JOB_GLOBAL_INDEX"} {
		if e.has(name) {
			job = name
		}
	}
	if job == "" { // the set has one job
		return e.ranks(index, "WEFT_SIZE")
	}
	size = e.number("WEFT_SIZE", 1, limits.GroupMembers)
	each := e.number("WEFT_JOB_SIZE", 1, limits.GroupMembers)
	if e.err == nil && size%each != 0 {
		e.refuse("WEFT_JOB_SIZE", fmt.Sprintf("the completions of each job, which divide WEFT_SIZE, %d", size))
		return 0, size
	}
	jobs := size / each
	return e.number(job, 0, max(jobs-1, 0))*each + e.number(index, 0, each-1), size
}

// leaderWorkerSet reads the environment of a pod of a LeaderWorkerSet. The ranks of a job are the
// pods of one group. The leader's address is POD.SUBDOMAIN.NAMESPACE, and the name of the leader's
// pod is the name of the group. A group that is created again has the same environment, so only
// WEFT_RESTART tells its lives apart.
func (e *environment) leaderWorkerSet() (p Place, found bool) {
	if !e.has("LWS_WORKER_INDEX") {
		return p, false
	}
	p.Launcher = LWS
	p.Rank, p.Size = e.ranks("LWS_WORKER_INDEX", "LWS_GROUP_SIZE")
	p.Restart = e.restart()
	labels := strings.Split(e.getenv("LWS_LEADER_ADDRESS"), ".")
	group := labels[0]
	if len(labels) > 2 {
		group += "." + labels[2]
	}
	switch {
	case e.has("WEFT_NAME"):
		p.App = e.fit(e.getenv("WEFT_NAME"), p.Restart)
	case labels[0] == "":
		e.refuse("LWS_LEADER_ADDRESS", "POD.SUBDOMAIN.NAMESPACE of the group's leader")
	default:
		p.App = e.fit(group, p.Restart)
	}
	return p, true
}

// fit returns an application for a job. The restart number is part of it, so that processes of an
// earlier life and of a later life never meet in one group.
func (e *environment) fit(job string, restart int) string {
	if restart == 0 {
		return Application(job, "")
	}
	return Application(job, "."+strconv.Itoa(restart))
}
