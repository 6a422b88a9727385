package dynamodbstore

import (
	"errors"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/fencedstore/fencedstore/sdk"
)

func TestWriteForm(t *testing.T) {
	full := types.Put{TableName: aws.String("team"), Item: item{"pk": str("a"), "n": &types.AttributeValueMemberN{Value: "1556893286484340854"}, "b": bin([]byte{0, 1}),
		"t": &types.AttributeValueMemberBOOL{Value: true}, "u": &types.AttributeValueMemberNULL{Value: true}, "ss": &types.AttributeValueMemberSS{Value: []string{"x"}},
		"ns": &types.AttributeValueMemberNS{Value: []string{"1"}}, "bs": &types.AttributeValueMemberBS{Value: [][]byte{{1}}},
		"m": &types.AttributeValueMemberM{Value: item{"x": str("")}}, "l": &types.AttributeValueMemberL{Value: []types.AttributeValue{number(1), str("y")}}}}
	e, err := Put(full)
	if err != nil {
		t.Fatal(err)
	}
	back, err := ParseWrite(e.Body)
	if err != nil || len(back.Put.Item) != len(full.Item) || back.Put.Item["n"].(*types.AttributeValueMemberN).Value != "1556893286484340854" {
		t.Errorf("%+v, %v", back, err)
	}
	for _, body := range []string{"", "{}", "[]", `{"put":{"table":"team"}}`, `{"put":{"table":"arn:aws:dynamodb:us-east-1:1:table/fences","item":{"a":{"S":"x"}}}}`, `{"put":{"table":"","item":{"a":{"S":"x"}}}}`, `{"put":{"table":"team","item":{"a":{}}}}`,
		`{"put":{"table":"team","item":{"a":{"S":"x","N":"1"}}}}`, `{"put":{"table":"team","item":{"a":null}}}`, `{"put":{"table":"team","key":{"a":{"S":"x"}}}}`,
		`{"put":{"table":"team","item":{"a":{"N":1}}}}`, `{"update":{"table":"team","key":{"a":{"S":"x"}}}}`, `{"check":{"table":"team","key":{"a":{"S":"x"}}}}`,
		`{"put":{"table":"team","item":{"a":{"S":"x"}}},"delete":{"table":"team","key":{"a":{"S":"x"}}}}`, `{"put":{"table":"team","item":{"a":{"S":"x"}},"x":1}}`} {
		if _, err := ParseWrite([]byte(body)); !errors.Is(err, sdk.ErrInvalid) {
			t.Errorf("%s: %v", body, err)
		}
	}
	if _, err := Write(types.TransactWriteItem{}); !errors.Is(err, sdk.ErrInvalid) {
		t.Errorf("no action: %v", err)
	}
}

func FuzzParseWrite(f *testing.F) {
	f.Add([]byte(`{"put":{"table":"team","item":{"a":{"S":"x"},"l":{"L":[{"N":"1"},{"M":{"x":{"NULL":true}}}]}}}}`))
	f.Add([]byte(`{"update":{"table":"team","key":{"a":{"S":"x"}},"update":"SET b = :b","values":{":b":{"B":"AA=="}}}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		w, err := ParseWrite(body)
		if err != nil {
			return
		}
		e, err := Write(*w)
		if err != nil {
			t.Fatalf("parsed, and refused when written again: %v", err)
		}
		if _, err := ParseWrite(e.Body); err != nil {
			t.Errorf("%s: %v", e.Body, err)
		}
	})
}
