package contest

import (
	"errors"
	"slices"
	"strings"
)

// sealedWord ends the name of a contestant that is Weft over sealed links.
const sealedWord = ", sealed"

// SealedName returns the name of a contestant of Weft when its links are sealed.
func SealedName(plain string) string { return plain + sealedWord }

// twins names, for each contestant that encrypts, the contestant that does the same work
// unencrypted.
var twins = map[string]string{
	"Go TLS over TCP":   "Go net TCP",
	"grpc-go, TLS":      "grpc-go",
	"wireguard-go, TCP": "Go net TCP",
	"wireguard-go, UDP": "Go net UDP",
}

// Twin returns the contestant that does the same work without encryption; "" if there is none.
func Twin(contestant string) string {
	if plain, ok := strings.CutSuffix(contestant, sealedWord); ok && Weft(contestant) {
		return plain
	}
	return twins[contestant]
}

// Sealed reports whether a contestant encrypts its messages.
func (r *Result) Sealed(contestant string) bool {
	return slices.ContainsFunc(r.Rows, func(row Row) bool { return row.Contestant == contestant && row.Sealed })
}

// PlainContestants lists the contestants of a ground that do not encrypt.
func (r *Result) PlainContestants(ground string) []string {
	return slices.DeleteFunc(r.Contestants(ground), r.Sealed)
}

// SealedContestants lists the contestants of a ground that encrypt.
func (r *Result) SealedContestants(ground string) []string {
	return slices.DeleteFunc(r.Contestants(ground), func(name string) bool { return !r.Sealed(name) })
}

// ErrRefused is wrapped by the error of a contestant that cannot do its jobs in any round, such
// as a binary that does not know a flag. The contestant gets no further turn. Its rows have no
// figures, and their notes give the reason.
var ErrRefused = errors.New("not measured")

// Refused reports whether a row has no figure, but a note with the reason.
func (r *Row) Refused() bool { return len(r.Rounds) == 0 && r.Value <= 0 && r.P99 <= 0 && r.Note != "" }

// Refusals returns the refused contestants, each with the reason.
func (r *Result) Refusals() (all []Skipped) {
	for _, row := range r.Rows {
		s := Skipped{row.Contestant, row.Note}
		if row.Refused() && !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all
}

// refusedRows returns rows without figures for the jobs of a refused contestant.
func refusedRows(c *Contestant, why string) (rows []Row) {
	for _, j := range c.Jobs {
		rows = append(rows, Row{Contestant: c.Name, Ground: c.Ground, Loss: c.Loss, Sealed: c.Sealed,
			Measure: j.Measure, Size: j.Size, Note: why})
	}
	return rows
}
