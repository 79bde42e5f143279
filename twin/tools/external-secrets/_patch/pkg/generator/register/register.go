// Package register has the generators of the operator: none, because no object of this project asks for one.
package register
