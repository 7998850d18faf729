package pipeline

import (
	"math/bits"
	"sync"
)

// Buffers are kept for reuse by size, in powers of two, so that a short answer never holds, and is never charged for, the
// memory of a long one. Longer ones than the last class are left to the garbage collector.
const (
	smallestClass = 9  // 512 bytes, a short answer
	largestClass  = 20 // 1 MiB
)

var kept [largestClass - smallestClass + 1]sync.Pool // of *[]byte

// class is the index of the smallest class that holds size bytes; it may be beyond the last.
func class(size int) int { return max(bits.Len(uint(max(size, 1)-1)), smallestClass) - smallestClass }

// room is the capacity of the buffer that Buffer makes for so many bytes.
func room(size int) int {
	if i := class(size); i < len(kept) {
		return 1 << (i + smallestClass)
	}
	return size
}

// Buffer returns an empty buffer with room for size bytes at least, and for less than twice as much above 512.
func Buffer(size int) []byte {
	i := class(size)
	if i >= len(kept) {
		return make([]byte, 0, size)
	}
	if b, ok := kept[i].Get().(*[]byte); ok {
		return (*b)[:0]
	}
	return make([]byte, 0, room(size))
}

// Recycle gives a buffer back that nobody uses any more. Only such as Buffer makes are kept.
func Recycle(b []byte) {
	i := class(cap(b))
	if i < len(kept) && cap(b) == room(cap(b)) {
		kept[i].Put(&b)
	}
}
