package tenure

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"sort"
	"strconv"
	"strings"
	"time"
)

type contextKey int

const (
	opIDKey contextKey = iota
	reasonKey
	fenceKey
)

// WithOpID gives the next write that uses the context this operation id, so that another process can repeat it.
func WithOpID(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, opIDKey, id)
}

// WithReason gives the operator's commands that use the context a reason, which is kept in the event.
func WithReason(ctx context.Context, text string) context.Context {
	return context.WithValue(ctx, reasonKey, text)
}

// WithFence gives the reads that use the context a minimum log position of the answer.
func WithFence(ctx context.Context, lsn uint64) context.Context {
	return context.WithValue(ctx, fenceKey, lsn)
}

// words of a request.
type words []string

func (w words) text(name, value string) words {
	if value == "" {
		return w
	}
	return append(w, name, value)
}

func (w words) number(name string, value int64) words {
	if value == 0 {
		return w
	}
	return append(w, name, strconv.FormatInt(value, 10))
}

// duration is in whole seconds, rounded up.
func (w words) duration(name string, value time.Duration) words {
	return w.number(name, int64((value+time.Second-1)/time.Second))
}

func (w words) time(name string, value time.Time) words {
	if value.IsZero() {
		return w
	}
	return w.number(name, value.UnixMilli())
}

func (w words) flag(name string, set bool) words {
	if set {
		return append(w, name)
	}
	return w
}

func (w words) object(name string, value map[string]any) (words, error) {
	if value == nil {
		return w, nil
	}
	text, err := json.Marshal(value)
	return append(w, name, string(text)), err
}

func (w words) reason(ctx context.Context) words {
	text, _ := ctx.Value(reasonKey).(string)
	return w.text("REASON", text)
}

func (c *Client) write(ctx context.Context, out any, w words) error {
	return c.writeWaiting(ctx, out, w, 0)
}

func (c *Client) writeWaiting(ctx context.Context, out any, w words, wait time.Duration) error {
	opid, _ := ctx.Value(opIDKey).(string)
	if opid == "" {
		opid = newOpID()
	}
	r := &request{words: append(w, "OPID", opid), kind: write, opid: opid, wait: wait}
	reply, err := c.run(ctx, r)
	if err != nil {
		return err
	}
	return decoded(r, reply, out)
}

// decoded: a reply of another form does not tell the outcome.
func decoded(r *request, reply any, out any) error {
	if err := decode(reply, out); err != nil {
		return givenUp(r, true, err)
	}
	return nil
}

func (c *Client) read(ctx context.Context, w words) (any, error) {
	if lsn, ok := ctx.Value(fenceKey).(uint64); ok {
		w = append(w, "FENCE", strconv.FormatUint(lsn, 10))
	}
	return c.run(ctx, &request{words: w, kind: read})
}

func (c *Client) readInto(ctx context.Context, out any, w words) error {
	reply, err := c.read(ctx, w)
	if err != nil {
		return err
	}
	return decoded(&request{kind: read}, reply, out)
}

// counted is a write whose reply has its count under that name.
func (c *Client) counted(ctx context.Context, name string, w words) (Counted, error) {
	var counts struct {
		Done
		Added    int64 `json:"added"`
		Removed  int64 `json:"removed"`
		Released int64 `json:"released"`
		Freed    int64 `json:"freed"`
	}
	err := c.write(ctx, &counts, w)
	count := map[string]int64{"added": counts.Added, "removed": counts.Removed, "released": counts.Released,
		"freed": counts.Freed}[name]
	return Counted{counts.Done, count}, err
}

// ---- Pools ----

// Policy of a pool.
type Policy struct {
	Range   string         // the values: "30000-30009", "1-9,20-29" or "10.0.0.0/24"
	Set     bool           // a set of names instead, which PoolAdd adds
	Options map[string]any // by name: "lease": 60, "sticky": true
}

func (p Policy) words(w words) words {
	w = w.text("RANGE", p.Range).flag("SET", p.Set)
	names := make([]string, 0, len(p.Options))
	for name := range p.Options {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		text := fmt.Sprint(p.Options[name])
		switch value := p.Options[name].(type) {
		case bool:
			text = map[bool]string{true: "yes", false: "no"}[value]
		case time.Duration:
			text = strconv.FormatInt(int64((value+time.Second-1)/time.Second), 10)
		}
		w = append(w, strings.ToUpper(name), text)
	}
	return w
}

