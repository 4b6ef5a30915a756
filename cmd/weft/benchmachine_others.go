//go:build !linux

package main

import "github.com/spf13/cobra"

// machineBenches are the measurements of `weft run`, which needs Linux.
func machineBenches() []*cobra.Command { return nil }
