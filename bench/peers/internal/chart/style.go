package chart

import (
	"fmt"
	"strings"
)

// colours holds the colours of a style, on light and on dark paper.
type colours struct{ style, light, dark string }

// styles has a style for each contestant of a chart. Weft's colours are warm and its lines
// thick.
var styles = []colours{
	{"weft", "#c0392b", "#ff8a7a"},
	{"weft2", "#d9822b", "#ffc078"},
	{"weft3", "#8e2f5c", "#f29cc4"},
	{"blue", "#2c6fb3", "#6db3f2"},
	{"teal", "#1b8a7a", "#5fd0be"},
	{"green", "#4d8f2f", "#96d672"},
	{"purple", "#7d4fa8", "#c39bea"},
	{"olive", "#7a7a1f", "#cfcf6a"},
	{"sand", "#9a7b2d", "#d9bd63"},
	{"brown", "#6d4c41", "#c9a595"},
	{"slate", "#64798a", "#a3bccd"},
	{"pink", "#b0447a", "#ee93bd"},
	{"indigo", "#3949ab", "#98a5f5"},
	{"cyan", "#00798c", "#5cd6e2"},
	{"rust", "#a2431d", "#f0a27f"},
	{"violet", "#8a4fbf", "#cda4f4"},
	{"moss", "#5f7a32", "#b3cf7d"},
	{"steel", "#47688f", "#8fb4de"},
	{"else", "#6b6658", "#a8a498"},
}

// css returns the style sheet of a chart. A viewer without media queries shows the light chart,
// which has its own paper.
func css() string {
	var light, dark strings.Builder
	for _, c := range styles { // no variables: not all viewers support them
		const rule = ".way.%[1]s, .stem.%[1]s { stroke: %[2]s } .dot.%[1]s, .name.%[1]s { fill: %[2]s }\n"
		fmt.Fprintf(&light, "    "+rule, c.style, c.light)
		fmt.Fprintf(&dark, "      "+rule, c.style, c.dark)
	}
	return `    .paper { fill: #fbfaf7; stroke: #d8d4c8 }
    .grid  { stroke: #e4e0d4; stroke-width: 1 }
    .axis  { stroke: #8f897a; stroke-width: 1.2 }
    .lead  { stroke: #b9b3a2; stroke-width: 0.8; fill: none }
    text   { font: 13px "Helvetica Neue", Helvetica, Arial, "DejaVu Sans", sans-serif; fill: #2b2a26 }
    .head  { font-size: 17px; font-weight: bold }
    .small { font-size: 12px; fill: #5d594d }
    .label { font-size: 12.5px; fill: #2b2a26 }
    .name  { font-size: 12.5px }
    .value { font-size: 12.5px }
    .mid   { text-anchor: middle }
    .end   { text-anchor: end }
    .way   { fill: none; stroke-width: 1.5 }
    .dot   { stroke: none }
    .stem  { stroke-width: 2.2 }
    .way.weft, .way.weft2, .way.weft3 { stroke-width: 2.8 }
    .stem.weft, .stem.weft2, .stem.weft3 { stroke-width: 6 }
    .name.weft, .name.weft2, .name.weft3 { font-weight: bold }
    .way.else, .stem.else { stroke-dasharray: 4 4 }
` + light.String() + `    @media (prefers-color-scheme: dark) {
      .paper { fill: #1b1d21; stroke: #3a3d44 }
      .grid  { stroke: #2c2f35 }
      .axis  { stroke: #8f949c }
      .lead  { stroke: #5b5f68 }
      text, .label { fill: #ece9e1 }
      .small { fill: #b5b1a5 }
` + dark.String() + "    }\n"
}
