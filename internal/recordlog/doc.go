// Package recordlog keeps an append-only file of checked records, for what must
// survive the end of a process without holding up what it does.
//
// A record is in the file when Append returns: whatever ends the process then,
// kill -9 included, the next one finds it. On disk, where a power cut cannot take
// it, it is at most SyncDelay and one sync later: records of many callers share
// that sync, and nobody waits for it. So it is for records whose loss together
// with everything that runs on the machine does no harm; ADR 0043 says why those
// of a worker and its keeper are such. What a power cut leaves is a front of the
// records.
//
// Nothing of ours is imported but atomicfile. What a payload means is the
// caller's business.
package recordlog
