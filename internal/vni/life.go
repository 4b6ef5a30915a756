package vni

// Life says which of several processes of one rank is the newest. A launcher may start a rank anew
// although the earlier process of the rank still lives, as Kubernetes does for a pod that it cannot
// reach. The newer process takes the name over.
type Life struct {
	Incarnation uint64 // a later process of the rank has a higher one; 0: the process is no rank

	// Key is common to the processes of the job, and proves to the older process's NIC that the newer
	// process is of the job. The zero Key proves nothing: the process neither takes a live name over
	// nor gives its own name up.
	Key [32]byte
}

// Proves reports whether the life has a key.
func (l *Life) Proves() bool { return l.Key != [32]byte{} }
