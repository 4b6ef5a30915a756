package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/weftnet/weft/internal/fabric"
	"github.com/weftnet/weft/internal/fabric/authority"
	"github.com/weftnet/weft/internal/nicid"
	"github.com/weftnet/weft/internal/trust"
)

func newFabricCACommand() *cobra.Command {
	var dir string
	c := newGroup("ca", "Run a certificate authority: sign, revoke and show certificates of NICs",
		newCAInitCommand(&dir), newCASignCommand(&dir), newCARevokeCommand(&dir), newCAShowCommand(&dir))
	c.Long = c.Short + `.

A NIC that has the public key of an authority communicates only with NICs that have a
certificate of that authority. A certificate binds a NIC's id to its static key for a period of
time. It also grants roles to the NIC, and lists the names that its processes may have.`
	c.PersistentFlags().StringVar(&dir, "dir", "",
		"use the authority in `DIRECTORY` (default: ca in the directory of the user's fabric key)")
	return c
}

// caDir returns the directory of the authority.
func caDir(flag string) (string, error) {
	if flag != "" {
		return flag, nil
	}
	path, err := fabric.DefaultFile()
	if err != nil {
		return "", fmt.Errorf("%w; give --dir DIRECTORY", err)
	}
	return filepath.Join(filepath.Dir(path), "ca"), nil
}

// withCA runs do with the authority.
func withCA(flag string, open func(string) (*authority.Authority, error), do func(*authority.Authority) error) error {
	dir, err := caDir(flag)
	if err != nil {
		return err
	}
	a, err := open(dir)
	if err != nil {
		return err
	}
	return errors.Join(do(a), a.Close())
}

func newCAInitCommand(dir *string) *cobra.Command {
	return &cobra.Command{
		Use:   "init",
		Short: "Create a certificate authority, and print its public key",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return withCA(*dir, authority.Create, func(a *authority.Authority) error {
				fmt.Fprintln(c.OutOrStdout(), a.Public())
				return nil
			})
		},
	}
}

// signOptions are the flags of sign.
type signOptions struct {
	id, notBefore string
	roles, apps   []string
	days          int
}

func newCASignCommand(dir *string) *cobra.Command {
	o := &signOptions{}
	c := &cobra.Command{
		Use:   "sign KEY",
		Short: "Sign a certificate for a NIC, and print it",
		Long: `Signs a certificate for the NIC with the public key KEY, which weft fabric key prints on the
NIC's host. The command writes the certificate alone to standard output. The certificate is no
secret.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			cert, err := o.certificate(args[0], time.Now())
			if err != nil {
				return usagef("%w", err)
			}
			return withCA(*dir, authority.Open, func(a *authority.Authority) error {
				if err := a.Sign(cert); err != nil {
					return err
				}
				fmt.Fprintln(c.OutOrStdout(), cert.Text())
				fmt.Fprintf(c.ErrOrStderr(), "certificate %s of NIC %v, valid until %s\n",
					trust.SerialText(cert.Serial), cert.NIC, utc(cert.NotAfter))
				return nil
			})
		},
	}
	f := c.Flags()
	f.StringVar(&o.id, "id", "", "set the `ID` of the NIC (default: derived from its key)")
	f.StringArrayVar(&o.roles, "role", nil,
		"grant the NIC a `ROLE[=USER,USER]`: observe, program, run or admin; may be repeated")
	f.StringSliceVar(&o.apps, "app", []string{"*"},
		"allow application names that match `PATTERN`, such as app*; may be repeated, "+
			"or hold several patterns separated by commas")
	f.StringVar(&o.notBefore, "not-before", "",
		"make it valid from `TIME`, such as 2026-01-31 or 2026-01-31T12:00:00Z (default: an hour ago)")
	intFlag(f, &o.days, "days", 365, 1, 36500, "make it valid for N days, from --not-before or from now")
	return c
}

// certificate returns the certificate that the flags ask for, not yet signed.
func (o *signOptions) certificate(key string, now time.Time) (c *trust.Certificate, err error) {
	c = &trust.Certificate{Applications: o.apps}
	if c.Key, err = trust.ParsePublicKey(key); err != nil {
		return nil, err
	}
	c.NIC = c.Key.ID()
	if o.id != "" {
		if c.NIC, err = nicid.Parse(o.id); err != nil {
			return nil, fmt.Errorf("--id: %w", err)
		}
	}
	if c.Roles, err = trust.ParseRoles(o.roles...); err != nil {
		return nil, fmt.Errorf("--role: %w", err)
	}
	for _, p := range o.apps {
		if err := trust.CheckPattern(p); err != nil {
			return nil, fmt.Errorf("--app: %w", err)
		}
	}
	from, early := now, time.Hour // clocks of hosts differ
	if o.notBefore != "" {
		if from, err = parseDate(o.notBefore); err != nil {
			return nil, fmt.Errorf("--not-before: %w", err)
		}
		early = 0
	}
	c.NotBefore, c.NotAfter = from.Add(-early).Unix(), from.AddDate(0, 0, o.days).Unix()
	return c, nil
}

func parseDate(s string) (time.Time, error) {
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if t, err := time.Parse(layout, s); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q: expected a time such as 2026-01-31 or 2026-01-31T12:00:00Z", s)
}

func utc(seconds int64) string { return time.Unix(seconds, 0).UTC().Format("2006-01-02 15:04:05 UTC") }

func newCARevokeCommand(dir *string) *cobra.Command {
	return &cobra.Command{
		Use:   "revoke SERIAL|ID|KEY...",
		Short: "Revoke certificates, and print the new revocation list",
		Long: `Revokes the certificate with a serial number, all existing certificates of a NIC id, or every
existing and future certificate of a public key. The command writes the new revocation list
alone to standard output. The list is no secret.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return withCA(*dir, authority.Open, func(a *authority.Authority) error {
				all, err := a.Issued()
				if err != nil {
					return err
				}
				serials, keys, err := revokedBy(args, all)
				if err != nil {
					return err
				}
				l, err := a.Revoke(serials, keys, time.Now().Unix())
				if err != nil {
					return err
				}
				fmt.Fprintln(c.OutOrStdout(), l.Text())
				fmt.Fprintf(c.ErrOrStderr(), "revocation list %d: %d serial numbers, %d keys\n",
					l.Number, len(l.Serials), len(l.Keys))
				return nil
			})
		},
	}
}

