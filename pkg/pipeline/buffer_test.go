package pipeline

import "testing"

func TestBuffersHaveRoomAndWasteLessThanHalf(t *testing.T) {
	for _, size := range []int{0, 1, 1023, 1024, 1025, 4096, 65_537, 1<<20 - 1, 1 << 20, 1<<20 + 1, 5 << 20} {
		b := Buffer(size)
		if len(b) != 0 || cap(b) < size || size > 512 && cap(b) >= 2*size || size <= 512 && cap(b) != 512 {
			t.Errorf("%d bytes: length %d, capacity %d", size, len(b), cap(b))
		}
		Recycle(append(b, make([]byte, size)...))
		if again := Buffer(size); len(again) != 0 || cap(again) < size {
			t.Errorf("%d bytes again: length %d, capacity %d", size, len(again), cap(again))
		}
	}
}

func TestABufferOfAnotherSizeIsNotKept(t *testing.T) {
	for _, size := range []int{0, 1, 1000, 1500, 3 << 20} {
		Recycle(make([]byte, 0, size)) // kept, it would lie in a class that promises more
		if b := Buffer(max(size, 1)); cap(b) < size || size <= 1<<20 && cap(b)&(cap(b)-1) != 0 {
			t.Errorf("after %d: capacity %d", size, cap(b))
		}
	}
}

func TestRoomIsTheCapacityOfTheBuffer(t *testing.T) {
	for _, size := range []int{1, 512, 513, 1 << 20, 1<<20 + 1, 3 << 20} {
		if got, want := room(size), cap(Buffer(size)); got != want {
			t.Errorf("%d bytes: room for %d, capacity %d", size, got, want)
		}
	}
}
