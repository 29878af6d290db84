package main

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"tenure"
)

type args map[string]any

func (a args) has(name string) bool { return a[name] != nil }

func (a args) text(name string) string {
	if a[name] == nil {
		return ""
	}
	return fmt.Sprint(a[name])
}

func (a args) number(name string) int64 {
	n, _ := strconv.ParseInt(a.text(name), 10, 64)
	return n
}

func (a args) flag(name string) bool { return a[name] == true }

// duration is in seconds, or has a unit.
func (a args) duration(name string) time.Duration {
	text := a.text(name)
	if d, err := time.ParseDuration(text); err == nil && text != "0" {
		return d
	}
	seconds, _ := strconv.ParseFloat(text, 64)
	return time.Duration(seconds * float64(time.Second))
}

func (a args) object(name string) map[string]any {
	object, _ := a[name].(map[string]any)
	return object
}

func texts(value any) []string {
	var out []string
	list, _ := value.([]any)
	for _, item := range list {
		out = append(out, fmt.Sprint(item))
	}
	return out
}

func (a args) token() tenure.Token {
	return tenure.Token{Lease: a.text("lease"), Epoch: a.number("epoch")}
}

func (a args) terms() tenure.Terms {
	return tenure.Terms{TTL: a.duration("ttl"), Wait: a.duration("wait"), Meta: a.object("meta")}
}

func (a args) claim() tenure.Claim {
	return tenure.Claim{Pool: a.text("pool"), Count: int(a.number("count")), Values: texts(a["values"])}
}

func (a args) claims() []tenure.Claim {
	var claims []tenure.Claim
	list, _ := a["claims"].([]any)
	for _, item := range list {
		pair := item.([]any)
		claim := tenure.Claim{Pool: pair[0].(string), Values: texts(pair[1])}
		if count, ok := pair[1].(json.Number); ok {
			n, _ := count.Int64()
			claim.Count = int(n)
		}
		claims = append(claims, claim)
	}
	return claims
}

func (a args) list() tenure.List {
	return tenure.List{Pool: a.text("pool"), Holder: a.text("holder"), State: a.text("state"),
		Cursor: a.text("cursor"), Count: int(a.number("count"))}
}

// ofPool is the list without the pool, which is an argument of its own.
func (a args) ofPool() tenure.List {
	list := a.list()
	list.Pool = ""
	return list
}

func (a args) policy() tenure.Policy {
	return tenure.Policy{Range: strings.Join(texts(a["range"]), "-"), Set: a.flag("set"),
		Options: a.object("options")}
}

func (a args) rule() tenure.Rule {
	return tenure.Rule{ID: a.text("id"), Trigger: a.text("trigger"), Enabled: !a.flag("disabled"),
		Meta: a.object("meta")}
}

func (a args) sensor() tenure.Sensor {
	return tenure.Sensor{Ref: a.text("ref"), Trigger: a.text("trigger"), Enabled: !a.flag("disabled"),
		Spec: a.object("spec")}
}

func (a args) user() tenure.UserTerms {
	return tenure.UserTerms{Role: a.text("role"), Secret: a.text("secret"), Pools: a.text("pools"),
		Holders: a.text("holders"), MaxValues: a.number("max_values")}
}

func (a args) context() context.Context {
	ctx := context.Background()
	if a.has("opid") {
		ctx = tenure.WithOpID(ctx, a.text("opid"))
	}
	if a.has("reason") {
		ctx = tenure.WithReason(ctx, a.text("reason"))
	}
	if a.has("fence") {
		ctx = tenure.WithFence(ctx, uint64(a.number("fence")))
	}
	return ctx
}

// of makes one return value of a method's two, for the table below.
func of[T any](value T, err error) (any, error) { return value, err }

