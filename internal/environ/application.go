package environ

import (
	"fmt"
	"hash/fnv"
	"strings"

	"github.com/weftnet/weft/internal/limits"
)

// Application returns an application for a job: a valid first half of a process name. It depends
// only on the arguments. suffix is a "." and at most 6 digits, or empty. Letters become lower case,
// and any other byte that a name may not have becomes "-". If that changes the job's name, or if
// the name is too long, the result holds a hash of the job's name, so that two jobs keep two names.
func Application(job, suffix string) string {
	clean := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', strings.ContainsRune("._-", r):
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '-'
	}, job)
	room := limits.NameBytes - len(suffix)
	// NICs use "nic" and "program" for themselves.
	if clean != job || len(clean) > room || clean == "" || clean == "nic" || clean == "program" {
		h := fnv.New32a()
		h.Write([]byte(job))
		clean = fmt.Sprintf("%.*s-%08x", room-9, clean, h.Sum32())
	}
	return clean + suffix
}
