package tenure

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// Token is a fencing token. For one value it only grows: remember the largest one and reject smaller ones.
type Token struct {
	Lease string `json:"lease" need:"yes"`
	Epoch int64  `json:"epoch" need:"yes"`
}

// Less tells whether t is older than other.
func (t Token) Less(other Token) bool {
	a, b := t.order(), other.order()
	for i := range a {
		if a[i] != b[i] {
			return a[i] < b[i]
		}
	}
	return false
}

func (t Token) order() [3]uint64 {
	shard, lsn, _ := strings.Cut(t.Lease, "-")
	first, _ := strconv.ParseUint(shard, 10, 64)
	second, _ := strconv.ParseUint(lsn, 10, 64)
	return [3]uint64{first, second, uint64(t.Epoch)}
}

// Done is a successful write. Result is OK, or NoOp if there was nothing to do.
type Done struct {
	Result   Result `json:"result" need:"yes"`
	LSN      uint64 `json:"lsn" need:"yes"`
	Replayed bool   `json:"replayed"` // the answer to an earlier request with the same operation id
}

// Counted has the number of freed, released, added or removed items.
type Counted struct {
	Done
	Count int64 `json:"count"`
}

// Moved is a lease after a write on it. A zero Deadline: it has none.
type Moved struct {
	Done
	Token
	State    string    `json:"state"`
	Deadline time.Time `json:"deadline"`
}

// Grant is a new lease with its values, in the order of the request, and how long it waited for them.
type Grant struct {
	Moved
	Values []string      `json:"values" need:"yes"`
	Waited time.Duration `json:"waited_ms"`
}

// Verified is a fencing token that is the live authority, at a log position.
type Verified struct {
	Token
	Deadline time.Time `json:"deadline"`
	LSN      uint64    `json:"lsn"`
}

// Lease is a lease as LEASE and LEASES show it; Meta and LSN only the former. Zero times: none.
type Lease struct {
	Token
	State        string         `json:"state"`
	Reason       string         `json:"reason"`
	Holder       string         `json:"holder"`
	User         string         `json:"user"`
	Deadline     time.Time      `json:"deadline"`
	TTL          time.Duration  `json:"ttl"` // as requested; 0: that of the pool
	Created      time.Time      `json:"created"`
	LastSeen     time.Time      `json:"last_seen"`
	OfflineSince time.Time      `json:"offline_since"`
	Ended        time.Time      `json:"ended"`
	EndedLSN     uint64         `json:"ended_lsn"`
	Retires      time.Time      `json:"retires"`
	Values       []string       `json:"values"`
	Pools        []string       `json:"pools"`
	Meta         map[string]any `json:"meta"`
	LSN          uint64         `json:"lsn"`
	// In line: EXHAUSTED or BUSY, for which pool, how many leases are before it, whether its client is connected.
	WaitingFor    string `json:"waiting_for"`
	WaitingPool   string `json:"waiting_pool"`
	WaitingBefore uint64 `json:"waiting_before"`
	Attended      bool   `json:"attended"`
}

// Pool has the counts of a pool, and each option as text.
type Pool struct {
	Name           string            `resp:"pool" json:"name" need:"yes"`
	Size           uint64            `json:"size"`
	Free           uint64            `json:"free"`
	Reserved       uint64            `json:"reserved"`
	Active         uint64            `json:"active"`
	Offline        uint64            `json:"offline"`
	Revoking       uint64            `json:"revoking"`
	Cooling        uint64            `json:"cooling"`
	Excluded       uint64            `json:"excluded"`
	Waiting        uint64            `json:"waiting"` // the length of the line
	WaitingSince   time.Time         `json:"waiting_since"`
	OverdueSince   time.Time         `json:"overdue_since"`
	Scopes         uint64            `json:"scopes"`
	AllocatedTotal uint64            `json:"allocated_total"`
	ReturnedTotal  uint64            `json:"returned_total"`
	ReleasedTotal  uint64            `json:"released_total"`
	ExpiredTotal   uint64            `json:"expired_total"`
	RevokedTotal   uint64            `json:"revoked_total"`
	RatePerHour    float64           `json:"rate_per_hour"`
	EffectiveLease time.Duration     `json:"effective_lease"`
	NextFree       time.Time         `json:"next_free"`
	Options        map[string]string `json:"options"`
}

