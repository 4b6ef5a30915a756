//go:build !linux

package sdnotify

import "time"

// monotonic has no meaning here: only supervisors on Linux use it.
func monotonic() time.Duration { return 0 }
