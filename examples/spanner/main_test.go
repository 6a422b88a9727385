package main

import (
	"context"
	"net/url"
	"strings"
	"testing"

	database "cloud.google.com/go/spanner/admin/database/apiv1"
	"cloud.google.com/go/spanner/admin/database/apiv1/databasepb"
	instance "cloud.google.com/go/spanner/admin/instance/apiv1"
	"cloud.google.com/go/spanner/admin/instance/apiv1/instancepb"
	"github.com/fencedstore/fencedstore/adapters/spannerstore"
	"github.com/fencedstore/fencedstore/internal/lab"
	"github.com/fencedstore/fencedstore/sdk"
)

func TestExample(t *testing.T) {
	server := lab.Start(t, lab.SpannerEmulator)
	t.Setenv("SPANNER_EMULATOR_HOST", server.Addr())
	ctx := context.Background()
	instances, err := instance.NewInstanceAdminClient(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer instances.Close()
	made, err := instances.CreateInstance(ctx, &instancepb.CreateInstanceRequest{Parent: "projects/p", InstanceId: "main",
		Instance: &instancepb.Instance{Config: "projects/p/instanceConfigs/emulator-config", DisplayName: "main", NodeCount: 1}})
	if err == nil {
		_, err = made.Wait(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	databases, err := database.NewDatabaseAdminClient(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer databases.Close()
	op, err := databases.CreateDatabase(ctx, &databasepb.CreateDatabaseRequest{Parent: "projects/p/instances/main", CreateStatement: "CREATE DATABASE books",
		ExtraStatements: []string{"CREATE TABLE Accounts (Name STRING(64) NOT NULL, Balance INT64 NOT NULL) PRIMARY KEY (Name)"}})
	if err == nil {
		_, err = op.Wait(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	dsn := "spanner://projects/p/instances/main/databases/books?plaintext=true&environment=emulator&endpoint=" + url.QueryEscape(server.Addr())
	if err := spannerstore.CreateSchema(ctx, dsn, sdk.OpenOptions{}); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := run(ctx, dsn, &out); err != nil {
		t.Fatal(err)
	}
	if want := "worker-a: a -10, b 10\nworker-b: a -15, b 15\nworker-a: STALE_OWNER\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}
