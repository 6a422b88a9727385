package dynamodbstore

import (
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/fencedstore/fencedstore/sdk"
	"github.com/go-json-experiment/json"
)

// KindWrite is this adapter's native effect: one action on an item of the team's
// own tables. Body: JSON with exactly one of "put", "update", "delete" and
// "check", each with "table", its "item" or "key" in DynamoDB's own JSON, and the
// expressions that it takes.
const KindWrite = "dynamodb.write.v1"

type wireWrite struct {
	Put    *wireAction `json:"put,omitzero"`
	Update *wireAction `json:"update,omitzero"`
	Delete *wireAction `json:"delete,omitzero"`
	Check  *wireAction `json:"check,omitzero"`
}

type wireAction struct {
	Table     string               `json:"table"`
	Item      map[string]*wireAttr `json:"item,omitempty"`
	Key       map[string]*wireAttr `json:"key,omitempty"`
	Update    *string              `json:"update,omitzero"`
	Condition *string              `json:"condition,omitzero"`
	Names     map[string]string    `json:"names,omitempty"`
	Values    map[string]*wireAttr `json:"values,omitempty"`
}

// wireAttr is an attribute value in DynamoDB's JSON. Numbers are text.
type wireAttr struct {
	S    *string               `json:"S,omitzero"`
	N    *string               `json:"N,omitzero"`
	B    *[]byte               `json:"B,omitzero"`
	BOOL *bool                 `json:"BOOL,omitzero"`
	NULL *bool                 `json:"NULL,omitzero"`
	M    *map[string]*wireAttr `json:"M,omitzero"`
	L    *[]*wireAttr          `json:"L,omitzero"`
	SS   *[]string             `json:"SS,omitzero"`
	NS   *[]string             `json:"NS,omitzero"`
	BS   *[][]byte             `json:"BS,omitzero"`
}

// Put returns the effect that puts an item.
func Put(p types.Put) (sdk.Effect, error) { return Write(types.TransactWriteItem{Put: &p}) }

// Update returns the effect that updates an item.
func Update(u types.Update) (sdk.Effect, error) { return Write(types.TransactWriteItem{Update: &u}) }

// Delete returns the effect that deletes an item.
func Delete(d types.Delete) (sdk.Effect, error) { return Write(types.TransactWriteItem{Delete: &d}) }

// Check returns the effect that refuses the mutation unless a condition holds.
func Check(c types.ConditionCheck) (sdk.Effect, error) {
	return Write(types.TransactWriteItem{ConditionCheck: &c})
}

// Write returns the native effect of one transaction action.
//
// INVALID: it has no action or several, no table, or a value that DynamoDB does
// not know. The store refuses the fence's own table, and everything outside
// OpenOptions.Scope.
func Write(w types.TransactWriteItem) (sdk.Effect, error) {
	var out wireWrite
	switch {
	case w.Put != nil:
		out.Put = &wireAction{Table: aws.ToString(w.Put.TableName), Item: wireItem(w.Put.Item), Condition: w.Put.ConditionExpression,
			Names: w.Put.ExpressionAttributeNames, Values: wireItem(w.Put.ExpressionAttributeValues)}
	case w.Update != nil:
		out.Update = &wireAction{Table: aws.ToString(w.Update.TableName), Key: wireItem(w.Update.Key), Update: w.Update.UpdateExpression, Condition: w.Update.ConditionExpression,
			Names: w.Update.ExpressionAttributeNames, Values: wireItem(w.Update.ExpressionAttributeValues)}
	case w.Delete != nil:
		out.Delete = &wireAction{Table: aws.ToString(w.Delete.TableName), Key: wireItem(w.Delete.Key), Condition: w.Delete.ConditionExpression,
			Names: w.Delete.ExpressionAttributeNames, Values: wireItem(w.Delete.ExpressionAttributeValues)}
	case w.ConditionCheck != nil:
		c := w.ConditionCheck
		out.Check = &wireAction{Table: aws.ToString(c.TableName), Key: wireItem(c.Key), Condition: c.ConditionExpression,
			Names: c.ExpressionAttributeNames, Values: wireItem(c.ExpressionAttributeValues)}
	}
	body, err := json.Marshal(out, json.Deterministic(true))
	if err != nil {
		return sdk.Effect{}, sdk.Errorf(sdk.Invalid, "effect", "%w", err)
	}
	if _, err := ParseWrite(body); err != nil {
		return sdk.Effect{}, err
	}
	return sdk.Effect{Kind: KindWrite, Body: body}, nil
}

