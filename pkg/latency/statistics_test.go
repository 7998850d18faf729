package latency

import (
	"math"
	"slices"
	"testing"
)

func TestPercentileIsAMeasuredValueThatSoManyDoNotExceed(t *testing.T) {
	t.Parallel()
	hundred := make([]int64, 100)
	for i := range hundred {
		hundred[i] = int64(i + 1)
	}
	cases := []struct {
		name   string
		sorted []int64
		q      float64
		want   int64
	}{
		{"one value", []int64{7}, 0.99, 7},
		{"half of two", []int64{1, 2}, 0.5, 1},
		{"half of three", []int64{1, 2, 3}, 0.5, 2},
		{"99 of 100", hundred, 0.99, 99},
		{"95 of 100", hundred, 0.95, 95},
		{"all", hundred, 1, 100},
		{"none", hundred, 0, 1},
	}
	for _, c := range cases {
		if got := percentile(c.sorted, c.q); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

func TestSpreadHasTheMedianTheEndsAndEveryRoundInItsOrder(t *testing.T) {
	t.Parallel()
	cases := []struct {
		values            []float64
		median, low, high float64
	}{
		{[]float64{3}, 3, 3, 3},
		{[]float64{4, 1}, 2.5, 1, 4},
		{[]float64{9, 1, 2}, 2, 1, 9},
		{[]float64{4, 3, 2, 1}, 2.5, 1, 4},
	}
	for _, c := range cases {
		s, err := spreadOf(c.values)
		if err != nil || s.Median != c.median || s.Low != c.low || s.High != c.high || !slices.Equal(s.Each, c.values) {
			t.Errorf("%v: %+v, %v", c.values, s, err)
		}
	}
	for _, values := range [][]float64{nil, {1, math.NaN()}, {math.Inf(1)}} {
		if s, err := spreadOf(values); err == nil {
			t.Errorf("%v: %+v and no error", values, s)
		}
	}
}

func TestExcessIsTheDifferenceOfTheMediansBesideEachDifference(t *testing.T) {
	t.Parallel()
	s, err := excess([]float64{10, 30, 20}, []float64{1, 9, 2})
	// 20-2; the median of the differences would be the same, that of the next is not.
	if err != nil || s.Median != 18 || s.Low != 9 || s.High != 21 || !slices.Equal(s.Each, []float64{9, 21, 18}) {
		t.Errorf("%+v, %v", s, err)
	}
	s, err = excess([]float64{10, 12, 30}, []float64{9, 1, 2})
	if err != nil || s.Median != 10 || s.Low != 1 || s.High != 28 {
		t.Errorf("%+v, %v", s, err)
	}
	for _, c := range [][2][]float64{{nil, nil}, {{1, 2}, {1}}, {{1}, {math.NaN()}}} {
		if s, err := excess(c[0], c[1]); err == nil {
			t.Errorf("%v over %v: %+v and no error", c[0], c[1], s)
		}
	}
}

func TestRatiosDivideRoundByRound(t *testing.T) {
	t.Parallel()
	got, err := ratios([]float64{4, 9, 1}, []float64{2, 3, 4})
	if err != nil || !slices.Equal(got, []float64{2, 3, 0.25}) {
		t.Errorf("%v, %v", got, err)
	}
	for _, c := range [][2][]float64{{{1, 2}, {1}}, {{1}, {0}}, {{1}, {-1}}} {
		if got, err := ratios(c[0], c[1]); err == nil {
			t.Errorf("%v over %v: %v and no error", c[0], c[1], got)
		}
	}
}
