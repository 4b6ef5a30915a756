package docs_test

import (
	"path"
	"strings"
	"testing"
)

// mostPicture is the largest size of a picture in bytes: pages must load fast.
const mostPicture = 60 << 10

func TestEveryPictureIsShownAndHasATitleAndColorsForLightAndDark(t *testing.T) {
	var pages strings.Builder
	for _, name := range files(t, ".md") {
		pages.WriteString(read(t, name))
	}
	found := 0
	for _, name := range files(t, ".svg", ".png") {
		if path.Dir(name) != "docs/pictures" {
			continue
		}
		found++
		text := read(t, name)
		if !strings.Contains(pages.String(), "](pictures/"+path.Base(name)+")") && !strings.Contains(pages.String(), "]("+name+")") {
			t.Errorf("no page shows %s", name)
		}
		if len(text) > mostPicture {
			t.Errorf("%s has %d bytes; expected at most %d", name, len(text), mostPicture)
		}
		if path.Ext(name) == ".svg" && (!strings.Contains(text, "<title") || !strings.Contains(text, "prefers-color-scheme: dark")) {
			t.Errorf("%s has no title, or no colors for dark surroundings", name)
		}
	}
	if found < 10 {
		t.Errorf("found %d pictures; the search must be broken", found)
	}
}