// PoolMetrics has the metrics of a sticky pool.
type PoolMetrics struct {
	BaseLease            time.Duration `json:"base_lease_seconds"`
	EffectiveLease       time.Duration `json:"effective_lease_seconds"`
	NewDeviceRatePerHour float64       `json:"new_device_rate_per_hour"`
	UltraRateActive      bool          `json:"ultra_rate_active"`
	ForceZeroLeaseActive bool          `json:"force_zero_lease_active"`
	LastReclaimCount     uint64        `json:"last_reclaim_count"`
	LastReclaimAt        time.Time     `json:"last_reclaim_at" unit:"s"`
	TotalReclaimed       uint64        `json:"total_reclaimed"`
	AllocatedCount       uint64        `json:"allocated_count"`
	ReleasedCount        uint64        `json:"released_count"`
	UpdatedAt            time.Time     `json:"updated_at" unit:"s"`
}

// ValueRow is a value; or a span of a range, Value to Last, whose values are all available or all excluded.
// The lease is empty also for a user who may not see it.
type ValueRow struct {
	Value  string    `json:"value"`
	Last   string    `json:"last"`
	Count  uint64    `json:"count"`
	State  string    `json:"state"`
	Lease  string    `json:"lease"`
	Epoch  int64     `json:"epoch"`
	Holder string    `json:"holder"`
	Until  time.Time `json:"until"`
}

// PoolValue is one value. The last lease is that of a value that no lease holds.
type PoolValue struct {
	Pool       string    `json:"pool"`
	Value      string    `json:"value"`
	State      string    `json:"state"`
	Lease      string    `json:"lease"`
	Epoch      int64     `json:"epoch"`
	Holder     string    `json:"holder"`
	Until      time.Time `json:"until"`
	LastLease  string    `json:"last_lease"`
	LastHolder string    `json:"last_holder"`
	LastEnded  time.Time `json:"last_ended"`
	LSN        uint64    `json:"lsn"`
}

// Event is a transition. One of the kind "lost" means that events before ID, the oldest retained one, were
// missed.
type Event struct {
	ID             string         `json:"id"`
	Kind           string         `json:"kind"`
	Time           time.Time      `json:"time"`
	Lease          string         `json:"lease"`
	Epoch          int64          `json:"epoch"`
	Reason         string         `json:"reason"`
	Deadline       time.Time      `json:"deadline"`
	Holder         string         `json:"holder"`
	PreviousHolder string         `json:"previous_holder"`
	User           string         `json:"user"`
	Pool           string         `json:"pool"`
	Name           string         `json:"name"`
	Values         []string       `json:"values"`
	Pools          []string       `json:"pools"`
	Number         uint64         `json:"number"`
	Trigger        string         `json:"trigger"`
	Payload        map[string]any `json:"payload"`
	Actor          string         `json:"actor"`
	ReasonText     string         `json:"reason_text"`
}

// EventPage is a page of events; continue after Next while More is true.
type EventPage struct {
	Events []Event `json:"events"`
	Next   string  `json:"next"`
	Oldest string  `json:"oldest"`
	Newest string  `json:"newest"`
	More   bool    `json:"more"`
	Lost   bool    `json:"lost"`
	LSN    uint64  `json:"lsn"`
}

// Pages of lists. Cursor "0": that was the last one.
type (
	LeasePage struct {
		Leases []Lease `json:"leases"`
		Cursor string  `json:"cursor"`
		LSN    uint64  `json:"lsn"`
	}
	PoolPage struct {
		Pools  []Pool `json:"pools"`
		Cursor string `json:"cursor"`
		LSN    uint64 `json:"lsn"`
	}
	ValuePage struct {
		Values []ValueRow `json:"values"`
		Cursor string     `json:"cursor"`
		LSN    uint64     `json:"lsn"`
	}
	RulePage struct {
		Rules  []Rule `json:"rules"`
		Cursor string `json:"cursor"`
	}
	SensorPage struct {
		Sensors []Sensor `json:"sensors"`
		Cursor  string   `json:"cursor"`
	}
	UserPage struct {
		Users  []User `json:"users"`
		Cursor string `json:"cursor"`
	}
)

