//go:build !linux

package bench

func favour(int) {}
func level()     {}