// ParseWrite reads the body of a dynamodb.write.v1 effect, for scope functions.
func ParseWrite(body []byte) (*types.TransactWriteItem, error) {
	var w wireWrite
	if err := json.Unmarshal(body, &w, json.RejectUnknownMembers(true)); err != nil {
		return nil, sdk.Errorf(sdk.Invalid, "effect", "%s: %w", KindWrite, err)
	}
	n := 0
	for _, a := range []*wireAction{w.Put, w.Update, w.Delete, w.Check} {
		if a != nil {
			n++
		}
	}
	if n != 1 {
		return nil, sdk.Errorf(sdk.Invalid, "effect", "%s has %d actions; it is exactly one of put, update, delete, check", KindWrite, n)
	}
	switch {
	case w.Put != nil:
		it, values, err := w.Put.parse(true)
		if err != nil {
			return nil, err
		}
		return &types.TransactWriteItem{Put: &types.Put{TableName: &w.Put.Table, Item: it, ConditionExpression: w.Put.Condition,
			ExpressionAttributeNames: w.Put.Names, ExpressionAttributeValues: values}}, nil
	case w.Update != nil:
		key, values, err := w.Update.parse(false)
		if err == nil && w.Update.Update == nil {
			err = sdk.Errorf(sdk.Invalid, "effect", "update without its expression")
		}
		if err != nil {
			return nil, err
		}
		return &types.TransactWriteItem{Update: &types.Update{TableName: &w.Update.Table, Key: key, UpdateExpression: w.Update.Update, ConditionExpression: w.Update.Condition,
			ExpressionAttributeNames: w.Update.Names, ExpressionAttributeValues: values}}, nil
	case w.Delete != nil:
		key, values, err := w.Delete.parse(false)
		if err != nil {
			return nil, err
		}
		return &types.TransactWriteItem{Delete: &types.Delete{TableName: &w.Delete.Table, Key: key, ConditionExpression: w.Delete.Condition,
			ExpressionAttributeNames: w.Delete.Names, ExpressionAttributeValues: values}}, nil
	}
	key, values, err := w.Check.parse(false)
	if err == nil && w.Check.Condition == nil {
		err = sdk.Errorf(sdk.Invalid, "effect", "check without its condition")
	}
	if err != nil {
		return nil, err
	}
	return &types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{TableName: &w.Check.Table, Key: key, ConditionExpression: w.Check.Condition,
		ExpressionAttributeNames: w.Check.Names, ExpressionAttributeValues: values}}, nil
}

// parse returns the item (of a put) or the key, and the values.
func (a *wireAction) parse(put bool) (it, values item, err error) {
	from, other := a.Key, a.Item
	if put {
		from, other = a.Item, a.Key
	}
	if !tableName.MatchString(a.Table) {
		// An ARN is refused too: it would be another name for the fence's own table.
		return nil, nil, sdk.Errorf(sdk.Invalid, "effect", "%q is not the name of a table", a.Table)
	}
	if len(from) == 0 || len(other) > 0 {
		return nil, nil, sdk.Errorf(sdk.Invalid, "effect", "%s needs item (put) or key (all others)", KindWrite)
	}
	if it, err = parseItem(from); err != nil {
		return nil, nil, err
	}
	if len(a.Values) > 0 {
		values, err = parseItem(a.Values)
	}
	return it, values, err
}

