package s3store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/fencedstore/fencedstore/internal/lab"
	"github.com/fencedstore/fencedstore/internal/seal"
	"github.com/fencedstore/fencedstore/sdk"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

const bucketName = "fences"

// server is an S3 server behind a proxy that a test may bend.
type server struct {
	*lab.Proxy
	backend *s3mem.Backend // of gofakes3
	layout  string         // added to the DSN
}

// newServer is gofakes3 in memory over plain HTTP.
func newServer(t testing.TB) *server {
	t.Helper()
	credentialsOfLab(t)
	s := &server{backend: s3mem.New()}
	if err := s.backend.CreateBucket(bucketName); err != nil {
		t.Fatal(err)
	}
	s.Proxy = lab.Handle(t, gofakes3.New(s.backend).Server(), func(r *http.Request) string { return r.Method })
	return s
}

// realServer is one of the lab's, as a process of its own.
func realServer(t testing.TB, kind *lab.Server) (*server, *lab.Process) {
	t.Helper()
	credentialsOfLab(t)
	process := lab.Start(t, kind)
	s := &server{}
	s.Proxy = lab.Front(t, process.URL(), func(r *http.Request) string { return r.Method })
	if _, err := s.client().CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: aws.String(bucketName)}); err != nil {
		t.Fatal(err)
	}
	return s, process
}

func (s *server) client() *s3.Client {
	return s3.New(s3.Options{Region: "us-east-1", BaseEndpoint: &s.URL, UsePathStyle: true, RequestChecksumCalculation: aws.RequestChecksumCalculationWhenRequired,
		Credentials: credentials.NewStaticCredentialsProvider(lab.AccessKey, lab.SecretKey, "")})
}

// remove deletes an object past the store.
func (s *server) remove(ctx context.Context, key string) error {
	_, err := s.client().DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: aws.String(bucketName), Key: &key})
	return err
}

func credentialsOfLab(t testing.TB) {
	t.Setenv("AWS_ACCESS_KEY_ID", lab.AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", lab.SecretKey)
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	t.Setenv("AWS_CONFIG_FILE", os.DevNull)
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", os.DevNull)
}

func (s *server) dsn(prefix string) string {
	return Scheme + bucketName + "/" + prefix + "?region=us-east-1&path_style=true&checksum=when_required&environment=emulator&quarantine=20&endpoint=" + url.QueryEscape(s.URL) + s.layout
}

func open(t testing.TB, s *server) sdk.FencedStore {
	t.Helper()
	st, err := Open(t.Context(), s.dsn("p"), sdk.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	return st
}

const resource sdk.ResourceID = "invoice/42"

func mutation(fence sdk.Token, segment int, op string, effects ...sdk.Effect) *sdk.Mutation {
	id := sdk.OperationID(op)
	return &sdk.Mutation{Resource: resource, Operation: id, Fence: fence, Segment: sdk.Segment(segment), Owner: "w",
		Root: sdk.SumDigest([]byte("root")), Grant: sdk.SumDigest([]byte(fence.String())),
		Payload: sdk.PayloadDigest(id, nil, effects), Effects: effects}
}

func apply(t testing.TB, s sdk.FencedStore, m *sdk.Mutation, want sdk.Code) error {
	t.Helper()
	out, err := s.Apply(t.Context(), sdk.NewAdmission(seal.Cut(), m))
	if out.Code != want || (err == nil) != want.Ok() {
		t.Fatalf("%s: %v, %v; want %v", m.Operation, out.Code, err, want)
	}
	return err
}

func isHeadPut(r *http.Request) bool {
	return r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/head/")
}

// C2, C32: the PUT lands and its answer is lost; nothing sends it again, and the
// head's nonce tells. The connection is cut after the server has written.
func TestLostAnswer(t *testing.T) {
	s := newServer(t)
	st := open(t, s)
	apply(t, st, mutation(1, 1, "op-1"), sdk.Accepted)
	puts := 0
	s.Set(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if !isHeadPut(r) {
			next.ServeHTTP(w, r)
			return
		}
		puts++
		next.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	})
	apply(t, st, mutation(1, 2, "op-2", sdk.Put("k", []byte("v"))), sdk.Accepted)
	if puts != 1 {
		t.Errorf("the head was sent %d times", puts)
	}
	s.Set(nil)
	apply(t, st, mutation(1, 2, "op-2", sdk.Put("k", []byte("v"))), sdk.Replayed)
}

// The request is lost before the server sees it: unknown, and accepted once when
// it comes again.
func TestLostRequest(t *testing.T) {
	s := newServer(t)
	st := open(t, s)
	apply(t, st, mutation(1, 1, "op-1"), sdk.Accepted)
	s.Set(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if isHeadPut(r) {
			panic(http.ErrAbortHandler)
		}
		next.ServeHTTP(w, r)
	})
	apply(t, st, mutation(1, 2, "op-2"), sdk.MutationUnknown)
	s.Set(nil)
	apply(t, st, mutation(1, 2, "op-2"), sdk.Accepted)
}

