package main

import (
	"os"

	"github.com/spf13/cobra"

	fabric "github.com/weftnet/weft"
)

func init() { register(newMemCommand) }

// memCommands make the subcommands of `weft mem`. Subcommands that only some systems have add
// themselves.
var memCommands = []func() *cobra.Command{newMemNBD, newMemServe, newMemStat}

func newMemCommand() *cobra.Command {
	c := newGroup("mem", "Lend memory to the fabric, and use memory that others lend")
	for _, sub := range memCommands {
		c.AddCommand(sub())
	}
	return c
}

// toolName returns a process name for a tool that no other process looks for.
func toolName(app string) fabric.Name { return fabric.Name{App: app, Index: uint32(os.Getpid())} }
