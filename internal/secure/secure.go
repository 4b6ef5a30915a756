// Package secure prepares an engine for sealed links, from keys and the configuration of other
// NICs. The library and the daemon both use it.
package secure

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/nic"
	"github.com/weftnet/weft/internal/nicid"
	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/seal"
	"github.com/weftnet/weft/internal/trust"
	"golang.org/x/sys/cpu"
)

// Options holds the inputs of a sealed link.
type Options struct {
	ID            nicid.ID         // 0: the id of Key
	Key           trust.PrivateKey // static
	Fabric        []trust.FabricKey
	Certificate   []byte // encoded; nil without one
	PlainResident bool   // see rel.Security

	Policy trust.PolicyConfig // ID, Key and User are filled in
}

// Apply seals the links of an engine's configuration and sets its id. cfg.Link must be set. If a
// capture among the links is configured to hold keys, Apply gives it the keys. The error names
// the fault of the id or the certificate, and its cure.
func Apply(cfg *nic.Config, o Options) error {
	p := o.Policy
	p.Key = o.Key.Public()
	if p.ID = o.ID; p.ID == 0 {
		p.ID = p.Key.ID()
	}
	if p.User == "" {
		p.User = UserName(os.Getuid())
	}
	policy, err := trust.NewPolicy(p)
	if err != nil {
		return err
	}
	// The time is read at each call, so it follows corrections of the clock.
	cfg.WallSeconds = func(clock.Time) int64 { return time.Now().Unix() }
	if _, err := policy.CheckOwn(o.Certificate, time.Now().Unix()); err != nil {
		return fmt.Errorf("this NIC would be refused by others: %w", err)
	}
	cfg.ID, cfg.Trust = uint64(p.ID), policy
	cfg.Security = &rel.Security{
		Key: o.Key, Fabric: o.Fabric, Certificate: o.Certificate, NoAES: !fastAES(), PlainResident: o.PlainResident,
	}
	if recorder, ok := cfg.Link.(KeyRecorder); ok {
		cfg.Security.Keys = recorder.Keys()
	}
	return nil
}

// KeyRecorder is a link that records frames, and also their keys if it is configured so: see
// capture.Driver.
type KeyRecorder interface{ Keys() func(seal.KeyLog) }

// fastAES reports whether the processor has instructions for AES-GCM.
func fastAES() bool {
	return cpu.X86.HasAES && cpu.X86.HasPCLMULQDQ || cpu.ARM64.HasAES && cpu.ARM64.HasPMULL ||
		cpu.S390X.HasAES && cpu.S390X.HasAESGCM
}

// UserName returns the name of a local user in the form in which roles name users. Only uid 0 is
// trust.Root. The number replaces the name in three cases: the user has no name, roles cannot
// list the name, or the name could be taken for another user's number.
func UserName(uid int) string {
	if uid == 0 {
		return trust.Root
	}
	number := strconv.Itoa(uid)
	u, err := user.LookupId(number)
	if err != nil {
		return number
	}
	_, err = strconv.Atoi(u.Username)
	if err == nil || u.Username == trust.Root || trust.CheckUser(u.Username) != nil {
		return number
	}
	return u.Username
}
