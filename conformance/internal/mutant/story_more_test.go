package mutant

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
)

func conflict(x *teller) {
	r := sdk.ResourceID("s/4")
	o, next := worker(r, 7), worker(r, 8)
	x.look(r, nil)
	x.apply(x.a, o.put(1, "op-1", "k", "1"))
	first := o.put(1, "op-1", "k", "clash")
	later := *first
	later.Time = first.Time.Add(time.Minute)
	x.apply(x.a, first)
	x.look(r, []sdk.OperationID{"op-1"}, "k")
	x.apply(x.b, first)
	x.apply(x.b, &later)
	x.apply(x.b, o.put(1, "op-2", "k", "clash"))
	x.look(r, nil, "k")
	for i := range maxQuarantine + 3 {
		x.apply(x.a, o.put(1, "op-1", "k", fmt.Sprintf("clash %d", i)))
	}
	x.look(r, nil, "k")
	x.apply(x.a, next.do(1, "settle", "", sdk.Resolve(first.Quarantine())))
	x.look(r, nil)
	x.apply(x.a, next.do(2, "settle again", "", sdk.Resolve(first.Quarantine())))
	ghost := first.Quarantine()
	ghost.Operation = "never was"
	x.apply(x.a, next.do(3, "settle a ghost", "", sdk.Resolve(ghost)))
	x.look(r, nil)
}

func onceForEver(x *teller) {
	r := sdk.ResourceID("s/5")
	o := worker(r, 7)
	for seg := sdk.Segment(1); seg <= 40; seg++ {
		x.apply(x.a, o.put(seg, sdk.OperationID("op-"+seg.String()), "k", seg.String()))
	}
	x.apply(x.a, o.put(1, "op-1", "k", "1"))
	x.apply(x.a, o.put(41, "op-1", "k", "1"))
	x.look(r, []sdk.OperationID{"op-1", "op-8", "op-40"}, "k")
}

func code(x *teller) {
	r := sdk.ResourceID("s/6")
	o := worker(r, 7)
	x.apply(x.a, o.hooked(1, "fails", "half", errors.New("the caller's own")))
	x.look(r, []sdk.OperationID{"fails"})
	x.apply(x.a, o.hooked(1, "runs", "done", nil))
	x.look(r, []sdk.OperationID{"runs"})
}

func native(x *teller) {
	if x.target.Native == nil {
		return
	}
	r := sdk.ResourceID("s/7")
	o := worker(r, 7)
	n := x.target.Native(r)
	scoped := x.open(sdk.OpenOptions{Scope: n.Scope})
	all := x.open(sdk.OpenOptions{Scope: func(sdk.ResourceID, sdk.Effect) error { return nil }})
	x.apply(x.a, o.do(1, "no scope", "", n.Inside))
	x.apply(scoped, o.do(1, "outside", "", n.Outside))
	x.apply(scoped, o.do(1, "fails", "", n.Inside, sdk.Put("k", []byte("half")), n.Failing))
	for _, e := range n.Own {
		x.apply(all, o.do(1, "own", "", e))
	}
	for range 2 {
		x.apply(scoped, o.do(1, "inside", "", n.Inside))
	}
	x.apply(scoped, worker(r, 6).do(1, "late", "", n.Inside))
	x.look(r, []sdk.OperationID{"inside"}, "k")
	count, err := n.Count(x.ctx)
	x.say("counted %d, %v", count, err)
	x.say("close: %v %v", scoped.Close(), all.Close())
}

func seeds(x *teller) {
	for i, fence := range []sdk.Token{6, 7, 8} {
		r := sdk.ResourceID(fmt.Sprintf("seeds/%d", i))
		seen := worker(r, 7)
		m := worker(r, fence).put(1, "op", "k", "v")
		if fence == 7 {
			m.Segment = 4
		}
		m.Seed = sdk.FenceState{Highest: 7, Grant: seen.grant, Root: seen.root, Segment: 3, Generations: sdk.Generations{Policy: 5, Trust: 5}}
		x.apply(x.a, m)
		x.look(r, []sdk.OperationID{"op"})
		m = worker(r, 9).put(1, "op-2", "k", "v")
		m.Seed = sdk.FenceState{Highest: 100, Grant: seen.grant, Root: seen.root, Segment: 3}
		m.Generations = sdk.Generations{Policy: 2, Trust: 9}
		x.apply(x.a, m)
		m = worker(r, 9).put(2, "op-3", "k", "v")
		m.Generations = sdk.Generations{Policy: 50, Trust: 50}
		x.apply(x.a, m)
		x.look(r, []sdk.OperationID{"op-2", "op-3"})
	}
}

