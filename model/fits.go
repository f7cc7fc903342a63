package model

// Free is what a worker has left at some moment.
type Free struct {
	Cores     int
	MemoryMiB int64
	// Offered and Used are the address lists; what is offered and not used is
	// free, in the order of Offered.
	Offered Resources
	Used    Resources
}

// FreeOf returns what a worker's offer leaves beside a usage. The result
// shares the address lists.
func FreeOf(o Offer, u Usage) Free {
	return Free{
		Cores:     o.Cores - u.Cores,
		MemoryMiB: o.MemoryMiB - u.MemoryMiB,
		Offered:   o.Resources,
		Used:      u.Resources,
	}
}

// FreeAddresses counts the free addresses of a resource.
func (f Free) FreeAddresses(name string) int {
	return len(f.Offered[name]) - len(f.Used[name])
}

// Fits is the one rule of what fits where (spark-standalone 1.F step 2): the
// scheduler filters candidates with it and the FSM checks each placement again
// with it. cores is what the executor will hold; a profile without a size
// needs at least one.
func Fits(f Free, cores int, memoryMiB int64, need map[string]int) bool {
	if cores < 1 || f.Cores < cores || f.MemoryMiB < memoryMiB {
		return false
	}
	if len(need) == 0 {
		return true
	}
	for name, n := range need {
		if f.FreeAddresses(name) < n {
			return false
		}
	}
	return true
}

// TakeAddresses picks the first free addresses in order for each resource
// (spark-standalone 1.G), or returns false and nothing if one has too few.
// The result is nil if nothing is needed.
func TakeAddresses(f Free, need map[string]int) (Resources, bool) {
	if len(need) == 0 {
		return nil, true
	}
	out := make(Resources, len(need))
	for name, n := range need {
		if n == 0 {
			continue
		}
		used := make(map[string]bool, len(f.Used[name]))
		for _, a := range f.Used[name] {
			used[a] = true
		}
		var got []string
		for _, a := range f.Offered[name] {
			if len(got) == n {
				break
			}
			if !used[a] {
				got = append(got, a)
			}
		}
		if len(got) < n {
			return nil, false
		}
		out[name] = got
	}
	return out, true
}