func (c *Client) PoolCreate(ctx context.Context, pool string, policy Policy) (done Done, err error) {
	return done, c.write(ctx, &done, policy.words(words{"POOL", "CREATE", pool}).reason(ctx))
}

func (c *Client) PoolAlter(ctx context.Context, pool string, policy Policy) (done Done, err error) {
	return done, c.write(ctx, &done, policy.words(words{"POOL", "ALTER", pool}).reason(ctx))
}

func (c *Client) PoolDrop(ctx context.Context, pool string) (done Done, err error) {
	return done, c.write(ctx, &done, words{"POOL", "DROP", pool}.reason(ctx))
}

func (c *Client) PoolAdd(ctx context.Context, pool string, names ...string) (Counted, error) {
	return c.counted(ctx, "added", append(words{"POOL", "ADD", pool}, names...).reason(ctx))
}

func (c *Client) PoolRemove(ctx context.Context, pool string, names ...string) (Counted, error) {
	return c.counted(ctx, "removed", append(words{"POOL", "REMOVE", pool}, names...).reason(ctx))
}

// PoolSeed sets the counters of a pool from another system.
func (c *Client) PoolSeed(ctx context.Context, pool string, given, reclaimed int64) (done Done, err error) {
	return done, c.write(ctx, &done, words{"POOL", "SEED", pool}.number("GIVEN", given).
		number("RECLAIMED", reclaimed))
}

// PoolHistory has a day of minutes, or with the step "hour" 30 days of hours; count: the largest number of samples.
func (c *Client) PoolHistory(ctx context.Context, pool, step string, count int) (history PoolHistory, err error) {
	reply, err := c.read(ctx, words{"POOL", "HISTORY", pool}.text("STEP", step).number("COUNT", int64(count)))
	if err != nil {
		return history, err
	}
	r := &request{kind: read}
	if err := decoded(r, reply, &history); err != nil {
		return history, err
	}
	history.Figures = map[string][]float64{}
	for name, value := range reply.(map[string]any) {
		if _, ok := value.([]any); ok {
			var figures []float64
			if err := decodeSlice(value, reflect.ValueOf(&figures).Elem()); err != nil {
				return history, givenUp(r, true, err)
			}
			history.Figures[name] = figures
		}
	}
	return history, nil
}

func (c *Client) PoolInfo(ctx context.Context, name string) (pool Pool, err error) {
	return pool, c.readInto(ctx, &pool, words{"POOL", "INFO", name})
}

func (c *Client) PoolMetrics(ctx context.Context, pool string) (metrics PoolMetrics, err error) {
	return metrics, c.readInto(ctx, &metrics, words{"POOL", "METRICS", pool})
}

// List chooses the rows of a list. Cursor and Count are for pages; the methods that return all rows ignore
// Cursor.
type List struct {
	Pool, Holder, State string
	Cursor              string
	Count               int
}

func (l List) words(w words) words {
	return w.text("POOL", l.Pool).text("HOLDER", l.Holder).text("STATE", l.State).
		text("CURSOR", l.Cursor).number("COUNT", int64(l.Count))
}

func (c *Client) PoolList(ctx context.Context, list List) (page PoolPage, err error) {
	return page, c.readInto(ctx, &page, list.words(words{"POOL", "LIST"}))
}

// PoolValues is a page of the values of a pool with their states; the free ones of a range as spans.
func (c *Client) PoolValues(ctx context.Context, pool string, list List) (page ValuePage, err error) {
	return page, c.readInto(ctx, &page, list.words(words{"POOL", "VALUES", pool}))
}

// Leases is a page of leases.
func (c *Client) Leases(ctx context.Context, list List) (page LeasePage, err error) {
	return page, c.readInto(ctx, &page, list.words(words{"LEASES"}))
}

// EachPool calls f for all pools, page after page, until it returns an error.
func (c *Client) EachPool(ctx context.Context, f func(Pool) error) error {
	return pages(List{}, func(list List) (string, []Pool, error) {
		page, err := c.PoolList(ctx, list)
		return page.Cursor, page.Pools, err
	}, f)
}

