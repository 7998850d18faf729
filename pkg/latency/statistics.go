package latency

import (
	"fmt"
	"math"
	"slices"
)

// percentile is the smallest value that at least q (0 to 1) of the values do not exceed: the nearest-rank method, which
// gives only values that were measured. sorted must be in order and not empty.
func percentile[T int64 | float64](sorted []T, q float64) T {
	rank := int(math.Ceil(q * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// spread is what several rounds gave for one figure.
type spread struct {
	Median float64   `json:"median"`
	Low    float64   `json:"low"`
	High   float64   `json:"high"`
	Each   []float64 `json:"each"` // in the order of the rounds
}

// spreadOf takes at least one value. The median of an even number of values is the mean of the two in the middle.
func spreadOf(values []float64) (spread, error) {
	if len(values) == 0 {
		return spread{}, fmt.Errorf("no value was measured")
	}
	for _, v := range values {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return spread{}, fmt.Errorf("a measured value is not a number")
		}
	}
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return spread{
		Median: (sorted[(n-1)/2] + sorted[n/2]) / 2, Low: sorted[0], High: sorted[n-1], Each: values,
	}, nil
}

// ratios divides round by round. Both must have the same rounds.
func ratios(over, under []float64) ([]float64, error) {
	if len(over) != len(under) {
		return nil, fmt.Errorf("%d rounds against %d", len(over), len(under))
	}
	out := make([]float64, len(over))
	for i := range over {
		if under[i] <= 0 {
			return nil, fmt.Errorf("round %d has nothing to divide by", i+1)
		}
		out[i] = over[i] / under[i]
	}
	return out, nil
}

// excess is by how much over exceeds under: the difference of the two medians, beside which stand the differences turn by
// turn. Both must have the same turns.
func excess(over, under []float64) (spread, error) {
	if len(over) != len(under) {
		return spread{}, fmt.Errorf("%d turns against %d", len(over), len(under))
	}
	differences := make([]float64, len(over))
	for i := range over {
		differences[i] = over[i] - under[i]
	}
	s, err := spreadOf(differences)
	if err != nil {
		return spread{}, err
	}
	o, err := spreadOf(over)
	if err != nil {
		return spread{}, err
	}
	u, err := spreadOf(under)
	s.Median = o.Median - u.Median
	return s, err
}
