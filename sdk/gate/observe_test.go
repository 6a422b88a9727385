package gate_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"testing"

	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/gate"
	"github.com/fencedstore/fencedstore/sdk/gate/gateotel"
	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// runAll makes one call of every kind of ending: accepted, stale, unknown.
func runAll(t *testing.T, w *world, obs gate.Observer) {
	t.Helper()
	g := w.gate(t, "a", &gate.Options{Observer: obs})
	a := w.acquire(t, "a")
	mustApply(t, g, a.Request(1, "op-1", put("1")), sdk.Accepted)
	b := w.acquire(t, "a")
	if _, err := g.Claim(t.Context(), b.Claim()); err != nil {
		t.Fatal(err)
	}
	mustApply(t, g, a.Request(2, "op-2", put("2")), sdk.StaleOwner)
	w.store.apply = func(context.Context, sdk.Admission) (sdk.Outcome, error) { return unknown() }
	mustApply(t, g, b.Request(2, "op-2", put("2")), sdk.MutationUnknown)
	w.store.apply = nil
}

func TestLogObserver(t *testing.T) {
	var buf bytes.Buffer
	log := slog.New(slog.NewJSONHandler(&buf, &slog.HandlerOptions{Level: slog.LevelDebug}))
	runAll(t, newWorld(t), gate.LogObserver(log))
	var got [][3]string
	for dec := json.NewDecoder(&buf); dec.More(); {
		var line struct{ Level, Call, Code string }
		if err := dec.Decode(&line); err != nil {
			t.Fatal(err)
		}
		got = append(got, [3]string{line.Level, line.Call, line.Code})
	}
	want := [][3]string{
		{"DEBUG", "apply", "ACCEPTED"}, {"DEBUG", "claim", "ACCEPTED"},
		{"WARN", "apply", "STALE_OWNER"}, {"ERROR", "apply", "MUTATION_UNKNOWN"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
}

func TestOTelObserver(t *testing.T) {
	reader, spans := metric.NewManualReader(), tracetest.NewSpanRecorder()
	obs, err := gateotel.New(metric.NewMeterProvider(metric.WithReader(reader)), trace.NewTracerProvider(trace.WithSpanProcessor(spans)))
	if err != nil {
		t.Fatal(err)
	}
	runAll(t, newWorld(t), gate.Observers(obs, gate.LogObserver(slog.New(slog.DiscardHandler))))
	var rm metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &rm); err != nil {
		t.Fatal(err)
	}
	calls, open := map[string]int64{}, int64(-1)
	for _, m := range rm.ScopeMetrics[0].Metrics {
		switch d := m.Data.(type) {
		case metricdata.Sum[int64]:
			for _, p := range d.DataPoints {
				code, _ := p.Attributes.Value("code")
				call, _ := p.Attributes.Value("call")
				calls[call.AsString()+" "+code.AsString()] = p.Value
			}
		case metricdata.Gauge[int64]:
			open = d.DataPoints[0].Value
		}
	}
	want := map[string]int64{"apply ACCEPTED": 1, "claim ACCEPTED": 1, "apply STALE_OWNER": 1, "apply MUTATION_UNKNOWN": 1}
	if diff := cmp.Diff(want, calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if open != 1 {
		t.Errorf("unknown.open is %d, want 1", open)
	}
	var names []string
	for _, s := range spans.Ended() {
		names = append(names, s.Name()+" "+s.Status().Description)
	}
	if diff := cmp.Diff([]string{"fencedstore.apply ", "fencedstore.claim ", "fencedstore.apply STALE_OWNER", "fencedstore.apply MUTATION_UNKNOWN"}, names); diff != "" {
		t.Errorf("spans (-want +got):\n%s", diff)
	}
}