func answer(status int, code string) func(w http.ResponseWriter, r *http.Request, next http.Handler) {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if !isHeadPut(r) {
			next.ServeHTTP(w, r)
			return
		}
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(status)
		if code != "" {
			fmt.Fprintf(w, "<Error><Code>%s</Code><Message>x</Message></Error>", code)
		}
	}
}

// C16, C26, C69, C72: every answer that the table knows, and some that it does
// not, walked through a real client.
func TestAnswers(t *testing.T) {
	want := map[meaning]sdk.Code{notApplied: sdk.NotApplied, unsuitable: sdk.Unsuitable}
	type row struct {
		status int
		code   string
		want   sdk.Code
	}
	rows := []row{
		{500, "InternalError", sdk.MutationUnknown}, {502, "", sdk.MutationUnknown}, {503, "ServiceUnavailable", sdk.MutationUnknown},
		{504, "", sdk.MutationUnknown}, {409, "OperationAborted", sdk.MutationUnknown}, {400, "SomethingNew", sdk.MutationUnknown}, {418, "", sdk.MutationUnknown},
		{503, "SlowDown", sdk.NotApplied}, {403, "AccessDenied", sdk.Unsuitable}, {403, "SignatureDoesNotMatch", sdk.Unsuitable}, {501, "NotImplemented", sdk.Unsuitable},
	}
	for _, a := range answers {
		if c, ok := want[a.means]; ok {
			rows = append(rows, row{a.status, a.code, c})
		}
	}
	for _, r := range rows {
		t.Run(fmt.Sprintf("%d %s", r.status, r.code), func(t *testing.T) {
			s := newServer(t)
			st := open(t, s)
			apply(t, st, mutation(1, 1, "op-1"), sdk.Accepted)
			s.Set(answer(r.status, r.code))
			apply(t, st, mutation(1, 2, "op-2"), r.want)
			s.Set(nil)
			apply(t, st, mutation(1, 2, "op-2"), sdk.Accepted)
		})
	}
}

// C68: If-Match on a head that is gone is no first write.
func TestHeadVanished(t *testing.T) {
	for _, status := range []int{404, 412} {
		s := newServer(t)
		st := open(t, s)
		apply(t, st, mutation(9, 1, "op-1"), sdk.Accepted)
		list, err := s.backend.ListBucket(bucketName, &gofakes3.Prefix{HasPrefix: true, Prefix: "p/main/head/"}, gofakes3.ListBucketPage{})
		if err != nil || len(list.Contents) != 1 {
			t.Fatal(list, err)
		}
		if _, err := s.backend.DeleteObject(bucketName, list.Contents[0].Key); err != nil {
			t.Fatal(err)
		}
		s.Set(answer(status, map[int]string{404: "NoSuchKey", 412: "PreconditionFailed"}[status]))
		apply(t, st, mutation(9, 2, "op-2"), sdk.FenceRegression)
		apply(t, open(t, s), mutation(3, 1, "op-3"), sdk.FenceRegression)
	}
}

// One PUT in the steady state.
func TestRoundTrips(t *testing.T) {
	s := newServer(t)
	st := open(t, s)
	apply(t, st, mutation(1, 1, "op-1"), sdk.Accepted)
	apply(t, st, mutation(1, 2, "op-2"), sdk.Accepted)
	for i := 3; i < 20; i++ {
		before := s.Count("")
		apply(t, st, mutation(1, i, fmt.Sprint("op-", i), sdk.Put("k", []byte("v"))), sdk.Accepted)
		if n := s.Count("") - before; n != 1 {
			t.Errorf("segment %d took %d requests", i, n)
		}
	}
}

