package main

import (
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/fencedstore/fencedstore/adapters/dynamodbstore"
	"github.com/fencedstore/fencedstore/internal/lab"
	"github.com/fencedstore/fencedstore/sdk"
)

func TestExample(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", lab.AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", lab.SecretKey)
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	t.Setenv("AWS_CONFIG_FILE", os.DevNull)
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", os.DevNull)
	for _, tc := range []struct {
		server           *lab.Server
		layout, invoices string
	}{{lab.Moto, "transaction", "invoices"}, {lab.Dynalite, "item", ""}} {
		t.Run(tc.layout, func(t *testing.T) {
			server := lab.Start(t, tc.server)
			dsn := "dynamodb://fences?region=us-east-1&environment=emulator&layout=" + tc.layout + "&endpoint=" + url.QueryEscape(server.URL())
			if err := dynamodbstore.CreateSchema(t.Context(), dsn, sdk.OpenOptions{}); err != nil {
				t.Fatal(err)
			}
			if tc.invoices != "" {
				createInvoices(t, server.URL(), tc.invoices)
			}
			var out strings.Builder
			if err := run(t.Context(), dsn, tc.invoices, &out); err != nil {
				t.Fatal(err)
			}
			want := `worker-a, 500 cents: ACCEPTED
"first instalment" was done by worker-a
worker-b, 1180 cents: ACCEPTED
worker-a, 900 cents: STALE_OWNER
`
			if out.String() != want {
				t.Errorf("%s\nwant %s", out.String(), want)
			}
		})
	}
}

func createInvoices(t *testing.T, endpoint, table string) {
	client := dynamodb.New(dynamodb.Options{Region: "us-east-1", BaseEndpoint: &endpoint, Credentials: credentials.NewStaticCredentialsProvider(lab.AccessKey, lab.SecretKey, "")})
	_, err := client.CreateTable(t.Context(), &dynamodb.CreateTableInput{TableName: &table, BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("id"), AttributeType: types.ScalarAttributeTypeS}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: types.KeyTypeHash}}})
	if err != nil {
		t.Fatal(err)
	}
}
