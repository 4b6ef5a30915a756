//go:build !linux

package main

import "github.com/spf13/cobra"

// machineBenches returns no command here: `weft run` needs Linux.
func machineBenches() []*cobra.Command { return nil }
