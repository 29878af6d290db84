package tenure

import (
	"context"
	"math/rand"
	"time"
)

var started = time.Now()

// pause gives growing delays with jitter, so that not all clients reconnect at once.
type pause struct{ next time.Duration }

func (p *pause) duration() time.Duration {
	if p.next == 0 {
		p.next = 10 * time.Millisecond
	}
	now := time.Duration(float64(p.next) * (0.5 + rand.Float64()/2))
	if p.next *= 2; p.next > time.Second {
		p.next = time.Second
	}
	return now
}

// sleep ends early when the context does, with its error.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