func lifetimes(x *teller) {
	r := sdk.ResourceID("s/8")
	o := worker(r, 7)
	ops := []sdk.OperationID{"op-1", "op-2", "op-3", "op-4", "after"}
	x.apply(x.a, o.put(1, "op-1", "k", "1"))
	x.apply(x.a, o.put(1, "op-1", "k", "clash"))
	x.apply(x.a, o.do(2, "op-2", string(make([]byte, 200)), sdk.Delete("k")))
	x.look(r, ops, "k")
	x.apply(x.b, o.put(3, "op-3", "k", "3"))
	x.apply(x.a, o.put(4, "op-4", "k", "4"))
	x.look(r, ops, "k")
	x.say("probe: %v", sdk.CodeOf(x.a.Probe(x.ctx)))
	x.look("probe", nil)
	x.look(r, ops, "k")
	third := x.open(sdk.OpenOptions{})
	x.look(r, ops, "k")
	x.apply(x.a, o.put(5, "op-5", "k", "5"))
	for range 2 {
		x.say("close: %v", sdk.CodeOf(third.Close()))
	}
	x.apply(x.a, o.put(6, "op-6", "k", "6"))
	x.apply(third, o.put(7, "after", "k", "after"))
	x.lookBy(x.ctx, third, r, ops, "k")
	x.say("probe: %v", sdk.CodeOf(third.Probe(x.ctx)))
	x.look(r, ops, "k")
	x.reopen()
	x.look(r, append(ops, "op-5", "op-6"), "k")
	x.look("s/2", []sdk.OperationID{"op-9"}, "k")
	x.apply(x.a, worker(r, 6).put(1, "late", "k", "late"))
	x.apply(x.a, o.put(7, "op-7", "k", "7"))
}

func contexts(x *teller) {
	r := sdk.ResourceID("s/9")
	o := worker(r, 7)
	cancelled, cancel := context.WithCancel(x.ctx)
	cancel()
	expired, cancel := context.WithDeadline(x.ctx, time.Unix(0, 0))
	defer cancel()
	for i, ctx := range []context.Context{cancelled, expired} {
		x.applyIn(ctx, x.a, o.put(sdk.Segment(i+1), "ended", "k", "v"))
		x.lookBy(ctx, x.a, r, []sdk.OperationID{"ended"}, "k")
		x.say("probe: %v", sdk.CodeOf(x.a.Probe(ctx)))
		x.look(r, []sdk.OperationID{"ended"}, "k")
		x.apply(x.a, o.put(sdk.Segment(i+1), sdk.OperationID(fmt.Sprintf("then %d", i)), "k", "v"))
	}
}

func crowd(x *teller) {
	for i := range 220 {
		r := sdk.ResourceID(fmt.Sprintf("crowd/%d", i))
		x.apply(x.a, worker(r, 3).put(1, "op", "k", "v"))
	}
	x.look("s/1", []sdk.OperationID{"op-1"}, "k")
}

func damage(x *teller) {
	r := sdk.ResourceID("s/10")
	o := worker(r, 12)
	x.apply(x.a, o.put(1, "op-1", "k", "1"))
	x.say("damage: %v", x.target.Damage(x.ctx, r))
	x.look(r, []sdk.OperationID{"op-1"}, "k")
	for _, m := range []*sdk.Mutation{o.put(1, "op-1", "k", "1"), o.put(2, "op-2", "k", "2"), worker(r, 5).put(1, "op-5", "k", "5"), worker(r, 13).put(1, "op-13", "k", "13")} {
		x.both(m)
	}
	x.look(r, []sdk.OperationID{"op-2", "op-5", "op-13"}, "k")
	x.apply(x.a, worker("s/1", 50).put(1, "op-50", "k", "50"))
}
