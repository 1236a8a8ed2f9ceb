package filter

import (
	"errors"
	"fmt"
	"strings"
)

// maxSeconds bounds the instants that int64 microseconds hold.
const maxSeconds = int64(9223372036854)

const secondsPerDay = 86400

var (
	errTimeForm   = errors.New("a time is 2006-01-02T15:04:05Z, with offset Z, +02:00 or +0200, or a date 2006-01-02")
	errTimeOffset = errors.New("a time without offset names no instant; add Z or an offset such as +02:00")
	errTimeRange  = errors.New("no such date, time of day or offset")
)

// parseTime reads RFC 3339, with three things more: an offset may lack its
// colon, a date alone is its midnight in UTC, and a year outside 0–9999 is
// written with its sign and five or six digits, as in ISO 8601. It returns
// microseconds since 1970, rounded down.
//
// It is written out because time.Parse is lax where this must be strict (it
// takes a one-digit hour and an offset of 99 minutes) and knows no long years.
func parseTime(s string) (int64, error) {
	p := timeParser{s: s, ok: true}
	year := p.year()
	p.byte('-', '-')
	month := p.digits(2)
	p.byte('-', '-')
	day := p.digits(2)
	if !p.ok {
		return 0, errTimeForm
	}
	if month < 1 || month > 12 || day < 1 || day > daysIn(year, month) {
		return 0, errTimeRange
	}
	seconds := daysFromCivil(year, month, day) * secondsPerDay
	micros := int64(0)
	if p.s != "" {
		p.byte('T', 't')
		hour, minute, second := p.digits(2), int64(0), int64(0)
		p.byte(':', ':')
		minute = p.digits(2)
		p.byte(':', ':')
		second = p.digits(2)
		micros = p.fraction()
		if p.ok && p.s == "" {
			return 0, errTimeOffset
		}
		offset := p.offset()
		if !p.ok || p.s != "" {
			return 0, errTimeForm
		}
		if hour > 23 || minute > 59 || second > 59 || offset < 0 {
			return 0, errTimeRange
		}
		seconds += hour*3600 + minute*60 + second - (offset - maxOffset)
	}
	if seconds < -maxSeconds || seconds >= maxSeconds {
		return 0, errTimeRange
	}
	return seconds*1e6 + micros, nil
}

// A timeParser eats a time from the left; ok goes false at the first byte
// that does not fit.
type timeParser struct {
	s  string
	ok bool
}

func (p *timeParser) byte(a, b byte) {
	if p.s == "" || p.s[0] != a && p.s[0] != b {
		p.ok = false
		return
	}
	p.s = p.s[1:]
}

func (p *timeParser) digits(n int) (v int64) {
	if len(p.s) < n {
		p.ok = false
		return 0
	}
	for i := range n {
		c := p.s[i]
		if c < '0' || c > '9' {
			p.ok = false
			return 0
		}
		v = v*10 + int64(c-'0')
	}
	p.s = p.s[n:]
	return v
}

func (p *timeParser) year() int64 {
	if p.s == "" || p.s[0] != '+' && p.s[0] != '-' {
		return p.digits(4)
	}
	sign := int64(1)
	if p.s[0] == '-' {
		sign = -1
	}
	p.s = p.s[1:]
	n := strings.IndexByte(p.s, '-')
	if n != 5 && n != 6 {
		p.ok = false
		return 0
	}
	return sign * p.digits(n)
}

// fraction reads ".digits", any number of them, and drops all after six.
func (p *timeParser) fraction() (micros int64) {
	if p.s == "" || p.s[0] != '.' {
		return 0
	}
	n := 1
	for n < len(p.s) && p.s[n] >= '0' && p.s[n] <= '9' {
		if n <= 6 {
			micros = micros*10 + int64(p.s[n]-'0')
		}
		n++
	}
	if n == 1 {
		p.ok = false
	}
	for i := n; i <= 6; i++ {
		micros *= 10
	}
	p.s = p.s[n:]
	return micros
}

// maxOffset is added to every offset so that offset can return -1 for one
// that is out of range.
const maxOffset = 24 * 3600

// offset returns the seconds east of UTC plus maxOffset.
func (p *timeParser) offset() int64 {
	if p.s == "" {
		p.ok = false
		return 0
	}
	c := p.s[0]
	p.s = p.s[1:]
	if c == 'Z' || c == 'z' {
		return maxOffset
	}
	if c != '+' && c != '-' {
		p.ok = false
		return 0
	}
	hour := p.digits(2)
	if p.s != "" && p.s[0] == ':' {
		p.s = p.s[1:]
	}
	minute := p.digits(2)
	if hour > 23 || minute > 59 {
		return -1
	}
	sec := hour*3600 + minute*60
	if c == '-' {
		sec = -sec
	}
	return maxOffset + sec
}

// formatTime is the inverse of parseTime: UTC, with as many digits of the
// second as needed.
func formatTime(us int64) string {
	day, rest := floorDiv(us, secondsPerDay*1e6)
	year, month, d := civilFromDays(day)
	var b strings.Builder
	if year >= 0 && year <= 9999 {
		fmt.Fprintf(&b, "%04d", year)
	} else {
		fmt.Fprintf(&b, "%+06d", year)
	}
	sec, micros := rest/1e6, rest%1e6
	fmt.Fprintf(&b, "-%02d-%02dT%02d:%02d:%02d", month, d, sec/3600, sec/60%60, sec%60)
	if micros != 0 {
		b.WriteString(strings.TrimRight(fmt.Sprintf(".%06d", micros), "0"))
	}
	b.WriteByte('Z')
	return b.String()
}

func floorDiv(a, b int64) (q, r int64) {
	q, r = a/b, a%b
	if r < 0 {
		q, r = q-1, r+b
	}
	return q, r
}

func daysIn(year, month int64) int64 {
	switch month {
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	case 4, 6, 9, 11:
		return 30
	}
	return 31
}

// daysFromCivil returns the days from 1970-01-01 to a date of the proleptic
// Gregorian calendar: years start in March, so the leap day is the last, and
// 400 of them are 146,097 days.
func daysFromCivil(year, month, day int64) int64 {
	if month <= 2 {
		year--
	}
	era, y := floorDiv(year, 400)
	m := (month + 9) % 12
	return era*146097 + y*365 + y/4 - y/100 + (153*m+2)/5 + day - 1 - 719468
}

// civilFromDays is the inverse of daysFromCivil.
func civilFromDays(days int64) (year, month, day int64) {
	era, d := floorDiv(days+719468, 146097)
	y := (d - d/1460 + d/36524 - d/146096) / 365
	d -= 365*y + y/4 - y/100
	m := (5*d + 2) / 153
	day = d - (153*m+2)/5 + 1
	month = (m+2)%12 + 1
	year = era*400 + y
	if month <= 2 {
		year++
	}
	return year, month, day
}
