package bench

import "testing"

func TestWhatAChildSaidLastIsItsErrorUnlessItOnlyWarned(t *testing.T) {
	for words, want := range map[string]string{
		"weft: bench: no such link":                           "bench: no such link",
		"weft: warning: others work\nweft: two lines\nof one": "two lines\nof one",
		"weft: warning: others work":                          "",
		"weft: warning: others work\npanic: index":            "",
		"panic: weft: index":                                  "",
		"":                                                    "",
	} {
		if got := lastSaid(words); got != want {
			t.Errorf("%q: %q; expected %q", words, got, want)
		}
	}
}
