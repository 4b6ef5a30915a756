package simulated

// Uses says how often the NICs have used what links can do besides (link.Caps), with success.
type Uses struct {
	Post, PostLone uint64 // frames that left in one step
	Run            uint64 // frames that left side by side
	Pass           uint64 // frames that were looked at, and needed no more
}

// Use is one of them by its name.
type Use struct {
	Name  string
	Count uint64
}

// List lists them, in a fixed order.
func (u *Uses) List() []Use {
	return []Use{{"post", u.Post}, {"post_lone", u.PostLone}, {"run", u.Run}, {"pass", u.Pass}}
}
