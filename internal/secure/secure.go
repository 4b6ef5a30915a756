// Package secure makes, of keys and what a configuration says of other NICs, what an engine needs
// for sealed links. The library and the daemon use it alike.
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

// Options are what a sealed link is made of.
type Options struct {
	ID            nicid.ID         // 0: that of Key
	Key           trust.PrivateKey // static
	Fabric        []trust.FabricKey
	Certificate   []byte // encoded; nil without one
	PlainResident bool   // see rel.Security

	Policy trust.PolicyConfig // ID, Key and User are filled in
}

// Apply seals the links of an engine's configuration and sets its id. cfg.Link is set: a capture
// among the links is told the keys if it was made to hold them. The error says what is wrong with
// the id or the certificate, and how to cure it.
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
	cfg.WallSeconds = func(clock.Time) int64 { return time.Now().Unix() } // also after it was corrected
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

// KeyRecorder is a link that records frames, and their keys if it was told to: see capture.Driver.
type KeyRecorder interface{ Keys() func(seal.KeyLog) }

// fastAES reports whether the processor has instructions for AES-GCM.
func fastAES() bool {
	return cpu.X86.HasAES && cpu.X86.HasPCLMULQDQ || cpu.ARM64.HasAES && cpu.ARM64.HasPMULL ||
		cpu.S390X.HasAES && cpu.S390X.HasAESGCM
}

// UserName returns the name of a local user as roles name users: trust.Root for uid 0 alone. A user
// without a name, or whose name roles cannot list or could be taken for another user's number, has
// the number for a name.
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
