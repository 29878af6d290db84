//go:build !linux

package tenure

import "time"

// bootTime cannot be set.
func bootTime() time.Duration { return time.Since(started) }
