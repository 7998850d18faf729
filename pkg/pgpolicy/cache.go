package pgpolicy

import (
	"container/list"
	"sync"
)

// cache keeps approved statements by exact text and row bound: a fingerprint or normalised text would drop constants,
// and constants decide (LIMIT 10, 'users'::regclass). Only accepted texts are kept, so a caller who sends rubbish
// displaces nothing. The zero value keeps nothing; it is safe for concurrent use.
type cache struct {
	mu      sync.Mutex
	bound   int // bytes
	bytes   int
	entries map[cacheKey]*list.Element
	order   list.List // of *cacheEntry, the last used first
}

type cacheKey struct {
	sql     string
	maxRows int
}

type cacheEntry struct {
	key   cacheKey
	value Approved
}

// entryOverhead is about what the map, the list and the structs take beside the two texts, in bytes.
const entryOverhead = 256

func (e *cacheEntry) bytes() int { return len(e.key.sql) + len(e.value.text) + entryOverhead }

func (c *cache) get(key cacheKey) (Approved, bool) {
	if c.bound == 0 {
		return Approved{}, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	at, ok := c.entries[key]
	if !ok {
		return Approved{}, false
	}
	c.order.MoveToFront(at)
	return entryOf(at).value, true
}

func (c *cache) put(key cacheKey, value Approved) {
	entry := &cacheEntry{key, value}
	if entry.bytes() > c.bound {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entries == nil {
		c.entries = map[cacheKey]*list.Element{}
	}
	if _, ok := c.entries[key]; ok {
		return // two callers at once; both found the same
	}
	c.entries[key] = c.order.PushFront(entry)
	c.bytes += entry.bytes()
	for c.bytes > c.bound {
		oldest := c.order.Back()
		c.order.Remove(oldest)
		delete(c.entries, entryOf(oldest).key)
		c.bytes -= entryOf(oldest).bytes()
	}
}

func entryOf(at *list.Element) *cacheEntry { return at.Value.(*cacheEntry) } // put is the only one who adds