// C5, C69, C70: a server that ignores the conditions, or decides them one by one, or
// does not know them, is found out.
func TestProbe(t *testing.T) {
	s := newServer(t)
	if err := open(t, s).Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	if list, err := s.backend.ListBucket(bucketName, &gofakes3.Prefix{HasPrefix: true, Prefix: "p/probe/"}, gofakes3.ListBucketPage{}); err != nil || len(list.Contents) != 0 {
		t.Errorf("the probe left %d objects, %v", len(list.Contents), err)
	}
	drop := func(header string) func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			r.Header.Del(header)
			next.ServeHTTP(w, r)
		}
	}
	for name, bend := range map[string]func(w http.ResponseWriter, r *http.Request, next http.Handler){
		"If-None-Match ignored": drop("If-None-Match"),
		"If-Match ignored":      drop("If-Match"),
		// As one that conditions on generations does: ETags mean nothing to it.
		"conditions by generation": func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if r.Header.Get("X-Goog-If-Generation-Match") == "" {
				r.Header.Del("If-Match")
				r.Header.Del("If-None-Match")
			}
			next.ServeHTTP(w, r)
		},
		"not implemented": func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if r.Header.Get("If-Match") != "" {
				w.WriteHeader(http.StatusNotImplemented)
				return
			}
			next.ServeHTTP(w, r)
		},
		"no permission": func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if r.Method == http.MethodPut {
				w.WriteHeader(http.StatusForbidden)
				return
			}
			next.ServeHTTP(w, r)
		},
		"not atomic": notAtomic(),
		"expiry": func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if r.URL.Query().Has("lifecycle") {
				fmt.Fprint(w, `<LifecycleConfiguration><Rule><ID>tidy</ID><Status>Enabled</Status><Filter><Prefix></Prefix></Filter><Expiration><Days>30</Days></Expiration></Rule></LifecycleConfiguration>`)
				return
			}
			next.ServeHTTP(w, r)
		},
		"lifecycle not to be read": func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if r.URL.Query().Has("lifecycle") {
				w.WriteHeader(http.StatusForbidden)
				return
			}
			next.ServeHTTP(w, r)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			st := open(t, s)
			s.Set(bend)
			if err := st.Probe(t.Context()); !errors.Is(err, sdk.ErrUnsuitable) {
				t.Errorf("got %v, want UNSUITABLE", err)
			}
		})
	}
}

// notAtomic looks at the condition, lets all others look too, and then writes.
func notAtomic() func(w http.ResponseWriter, r *http.Request, next http.Handler) {
	var mu sync.Mutex
	waiting, gate := 0, make(chan struct{})
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Method != http.MethodPut || !strings.Contains(r.URL.Path, "/race-") {
			next.ServeHTTP(w, r)
			return
		}
		body, _ := io.ReadAll(r.Body)
		r.Header.Del("If-Match")
		r.Header.Del("If-None-Match")
		mu.Lock()
		waiting++
		if waiting == probeWriters {
			close(gate)
		}
		mu.Unlock()
		<-gate
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		next.ServeHTTP(w, r)
	}
}

func TestBadDSN(t *testing.T) {
	for _, d := range []string{"", "s3:", "s3://", "s3://b", "s3://b/", "s3://user:secret@b/p", "http://b/p", "s3://b/a//b", "s3://b/../x", "s3://b/p?x=1", "s3://b/p?region=",
		"s3://b/p?region=a&region=b", "s3://b/p?endpoint=ftp://x", "s3://b/p?endpoint=http://u:p@x", "s3://b/p?path_style=yes", "s3://b/p?checksum=none", "s3://b/p?environment=embedded", "s3://b/p?quarantine=0", "s3://b/p?quarantine=1001", "s3://b/é", "s3://b/p#x"} {
		if _, err := Open(t.Context(), d, sdk.OpenOptions{}); !errors.Is(err, sdk.ErrInvalid) {
			t.Errorf("%q: %v, want INVALID", d, err)
		}
	}
}

func TestNoServer(t *testing.T) {
	s := newServer(t)
	dsn := s.dsn("p")
	st := open(t, s)
	apply(t, st, mutation(1, 1, "op-1"), sdk.Accepted)
	s.CloseClientConnections()
	s.Close()
	apply(t, st, mutation(1, 2, "op-2"), sdk.NotApplied) // refused when dialled
	if _, err := Open(t.Context(), dsn, sdk.OpenOptions{}); !errors.Is(err, sdk.ErrNotApplied) {
		t.Errorf("open: %v", err)
	}
}

func TestNoBucket(t *testing.T) {
	s := newServer(t)
	dsn := strings.Replace(s.dsn("p"), bucketName, "other", 1)
	if _, err := Open(t.Context(), dsn, sdk.OpenOptions{}); !errors.Is(err, sdk.ErrUnsuitable) {
		t.Errorf("%v", err)
	}
}
