package mutate

// The defects of two live processes of one rank. The simulation in sim's test of twins must find
// each of them; other simulations have no such processes.
const (
	OlderTakesOver Defect = defects + 1 + iota // names: an older process of a rank takes the name over
	ProofUnchecked                             // names: a process that does not know the job's key takes the name over
)

// RankDefects lists them.
func RankDefects() []Defect { return []Defect{OlderTakesOver, ProofUnchecked} }

var rankNames = map[Defect]string{OlderTakesOver: "older-takes-over", ProofUnchecked: "proof-unchecked"}
