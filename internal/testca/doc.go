// Package testca gives tests a certificate authority and certificates of every
// kind, good ones and wrong ones.
//
// It owns nothing but the defaults of tests: one cluster, the hosts of loopback,
// an hour of life. Only tests import it.
package testca
