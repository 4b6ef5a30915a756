package vm

// A Cause is why an activation was aborted.
type Cause uint8

// The causes. All but OutOfBudget, and those that Machine.Stop is given, end the activation and leave the program to the next message.
const (
	None           Cause = iota
	OutOfBudget          // it took more instructions than one may: the program is stopped
	DivideByZero         //
	OutOfArray           // an index is not one of the variable's
	OutOfPacket          // an index or range is not within the packet
	BadLength            // LEN is negative, or longer than the variable from there on, or than a message may be
	BadAddress           // AS or TO is no number of a trigger or program
	UnknownName          // TO or AT is a name that is not known here
	SendRefused          // the host took no message
	SegmentRefused       // no such segment, or it is too short
	Recursion            // its messages to programs of its NIC have led to one another too often: the program is stopped
	Flood                // too many of its messages could not be sent: the program is stopped
	BadDelay             // AFTER is negative, or longer than a guard may delay a message
	causes
)

var causeNames = [causes]string{
	None: "none", OutOfBudget: "out of budget", DivideByZero: "division by zero", OutOfArray: "index outside the array",
	OutOfPacket: "outside the packet", BadLength: "bad length", BadAddress: "bad trigger or program number",
	UnknownName: "unknown name", SendRefused: "send refused", SegmentRefused: "segment refused",
	Recursion: "recursion", Flood: "flood", BadDelay: "bad delay",
}

// String says the cause in words.
func (c Cause) String() string {
	if c < causes {
		return causeNames[c]
	}
	return "unknown cause"
}

// A Profile is what a program has cost and done since it was loaded.
type Profile struct {
	Activations  uint64
	Instructions uint64         // with what copying costs
	Time         int64          // that the owner of the machine has charged, in its own units
	Refused      uint64         // messages for a trigger that it has not, or that came when it was stopped
	Aborts       [causes]uint64 // by cause
	LastLine     int            // of the source, where it was last aborted,
	LastCause    Cause          // and why
}

// Aborted is how many activations were aborted.
func (p *Profile) Aborted() (n uint64) {
	for _, k := range p.Aborts {
		n += k
	}
	return n
}

// Add adds what a program has done elsewhere, later than what p has.
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

// Since is what a program has done since its profile was before.
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
