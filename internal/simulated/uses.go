package simulated

// Uses counts how often the NICs have used capabilities of links (link.Caps) with success.
type Uses struct {
	Post, PostLone uint64 // frames that left in one step
	Run            uint64 // frames that left as a run
	Pass           uint64 // frames that were read in place, and needed no more work
}

// Use is one capability with its name and count.
type Use struct {
	Name  string
	Count uint64
}

// List returns the counts in a fixed order.
func (u *Uses) List() []Use {
	return []Use{{"post", u.Post}, {"post_lone", u.PostLone}, {"run", u.Run}, {"pass", u.Pass}}
}
