package raftnode

import (
	"testing"
	"testing/synctest"
	"time"

	replogv1 "github.com/hearthd/hearth/proto/replog/v1"
)

func proposalOf(request string) *proposal {
	return newProposal([]*replogv1.Command{command(request)}, 100)
}

func TestPatientProposalsGoWithTheNextOneOrAfterTheirPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newProposalQueue()
		const patience = 20 * time.Millisecond
		late := proposalOf("late")
		if err := q.putPatient(late, patience); err != nil {
			t.Fatal(err)
		}
		if len(q.ready) > 0 || len(q.take(1000)) > 0 {
			t.Error("what nobody waits for goes by itself at once")
		}
		urgent := proposalOf("urgent")
		if err := q.put(urgent); err != nil {
			t.Fatal(err)
		}
		if got := q.take(1000); len(got) != 2 || got[0] != late || got[1] != urgent {
			t.Errorf("took %d proposals, want the patient one and the other, in order", len(got))
		}
		<-q.ready
		if err := q.putPatient(proposalOf("alone"), patience); err != nil {
			t.Fatal(err)
		}
		time.Sleep(patience - time.Nanosecond)
		synctest.Wait()
		if len(q.take(1000)) > 0 {
			t.Error("it went before its patience had ended")
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if len(q.ready) == 0 || len(q.take(1000)) != 1 {
			t.Error("it did not go when its patience had ended")
		}
		gone := proposalOf("withdrawn")
		if err := q.putPatient(gone, patience); err != nil {
			t.Fatal(err)
		}
		if !q.withdraw(gone) {
			t.Error("a patient proposal cannot be withdrawn")
		}
		time.Sleep(2 * patience)
		if q.urgent != 0 || q.commands != 0 || q.bytes != 0 {
			t.Errorf("the queue counts %d urgent, %d commands, %d bytes and is empty", q.urgent, q.commands, q.bytes)
		}
	})
}

func TestOnlyAQuietQueueTakesAProposalThatMustBeAlone(t *testing.T) {
	q := newProposalQueue()
	defer q.close()
	yes, no := func() bool { return true }, func() bool { return false }
	alone := func(holds func() bool) bool {
		t.Helper()
		ok, err := q.putAlone(proposalOf("alone"), holds)
		if err != nil {
			t.Fatal(err)
		}
		return ok
	}
	if alone(no) {
		t.Error("taken although the state has moved on")
	}
	if err := q.putPatient(proposalOf("late"), time.Hour); err != nil {
		t.Fatal(err)
	}
	if !alone(yes) {
		t.Error("refused because of one that waits for company")
	}
	if alone(yes) || q.quiet() {
		t.Error("taken behind another one")
	}
	q.take(1000)
	if alone(yes) || q.quiet() {
		t.Error("taken while an entry is on its way")
	}
	q.landed()
	if !q.quiet() || !alone(yes) {
		t.Error("refused when nothing was on its way")
	}
}
