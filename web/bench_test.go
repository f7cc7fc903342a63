package web

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/hearthd/hearth/model"
)

// large has 5,000 workers and 10,000 applications.
func large() *fakeSource {
	s := newFake()
	s.snap.Cluster.Workers, s.snap.Cluster.Apps = nil, nil
	for i := range 5000 {
		s.snap.Cluster.Workers = append(s.snap.Cluster.Workers, fakeWorker(model.WorkerID(fmt.Sprintf("worker-%06d", i)), fmt.Sprint("node-", i), model.WorkerAlive, ""))
	}
	for i := range 10_000 {
		s.snap.Cluster.Apps = append(s.snap.Cluster.Apps, fakeApp(i, fmt.Sprint("app ", i), model.AppRunning, "", ""))
	}
	return s
}

func BenchmarkAPageOfALargeCluster(b *testing.B) {
	h := handlerOf(large())
	for _, target := range []string{"/", "/workers?sort=-cores", "/apps?q=app+99", "/v1/workers?rows=100", "/v1/cluster"} {
		b.Run(target, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if w := ask(h, http.MethodGet, target); w.Code != http.StatusOK {
					b.Fatal(w.Code)
				}
			}
		})
	}
}

func BenchmarkAScrapeOfALargeCluster(b *testing.B) {
	reg, _, _ := masterRegistry(large(), leader)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := reg.Gather(); err != nil {
			b.Fatal(err)
		}
	}
}
