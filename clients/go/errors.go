package tenure

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// Outcome says what has become of a write.
type Outcome string

const (
	// Committed: the write is in the log, and this is its answer.
	Committed Outcome = "committed"
	// Rejected: the write did not happen.
	Rejected Outcome = "rejected"
	// Unknown: the write may have happened. A repeat with the same operation id shows it and has no second
	// effect.
	Unknown Outcome = "unknown"
)

// Result is the name of a result. A refusal matches it: errors.Is(err, tenure.Exhausted).
type Result string

// The results of the server; a test compares them with its table.
const (
	OK             Result = "OK"
	NoOp           Result = "NOOP"
	Exists         Result = "EXISTS"
	NotFound       Result = "NOTFOUND"
	Retired        Result = "RETIRED"
	Busy           Result = "BUSY"
	Exhausted      Result = "EXHAUSTED"
	OverQuota      Result = "QUOTA"
	WrongState     Result = "STATE"
	WrongHolder    Result = "HOLDER"
	Stale          Result = "STALE"
	TooLarge       Result = "TOO_LARGE"
	BadTTL         Result = "BAD_TTL"
	BadValue       Result = "BAD_VALUE"
	BadName        Result = "BAD_NAME"
	BadPolicy      Result = "BAD_POLICY"
	BadRequest     Result = "BAD_REQUEST"
	Conflict       Result = "CONFLICT"
	Denied         Result = "DENIED"
	NotYet         Result = "NOT_YET"
	PoolNotFound   Result = "POOL_NOTFOUND"
	PoolInUse      Result = "POOL_IN_USE"
	LeasesFull     Result = "LEASES_FULL"
	MembersFull    Result = "MEMBERS_FULL"
	OpsFull        Result = "OPS_FULL"
	NamesFull      Result = "NAMES_FULL"
	PoolsFull      Result = "POOLS_FULL"
	ResourcesFull  Result = "RESOURCES_FULL"
	DemandFull     Result = "DEMAND_FULL"
	Malformed      Result = "MALFORMED"
	Overloaded     Result = "OVERLOADED"
	NoSpace        Result = "NOSPACE"
	Closed         Result = "CLOSED"
	NoAuth         Result = "NOAUTH"
	NoPerm         Result = "NOPERM"
	Halted         Result = "HALTED"
	LogLost        Result = "LOST"
	BadToken       Result = "BAD_TOKEN"
	Overdue        Result = "OVERDUE"
	ReadOnly       Result = "READONLY"
	MasterDown     Result = "MASTERDOWN"
	Waiting        Result = "WAITING"
	WaitersFull    Result = "WAITERS_FULL"
	UsersFull      Result = "USERS_FULL"
	Unreachable    Result = "UNREACHABLE" // the client's own: no connection, nothing has happened
	resultOfLogIn  Result = "WRONGPASS"
	resultOfSyntax Result = "ERR"
)

var committed = map[Result]bool{OK: true, NoOp: true, Exists: true, NotFound: true, Retired: true, Busy: true,
	Exhausted: true, OverQuota: true, WrongState: true, WrongHolder: true, Stale: true, TooLarge: true,
	BadTTL: true, BadValue: true, BadName: true, BadPolicy: true, BadRequest: true, Conflict: true,
	Denied: true, PoolNotFound: true, PoolInUse: true, LeasesFull: true, MembersFull: true, NamesFull: true,
	PoolsFull: true, ResourcesFull: true, DemandFull: true, Waiting: true, WaitersFull: true,
	UsersFull: true}

// elsewhere: this node does not own the log.
func elsewhere(result Result) bool { return result == ReadOnly || result == MasterDown }

// tryAgain: repeated until the client gives up.
func tryAgain(result Result) bool {
	return elsewhere(result) || result == Overloaded || result == Closed || OutcomeOf(result) == Unknown
}

// turnedAway: of a repeat, says nothing about the first attempt.
func turnedAway(result Result) bool {
	return elsewhere(result) || result == Overloaded || result == Closed || result == NoSpace ||
		result == NoAuth || result == resultOfLogIn || result == resultOfSyntax
}

// Error is that of the result's name.
func (r Result) Error() string { return string(r) }

// OutcomeOf is the outcome of a write with this result.
func OutcomeOf(result Result) Outcome {
	if result == Halted || result == LogLost {
		return Unknown
	}
	if committed[result] {
		return Committed
	}
	return Rejected
}

// Error is a refusal of the server, or that it could not be reached.
type Error struct {
	Result  Result
	Outcome Outcome
	Text    string
	Facts   map[string]string // what the server added: retry_at, cap, lease, epoch, state, holder, lsn
	OpID    string
	cause   error
}

func (e *Error) Error() string { return "tenure: " + e.Text }

// Is makes errors.Is(err, tenure.Busy) work.
func (e *Error) Is(target error) bool {
	result, ok := target.(Result)
	return ok && result == e.Result
}

// Unwrap is the error of the connection, if it was lost.
func (e *Error) Unwrap() error { return e.cause }

// LSN is the log position of the refusal; false: it is not in the log.
func (e *Error) LSN() (uint64, bool) {
	lsn, err := strconv.ParseUint(e.Facts["lsn"], 10, 64)
	return lsn, err == nil
}

// LeaseLost means that a held lease was lost, or that its state is unknown.
type LeaseLost struct {
	Lease  string
	Reason string
}

func (e *LeaseLost) Error() string { return fmt.Sprintf("tenure: lease %s: %s", e.Lease, e.Reason) }

// factsOf has the key=value words at the end of a refusal.
func factsOf(text string) map[string]string {
	facts := map[string]string{}
	words := strings.Split(text, " ")
	for i := len(words) - 1; i > 0; i-- {
		key, value, found := strings.Cut(words[i], "=")
		if !found || value == "" || strings.Trim(key, "abcdefghijklmnopqrstuvwxyz_") != "" {
			break
		}
		if plain, err := url.PathUnescape(value); key == "holder" && err == nil {
			value = plain
		}
		facts[key] = value
	}
	return facts
}

// errorOf is the error for an error reply. A refused write without a log position was rejected before the
// log, whatever its result.
func errorOf(text string, write bool, opid string) *Error {
	result := Result(strings.SplitN(text, " ", 2)[0])
	e := &Error{Result: result, Outcome: OutcomeOf(result), Text: text, Facts: factsOf(text), OpID: opid}
	if _, logged := e.LSN(); e.Outcome == Committed && write && !logged {
		e.Outcome = Rejected
	}
	return e
}

// givenUp is the error after a lost connection: a write that was sent may have happened.
func givenUp(r *request, sent bool, cause error) *Error {
	e := errorOf(fmt.Sprintf("%s %v", Unreachable, cause), false, r.opid)
	if sent && r.kind != read {
		e = errorOf(fmt.Sprintf("%s no answer: %v", LogLost, cause), true, r.opid)
	}
	e.cause = cause
	return e
}
