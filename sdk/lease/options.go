package lease

import (
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/clock"
)

// Options configure a session. The zero value is useful.
//
// RenewEvery with its jitter, two RequestTimeouts and the Margin are together
// below the lease; a configuration in which they are not is refused.
type Options struct {
	RenewEvery     time.Duration // a third of the TTL by default
	RequestTimeout time.Duration // of one renewal; a sixth of the TTL by default
	Margin         time.Duration // by which the session ends before its lease; a tenth by default
	Retry          time.Duration // between renewals that failed; a twentieth by default

	// Heartbeat is how long the work may be silent: without a call of Beat for
	// longer the session renews no more, and the lease ends by its time. The TTL by
	// default.
	Heartbeat time.Duration

	Clock  clock.Clock  // nil is the system's
	Rand   *rand.Rand   // of the jitter; nil seeds one
	Logger *slog.Logger // nil discards
}

// jitterPart is the part of a duration by which it may come earlier: so many
// sessions that started together do not renew together.
const jitterPart = 5

func (o *Options) times(ttl time.Duration) (times, error) {
	pick := func(d, part time.Duration) time.Duration {
		if d == 0 {
			return ttl / part
		}
		return d
	}
	t := times{ttl: ttl, every: pick(o.RenewEvery, 3), timeout: pick(o.RequestTimeout, 6), margin: pick(o.Margin, 10), retry: pick(o.Retry, 20), heartbeat: pick(o.Heartbeat, 1)}
	for name, d := range map[string]time.Duration{"RenewEvery": t.every, "RequestTimeout": t.timeout, "Margin": t.margin, "Retry": t.retry, "Heartbeat": t.heartbeat} {
		if d <= 0 {
			return t, sdk.Errorf(sdk.Unsuitable, "Options."+name, "%v; it is above 0", d)
		}
	}
	// Each by itself first, so that the sum cannot pass the end of the range.
	if t.every >= ttl || t.timeout >= ttl || t.margin >= ttl || t.retry >= ttl || t.every+2*t.timeout+t.retry+t.margin >= ttl {
		return t, sdk.Errorf(sdk.Unsuitable, "Options.RequestTimeout", "RenewEvery %v, two RequestTimeouts of %v, Retry %v and Margin %v are not below the lease of %v: the lease could end while a request is waited for", t.every, t.timeout, t.retry, t.margin, ttl)
	}
	rng, mu := o.Rand, new(sync.Mutex)
	if rng == nil {
		rng = rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	}
	t.jitter = func(d time.Duration) time.Duration {
		mu.Lock()
		defer mu.Unlock()
		if d < jitterPart {
			return max(d, 0)
		}
		return d - time.Duration(rng.Int64N(int64(d/jitterPart)))
	}
	return t, nil
}
