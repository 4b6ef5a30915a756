//go:build !linux

package main

import (
	"github.com/spf13/cobra"

	"github.com/weftnet/weft/internal/testbed"
)

func runTestbedExec(*cobra.Command, *execOptions) error { return testbed.Check() }

func runTestbedJoin(*cobra.Command, *execOptions) error { return testbed.Check() }

func runTestbedSupervise(*cobra.Command, *execOptions) error { return testbed.Check() }
