package vm

// A Cause is the reason for which an activation was aborted.
type Cause uint8

// The causes. OutOfBudget and the causes that Machine.Stop is given stop the program. After any
// other the program can handle the next message.
const (
	None           Cause = iota
	OutOfBudget          // it took more instructions than allowed: the program is stopped
	DivideByZero         //
	OutOfArray           // an index is outside of the variable
	OutOfPacket          // an index or range is outside of the packet
	BadLength            // LEN is negative, or too long for the variable or for a message
	BadAddress           // AS or TO is not a number of a trigger or program
	UnknownName          // TO or AT is a name that this NIC does not know
	SendRefused          // the host refused a message
	SegmentRefused       // no such segment, or it is too short
	// Its messages to programs of its NIC have caused one another too often: the program is
	// stopped.
	Recursion
	Flood    // too many of its messages could not be sent: the program is stopped
	BadDelay // AFTER is negative, or longer than a guard may delay a message
	causes
)

var causeNames = [causes]string{
	None: "none", OutOfBudget: "out of budget", DivideByZero: "division by zero", OutOfArray: "index outside the array",
	OutOfPacket: "outside the packet", BadLength: "bad length", BadAddress: "bad trigger or program number",
	UnknownName: "unknown name", SendRefused: "send refused", SegmentRefused: "segment refused",
	Recursion: "recursion", Flood: "flood", BadDelay: "bad delay",
}

// String returns a description of the cause.
func (c Cause) String() string {
	if c < causes {
		return causeNames[c]
	}
	return "unknown cause"
}

// A Profile holds what a program has cost and done since it was loaded.
type Profile struct {
	Activations  uint64
	Instructions uint64         // including the price of copying
	Time         int64          // as charged by the owner of the machine, in its own units
	Refused      uint64         // messages for a trigger that it lacks, or while it was stopped
	Aborts       [causes]uint64 // by cause
	LastLine     int            // source line of the last abort
	LastCause    Cause          // cause of the last abort
}

// Aborted returns the number of aborted activations.
func (p *Profile) Aborted() (n uint64) {
	for _, k := range p.Aborts {
		n += k
	}
	return n
}

// Add adds the profile of what a program has done elsewhere, later than p.
func (p *Profile) Add(done *Profile) {
	p.Activations += done.Activations
	p.Instructions += done.Instructions
	p.Time += done.Time
	p.Refused += done.Refused
	for i, n := range done.Aborts {
		p.Aborts[i] += n
	}
	if done.LastCause != None {
		p.LastLine, p.LastCause = done.LastLine, done.LastCause
	}
}

// Since returns the part of the profile that is newer than before.
func (p *Profile) Since(before *Profile) Profile {
	d := *p
	d.Activations -= before.Activations
	d.Instructions -= before.Instructions
	d.Time -= before.Time
	d.Refused -= before.Refused
	for i, n := range before.Aborts {
		d.Aborts[i] -= n
	}
	if d.Aborted() == 0 {
		d.LastLine, d.LastCause = 0, None
	}
	return d
}
