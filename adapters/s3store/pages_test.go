package s3store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/fencedstore/fencedstore/internal/lab"
	"github.com/fencedstore/fencedstore/sdk"
)

const objectLayout = "&layout=object&objects=team/&content_type=application%2Fjson&unique=space"

// Anybody who may read the object reads it, with a plain GET.
func TestPlainGet(t *testing.T) {
	s := newServer(t)
	s.layout = objectLayout
	apply(t, open(t, s), mutation(1, 1, "op-1", sdk.Put(ContentKey, []byte(`{"total":1}`))), sdk.Accepted)
	res, err := http.Get(s.URL + "/" + bucketName + "/team/" + string(resource))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	var got map[string]int
	if err != nil || json.Unmarshal(body, &got) != nil || got["total"] != 1 || res.Header.Get("Content-Type") != "application/json" {
		t.Errorf("%q, %v, %v", body, res.Header, err)
	}
	if n := len(res.Header.Get("X-Amz-Meta-Fencedstore")) + len("fencedstore"); n > 2<<10 {
		t.Errorf("%d bytes of metadata", n)
	}
}

// One PUT in the steady state, but for every few writes, when receipts move into
// an object of their own.
func TestObjectRoundTrips(t *testing.T) {
	s := newServer(t)
	s.layout = objectLayout
	st := open(t, s)
	apply(t, st, mutation(1, 1, "op-1"), sdk.Accepted)
	one, two := 0, 0
	for i := 2; i < 40; i++ {
		before := s.Count("")
		apply(t, st, mutation(1, i, fmt.Sprint("op-", i), sdk.Put(ContentKey, []byte("v"))), sdk.Accepted)
		switch s.Count("") - before {
		case 1:
			one++
		case 2:
			two++
		default:
			t.Errorf("segment %d took %d requests", i, s.Count("")-before)
		}
	}
	if one < 3*two {
		t.Errorf("%d writes took one request, %d two", one, two)
	}
}

// What is written past the gate is noticed, never taken for a first write.
func TestOverwritten(t *testing.T) {
	s, _ := realServer(t, lab.Versitygw)
	s.layout = objectLayout
	st := open(t, s)
	apply(t, st, mutation(7, 1, "op-1", sdk.Put(ContentKey, []byte("v"))), sdk.Accepted)
	key := "team/" + string(resource)
	if _, err := s.client().PutObject(t.Context(), &s3.PutObjectInput{Bucket: aws.String(bucketName), Key: &key, Body: strings.NewReader("past the gate")}); err != nil {
		t.Fatal(err)
	}
	apply(t, open(t, s), mutation(3, 1, "op-2"), sdk.FenceRegression)
	apply(t, st, mutation(7, 2, "op-3"), sdk.FenceRegression)
}

