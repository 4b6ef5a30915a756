package daemon

import (
	"fmt"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
)

// VNIs is the [vni] table of the configuration. It holds the sizes of the virtual network
// interfaces of processes (QNIX-61) that ask for no other size, and the largest sizes that a
// process may ask for.
type VNIs struct {
	Commands    int `toml:"commands"`
	Contexts    int `toml:"contexts"`
	Descriptors int `toml:"descriptors"`
	PoolPages   int `toml:"pool_pages"`

	MaxCommands    int `toml:"max_commands"`
	MaxContexts    int `toml:"max_contexts"`
	MaxDescriptors int `toml:"max_descriptors"`
	MaxPoolPages   int `toml:"max_pool_pages"`

	Prepared int `toml:"prepared"` // made in advance (QNIX-2)
}

// A parameter is one number of a geometry.
type parameter struct {
	key    string // in the file
	name   string // with QNIX's letter
	also   string // a further condition
	least  int
	limit  int // the bound of every configuration
	usual  int
	of     func(*vni.Geometry) *int
	asked  func(*ctl.Geometry) int
	config func(*VNIs) (usual, most *int)
}

// parameters are N, M, K and Q.
var parameters = []parameter{
	{"commands", "commands (N)", ", a multiple of 8", 16, limits.MaxCommands, limits.Commands,
		func(g *vni.Geometry) *int { return &g.Commands },
		func(a *ctl.Geometry) int { return a.Commands },
		func(v *VNIs) (*int, *int) { return &v.Commands, &v.MaxCommands }},
	{"contexts", "contexts (M)", "", 1, limits.MaxContexts, limits.Contexts,
		func(g *vni.Geometry) *int { return &g.Contexts },
		func(a *ctl.Geometry) int { return a.Contexts },
		func(v *VNIs) (*int, *int) { return &v.Contexts, &v.MaxContexts }},
	{"descriptors", "descriptors (K)", "", 1, limits.Descriptors, limits.Descriptors,
		func(g *vni.Geometry) *int { return &g.Descriptors },
		func(a *ctl.Geometry) int { return a.Descriptors },
		func(v *VNIs) (*int, *int) { return &v.Descriptors, &v.MaxDescriptors }},
	{"pool_pages", "pool pages (Q)", "", 1, limits.MaxPoolPages, limits.PoolPages,
		func(g *vni.Geometry) *int { return &g.PoolPages },
		func(a *ctl.Geometry) int { return a.PoolPages },
		func(v *VNIs) (*int, *int) { return &v.PoolPages, &v.MaxPoolPages }},
}

// geometry checks the sizes in the configuration and fills in the missing ones.
func (c Config) geometry() (usual, most vni.Geometry, prepared int, err error) {
	var v VNIs
	if c.VNI != nil {
		v = *c.VNI
	}
	for _, p := range parameters {
		u, m := p.config(&v)
		if *m == 0 {
			*m = p.limit
		}
		if *m < p.least || *m > p.limit {
			return usual, most, 0, c.lines.At("vni.max_"+p.key,
				fmt.Errorf("vni: at most %d %s; expected a bound of %d to %d", *m, p.name, p.least, p.limit))
		}
		if *u == 0 {
			*u = min(p.usual, *m)
		}
		if *u < p.least || *u > *m {
			return usual, most, 0, c.lines.At("vni."+p.key,
				fmt.Errorf("vni: %d %s; expected %d to %d%s", *u, p.name, p.least, *m, p.also))
		}
		*p.of(&usual), *p.of(&most) = *u, *m
	}
	if err := usual.Validate(); err != nil {
		return usual, most, 0, c.lines.At("vni", err)
	}
	if v.Prepared == 0 {
		v.Prepared = min(limits.Processes, c.maxProcesses())
	}
	if v.Prepared < 0 || v.Prepared > c.maxProcesses() {
		return usual, most, 0, c.mistake("vni.prepared", "%d; expected up to max_processes, %d", v.Prepared,
			c.maxProcesses())
	}
	return usual, most, v.Prepared, nil
}

// choose returns the geometry of a process. A size that the process leaves open is the usual one,
// but the number of commands is enough for the process's contexts.
func (s *settings) choose(a *ctl.Geometry) (vni.Geometry, error) {
	g := s.usual
	if a == nil {
		return g, nil
	}
	for _, p := range parameters {
		n := p.asked(a)
		if n == 0 {
			continue
		}
		if most := *p.of(&s.most); n < p.least || n > most {
			return g, fmt.Errorf("%d %s; this NIC permits %d to %d%s", n, p.name, p.least, most, p.also)
		}
		*p.of(&g) = n
	}
	if a.Commands == 0 {
		g.Commands = min(max(g.Commands, commandsPerContext*g.Contexts), s.most.Commands)
	}
	return g, g.Validate()
}

// commandsPerContext is how many commands a process gets for each of its contexts, unless it asks
// for another number: one for an operation and one for a Cancel in each list.
const commandsPerContext = 4
