// Package clusterv1 is the wire format between clients, masters, workers,
// drivers and executors: the .proto files of this folder and the code generated
// from them by "make proto".
//
// It holds no logic and no conversion. Importer: package rpc alone; everything
// else speaks the structs of package model through it.
package clusterv1
