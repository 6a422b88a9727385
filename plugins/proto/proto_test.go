package proto

import (
	"os"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	pb "github.com/fencedstore/fencedstore/plugins/proto/fencedstore/v1"
	"github.com/fencedstore/fencedstore/sdk"
)

// Every code of the sdk is one of the protocol, by number and name.
func TestCodes(t *testing.T) {
	values := pb.Code_CODE_UNSPECIFIED.Descriptor().Values()
	if n := values.Len(); n != len(sdk.Codes())+1 {
		t.Errorf("%d codes in the protocol, %d in the sdk", n, len(sdk.Codes()))
	}
	for _, c := range sdk.Codes() {
		v := values.ByNumber(protoreflect.EnumNumber(c))
		if v == nil || string(v.Name()) != "CODE_"+c.String() {
			t.Errorf("%d is %v in the protocol and %v in the sdk", uint32(c), v, c)
		}
	}
}

// What was released stays: every message, field, enum number and method of
// released/v1.binpb is in the protocol as it was. New ones may be added.
// The linter asks buf for the same.
func TestReleasedStays(t *testing.T) {
	b, err := os.ReadFile("released/v1.binpb")
	if err != nil {
		t.Fatal(err)
	}
	var set descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(b, &set); err != nil {
		t.Fatal(err)
	}
	released, err := protodesc.NewFiles(&set)
	if err != nil {
		t.Fatal(err)
	}
	now := map[string]protoreflect.FileDescriptor{
		"fencedstore/v1/model.proto": pb.File_fencedstore_v1_model_proto, "fencedstore/v1/store.proto": pb.File_fencedstore_v1_store_proto}
	fields := 0
	released.RangeFiles(func(old protoreflect.FileDescriptor) bool {
		f := now[old.Path()]
		if f == nil {
			t.Errorf("%s is gone", old.Path())
			return true
		}
		for i := range old.Messages().Len() {
			m := old.Messages().Get(i)
			is := f.Messages().ByName(m.Name())
			for j := range m.Fields().Len() {
				fields++
				o := m.Fields().Get(j)
				if is == nil || is.Fields().ByNumber(o.Number()) == nil || !same(o, is.Fields().ByNumber(o.Number())) {
					t.Errorf("%s is gone or is another", o.FullName())
				}
			}
		}
		for i := range old.Enums().Len() {
			e := old.Enums().Get(i)
			for j := range e.Values().Len() {
				o := e.Values().Get(j)
				if is := f.Enums().ByName(e.Name()); is == nil || is.Values().ByNumber(o.Number()) == nil || is.Values().ByNumber(o.Number()).Name() != o.Name() {
					t.Errorf("%s is gone or is another", o.FullName())
				}
			}
		}
		for i := range old.Services().Len() {
			s := old.Services().Get(i)
			for j := range s.Methods().Len() {
				o := s.Methods().Get(j)
				is := f.Services().ByName(s.Name())
				if is == nil || is.Methods().ByName(o.Name()) == nil || is.Methods().ByName(o.Name()).Input().FullName() != o.Input().FullName() {
					t.Errorf("%s is gone or is another", o.FullName())
				}
			}
		}
		return true
	})
	if fields < 50 {
		t.Errorf("only %d fields were compared", fields)
	}
}

func same(a, b protoreflect.FieldDescriptor) bool {
	return a.Name() == b.Name() && a.Kind() == b.Kind() && a.Cardinality() == b.Cardinality() && a.HasPresence() == b.HasPresence()
}
