package trust

import "fmt"

// dateText returns a time in Unix seconds as "2026-01-31 12:00:00 UTC". Package time cannot be
// used: it has a clock.
func dateText(seconds int64) string {
	const day = 24 * 60 * 60
	days, rest := seconds/day, seconds%day
	if rest < 0 {
		days, rest = days-1, rest+day
	}
	y, m, d := civil(days)
	return fmt.Sprintf("%04d-%02d-%02d %02d:%02d:%02d UTC", y, m, d, rest/3600, rest/60%60, rest%60)
}

// civil converts days since 1970 to a date of the Gregorian calendar. Internally years begin in
// March, so that the leap day is the last of its year.
func civil(days int64) (year, month, day int64) {
	days += 719468 // since 0000-03-01
	era := days / 146097
	if days < 0 {
		era = (days - 146096) / 146097
	}
	inEra := days - era*146097
	ofEra := (inEra - inEra/1460 + inEra/36524 - inEra/146096) / 365
	inYear := inEra - (365*ofEra + ofEra/4 - ofEra/100)
	fromMarch := (5*inYear + 2) / 153
	day = inYear - (153*fromMarch+2)/5 + 1
	month = (fromMarch+2)%12 + 1
	year = ofEra + era*400
	if month <= 2 {
		year++
	}
	return year, month, day
}
