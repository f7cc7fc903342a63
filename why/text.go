package why

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hearthd/hearth/model"
)

const textNoLeader = "no master leads, so nothing is placed"

// quantity writes an amount of a resource, such as "4 cores" or "1.5 GiB".
func quantity(resource string, n int64) string {
	switch resource {
	case model.ResourceCores:
		return count(n, "core")
	case model.ResourceMemory:
		return size(n)
	}
	return fmt.Sprintf("%d %s", n, resource)
}

// size writes MiB in the largest unit with at most one decimal.
func size(mib int64) string {
	if mib >= 1024 && mib*10%1024 == 0 {
		return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(mib)/1024), ".0") + " GiB"
	}
	return fmt.Sprintf("%d MiB", mib)
}

func count(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// capable names n of the workers that could hold what is wanted.
func capable(n, of int) string {
	if of == 1 {
		return "the only worker that could hold it"
	}
	return fmt.Sprintf("%d of the %d workers that could hold it", n, of)
}

// noneHas begins a sentence about what no worker has.
func noneHas(workers int) string {
	if workers == 1 {
		return "the only worker does not have"
	}
	return fmt.Sprintf("none of the %d workers has", workers)
}

// textEnd says how an executor ended that has failed.
func textEnd(e *model.Executor) string {
	return fmt.Sprintf("executor %d on %s: %s", e.ID, e.Worker, e.Failure())
}

// noun names a resource as in "100 % of the cores".
func noun(resource string) string {
	switch resource {
	case model.ResourceCores:
		return "cores"
	case model.ResourceMemory:
		return "memory"
	}
	return resource
}

func textTooLarge(what, which, resource string, want, most int64) string {
	if most == 0 && resource != model.ResourceMemory {
		return fmt.Sprintf("needs %s per %s; no worker%s offers any", quantity(resource, want), what, which)
	}
	return fmt.Sprintf("needs %s per %s; the largest worker%s offers %s", quantity(resource, want), what, which, quantity(resource, most))
}

// textNeed lists a need: "4 cores, 16 GiB, 2 gpu".
func textNeed(n *need) string {
	parts := make([]string, 0, 2+len(n.resources))
	for _, name := range n.names() {
		parts = append(parts, quantity(name, n.amount(name)))
	}
	return strings.Join(parts, ", ")
}

func textLabels(labels map[string]string) string {
	parts := make([]string, 0, len(labels))
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		parts = append(parts, name+"="+labels[name])
	}
	return strings.Join(parts, ", ")
}

// textHolders lists who is in the way: "app-1 (100 % of cores), app-2 (…)".
func textHolders(list []model.WhyHolder, more int, resource string) string {
	parts := make([]string, 0, len(list))
	for _, h := range list {
		parts = append(parts, fmt.Sprintf("%s (%d %% of %s)", h.ID, h.Percent, noun(resource)))
	}
	text := strings.Join(parts, ", ")
	if more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// seconds writes a rest of time, rounded up so that it never reads 0.
func seconds(milli int64) string {
	return model.FormatMilli((milli + 999) / 1000 * 1000)
}

// states counts what keeps workers away: "2 DRAINING, 1 silent".
func states(byCause map[string]int) string {
	parts := make([]string, 0, len(byCause))
	for _, cause := range slices.Sorted(maps.Keys(byCause)) {
		parts = append(parts, fmt.Sprintf("%d %s", byCause[cause], cause))
	}
	return strings.Join(parts, ", ")
}

// join makes the one line of an answer.
func join(reasons []model.WhyReason) string {
	parts := make([]string, 0, len(reasons))
	for _, r := range reasons {
		parts = append(parts, r.Text)
	}
	return strings.Join(parts, "; ")
}

func isOrAre(n int64) string {
	if n == 1 {
		return " is"
	}
	return " are"
}

func isAre(n int, what string) string { return count(int64(n), what) + isOrAre(int64(n)) }

// joinIDs writes ids one after the other.
func joinIDs[S ~string](ids []S) string {
	parts := make([]string, len(ids))
	for i, id := range ids {
		parts[i] = string(id)
	}
	return strings.Join(parts, ", ")
}
