package main

import (
	"math"
	"slices"
)

// report is what this program prints: all times in milliseconds.
type report struct {
	Calls   int                          `json:"calls"`
	Nodes   int                          `json:"nodes"`
	Form    string                       `json:"form"`
	Targets map[string]map[string]figure `json:"targets"` // target -> verb
	Ratios  map[string]ratio             `json:"ratios,omitempty"`
}

// figure describes one verb at one target. Everything but Decoded stops at the last byte of the reply.
type figure struct {
	P50     float64   `json:"p50"`
	P99     float64   `json:"p99"`
	Mean    float64   `json:"mean"`
	Least   float64   `json:"least"`
	Most    float64   `json:"most"`
	Decoded float64   `json:"decoded_p50"`
	Request int       `json:"request_bytes"`
	Reply   int       `json:"reply_bytes"`
	Kept    int       `json:"kept,omitempty"`
	Samples []float64 `json:"samples,omitempty"`
}

// ratio compares the first target with the second one: below 1 the first is faster.
type ratio struct {
	P50    float64 `json:"p50"`
	P99    float64 `json:"p99"`
	Paired float64 `json:"paired"` // median of the ratios of calls that followed each other
}

func describe(calls, nodes int, form string, targets []*target, samples bool) report {
	out := report{Calls: calls, Nodes: nodes, Form: form, Targets: map[string]map[string]figure{}}
	for _, each := range targets {
		out.Targets[each.name] = map[string]figure{}
		for verb, measured := range each.calls {
			out.Targets[each.name][verb] = measured.figure(samples)
		}
	}
	if len(targets) == 2 {
		out.Ratios = map[string]ratio{}
		for verb, first := range targets[0].calls {
			out.Ratios[verb] = compare(first, targets[1].calls[verb])
		}
	}
	return out
}

func (s *series) figure(samples bool) figure {
	out := figure{
		P50: quantile(s.wire, 0.5), P99: quantile(s.wire, 0.99), Mean: mean(s.wire), Least: slices.Min(s.wire), Most: slices.Max(s.wire),
		Decoded: quantile(s.decoded, 0.5), Request: s.request, Reply: s.answer, Kept: s.kept,
	}
	if samples {
		out.Samples = s.wire
	}
	return out
}

func compare(a, b *series) ratio {
	pairs := make([]float64, len(a.wire))
	for i := range a.wire {
		pairs[i] = a.wire[i] / b.wire[i]
	}
	return ratio{
		P50:    quantile(a.wire, 0.5) / quantile(b.wire, 0.5),
		P99:    quantile(a.wire, 0.99) / quantile(b.wire, 0.99),
		Paired: quantile(pairs, 0.5),
	}
}

// quantile is the smallest value that at least the share q of all values does not exceed.
func quantile(values []float64, q float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, value := range values {
		sum += value
	}
	return sum / float64(len(values))
}
