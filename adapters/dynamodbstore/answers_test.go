package dynamodbstore

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/fencedstore/fencedstore/internal/lab"
	"github.com/fencedstore/fencedstore/internal/seal"
	"github.com/fencedstore/fencedstore/sdk"
)

// steps are a first write, the next one, a claim and a takeover.
func steps() []*sdk.Mutation {
	claim := mutation(2, 1, "op-claim")
	claim.Operation = sdk.ClaimID(claim.Grant)
	claim.Payload = sdk.PayloadDigest(claim.Operation, nil, nil)
	return []*sdk.Mutation{mutation(1, 1, "op-1"), mutation(1, 2, "op-2", sdk.Put("k", []byte("v"))), claim, mutation(3, 1, "op-3")}
}

// bendCommits bends only the requests that commit.
func (s *server) bendCommits(bend lab.Bend) {
	s.Set(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if !s.commits(r) {
			next.ServeHTTP(w, r)
			return
		}
		bend(w, r, next)
	})
}

// C1: the write is committed and its answer lost; the receipt tells. On the first
// write, the next one, a claim and a takeover.
func TestLostAnswer(t *testing.T) {
	eachLayout(t, func(t *testing.T, s *server) {
		st := opened(t, s)
		sent := 0
		for i, m := range steps() {
			sent = 0
			s.bendCommits(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				sent++
				next.ServeHTTP(httptest.NewRecorder(), r)
				panic(http.ErrAbortHandler)
			})
			apply(t, st, m, sdk.Replayed)
			if sent != 1 {
				t.Errorf("%d: sent %d times", i, sent)
			}
			s.Set(nil)
			apply(t, st, m, sdk.Replayed)
		}
	})
}

// C1: something on the way sends each request twice, and the answer to the
// second, a condition that does not hold, is the one that comes back.
func TestSentTwice(t *testing.T) {
	eachLayout(t, func(t *testing.T, s *server) {
		st := opened(t, s)
		for _, m := range steps() {
			s.bendCommits(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				body, _ := io.ReadAll(r.Body)
				r.Body = io.NopCloser(bytes.NewReader(body))
				next.ServeHTTP(httptest.NewRecorder(), r)
				r.Body = io.NopCloser(bytes.NewReader(body))
				next.ServeHTTP(w, r)
			})
			out, err := st.Apply(t.Context(), sdk.NewAdmission(seal.Cut(), m))
			if !out.Code.Ok() || err != nil || out.Receipt == nil || !out.Receipt.Echoes(m) {
				t.Fatalf("%s: %+v, %v", m.Operation, out, err)
			}
			s.Set(nil)
			apply(t, st, m, sdk.Replayed)
		}
	})
}

func TestLostRequest(t *testing.T) {
	eachLayout(t, func(t *testing.T, s *server) {
		st := opened(t, s)
		apply(t, st, mutation(1, 1, "op-1"), sdk.Accepted)
		s.bendCommits(func(http.ResponseWriter, *http.Request, http.Handler) { panic(http.ErrAbortHandler) })
		apply(t, st, mutation(1, 2, "op-2"), sdk.MutationUnknown)
		s.Set(nil)
		apply(t, st, mutation(1, 2, "op-2"), sdk.Accepted)
	})
}

// answer is a bend that answers the first times requests itself.
func answer(times int, body string) lab.Bend {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if times == 0 {
			next.ServeHTTP(w, r)
			return
		}
		times--
		io.Copy(io.Discard, r.Body)
		write(w, body)
	}
}

func write(w http.ResponseWriter, body string) {
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	w.WriteHeader(http.StatusBadRequest)
	io.WriteString(w, body)
}

func cancelled(codes ...string) string {
	var list []string
	for _, c := range codes {
		list = append(list, fmt.Sprintf(`{"Code":%q}`, c))
	}
	return `{"__type":"com.amazonaws.dynamodb.v20120810#TransactionCanceledException","message":"cancelled","CancellationReasons":[` + strings.Join(list, ",") + `]}`
}

func failed(code string) string {
	return fmt.Sprintf(`{"__type":"com.amazonaws.dynamodb.v20120810#%s","message":"x"}`, code)
}

type answerCase struct {
	name  string
	times int
	body  string
	want  sdk.Code
}

// anyLayout are the answers that both layouts may get.
var anyLayout = []answerCase{
	{"throughput", 2, failed("ProvisionedThroughputExceededException"), sdk.Accepted},
	{"throttling", 2, failed("ThrottlingException"), sdk.Accepted},
	{"replicated write conflict", 2, failed("ReplicatedWriteConflictException"), sdk.Accepted},
	{"a transaction at the item", 2, failed("TransactionConflictException"), sdk.Accepted},
	{"condition that holds", 1, failed("ConditionalCheckFailedException"), sdk.Accepted},
	{"validation", 1, failed("ValidationException"), sdk.Unsuitable},
	{"access denied", 1, failed("AccessDeniedException"), sdk.Unsuitable},
	{"no table", 1, failed("ResourceNotFoundException"), sdk.Unsuitable},
	{"internal error", 1, failed("InternalServerError"), sdk.MutationUnknown},
	{"something new", 1, failed("BrandNewException"), sdk.MutationUnknown},
}

