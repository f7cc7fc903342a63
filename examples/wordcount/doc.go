// Command wordcount counts the words of texts on the executors of a Hearth
// cluster, with a shuffle by hash between two rounds of calls:
//
//	go build ./examples/wordcount && ./wordcount --masters m1:7070 --top 20 *.txt
//
// In the first round each call counts the words of one piece of the text and splits
// what it has found by the hash of the word, one part for each call of the second
// round. In the second round each call adds up one part of everything, so every word
// is counted in exactly one place.
//
// Between the rounds the parts lie with the driver, which hands them out as broadcast
// values. An executor that is lost takes nothing along: the pieces on which it worked
// are counted again elsewhere, what it has already counted is with the driver, and
// the calls of the second round fetch their parts from there wherever they run. The
// price is that everything passes through the driver twice; what is counted is
// small beside the text, so it is a low one here. Its alternative, parts that stay
// on the executors' disks, has to find out which of them went with an executor, and
// to count those pieces again.
package main