func parseItem(in map[string]*wireAttr) (item, error) {
	out := make(item, len(in))
	for name, a := range in {
		v, err := a.value(0)
		if err != nil {
			return nil, sdk.Errorf(sdk.Invalid, "effect", "attribute %q: %w", name, err)
		}
		out[name] = v
	}
	return out, nil
}

// maxDepth is DynamoDB's own limit of nesting.
const maxDepth = 32

func (a *wireAttr) value(depth int) (v types.AttributeValue, err error) {
	if a == nil || depth > maxDepth {
		return nil, fmt.Errorf("null, or nested deeper than %d", maxDepth)
	}
	n := 0
	set := func(x types.AttributeValue) { n++; v = x }
	if a.S != nil {
		set(&types.AttributeValueMemberS{Value: *a.S})
	}
	if a.N != nil {
		set(&types.AttributeValueMemberN{Value: *a.N})
	}
	if a.B != nil {
		set(&types.AttributeValueMemberB{Value: *a.B})
	}
	if a.BOOL != nil {
		set(&types.AttributeValueMemberBOOL{Value: *a.BOOL})
	}
	if a.NULL != nil {
		set(&types.AttributeValueMemberNULL{Value: *a.NULL})
	}
	if a.SS != nil {
		set(&types.AttributeValueMemberSS{Value: *a.SS})
	}
	if a.NS != nil {
		set(&types.AttributeValueMemberNS{Value: *a.NS})
	}
	if a.BS != nil {
		set(&types.AttributeValueMemberBS{Value: *a.BS})
	}
	if a.M != nil {
		m := item{}
		for name, x := range *a.M {
			if m[name], err = x.value(depth + 1); err != nil {
				return nil, err
			}
		}
		set(&types.AttributeValueMemberM{Value: m})
	}
	if a.L != nil {
		l := make([]types.AttributeValue, len(*a.L))
		for i, x := range *a.L {
			if l[i], err = x.value(depth + 1); err != nil {
				return nil, err
			}
		}
		set(&types.AttributeValueMemberL{Value: l})
	}
	if n != 1 {
		return nil, fmt.Errorf("%d types; a value has exactly one", n)
	}
	return v, nil
}

func wireItem(in item) map[string]*wireAttr {
	if in == nil {
		return nil
	}
	out := make(map[string]*wireAttr, len(in))
	for name, v := range in {
		out[name] = wireOf(v)
	}
	return out
}

// wireOf is nil for a value that is none, which ParseWrite then refuses.
func wireOf(v types.AttributeValue) *wireAttr {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return &wireAttr{S: &v.Value}
	case *types.AttributeValueMemberN:
		return &wireAttr{N: &v.Value}
	case *types.AttributeValueMemberB:
		return &wireAttr{B: &v.Value}
	case *types.AttributeValueMemberBOOL:
		return &wireAttr{BOOL: &v.Value}
	case *types.AttributeValueMemberNULL:
		return &wireAttr{NULL: &v.Value}
	case *types.AttributeValueMemberSS:
		return &wireAttr{SS: &v.Value}
	case *types.AttributeValueMemberNS:
		return &wireAttr{NS: &v.Value}
	case *types.AttributeValueMemberBS:
		return &wireAttr{BS: &v.Value}
	case *types.AttributeValueMemberM:
		m := wireItem(v.Value)
		return &wireAttr{M: &m}
	case *types.AttributeValueMemberL:
		l := make([]*wireAttr, len(v.Value))
		for i, x := range v.Value {
			l[i] = wireOf(x)
		}
		return &wireAttr{L: &l}
	}
	return nil
}

func tableOf(w *types.TransactWriteItem) string {
	switch {
	case w.Put != nil:
		return aws.ToString(w.Put.TableName)
	case w.Update != nil:
		return aws.ToString(w.Update.TableName)
	case w.Delete != nil:
		return aws.ToString(w.Delete.TableName)
	}
	return aws.ToString(w.ConditionCheck.TableName)
}