// revokedBy parses the arguments that say what to revoke.
func revokedBy(args []string, all []*trust.Certificate) (serials []uint64, keys []trust.PublicKey, err error) {
	for _, s := range args {
		if strings.Contains(s, ":") {
			id, err := nicid.Parse(s)
			if err != nil {
				return nil, nil, usagef("%w", err)
			}
			before := len(serials)
			for _, c := range all {
				if c.NIC == id {
					serials = append(serials, c.Serial)
				}
			}
			if len(serials) == before {
				return nil, nil, fmt.Errorf(
					"the authority has signed no certificate for NIC %v; expected another id, a serial number or a key",
					id)
			}
			continue
		}
		if n, err := strconv.ParseUint(s, 16, 64); err == nil && trust.SerialText(n) == s {
			serials = append(serials, n)
			continue
		}
		k, err := trust.ParsePublicKey(s)
		if errors.Is(err, trust.ErrNotAKey) {
			return nil, nil, usagef("%q: expected a serial number of 16 hexadecimal digits, a NIC id or a public key",
				s)
		}
		if err != nil {
			return nil, nil, usagef("%w", err)
		}
		keys = append(keys, k)
	}
	return serials, keys, nil
}

func newCAShowCommand(dir *string) *cobra.Command {
	var public, revoked, asJSON bool
	c := &cobra.Command{
		Use:   "show",
		Short: "Print the public key of the authority, its certificates and its revocation list",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return withCA(*dir, authority.Open, func(a *authority.Authority) error {
				l, err := a.List()
				switch {
				case err != nil:
					return err
				case public:
					fmt.Fprintln(c.OutOrStdout(), a.Public())
					return nil
				case revoked && l == nil:
					return errors.New("there is no revocation list: nothing was revoked")
				case revoked:
					fmt.Fprintln(c.OutOrStdout(), l.Text())
					return nil
				}
				return showCA(c.OutOrStdout(), a, l, asJSON)
			})
		},
	}
	c.Flags().BoolVar(&public, "public", false, "print the public key alone")
	c.Flags().BoolVar(&revoked, "revoked", false, "print the revocation list alone")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object for each certificate, one a line")
	atMostOne(c, "public", "revoked", "json")
	return c
}

// shownCertificate is a row of show.
type shownCertificate struct {
	Serial       string          `json:"serial"`
	NIC          nicid.ID        `json:"nic"`
	Key          trust.PublicKey `json:"key"`
	State        string          `json:"state"`
	NotBefore    int64           `json:"not_before"` // Unix seconds
	NotAfter     int64           `json:"not_after"`
	Roles        []string        `json:"roles"`
	Applications []string        `json:"applications"`
}

func showCA(out io.Writer, a *authority.Authority, l *trust.RevocationList, asJSON bool) error {
	all, err := a.Issued()
	if err != nil {
		return err
	}
	rows := make([]shownCertificate, 0, len(all))
	for _, c := range all {
		rows = append(rows, shownCertificate{trust.SerialText(c.Serial), c.NIC, c.Key, stateOf(c, l, time.Now().Unix()),
			c.NotBefore, c.NotAfter, c.Roles.Strings(), c.Applications})
	}
	if asJSON {
		return printLines(out, rows)
	}
	fmt.Fprintf(out, "authority %v: %v\n", a.Public().ID(), a.Public())
	if l != nil {
		fmt.Fprintf(out, "revocation list %d: %d serial numbers, %d keys\n", l.Number, len(l.Serials), len(l.Keys))
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SERIAL\tNIC\tSTATE\tNOT AFTER\tROLES\tAPPLICATIONS")
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%v\t%s\t%s\t%s\t%s\n", r.Serial, r.NIC, r.State, utc(r.NotAfter),
			cmp.Or(strings.Join(r.Roles, " "), "-"), cmp.Or(strings.Join(r.Applications, " "), "-"))
	}
	return w.Flush()
}

func stateOf(c *trust.Certificate, l *trust.RevocationList, wallSeconds int64) string {
	switch {
	case l != nil && l.Revokes(c):
		return "revoked"
	case wallSeconds < c.NotBefore:
		return "not yet valid"
	case wallSeconds >= c.NotAfter:
		return "expired"
	}
	return "valid"
}
