package main

import (
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/fencedstore/fencedstore/adapters/s3store"
	"github.com/fencedstore/fencedstore/internal/lab"
	"github.com/fencedstore/fencedstore/sdk"
)

func TestExample(t *testing.T) {
	server := lab.Start(t, lab.Versitygw)
	t.Setenv("AWS_ACCESS_KEY_ID", lab.AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", lab.SecretKey)
	t.Setenv("AWS_CONFIG_FILE", os.DevNull)
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", os.DevNull)
	for _, layout := range []string{"", "&layout=object&objects=public/&unique=space"} {
		prefix := "head"
		if layout != "" {
			prefix = "object"
		}
		dsn := "s3://reports/" + prefix + "?region=us-east-1&path_style=true&endpoint=" + url.QueryEscape(server.URL()) + layout
		if err := s3store.CreateSchema(t.Context(), dsn, sdk.OpenOptions{}); err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		if err := run(t.Context(), dsn, &out); err != nil {
			t.Fatal(err)
		}
		if want := "worker-a: written\nworker-b: written\nworker-a: STALE_OWNER\nthe report: {\"total\":1180}\n"; out.String() != want {
			t.Errorf("%q, want %q", out.String(), want)
		}
	}
}
