package s3store

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/fencedstore/fencedstore/sdk"
)

// Schema returns what the bucket of a DSN needs: its creation, the policy of the
// gate's role, and the bucket policy that keeps everybody else from writing
// where the gate does. ACCOUNT and GATE-ROLE are to be filled in. INVALID: the
// DSN does not parse.
func Schema(s string) ([]sdk.SchemaPart, error) {
	d, err := parseDSN(s)
	if err != nil {
		return nil, err
	}
	own := fmt.Sprintf("arn:aws:s3:::%s/%s/*", d.bucket, d.prefix)
	writes := []string{own}
	if d.layout == LayoutObject {
		writes = append(writes, fmt.Sprintf("arn:aws:s3:::%s/%s*", d.bucket, d.objects))
	}
	region := d.region
	if region == "" {
		region = "REGION"
	}
	r := strings.NewReplacer("$BUCKET", d.bucket, "$PREFIX", d.prefix, "$REGION", region, "$WRITES", `"`+strings.Join(writes, `", "`)+`"`)
	return []sdk.SchemaPart{
		{Title: "The bucket, with the AWS CLI. No lifecycle rule may expire objects under the store's prefixes.", Format: "sh", Text: r.Replace(createShell)},
		{Title: "The bucket, with Terraform", Format: "tf", Text: r.Replace(createTerraform)},
		{Title: "IAM policy of the gate's role. It needs no permission to delete.", Format: "json", Text: r.Replace(gatePolicy)},
		{Title: "Bucket policy: nobody but the gate's role writes or deletes where the store is. Enforcement begins with it.", Format: "json", Text: r.Replace(bucketPolicy)},
	}, nil
}

const createShell = `aws s3api create-bucket --bucket $BUCKET --region $REGION \
  --create-bucket-configuration LocationConstraint=$REGION
aws s3api put-public-access-block --bucket $BUCKET --public-access-block-configuration \
  BlockPublicAcls=true,IgnorePublicAcls=true,BlockPublicPolicy=true,RestrictPublicBuckets=true
`

const createTerraform = `resource "aws_s3_bucket" "fences" {
  bucket = "$BUCKET"
  lifecycle { prevent_destroy = true }
}

resource "aws_s3_bucket_public_access_block" "fences" {
  bucket                  = aws_s3_bucket.fences.id
  block_public_acls       = true
  ignore_public_acls      = true
  block_public_policy     = true
  restrict_public_buckets = true
}
`

const gatePolicy = `{
  "Version": "2012-10-17",
  "Statement": [
    {"Effect": "Allow", "Action": ["s3:GetObject", "s3:PutObject"], "Resource": [$WRITES]},
    {"Effect": "Allow", "Action": ["s3:ListBucket", "s3:GetLifecycleConfiguration"], "Resource": ["arn:aws:s3:::$BUCKET"]}
  ]
}
`

const bucketPolicy = `{
  "Version": "2012-10-17",
  "Statement": [
    {
      "Sid": "OnlyTheGateWrites",
      "Effect": "Deny",
      "Principal": "*",
      "Action": ["s3:PutObject", "s3:DeleteObject", "s3:DeleteObjectVersion"],
      "Resource": [$WRITES],
      "Condition": {"StringNotEquals": {"aws:PrincipalArn": "arn:aws:iam::ACCOUNT:role/GATE-ROLE"}}
    }
  ]
}
`

// CreateSchema creates the bucket of a DSN where it is missing; policies are the
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
	in := &s3.CreateBucketInput{Bucket: &d.bucket}
	if region := client.Options().Region; region != "us-east-1" {
		in.CreateBucketConfiguration = &types.CreateBucketConfiguration{LocationConstraint: types.BucketLocationConstraint(region)}
	}
	if _, err := client.HeadBucket(ctx, &s3.HeadBucketInput{Bucket: aws.String(d.bucket)}); err == nil {
		return nil
	}
	_, err = client.CreateBucket(ctx, in)
	var owned *types.BucketAlreadyOwnedByYou
	if err != nil && !errors.As(err, &owned) {
		return sdk.Errorf(sdk.NotApplied, "bucket", "%q could not be created: %w", d.bucket, err)
	}
	return nil
}