// Rule is demand for the sensors of its trigger. Lists do not show its metadata.
type Rule struct {
	ID      string         `json:"id"`
	Trigger string         `json:"trigger"`
	Enabled bool           `json:"enabled"`
	Meta    map[string]any `json:"meta"`
}

// Sensor is a program that runs while rules need it. Lists do not show its Spec.
type Sensor struct {
	Ref         string         `json:"ref"`
	Trigger     string         `json:"trigger"`
	Enabled     bool           `json:"enabled"`
	Wanted      bool           `json:"wanted"`
	ActiveRules uint64         `json:"active_rules"`
	Spec        map[string]any `json:"spec"`
}

// SensorStatus is a sensor and its process.
type SensorStatus struct {
	Sensor
	Supervised bool          `json:"supervised"`
	State      string        `json:"state"`
	PID        int64         `json:"pid"`
	Lease      string        `json:"lease"`
	Epoch      int64         `json:"epoch"`
	Starts     uint64        `json:"starts"`
	Stops      uint64        `json:"stops"`
	Crashes    uint64        `json:"crashes"`
	Restarts   uint64        `json:"restarts"`
	Failures   uint64        `json:"failures"`
	Emitted    uint64        `json:"emitted"`
	Started    time.Time     `json:"started"`
	Uptime     time.Duration `json:"uptime_ms"`
	LastReason string        `json:"last_reason"`
	LastError  string        `json:"last_error"`
}

// Emitted is an event that a sensor has emitted, by its id.
type Emitted struct {
	Done
	ID string `json:"id"`
}

// PoolHistory has samples of a pool, oldest first: for each figure a list, all of the same length. "time" is in
// milliseconds since 1970. Without Kept, the server keeps no history of the pool.
type PoolHistory struct {
	Step    string               `json:"step" need:"yes"`
	Kept    bool                 `json:"kept"`
	Figures map[string][]float64 `json:"figures"`
}

// SensorOutput is output of a sensor; Next is the position to continue from.
type SensorOutput struct {
	Output string `json:"output"`
	Next   string `json:"next"`
	More   bool   `json:"more"`
	Lost   bool   `json:"lost"`
}

// User is a user; Source is file, logged, certificate, socket or anonymous. Without a quota, MaxValues is 0.
type User struct {
	Name      string `json:"name"`
	Role      string `json:"role"`
	Source    string `json:"source"`
	Pools     string `json:"pools"`
	Holders   string `json:"holders"`
	MaxValues uint64 `json:"max_values"`
	Values    uint64 `json:"values"`
}

// SignedToken is a signed token for a lease; ID is lease and epoch.
type SignedToken struct {
	Token        string        `json:"token"`
	ID           string        `resp:"token_id" json:"id"`
	Subject      string        `resp:"sub" json:"subject"`
	Scope        string        `json:"scope"`
	ExpiresIn    time.Duration `json:"expires_in"`
	ExpiresAt    time.Time     `json:"expires_at" unit:"s"`
	TriggerTypes []string      `json:"trigger_types"`
	LSN          uint64        `json:"lsn"`
}

// TokenState has the claims of a token if the server signed it, live or not; Reason says why it is not live.
type TokenState struct {
	Active       bool      `json:"active"`
	Reason       string    `json:"reason"`
	ID           string    `resp:"jti" json:"id"`
	Issuer       string    `resp:"iss" json:"issuer"`
	Subject      string    `resp:"sub" json:"subject"`
	Scope        string    `json:"scope"`
	IssuedAt     time.Time `resp:"iat" json:"issued_at" unit:"s"`
	ExpiresAt    time.Time `resp:"exp" json:"expires_at" unit:"s"`
	TriggerTypes []string  `json:"trigger_types"`
	LSN          uint64    `json:"lsn"`
}