// A value comes back as it was in every coding, and twice the same one is two
// versions: the ABA that lets a stale writer's If-Match hold.
func TestUnique(t *testing.T) {
	s, _ := realServer(t, lab.Versitygw)
	for _, u := range []Unique{UniqueSpace, UniqueGzip} {
		s.layout = "&layout=object&objects=" + string(u) + "/&unique=" + string(u)
		st, err := Open(t.Context(), s.dsn(string(u)+"-store"), sdk.OpenOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer st.Close()
		etags := map[string]bool{}
		for i, v := range []string{"", "x", "x", "x \n", "", strings.Repeat("\x00\xff", 50000)} {
			apply(t, st, mutation(1, i+1, fmt.Sprint("op-", i), sdk.Put(ContentKey, []byte(v))), sdk.Accepted)
			if got, err := st.Read(t.Context(), resource, ContentKey); err != nil || string(got) != v {
				t.Errorf("%s: %q came back as %q, %v", u, v, got, err)
			}
			key := string(u) + "/" + string(resource)
			head, err := s.client().HeadObject(t.Context(), &s3.HeadObjectInput{Bucket: aws.String(bucketName), Key: &key})
			if err != nil {
				t.Fatal(err)
			}
			etags[*head.ETag] = true
		}
		if len(etags) != 6 {
			t.Errorf("%s: 6 versions have %d ETags", u, len(etags))
		}
	}
	s.layout = "&layout=object&unique=etag"
	if _, err := Open(t.Context(), s.dsn("etag"), sdk.OpenOptions{}); !errors.Is(err, sdk.ErrUnsuitable) {
		t.Errorf("MD5 ETags taken for unique ones: %v", err)
	}
}

func TestCodings(t *testing.T) {
	for u, c := range codings {
		for _, bad := range []string{"", "x", strings.Repeat("x", spaceBytes), strings.Repeat(" ", spaceBytes-1) + "x", "\x1f\x8b\x08\x00"} {
			if _, err := c.decode([]byte(bad)); err == nil && u != UniqueETag {
				t.Errorf("%s: %q was taken", u, bad)
			}
		}
	}
}

func TestObjectProbe(t *testing.T) {
	// gofakes3 keeps metadata over an overwrite.
	fake := newServer(t)
	fake.layout = objectLayout
	if err := open(t, fake).Probe(t.Context()); !errors.Is(err, sdk.ErrUnsuitable) {
		t.Errorf("gofakes3: %v", err)
	}
	s, _ := realServer(t, lab.Versitygw)
	s.layout = objectLayout
	if err := open(t, s).Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	const header = "X-Amz-Meta-Fencedstore"
	var last string
	for name, bend := range map[string]func(w http.ResponseWriter, r *http.Request, next http.Handler){
		"cut": func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if v := r.Header.Get(header); v != "" {
				r.Header.Set(header, v[:len(v)/2])
			}
			next.ServeHTTP(w, r)
		},
		"kept over an overwrite": func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if v := r.Header.Get(header); v != "" {
				last = v
			} else if r.Method == http.MethodPut {
				r.Header.Set(header, last)
			}
			next.ServeHTTP(w, r)
		},
		"expiry of the team's objects": func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if r.URL.Query().Has("lifecycle") {
				fmt.Fprint(w, `<LifecycleConfiguration><Rule><ID>tidy</ID><Status>Enabled</Status><Filter><Prefix>team/old</Prefix></Filter><Expiration><Days>30</Days></Expiration></Rule></LifecycleConfiguration>`)
				return
			}
			next.ServeHTTP(w, r)
		},
	} {
		t.Run(name, func(t *testing.T) {
			st := open(t, s)
			s.Set(bend)
			defer s.Set(nil)
			if err := st.Probe(t.Context()); !errors.Is(err, sdk.ErrUnsuitable) {
				t.Errorf("got %v, want UNSUITABLE", err)
			}
		})
	}
}

// A place keeps its layout, and with it where the objects are; and no resource
// names the store's own objects.
func TestObjectPlace(t *testing.T) {
	s := newServer(t)
	s.layout = objectLayout
	open(t, s)
	for _, other := range []string{"", "&layout=object&unique=space", "&layout=object&unique=gzip&objects=elsewhere/"} {
		s.layout = other
		if _, err := Open(t.Context(), s.dsn("p"), sdk.OpenOptions{}); !errors.Is(err, sdk.ErrUnsuitable) {
			t.Errorf("%q: %v", other, err)
		}
	}
	for _, bad := range []string{"&layout=other", "&objects=x/", "&content_type=a%2Fb", "&unique=gzip", "&layout=object", "&layout=object&unique=x", "&layout=object&unique=gzip&objects=p/", "&layout=object&unique=gzip&objects=a//b", "&layout=object&unique=gzip&content_type=%3B"} {
		s.layout = bad
		if _, err := Open(t.Context(), s.dsn("p"), sdk.OpenOptions{}); !errors.Is(err, sdk.ErrInvalid) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	s = newServer(t)
	s.layout = "&layout=object&unique=space"
	m := mutation(1, 1, "op-1")
	m.Resource = "p/main/head/x"
	apply(t, open(t, s), m, sdk.Invalid)
}

// C20: the server says that there is one, and that there is none.
func TestThereAndNotThere(t *testing.T) {
	s := newServer(t)
	st := open(t, s)
	s.Set(answer(http.StatusPreconditionFailed, "PreconditionFailed"))
	apply(t, st, mutation(1, 1, "op-1"), sdk.Unsuitable)
}
