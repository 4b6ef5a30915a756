package contest

import "slices"

// Added describes a later run whose rows were added to a result. Figures of two runs are not
// comparable: the machine may have been less busy in one of them.
type Added struct {
	Machine     Machine  `json:"machine"`
	Commit      string   `json:"commit"`
	Date        string   `json:"date"` // of the start, RFC 3339
	Seconds     float64  `json:"seconds"`
	Rounds      int      `json:"rounds"`
	Contestants []string `json:"contestants"`
}

// Add adds the rows of a later run. They replace the result's rows of the same contestants. A
// contestant that the later run skipped keeps its rows.
func (r *Result) Add(later *Result) {
	var names []string
	for _, row := range later.Rows {
		if !slices.Contains(names, row.Contestant) {
			names = append(names, row.Contestant)
		}
	}
	if len(names) == 0 {
		return
	}
	replaced := func(contestant string) bool { return slices.Contains(names, contestant) }
	r.Rows = append(slices.DeleteFunc(r.Rows, func(row Row) bool { return replaced(row.Contestant) }), later.Rows...)
	r.Failures = append(slices.DeleteFunc(r.Failures, func(f Failure) bool { return replaced(f.Contestant) }),
		later.Failures...)
	r.Skipped = slices.DeleteFunc(r.Skipped, func(s Skipped) bool { return replaced(s.Contestant) })
	for i := range r.Added {
		r.Added[i].Contestants = slices.DeleteFunc(r.Added[i].Contestants, replaced)
	}
	r.Added = slices.DeleteFunc(r.Added, func(a Added) bool { return len(a.Contestants) == 0 })
	r.Added = append(r.Added, Added{later.Machine, later.Commit, later.Date, later.Seconds, later.Rounds, names})
}

// RunOf returns the run that has measured a contestant: an index into Added, or -1 for the first
// run of the result.
func (r *Result) RunOf(contestant string) int {
	return slices.IndexFunc(r.Added, func(a Added) bool { return slices.Contains(a.Contestants, contestant) })
}