var ofTransactions = []answerCase{
	{"conflict", 2, cancelled("None", "None", "TransactionConflict"), sdk.Accepted},
	{"condition and conflict", 2, cancelled("ConditionalCheckFailed", "TransactionConflict", "None"), sdk.Accepted},
	{"condition of a state that is there", 1, cancelled("ConditionalCheckFailed", "None", "None"), sdk.Accepted},
	{"throttled", 2, cancelled("ThrottlingError", "None"), sdk.Accepted},
	{"no reasons", 1, cancelled(), sdk.Accepted},
	{"validation of the fence", 1, cancelled("None", "ValidationError", "None"), sdk.Unsuitable},
	{"validation of an effect", 1, cancelled("None", "None", "ValidationError"), sdk.Invalid},
	{"in progress", 1, failed("TransactionInProgressException"), sdk.MutationUnknown},
	{"parameter mismatch", 1, failed("IdempotentParameterMismatchException"), sdk.MutationUnknown},
	{"a new reason", 1, cancelled("None", "BrandNew"), sdk.MutationUnknown},
}

// C4, C17, C61, C62: answers that no local server gives. What proves nothing is
// settled by the receipt, what says that nothing was decided is sent again.
func TestAnswers(t *testing.T) {
	eachLayout(t, func(t *testing.T, s *server) {
		cases := anyLayout
		if s.layout == LayoutTransaction {
			cases = append(ofTransactions, cases...)
		}
		st := opened(t, s)
		apply(t, st, mutation(1, 1, "op-1"), sdk.Accepted)
		segment := 1
		for _, tc := range cases {
			t.Run(tc.name, func(t *testing.T) {
				segment++
				m := mutation(1, segment, fmt.Sprint("op-", segment), sdk.Put("k", []byte("v")))
				s.bendCommits(answer(tc.times, tc.body))
				apply(t, st, m, tc.want)
				s.Set(nil)
				if tc.want != sdk.Accepted {
					apply(t, st, m, sdk.Accepted)
				}
				if state, err := st.Inspect(t.Context(), resource); err != nil || state.Segment != m.Segment {
					t.Errorf("%+v, %v", state, err)
				}
			})
		}
		if q, err := st.Quarantined(t.Context(), resource); err != nil || len(q) != 0 {
			t.Errorf("quarantined %v, %v", q, err)
		}
	})
}

// C4: a pure condition failure is a verdict candidate: after a read it is
// STALE_OWNER, while a conflict beside it is sent again.
func TestReasonsOfAStaleOwner(t *testing.T) {
	s := start(t)
	st, other := opened(t, s), opened(t, s)
	apply(t, st, mutation(1, 1, "op-1"), sdk.Accepted)
	apply(t, other, mutation(2, 1, "op-2"), sdk.Accepted)
	s.bendCommits(answer(1, cancelled("ConditionalCheckFailed", "TransactionConflict", "None")))
	apply(t, st, mutation(1, 2, "op-3"), sdk.StaleOwner)
}

// C17: the transaction is committed and answered with what the service says of
// a token that it knows. Only the receipt tells, and nothing is put in quarantine.
func TestTokenAnswers(t *testing.T) {
	s := start(t)
	st := opened(t, s)
	for i, code := range []string{"TransactionInProgressException", "IdempotentParameterMismatchException"} {
		s.bendCommits(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			next.ServeHTTP(httptest.NewRecorder(), r)
			write(w, failed(code))
		})
		apply(t, st, mutation(1, i+1, fmt.Sprint("op-", i)), sdk.Replayed)
	}
	s.Set(nil)
	if q, err := st.Quarantined(t.Context(), resource); err != nil || len(q) != 0 {
		t.Errorf("quarantined %v, %v", q, err)
	}
}

// C17: a token belongs to one Apply call: the same mutation sent again has
// another, or the service would answer a stale owner with the first success.
func TestTokensAreNotShared(t *testing.T) {
	s := start(t)
	st, other := opened(t, s), opened(t, s)
	apply(t, st, mutation(1, 1, "op-1"), sdk.Accepted)
	var tokens []string
	s.bendCommits(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		var in struct{ ClientRequestToken string }
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if err := json.Unmarshal(body, &in); err != nil {
			t.Error(err)
		}
		tokens = append(tokens, in.ClientRequestToken)
		next.ServeHTTP(w, r)
	})
	m := mutation(1, 2, "op-2")
	apply(t, other, m, sdk.Accepted)
	apply(t, st, m, sdk.Replayed) // its guess is old, so it sends
	if len(tokens) != 2 || tokens[0] == "" || tokens[0] == tokens[1] {
		t.Errorf("tokens %q", tokens)
	}
}

// C61: eight writers send the same job, and the service now and then says that a
// transaction is at the item. Nobody is told STALE_OWNER, and each segment is
// accepted once.
func TestConflictsUnderLoad(t *testing.T) {
	eachLayout(t, func(t *testing.T, s *server) {
		const writers, segments = 8, 6
		conflict := map[string]string{LayoutTransaction: cancelled("None", "TransactionConflict"), LayoutItem: failed("TransactionConflictException")}[s.layout]
		var mu sync.Mutex
		n := 0
		s.bendCommits(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			mu.Lock()
			n++
			bad := n%3 == 0
			mu.Unlock()
			if bad {
				write(w, conflict)
				return
			}
			next.ServeHTTP(w, r)
		})
		var wg sync.WaitGroup
		accepted := make([]int, segments+1)
		for range writers {
			st := opened(t, s)
			wg.Go(func() {
				for i := 1; i <= segments; i++ {
					out, err := st.Apply(t.Context(), sdk.NewAdmission(seal.Cut(), mutation(1, i, fmt.Sprint("op-", i), sdk.Put("k", []byte("v")))))
					mu.Lock()
					if out.Code == sdk.Accepted {
						accepted[i]++
					}
					mu.Unlock()
					if !out.Code.Ok() || err != nil {
						t.Errorf("segment %d: %v, %v", i, out.Code, err)
						return
					}
				}
			})
		}
		wg.Wait()
		for i := 1; i <= segments; i++ {
			if accepted[i] != 1 {
				t.Errorf("segment %d was accepted %d times", i, accepted[i])
			}
		}
	})
}
