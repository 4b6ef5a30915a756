package vni

// Life says which of several processes of one rank is the newest. A launcher may start a rank
// again although the earlier process of the rank still lives, as Kubernetes does for a pod that it
// cannot reach. The newer process takes over the name.
type Life struct {
	Incarnation uint64 // larger for a later process of the rank; 0: the process is no rank

	// Key is common to the processes of the job, and proves to the older process's NIC that the
	// newer process belongs to the job. The zero Key proves nothing: the process neither takes
	// over a live name nor gives up its own.
	Key [32]byte
}

// Proves reports whether the life has a key.
func (l *Life) Proves() bool { return l.Key != [32]byte{} }
