package dynamodbstore

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/fencedstore/fencedstore/sdk"
)

// Schema returns what the table of a DSN needs: its definition, the policy of
// the gate's role, and the two policies that keep everybody else from writing.
// ACCOUNT, GATE-ROLE and TEAM-TABLE are to be filled in. INVALID: the DSN does
// not parse.
func Schema(s string) ([]sdk.SchemaPart, error) {
	d, err := parseDSN(s)
	if err != nil {
		return nil, err
	}
	region := d.region
	if region == "" {
		region = "REGION"
	}
	r := strings.NewReplacer("$TABLE", d.table, "$REGION", region, "$ARN", "arn:aws:dynamodb:"+region+":ACCOUNT:table/"+d.table,
		"$TEAM", "arn:aws:dynamodb:"+region+":ACCOUNT:table/TEAM-TABLE")
	gate, workers := gateOfTransactions, denyWorkers
	if d.layout == LayoutItem {
		gate, workers = gateOfItems, strings.ReplaceAll(denyWorkers, `"$ARN", "$TEAM"`, `"$ARN"`)
	}
	return []sdk.SchemaPart{
		{Title: "The table, with the AWS CLI. It must have no time to live.", Format: "sh", Text: r.Replace(createShell)},
		{Title: "The table, with Terraform", Format: "tf", Text: r.Replace(createTerraform)},
		{Title: "IAM policy of the gate's role", Format: "json", Text: r.Replace(gate)},
		{Title: "Policy of the table itself (aws dynamodb put-resource-policy): nobody but the gate's role writes its items. Enforcement begins with it.", Format: "json", Text: r.Replace(tablePolicy)},
		{Title: "IAM policy of the workers' roles: an explicit deny, whatever else they are allowed", Format: "json", Text: r.Replace(workers)},
	}, nil
}

const createShell = `aws dynamodb create-table --table-name $TABLE --region $REGION \
  --attribute-definitions AttributeName=pk,AttributeType=S AttributeName=sk,AttributeType=S \
  --key-schema AttributeName=pk,KeyType=HASH AttributeName=sk,KeyType=RANGE \
  --billing-mode PAY_PER_REQUEST --deletion-protection-enabled
aws dynamodb wait table-exists --table-name $TABLE --region $REGION
`

const createTerraform = `resource "aws_dynamodb_table" "fences" {
  name                        = "$TABLE"
  billing_mode                = "PAY_PER_REQUEST"
  hash_key                    = "pk"
  range_key                   = "sk"
  deletion_protection_enabled = true

  attribute {
    name = "pk"
    type = "S"
  }

  attribute {
    name = "sk"
    type = "S"
  }

  lifecycle {
    prevent_destroy = true
  }
}
`

const gateOfTransactions = `{
  "Version": "2012-10-17",
  "Statement": [
    {"Effect": "Allow", "Resource": ["$ARN"],
     "Action": ["dynamodb:GetItem", "dynamodb:Query", "dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem",
                "dynamodb:ConditionCheckItem", "dynamodb:DescribeTable", "dynamodb:DescribeTimeToLive"]},
    {"Effect": "Allow", "Resource": ["$TEAM"],
     "Action": ["dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem", "dynamodb:ConditionCheckItem"]}
  ]
}
`

const gateOfItems = `{
  "Version": "2012-10-17",
  "Statement": [
    {"Effect": "Allow", "Resource": ["$ARN"],
     "Action": ["dynamodb:GetItem", "dynamodb:Query", "dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:BatchWriteItem",
                "dynamodb:DescribeTable", "dynamodb:DescribeTimeToLive"]},
    {"Effect": "Allow", "Resource": ["$ARN"], "Action": ["dynamodb:DeleteItem"],
     "Condition": {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["probe#*"]}}}
  ]
}
`

const writes = `"dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem", "dynamodb:BatchWriteItem",
                "dynamodb:PartiQLInsert", "dynamodb:PartiQLUpdate", "dynamodb:PartiQLDelete"`

const tablePolicy = `{
  "Version": "2012-10-17",
  "Statement": [
    {"Sid": "OnlyTheGateWrites", "Effect": "Deny", "Principal": "*", "Resource": ["$ARN"],
     "Action": [` + writes + `],
     "Condition": {"StringNotEquals": {"aws:PrincipalArn": "arn:aws:iam::ACCOUNT:role/GATE-ROLE"}}}
  ]
}
`

const denyWorkers = `{
  "Version": "2012-10-17",
  "Statement": [
    {"Effect": "Deny", "Resource": ["$ARN", "$TEAM"],
     "Action": [` + writes + `]},
    {"Effect": "Deny", "Resource": ["$ARN"],
     "Action": ["dynamodb:UpdateTimeToLive", "dynamodb:UpdateTable", "dynamodb:DeleteTable", "dynamodb:PutResourcePolicy",
                "dynamodb:DeleteResourcePolicy", "dynamodb:CreateTableReplica", "dynamodb:RestoreTableFromBackup"]}
  ]
}
`

// CreateSchema creates the table of a DSN where it is missing; policies are the
// operator's. Answers as Open.
func CreateSchema(ctx context.Context, s string, opts sdk.OpenOptions) error {
	d, err := parseDSN(s)
	if err != nil {
		return err
	}
	client, err := d.client(ctx, opts)
	if err != nil {
		return err
	}
	var absent *types.ResourceNotFoundException
	if err := untilMade(ctx, client, d.table); err == nil || !errors.As(err, &absent) {
		if err != nil {
			err = readError(err)
		}
		return err
	}
	return CreateTable(ctx, client, d.table)
}

// CreateTable creates a table with the keys that the store needs, with capacity
// on demand, and waits until it can be used. Recovery to a point in time and
// protection from deletion are left to the team. NOT_APPLIED: it could not be
// created, or not be used before the context ended or five minutes were over.
func CreateTable(ctx context.Context, client *dynamodb.Client, table string) error {
	_, err := client.CreateTable(ctx, &dynamodb.CreateTableInput{
		TableName: &table, BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("pk"), AttributeType: types.ScalarAttributeTypeS}, {AttributeName: aws.String("sk"), AttributeType: types.ScalarAttributeTypeS}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("pk"), KeyType: types.KeyTypeHash}, {AttributeName: aws.String("sk"), KeyType: types.KeyTypeRange}},
	})
	var there *types.ResourceInUseException // another caller was faster
	if err == nil || errors.As(err, &there) {
		err = untilMade(ctx, client, table)
	}
	if err != nil {
		return sdk.Errorf(sdk.NotApplied, "table", "%q could not be created: %w", table, err)
	}
	return nil
}

// untilMade waits while a table is being created.
func untilMade(ctx context.Context, client *dynamodb.Client, table string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		out, err := client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &table})
		if err != nil {
			return err
		}
		if out.Table.TableStatus != types.TableStatusCreating {
			return nil
		}
		if !pause(ctx, wait) {
			return ctx.Err()
		}
	}
}
