// Package pages finds records by numbers that are given in order, such as those of
// tasks: a table is made of pages that come and go with the numbers, which costs a
// fraction of a map. It knows nothing of what the records are.
//
// Importers: driver and executor, which keep the same tasks at both ends.
package pages
