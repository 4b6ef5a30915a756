package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/weftnet/weft/internal/fabric/grants"
	"github.com/weftnet/weft/internal/nicid"
	"github.com/weftnet/weft/internal/trust"
)

func newFabricGrantCommand() *cobra.Command {
	var config string
	var remove bool
	c := &cobra.Command{
		Use:   "grant ID ROLE[=USER,USER]... --config FILE",
		Short: "Grant another NIC roles in a daemon's configuration",
		Long: `Writes the roles of the NIC with id ID into the [grants] table of a daemon's configuration. They
replace its earlier roles. All other text of the file stays unchanged. The daemon reads the file
when it starts.

The roles:
  observe   read state and counters
  program   load programs, on behalf of users
  run       start processes, on behalf of users
  admin     stop the NIC, and guard processes of any user
program and run may list the users on whose behalf the other NIC may act. Without a list, they
cover every user except root.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			id, err := nicid.Parse(args[0])
			if err != nil {
				return usagef("%w", err)
			}
			if remove {
				return removeGrant(c, config, id, args[1:])
			}
			if len(args) < 2 {
				return usagef("no role given: expected observe, program, run or admin; --remove removes a grant")
			}
			roles, err := trust.ParseRoles(args[1:]...)
			if err != nil {
				return usagef("%w", err)
			}
			return setGrant(c, config, id, roles)
		},
	}
	c.Flags().StringVar(&config, "config", "", "change the daemon's configuration in TOML `FILE`")
	c.Flags().BoolVar(&remove, "remove", false, "remove the grant of this NIC")
	if err := c.MarkFlagRequired("config"); err != nil {
		panic(err)
	}
	return c
}

func setGrant(c *cobra.Command, config string, id nicid.ID, roles trust.Roles) error {
	text, err := readConfig(config)
	if err != nil {
		return err
	}
	edited, err := grants.Set(text, id, roles)
	if err == nil {
		err = replaceFile(config, edited)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", config, err)
	}
	fmt.Fprintln(c.OutOrStdout(), grants.Line(id, roles))
	return nil
}

func removeGrant(c *cobra.Command, config string, id nicid.ID, roles []string) error {
	if len(roles) > 0 {
		return usagef("--remove with roles %q: expected the id alone, since --remove removes the whole grant", roles)
	}
	text, err := readConfig(config)
	if err != nil {
		return err
	}
	edited, removed, err := grants.Remove(text, id)
	if err == nil && !removed {
		err = fmt.Errorf("there is no grant to NIC %v", id)
	}
	if err == nil {
		err = replaceFile(config, edited)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", config, err)
	}
	return nil
}

func readConfig(path string) ([]byte, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("configuration: %w; weft nic --sample prints a template", err)
	}
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	return b, nil
}
