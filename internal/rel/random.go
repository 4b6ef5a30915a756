package rel

// random is a generator of SplitMix64: a seed in, the same numbers out. Indices, cookies and first sequence numbers come
// from it; on plain links they keep out a sender that has not seen the frames; one that has need not guess.
type random struct{ state uint64 }

func (r *random) next() uint64 {
	r.state += 0x9e3779b97f4a7c15
	z := r.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