// decode fills a struct from a reply, by its tags. Absent fields stay zero.
func decode(reply any, out any) error {
	fields, ok := reply.(map[string]any)
	if !ok {
		return errors.New("tenure: a reply of another form")
	}
	return decodeStruct(fields, reflect.ValueOf(out).Elem())
}

func decodeStruct(fields map[string]any, out reflect.Value) error {
	for i := 0; i < out.NumField(); i++ {
		field := out.Type().Field(i)
		if field.Anonymous {
			if err := decodeStruct(fields, out.Field(i)); err != nil {
				return err
			}
			continue
		}
		value, ok := fields[or(field.Tag.Get("resp"), field.Tag.Get("json"))]
		if !ok || value == nil {
			if field.Tag.Get("need") != "" {
				return fmt.Errorf("tenure: a reply without %s", field.Name)
			}
			continue
		}
		if err := decodeValue(value, out.Field(i), field.Tag); err != nil {
			return fmt.Errorf("tenure: the field %s: %w", field.Name, err)
		}
	}
	return nil
}

func decodeValue(value any, out reflect.Value, tag reflect.StructTag) error {
	switch target := out.Addr().Interface().(type) {
	case *time.Time:
		n, err := numberOf(value)
		if tag.Get("unit") == "s" {
			n *= 1000
		}
		*target = time.UnixMilli(int64(n))
		return err
	case *time.Duration:
		n, err := numberOf(value)
		unit := time.Second
		if strings.HasSuffix(tag.Get("json"), "_ms") {
			unit = time.Millisecond
		}
		*target = time.Duration(n) * unit
		return err
	case *map[string]any:
		return decodeObject(value, target)
	case *map[string]string:
		return decodeTexts(value, target)
	}
	return decodeKind(value, out)
}

func decodeKind(value any, out reflect.Value) error {
	switch out.Kind() {
	case reflect.String:
		out.SetString(fmt.Sprint(value))
	case reflect.Bool:
		flag, ok := value.(bool)
		if !ok {
			return fmt.Errorf("%v is no boolean", value)
		}
		out.SetBool(flag)
	case reflect.Float64:
		number, err := strconv.ParseFloat(fmt.Sprint(value), 64)
		out.SetFloat(number)
		return err
	case reflect.Int64:
		n, err := numberOf(value)
		out.SetInt(int64(n))
		return err
	case reflect.Uint64:
		n, err := numberOf(value)
		out.SetUint(n)
		return err
	case reflect.Slice:
		return decodeSlice(value, out)
	case reflect.Struct:
		return decode(value, out.Addr().Interface())
	}
	return nil
}

func decodeSlice(value any, out reflect.Value) error {
	items, ok := value.([]any)
	if !ok {
		return fmt.Errorf("%v is no list", value)
	}
	out.Set(reflect.MakeSlice(out.Type(), len(items), len(items)))
	for i, item := range items {
		if err := decodeKind(item, out.Index(i)); err != nil {
			return err
		}
	}
	return nil
}

// decodeObject takes text over RESP, and a part of a larger object in a message.
func decodeObject(value any, out *map[string]any) error {
	if object, ok := value.(map[string]any); ok {
		*out = object
		return nil
	}
	if text := fmt.Sprint(value); text != "" {
		return json.Unmarshal([]byte(text), out)
	}
	return nil
}

func decodeTexts(value any, out *map[string]string) error {
	fields, ok := value.(map[string]any)
	if !ok {
		return fmt.Errorf("%v is no map", value)
	}
	*out = make(map[string]string, len(fields))
	for name, text := range fields {
		(*out)[name] = fmt.Sprint(text)
	}
	return nil
}

// numberOf takes numbers; those of 2^63 and more come as text.
func numberOf(value any) (uint64, error) {
	switch n := value.(type) {
	case int64:
		return uint64(n), nil
	case float64: // of JSON
		return uint64(n), nil
	case *big.Int:
		return n.Uint64(), nil
	}
	return strconv.ParseUint(fmt.Sprint(value), 10, 64)
}
