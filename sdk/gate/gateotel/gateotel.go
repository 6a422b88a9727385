// Package gateotel emits what a gate does as OpenTelemetry metrics and traces.
// It uses the API only: without an SDK configured by the program it costs next
// to nothing and emits nothing.
//
// Metrics (scope github.com/fencedstore/fencedstore):
//
//	fencedstore.calls           counter, attributes call and code
//	fencedstore.call.duration   histogram in seconds, attributes call and code
//	fencedstore.alarms          counter of FENCE_REGRESSION, attribute call
//	fencedstore.unknown.open    gauge: outcomes unknown and not settled since
//	fencedstore.unknown.age     gauge in seconds: age of the oldest of them
//
// Resources and operations are in traces only: they are without bound.
package gateotel

import (
	"context"

	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/gate"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

const scope = "github.com/fencedstore/fencedstore"

type observer struct {
	tracer   trace.Tracer
	calls    metric.Int64Counter
	duration metric.Float64Histogram
	alarms   metric.Int64Counter
	open     metric.Int64Gauge
	age      metric.Float64Gauge
}

// New returns the observer for gate.Options. Pass otel.GetMeterProvider() and
// otel.GetTracerProvider(), or providers of your own. The error is the meter's.
func New(meters metric.MeterProvider, tracers trace.TracerProvider) (gate.Observer, error) {
	m := meters.Meter(scope)
	o := &observer{tracer: tracers.Tracer(scope)}
	var errs [5]error
	o.calls, errs[0] = m.Int64Counter("fencedstore.calls", metric.WithDescription("Calls on the gate by their code."))
	o.duration, errs[1] = m.Float64Histogram("fencedstore.call.duration", metric.WithUnit("s"), metric.WithDescription("Time of a call on the gate, store included."))
	o.alarms, errs[2] = m.Int64Counter("fencedstore.alarms", metric.WithDescription("FENCE_REGRESSION, alone or beside another code."))
	o.open, errs[3] = m.Int64Gauge("fencedstore.unknown.open", metric.WithDescription("Outcomes that are MUTATION_UNKNOWN and not settled since."))
	o.age, errs[4] = m.Float64Gauge("fencedstore.unknown.age", metric.WithUnit("s"), metric.WithDescription("Age of the oldest unknown outcome."))
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return o, nil
}

func (o *observer) Begin(ctx context.Context, s gate.Start) (context.Context, func(gate.End)) {
	ctx, span := o.tracer.Start(ctx, "fencedstore."+string(s.Call), trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String("fencedstore.resource", string(s.Resource)),
		attribute.String("fencedstore.operation", string(s.Operation)),
		attribute.String("fencedstore.segment", s.Segment.String()),
	))
	return ctx, func(e gate.End) {
		call, code := attribute.String("call", string(s.Call)), attribute.String("code", e.Code.String())
		both := metric.WithAttributeSet(attribute.NewSet(call, code))
		o.calls.Add(ctx, 1, both)
		o.duration.Record(ctx, e.Duration.Seconds(), both)
		if e.Alarm {
			o.alarms.Add(ctx, 1, metric.WithAttributeSet(attribute.NewSet(call)))
		}
		o.open.Record(ctx, int64(e.UnknownOpen))
		o.age.Record(ctx, e.UnknownAge.Seconds())
		span.SetAttributes(attribute.String("fencedstore.code", e.Code.String()), attribute.Bool("fencedstore.alarm", e.Alarm))
		if !e.Observed.Absent() {
			span.SetAttributes(attribute.String("fencedstore.highest", e.Observed.Highest.String()))
		}
		if e.Err != nil {
			span.SetStatus(codes.Error, e.Code.String())
			if e.Code == sdk.MutationUnknown || e.Alarm {
				span.RecordError(e.Err)
			}
		}
		span.End()
	}
}
