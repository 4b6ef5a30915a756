package picture

import (
	"fmt"
	"strings"
)

// lines are the colors of lines, dots and names, on light and on dark paper.
var lines = []struct{ class, light, dark string }{
	{"red", "#c0392b", "#ff8a7a"},
	{"blue", "#2c6fb3", "#6db3f2"},
	{"green", "#2f7d4f", "#6fcf97"},
	{"grey", "#8f897a", "#8f949c"},
}

// heat are the colors of levels: from cold, dark violet to hot, pale yellow. They are the same on
// all paper.
var heat = [Levels]string{
	"#170b3b", "#3b0f6f", "#641a80", "#8c2981", "#b73779", "#de4968", "#f7705c", "#fe9f6d", "#fecf92", "#fcfdbf",
}

// style returns the style sheet. A viewer without media queries shows the light colors.
func style() string {
	var light, dark, levels strings.Builder
	for _, c := range lines {
		const rule = ".%[1]s { stroke: %[2]s } text.%[1]s { fill: %[2]s; stroke: none }\n"
		fmt.Fprintf(&light, "    "+rule, c.class, c.light)
		fmt.Fprintf(&dark, "      "+rule, c.class, c.dark)
	}
	for i, c := range heat[1:] {
		fmt.Fprintf(&levels, "    .l%d { stroke: %s }\n", i+1, c)
	}
	return `    .paper { fill: #fbfaf7; stroke: #d8d4c8 }
    .frame { fill: none; stroke: #b9b3a2 }
    .back  { fill: ` + heat[0] + ` }
    .cells { fill: none; shape-rendering: crispEdges }
    path   { fill: none; stroke-width: 1 }
    .grid  { stroke: #e4e0d4 }
    .axis  { stroke: #8f897a; stroke-width: 1.2 }
    .way   { stroke-width: 2.2; stroke-linejoin: round }
    .thin  { stroke-width: 1.1; stroke-linejoin: round }
    .cut   { stroke: #ffffff; stroke-width: 1.4; stroke-dasharray: 5 4 }
    .dash  { stroke-dasharray: 6 4 }
    .dot   { stroke-width: 3.4; stroke-linecap: round }
    .big   { stroke-width: 7 }
    text   { font: 13px "Helvetica Neue", Helvetica, Arial, "DejaVu Sans", sans-serif; fill: #2b2a26 }
    .head  { font-size: 17px; font-weight: bold }
    .small { font-size: 12px; fill: #5d594d }
    .mid   { text-anchor: middle }
    .end   { text-anchor: end }
` + levels.String() + light.String() + `    @media (prefers-color-scheme: dark) {
      .paper { fill: #1b1d21; stroke: #3a3d44 }
      .frame { stroke: #6a6d75 }
      .grid  { stroke: #2c2f35 }
      .axis  { stroke: #8f949c }
      text   { fill: #ece9e1 }
      .small { fill: #b5b1a5 }
` + dark.String() + "    }\n"
}
