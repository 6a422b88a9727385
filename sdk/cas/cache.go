package cas

import "sync"

// cache holds up to two times limit entries: when the young half is full it
// becomes the old one. It is safe for concurrent use.
type cache[V any] struct {
	limit      int
	mu         sync.Mutex
	young, old map[string]V
}

func (c *cache[V]) get(key string) (V, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, ok := c.young[key]
	if !ok {
		if v, ok = c.old[key]; ok {
			c.add(key, v)
		}
	}
	return v, ok
}

func (c *cache[V]) put(key string, v V) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.add(key, v)
}

func (c *cache[V]) drop(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.young, key)
	delete(c.old, key)
}

func (c *cache[V]) add(key string, v V) {
	if c.young == nil || len(c.young) >= c.limit {
		c.young, c.old = make(map[string]V), c.young
	}
	c.young[key] = v
}