func method(c *tenure.Client, r request) (any, error) {
	a := r.Args
	ctx := a.context()
	call, ok := map[string]func() (any, error){
		"pool_create": func() (any, error) { return of(c.PoolCreate(ctx, a.text("pool"), a.policy())) },
		"pool_alter":  func() (any, error) { return of(c.PoolAlter(ctx, a.text("pool"), a.policy())) },
		"pool_seed": func() (any, error) {
			return of(c.PoolSeed(ctx, a.text("pool"), a.number("given"), a.number("reclaimed")))
		},
		"pool_history": func() (any, error) {
			return of(c.PoolHistory(ctx, a.text("pool"), a.text("step"), int(a.number("count"))))
		},
		"pool_drop":      func() (any, error) { return of(c.PoolDrop(ctx, a.text("pool"))) },
		"pool_add":       func() (any, error) { return of(c.PoolAdd(ctx, a.text("pool"), texts(a["names"])...)) },
		"pool_remove":    func() (any, error) { return of(c.PoolRemove(ctx, a.text("pool"), texts(a["names"])...)) },
		"pool_info":      func() (any, error) { return of(c.PoolInfo(ctx, a.text("pool"))) },
		"pool_list":      func() (any, error) { return of(c.PoolList(ctx, a.list())) },
		"pool_metrics":   func() (any, error) { return of(c.PoolMetrics(ctx, a.text("pool"))) },
		"pool_values":    func() (any, error) { return of(c.PoolValues(ctx, a.text("pool"), a.ofPool())) },
		"value":          func() (any, error) { return of(c.Value(ctx, a.text("value"))) },
		"alloc":          func() (any, error) { return of(c.Alloc(ctx, a.claim(), a.text("holder"), a.terms())) },
		"alloc_bundle":   func() (any, error) { return of(c.AllocBundle(ctx, a.text("holder"), a.claims(), a.terms())) },
		"reserve":        func() (any, error) { return of(c.Reserve(ctx, a.text("holder"), a.claims(), a.terms())) },
		"activate":       func() (any, error) { return of(c.Activate(ctx, a.token(), a.text("holder"))) },
		"touch":          func() (any, error) { return of(c.Touch(ctx, a.token(), a.terms())) },
		"revoke":         func() (any, error) { return of(c.Revoke(ctx, a.text("lease"), a.duration("after"))) },
		"ack":            func() (any, error) { return of(c.Ack(ctx, a.token(), a.text("holder"))) },
		"reclaim":        func() (any, error) { return of(c.Reclaim(ctx, a.text("lease"))) },
		"rekey":          func() (any, error) { return of(c.Rekey(ctx, a.token(), a.text("holder"))) },
		"disown":         func() (any, error) { return of(c.Disown(ctx, a.text("holder"), a.text("pool"))) },
		"sweep":          func() (any, error) { return of(c.Sweep(ctx, a.text("pool"))) },
		"tick":           func() (any, error) { return of(c.Tick(ctx)) },
		"verify":         func() (any, error) { return of(c.Verify(ctx, a.token())) },
		"lease":          func() (any, error) { return of(c.Lease(ctx, a.text("lease"))) },
		"leases":         func() (any, error) { return of(c.Leases(ctx, a.list())) },
		"rule_set":       func() (any, error) { return of(c.RuleSet(ctx, a.rule())) },
		"rule_info":      func() (any, error) { return of(c.RuleInfo(ctx, a.text("id"))) },
		"rule_delete":    func() (any, error) { return of(c.RuleDelete(ctx, a.text("id"))) },
		"rule_enable":    func() (any, error) { return of(c.RuleEnable(ctx, a.text("id"))) },
		"rule_disable":   func() (any, error) { return of(c.RuleDisable(ctx, a.text("id"))) },
		"rule_list":      func() (any, error) { return of(c.RuleList(ctx, a.list())) },
		"sensor_set":     func() (any, error) { return of(c.SensorSet(ctx, a.sensor())) },
		"sensor_info":    func() (any, error) { return of(c.SensorInfo(ctx, a.text("ref"))) },
		"sensor_delete":  func() (any, error) { return of(c.SensorDelete(ctx, a.text("ref"))) },
		"sensor_enable":  func() (any, error) { return of(c.SensorEnable(ctx, a.text("ref"))) },
		"sensor_disable": func() (any, error) { return of(c.SensorDisable(ctx, a.text("ref"))) },
		"sensor_list":    func() (any, error) { return of(c.SensorList(ctx, a.list())) },
		"sensor_status":  func() (any, error) { return of(c.SensorStatus(ctx, a.text("ref"))) },
		"sensor_logs": func() (any, error) {
			return of(c.SensorLogs(ctx, a.text("ref"), a.text("after"), int(a.number("count"))))
		},
		"sensor_rules": func() (any, error) { return of(c.SensorRules(ctx, a.text("ref"), a.text("token"), a.list())) },
		"emit": func() (any, error) {
			return of(c.Emit(ctx, a.text("token"), a.text("trigger_type"), a.object("payload")))
		},
		"whoami":           func() (any, error) { return of(c.WhoAmI(ctx)) },
		"user_add":         func() (any, error) { return of(c.UserAdd(ctx, a.text("name"), a.user())) },
		"user_set":         func() (any, error) { return of(c.UserSet(ctx, a.text("name"), a.user())) },
		"user_delete":      func() (any, error) { return of(c.UserDelete(ctx, a.text("name"))) },
		"user_list":        func() (any, error) { return of(c.UserList(ctx, a.list())) },
		"token_refresh":    func() (any, error) { return of(c.TokenRefresh(ctx, a.text("token"), a.duration("ttl"))) },
		"token_introspect": func() (any, error) { return of(c.TokenIntrospect(ctx, a.text("token"))) },
		"token_revoke":     func() (any, error) { return of(c.TokenRevoke(ctx, a.text("id"), a.duration("after"))) },
		"token_keys":       func() (any, error) { return of(c.TokenKeys(ctx)) },
		"node_list":        func() (any, error) { return of(c.NodeList(ctx)) },
		"ping":             func() (any, error) { return "PONG", c.Ping(ctx) },
		"execute":          func() (any, error) { return c.Execute(ctx, texts(a["words"])...) },
	}[r.Call]
	if !ok {
		return longer(ctx, c, r)
	}
	return call()
}

