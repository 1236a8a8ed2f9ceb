package describe

import (
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestEntities(t *testing.T) {
	for _, c := range []struct {
		text string
		want []string
	}{
		{"", nil},
		{"nothing is named here. Nothing at all.", nil},
		{"The Refund is paid by Acme Cloud. The Acme Cloud team answers.", []string{"Acme Cloud"}},
		{"She joined the Bank of England after João da Silva left Ludwig van Beethoven.", []string{"Bank of England", "João da Silva", "Ludwig van Beethoven"}},
		{"In New York, If Los Angeles", []string{"New York", "Los Angeles"}},
		{"Bank of the river", nil}, // a particle at the end joins nothing
		{"Acme  Cloud", nil},       // two spaces
		{"Acme\nCloud", nil},
		{"Acme, Cloud", nil},
		{"Москва Сити и Νέα Υόρκη", []string{"Москва Сити", "Νέα Υόρκη"}},
		{"One Two Three Four Five Six Seven", []string{"One Two Three Four Five", "Six Seven"}},
		{"call getUserName, get_user_name or std::vector; AR-7, HTTP2 and x86_64, not e.g. 3.14 or README",
			[]string{"getUserName", "get_user_name", "std::vector", "AR-7", "HTTP2", "x86_64"}},
		{"OpenAI and GitHub, iPhone", []string{"OpenAI", "GitHub", "iPhone"}},
		{"__init__ _ __ -_- ::", nil},
		{`buy “Orbit Pro” or "Comet", not "this one" or "Who? Me."`, []string{"Orbit Pro", "Comet"}},
		{"「京都案内」と『東京 ガイド』、《红楼梦》", []string{"京都案内", "東京 ガイド", "红楼梦"}},
		{"run `make` in `Makefile`, then `go test ./...` or `x`", []string{"make", "Makefile"}},
		{"„Blauer Engel“ «Grand Prix»", []string{"Blauer Engel", "Grand Prix"}},
		{"# Getting Started Guide\n## Next Steps\n#hash Tag Line", []string{"Tag Line"}},
		{`an "unclosed mark and Acme Cloud`, []string{"Acme Cloud"}},
		{"O’Reilly Media and AT&T Labs", []string{"O’Reilly Media", "AT&T Labs"}},
		{"\xff\xfe Acme \xff Cloud", nil},
	} {
		if got := Entities(c.text, 100); !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, want %q", c.text, got, c.want)
		}
	}
	many := strings.Repeat("Acme Cloud and ", 1000)
	if got := Entities(many, 5); len(got) != 1 {
		t.Errorf("%q", got)
	}
	var b strings.Builder
	for i := range 200 {
		b.WriteString("word_" + strings.Repeat("x", i%70) + " ")
	}
	if got := Entities(b.String(), 7); len(got) != 7 {
		t.Errorf("%d entities, want 7", len(got))
	}
	if got := Entities("a_"+strings.Repeat("é", 70), 7); len(got) != 0 {
		t.Errorf("too long: %q", got)
	}
}

// Whatever the text, entities stand in it, are few, short, and there once.
func FuzzEntities(f *testing.F) {
	for _, s := range []string{"The Bank of England", "`a_b` “Orbit Pro”", "\xffA B\u0301 C", "# A B\n「京都」", "\"\"\"`「` A"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := Entities(text, 10)
		if len(got) > 10 {
			t.Errorf("%d entities", len(got))
		}
		for i, e := range got {
			if e == "" || utf8.RuneCountInString(e) > maxEntityRunes || slices.Contains(got[:i], e) || !strings.Contains(text, e) || strings.Contains(e, "\n") {
				t.Errorf("%q of %q", e, text)
			}
		}
	})
}

func TestFreshness(t *testing.T) {
	now := time.Date(2030, 6, 1, 12, 0, 0, 0, time.UTC)
	day := func(n int) time.Time { return now.AddDate(0, 0, n) }
	for _, c := range []struct {
		declared        string
		expiry, changed time.Time
		want            string
	}{
		{"", time.Time{}, time.Time{}, Unknown},
		{"", time.Time{}, day(-365), Fresh},
		{"", time.Time{}, day(-365).Add(-time.Second), Stale},
		{"", time.Time{}, day(10), Fresh},
		{"", day(1), day(-400), Stale},
		{"", now, day(-1), Expired},
		{"", day(-1), time.Time{}, Expired},
		{" Stale ", day(-1), day(-1), Stale},
		{"new", time.Time{}, day(-1), Fresh},
		{"unknown", day(-1), day(-1), Unknown},
	} {
		if got := Freshness(c.declared, c.expiry, c.changed, now); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

func BenchmarkEntities(b *testing.B) {
	text := strings.Repeat("The refund policy of Acme Cloud allows returns within 30 days; call get_order or see “Orbit Pro”.\n", 1000)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		Entities(text, 1000)
	}
}
