package crc

func ways() []way {
	set := func(w, f bool) func() func() {
		return func() func() {
			oldWide, oldFolds := wide, folds
			wide, folds = w, f
			return func() { wide, folds = oldWide, oldFolds }
		}
	}
	all := []way{{"library", set(false, false)}}
	if folds {
		all = append(all, way{"32 bytes at a time", set(false, true)})
	}
	if wide {
		all = append(all, way{"64 bytes at a time", set(true, true)})
	}
	return all
}