func longer(ctx context.Context, c *tenure.Client, r request) (any, error) {
	a := r.Args
	rows := []any{}
	switch r.Call {
	case "release":
		if a.flag("now") {
			return of(c.ReleaseNow(ctx, a.token(), a.text("holder")))
		}
		return of(c.Release(ctx, a.token(), a.text("holder")))
	case "import":
		return of(c.Import(ctx, a.claim(), a.text("holder"),
			tenure.Imported{Created: time.UnixMilli(a.number("created"))}))
	case "events":
		return of(c.Events(ctx, tenure.EventQuery{After: a.text("after"), Pool: a.text("pool"),
			Holder: a.text("holder"), Count: int(a.number("count"))}))
	case "sensor_heartbeat":
		expires, err := c.SensorHeartbeat(ctx, a.text("token"))
		return expires.Unix(), err
	case "token_sensor":
		return of(c.TokenSensor(ctx, a.text("ref"), tenure.TokenTerms{TTL: a.duration("ttl"),
			Refresh: a.duration("refresh"), Scope: a.text("scope")}))
	case "token_issue":
		return of(c.TokenIssue(ctx, a.token(), tenure.TokenTerms{TTL: a.duration("ttl"),
			Refresh: a.duration("refresh"), Scope: a.text("scope")}))
	case "time":
		now, err := c.Time(ctx)
		return now.Unix(), err
	case "pools":
		err := c.EachPool(ctx, func(p tenure.Pool) error { rows = append(rows, p); return nil })
		return rows, err
	case "values":
		err := c.EachValue(ctx, a.text("pool"), a.ofPool(), func(v tenure.ValueRow) error {
			rows = append(rows, v)
			return nil
		})
		return rows, err
	case "all_leases":
		err := c.EachLease(ctx, a.list(), func(l tenure.Lease) error { rows = append(rows, l); return nil })
		return rows, err
	}
	return nil, fmt.Errorf("no such call: %s", r.Call)
}

// plain has the names of the tags, times in milliseconds, durations in the unit of their name, and null for
// what is empty.
func plain(value any) any {
	v := reflect.ValueOf(value)
	switch v.Kind() {
	case reflect.Struct:
		out := map[string]any{}
		fields(v, out)
		return out
	case reflect.Slice:
		list := []any{}
		for i := 0; i < v.Len(); i++ {
			list = append(list, plain(v.Index(i).Interface()))
		}
		return list
	case reflect.Map:
		if v.Len() == 0 {
			return nil
		}
		out := map[string]any{}
		for _, key := range v.MapKeys() {
			out[key.String()] = plain(v.MapIndex(key).Interface())
		}
		return out
	case reflect.String:
		if v.Len() == 0 {
			return nil
		}
	}
	return value
}

func fields(v reflect.Value, out map[string]any) {
	for i := 0; i < v.NumField(); i++ {
		name := v.Type().Field(i).Tag.Get("json")
		switch field := v.Field(i).Interface().(type) {
		case time.Time:
			if !field.IsZero() {
				out[name] = field.UnixMilli()
			}
		case time.Duration:
			out[name] = int64(field / time.Second)
			if strings.HasSuffix(name, "_ms") {
				out[name] = field.Milliseconds()
			}
		default:
			if v.Type().Field(i).Anonymous {
				fields(v.Field(i), out)
			} else {
				out[name] = plain(field)
			}
		}
	}
}