// EachValue calls f for all values of a pool, page after page, until it returns an error.
func (c *Client) EachValue(ctx context.Context, pool string, list List, f func(ValueRow) error) error {
	return pages(list, func(list List) (string, []ValueRow, error) {
		page, err := c.PoolValues(ctx, pool, list)
		return page.Cursor, page.Values, err
	}, f)
}

// EachLease calls f for all leases, page after page, not at one moment, until it returns an error.
func (c *Client) EachLease(ctx context.Context, list List, f func(Lease) error) error {
	return pages(list, func(list List) (string, []Lease, error) {
		page, err := c.Leases(ctx, list)
		return page.Cursor, page.Leases, err
	}, f)
}

func pages[T any](list List, next func(List) (string, []T, error), f func(T) error) error {
	for list.Cursor = ""; list.Cursor != "0"; {
		cursor, rows, err := next(list)
		if err != nil {
			return err
		}
		for _, row := range rows {
			if err := f(row); err != nil {
				return err
			}
		}
		list.Cursor = cursor
	}
	return nil
}

// Value is one value, held or free: "ports/30000".
func (c *Client) Value(ctx context.Context, name string) (value PoolValue, err error) {
	return value, c.readInto(ctx, &value, words{"VALUE", name})
}

// ---- Leases ----

// Claim is a part of a bundle: Count values of a pool (1 if it is 0), or these.
type Claim struct {
	Pool   string
	Count  int
	Values []string
}

func (claim Claim) amount(w words) words {
	if claim.Values != nil {
		return append(append(w, "VALUES", strconv.Itoa(len(claim.Values))), claim.Values...)
	}
	if claim.Count == 0 {
		claim.Count = 1
	}
	return append(w, "COUNT", strconv.Itoa(claim.Count))
}

// Terms of a lease. Zero values mean those of the pool.
type Terms struct {
	TTL  time.Duration  // in whole seconds
	Wait time.Duration  // how long to wait in line if no value is free
	Meta map[string]any // a JSON object
}

// Alloc allocates values of one pool. With an empty holder the server derives it from the metadata.
func (c *Client) Alloc(ctx context.Context, claim Claim, holder string, terms Terms) (grant Grant, err error) {
	if strings.EqualFold(holder, "from") { // would be read as the other form
		return c.AllocBundle(ctx, holder, []Claim{claim}, terms)
	}
	w, err := claim.amount(words{"ALLOC", claim.Pool, or(holder, "*")}).duration("TTL", terms.TTL).
		duration("WAIT", terms.Wait).object("META", terms.Meta)
	if err != nil {
		return grant, err
	}
	return grant, c.writeWaiting(ctx, &grant, w, terms.Wait)
}

func claimWords(w words, claims []Claim) words {
	for _, claim := range claims {
		w = claim.amount(append(w, "FROM", claim.Pool))
	}
	return w
}

// AllocBundle allocates values of several pools, all or none.
func (c *Client) AllocBundle(ctx context.Context, holder string, claims []Claim, terms Terms) (grant Grant, err error) {
	w, err := claimWords(words{"ALLOC", holder}, claims).duration("TTL", terms.TTL).
		duration("WAIT", terms.Wait).object("META", terms.Meta)
	if err != nil {
		return grant, err
	}
	return grant, c.writeWaiting(ctx, &grant, w, terms.Wait)
}

// Reserve needs a TTL, within which Activate must follow.
func (c *Client) Reserve(ctx context.Context, holder string, claims []Claim, terms Terms) (grant Grant, err error) {
	w := claimWords(words{"RESERVE", holder}.duration("TTL", terms.TTL), claims)
	if w, err = w.duration("WAIT", terms.Wait).object("META", terms.Meta); err != nil {
		return grant, err
	}
	return grant, c.writeWaiting(ctx, &grant, w, terms.Wait)
}

func epochText(epoch int64) string { return strconv.FormatInt(epoch, 10) }

func (c *Client) Activate(ctx context.Context, t Token, holder string) (moved Moved, err error) {
	return moved, c.write(ctx, &moved, words{"ACTIVATE", t.Lease, holder, epochText(t.Epoch)})
}

