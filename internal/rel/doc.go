// Package rel is the reliability layer between NICs: one Module per NIC, one Endpoint per peer NIC.
package rel
