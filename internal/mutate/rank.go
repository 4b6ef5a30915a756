package mutate

// The defects of two live processes of one rank. The simulation in sim's test of twins must find
// each of them. Other simulations have no such processes.
const (
	OlderTakesOver Defect = defects + 1 + iota // names: a rank's older process takes over the name
	ProofUnchecked                             // names: a process without the job's key does so
)

// RankDefects returns them.
func RankDefects() []Defect { return []Defect{OlderTakesOver, ProofUnchecked} }

var rankNames = map[Defect]string{OlderTakesOver: "older-takes-over", ProofUnchecked: "proof-unchecked"}