// Touch renews a lease; of the terms it takes TTL and Meta.
func (c *Client) Touch(ctx context.Context, t Token, terms Terms) (moved Moved, err error) {
	w, err := words{"TOUCH", t.Lease, epochText(t.Epoch)}.duration("TTL", terms.TTL).
		object("META", terms.Meta)
	if err != nil {
		return moved, err
	}
	return moved, c.write(ctx, &moved, w)
}

func (c *Client) Release(ctx context.Context, t Token, holder string) (moved Moved, err error) {
	return moved, c.write(ctx, &moved, words{"RELEASE", t.Lease, holder, epochText(t.Epoch)}.reason(ctx))
}

// ReleaseNow ends the lease even in a sticky pool, which would otherwise keep it for the holder.
func (c *Client) ReleaseNow(ctx context.Context, t Token, holder string) (moved Moved, err error) {
	return moved, c.write(ctx, &moved, words{"RELEASE", t.Lease, holder, epochText(t.Epoch), "NOW"}.reason(ctx))
}

// Revoke gives the holder that long to stop.
func (c *Client) Revoke(ctx context.Context, lease string, after time.Duration) (moved Moved, err error) {
	return moved, c.write(ctx, &moved, words{"REVOKE", lease}.duration("AFTER", after).reason(ctx))
}

// Ack confirms that the holder of a revoked lease has stopped; the token is the one before the revoke.
func (c *Client) Ack(ctx context.Context, t Token, holder string) (moved Moved, err error) {
	return moved, c.write(ctx, &moved, words{"ACK", t.Lease, holder, epochText(t.Epoch)})
}

func (c *Client) Reclaim(ctx context.Context, lease string) (moved Moved, err error) {
	return moved, c.write(ctx, &moved, words{"RECLAIM", lease}.reason(ctx))
}

func (c *Client) Rekey(ctx context.Context, t Token, holder string) (moved Moved, err error) {
	return moved, c.write(ctx, &moved, words{"REKEY", t.Lease, epochText(t.Epoch), holder}.reason(ctx))
}

// Imported says when another system granted a lease, and until when.
type Imported struct {
	Deadline, Created, Seen, Offline time.Time
	Meta                             map[string]any
}

// Import takes over a lease that another system granted.
func (c *Client) Import(ctx context.Context, claim Claim, holder string, past Imported) (moved Moved, err error) {
	w, err := claim.amount(words{"IMPORT", claim.Pool, holder}).time("DEADLINE", past.Deadline).
		time("CREATED", past.Created).time("SEEN", past.Seen).time("OFFLINE", past.Offline).
		object("META", past.Meta)
	if err != nil {
		return moved, err
	}
	return moved, c.write(ctx, &moved, w)
}

// Disown releases all leases of a holder; with a pool, those in it.
func (c *Client) Disown(ctx context.Context, holder, pool string) (Counted, error) {
	return c.counted(ctx, "released", words{"DISOWN", holder}.text("POOL", pool).reason(ctx))
}

func (c *Client) Sweep(ctx context.Context, pool string) (Counted, error) {
	return c.counted(ctx, "freed", words{"SWEEP"}.text("POOL", pool))
}

// Tick logs the time, and ends what has become due.
func (c *Client) Tick(ctx context.Context) (done Done, err error) {
	return done, c.write(ctx, &done, words{"TICK"})
}

// Verify returns no error if the fencing token is the live authority.
func (c *Client) Verify(ctx context.Context, t Token) (verified Verified, err error) {
	return verified, c.readInto(ctx, &verified, words{"VERIFY", t.Lease, epochText(t.Epoch)})
}

// Lease reads a lease by its id or by one of its values: "ports/30000".
func (c *Client) Lease(ctx context.Context, name string) (lease Lease, err error) {
	return lease, c.readInto(ctx, &lease, words{"LEASE", name})
}

// EventQuery chooses retained events.
type EventQuery struct {
	After, Pool, Holder string
	Count               int
}

// Events is a page of retained events, oldest first; Follow follows new ones.
func (c *Client) Events(ctx context.Context, query EventQuery) (page EventPage, err error) {
	return page, c.readInto(ctx, &page, words{"EVENTS"}.text("AFTER", query.After).
		number("COUNT", int64(query.Count)).text("POOL", query.Pool).text("HOLDER", query.Holder))
}
