package filter

import (
	"math/big"
	"strings"
)

// Match tells whether one row matches, by the plainest reading of the rules:
// no index, no spans, numbers compared as exact fractions. It is the oracle
// that Compile and Eval are tested against, and serves wherever there are rows
// and no segment. row returns the value of a field, the zero Value when the
// row lacks it. Errors are those of Compile.
func Match(f Filter, schema Schema, row func(field string) Value) (bool, error) {
	if _, err := Compile(f, schema); err != nil {
		return false, err
	}
	return f.matches(row), nil
}

func (f *Filter) matches(row func(string) Value) bool {
	switch f.op {
	case opNone:
		return true
	case opAnd:
		for i := range f.kids {
			if !f.kids[i].matches(row) {
				return false
			}
		}
		return true
	case opOr:
		for i := range f.kids {
			if f.kids[i].matches(row) {
				return true
			}
		}
		return false
	case opNot:
		return !f.kids[0].matches(row)
	}
	v := row(f.field)
	switch f.op {
	case opExists:
		return v.form == formOne || v.form == formList
	case opNull:
		return v.IsNull()
	case opEmpty:
		return v.IsList() && v.Len() == 0
	case opAll:
		for _, want := range f.vals {
			if !anyEqual(v, want) {
				return false
			}
		}
		return true
	}
	for e := range v.Elements() {
		if f.matchesOne(e) {
			return true
		}
	}
	return false
}

func anyEqual(v, want Value) bool {
	for e := range v.Elements() {
		if compareValues(e, want) == 0 {
			return true
		}
	}
	return false
}

// matchesOne compares a single value.
func (f *Filter) matchesOne(e Value) bool {
	switch f.op {
	case opEq, opIn, opAny:
		for _, want := range f.vals {
			if compareValues(e, want) == 0 {
				return true
			}
		}
		return false
	case opPrefix:
		return strings.HasPrefix(e.str, f.vals[0].str)
	}
	lo, hi := f.vals[0], f.vals[1]
	if !lo.IsMissing() {
		if c := compareValues(e, lo); c < 0 || c == 0 && f.loOpen {
			return false
		}
	}
	if !hi.IsMissing() {
		if c := compareValues(e, hi); c > 0 || c == 0 && f.hiOpen {
			return false
		}
	}
	return true
}

// compareValues compares a value of a document with one of a filter that
// Compile has found comparable.
func compareValues(doc, want Value) int {
	if doc.typ == Time && want.typ == Keyword {
		want.num, _ = parseTime(want.str)
		want.typ = Time
	}
	if doc.typ == Keyword {
		return strings.Compare(doc.str, want.str)
	}
	return rational(doc).Cmp(rational(want))
}

func rational(v Value) *big.Rat {
	if v.typ == Float64 {
		return new(big.Rat).SetFloat64(keyFloat(v.num))
	}
	return new(big.Rat).SetInt64(v.num)
}
