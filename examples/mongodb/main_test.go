package main

import (
	"strings"
	"testing"

	"github.com/fencedstore/fencedstore/internal/lab/mongofake"
)

// The program runs on a replica set in this process; a team's runs on theirs.
func TestRun(t *testing.T) {
	addr := mongofake.Start(t).Addr()
	var out strings.Builder
	if err := run(t.Context(), "mongodb://"+addr+"/bank?collection=fences&layout=transaction&environment=emulator", &out); err != nil {
		t.Fatal(err)
	}
	want := "A opens the account: ACCEPTED\nB pays 30: ACCEPTED, balance 70\nA pays 30: STALE_OWNER\n"
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}
