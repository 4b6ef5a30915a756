package sweep

import (
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/weftnet/weft/sim"
)

// Totals holds the figures of one run or of many runs together.
type Totals struct {
	Seeds           uint64 `json:"seeds"`
	NICs            uint64 `json:"nics"`
	Processes       uint64 `json:"processes"`
	Messages        uint64 `json:"messages"` // posted
	Bytes           uint64 `json:"bytes"`    // bytes of the messages
	Puts            uint64 `json:"puts"`
	Gets            uint64 `json:"gets"`
	Regions         uint64 `json:"regions"` // closed during a run
	Calls           uint64 `json:"calls"`   // that got a reply
	Multicasts      uint64 `json:"multicasts"`
	Collectives     uint64 `json:"collectives"` // operations of groups, counted for each member
	Claims          uint64 `json:"claims"`      // to contested names
	Datagrams       uint64 `json:"datagrams"`   // from NIC to NIC
	DatagramsCame   uint64 `json:"datagrams_came"`
	Activations     uint64 `json:"activations"` // of programs in NICs
	Nonsense        uint64 `json:"nonsense"`    // records of NICs that have gone bad
	Altered         uint64 `json:"altered"`     // pieces of relays that a hostile NIC altered
	Delivered       uint64 `json:"delivered"`   // messages that a process has received
	Inboxes         uint64 `json:"inboxes"`     // of those, by an Inbox
	Cancelled       uint64 `json:"cancelled"`   // operations that a deadline ended
	Failed          uint64 `json:"failed"`      // operations that a lost peer ended
	Faults          Faults `json:"faults"`
	Ways            Ways   `json:"ways"`
	Retransmissions uint64 `json:"retransmissions"`
	Violations      uint64 `json:"violations"`
}

// Faults counts the faults of the fabrics.
type Faults struct {
	sim.Counts
	Attacks
	LongPartitions uint64 `json:"long_partitions"` // partitions that outlast unreachable_after
	// Streams during which a NIC vanished or was cut off.
	Cuts    uint64 `json:"cuts"`
	Hostile uint64 `json:"hostile"` // hostile processes
	// Processes that took the name of an ended process.
	Renamed uint64 `json:"re_registered"`
}

// add adds o to t, field by field.
func (t *Totals) add(o *Totals) {
	addFields(reflect.ValueOf(t).Elem(), reflect.ValueOf(o).Elem())
	t.Ways.add(o.Ways)
}

func addFields(t, o reflect.Value) {
	for i := range t.NumField() {
		switch f := t.Field(i); f.Kind() {
		case reflect.Struct:
			addFields(f, o.Field(i))
		case reflect.Uint64:
			f.SetUint(f.Uint() + o.Field(i).Uint())
		}
	}
}

// Missing lists the faults that have never happened.
func (f *Faults) Missing() []string { return missing(reflect.ValueOf(f).Elem()) }

func missing(v reflect.Value) (names []string) {
	for i := range v.NumField() {
		if f := v.Field(i); f.Kind() == reflect.Struct {
			names = append(names, missing(f)...)
		} else if name := v.Type().Field(i).Tag.Get("json"); f.Uint() == 0 {
			names = append(names, name)
		}
	}
	return names
}

// Finding is a seed whose run broke promises.
type Finding struct {
	Seed       uint64   `json:"seed"`
	Violations []string `json:"violations"`
	Replay     string   `json:"replay"`
}

// Report is the output of `weft sim`.
type Report struct {
	Totals
	Findings []Finding `json:"findings,omitempty"`
	Seconds  float64   `json:"seconds"`
}

// Write prints the report as text.
func (r *Report) Write(w io.Writer) {
	for _, f := range r.Findings {
		fmt.Fprintf(w, "seed %d:\n", f.Seed)
		for _, v := range f.Violations {
			// It is printed once, for all violations of the seed.
			v = strings.TrimSuffix(v, "\nreplay: "+f.Replay)
			fmt.Fprintf(w, "    %s\n", strings.ReplaceAll(v, "\n", "\n    "))
		}
		fmt.Fprintf(w, "    replay: %s\n", f.Replay)
	}
	fmt.Fprintf(w, "%s in %.1f s: %d NICs, %d processes, %d messages of %s, %d calls, %d PUT, %d GET, "+
		"%d regions closed, %d multicasts, %d collective operations, %d contested names, %d of %d datagrams, "+
		"%d records of nonsense, %d pieces of relays altered, %d attacks on sealed links, %d activations of programs\n",
		Plural(r.Seeds, "seed"), r.Seconds, r.NICs, r.Processes, r.Messages, amount(r.Bytes), r.Calls, r.Puts,
		r.Gets, r.Regions, r.Multicasts, r.Collectives, r.Claims, r.DatagramsCame, r.Datagrams, r.Nonsense,
		r.Altered, r.Faults.Attacks.total(), r.Activations)
	fmt.Fprintf(w, "%d messages delivered; %d operations cancelled, %d failed; %d retransmissions\n",
		r.Delivered, r.Cancelled, r.Failed, r.Retransmissions)
	var faults []string
	list(reflect.ValueOf(&r.Faults).Elem(), func(name string, n uint64) {
		faults = append(faults, fmt.Sprintf("%d %s", n, inWords(name)))
	})
	fmt.Fprintf(w, "faults: %s\n", strings.Join(faults, ", "))
	fmt.Fprint(w, r.Ways)
	fmt.Fprintf(w, "violations: %d\n", r.Violations)
}

func list(v reflect.Value, f func(name string, n uint64)) {
	for i := range v.NumField() {
		if e := v.Field(i); e.Kind() == reflect.Struct {
			list(e, f)
		} else {
			f(v.Type().Field(i).Tag.Get("json"), e.Uint())
		}
	}
}

// Plural returns a number with its noun: 1 seed, 2 seeds.
func Plural[T int | uint64](n T, thing string) string {
	if n == 1 {
		return fmt.Sprintf("%d %s", n, thing)
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// amount returns a number of bytes in a suitable unit.
func amount(bytes uint64) string {
	for _, u := range []struct {
		of   float64
		name string
	}{{1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}} {
		if float64(bytes) >= u.of {
			return fmt.Sprintf("%.1f %s", float64(bytes)/u.of, u.name)
		}
	}
	return fmt.Sprintf("%d B", bytes)
}

// inWords returns the name of a count in words.
func inWords(name string) string {
	return strings.ReplaceAll(strings.ReplaceAll(name, "re_registered", "registered again"), "_", " ")
}
