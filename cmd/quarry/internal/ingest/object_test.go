package ingest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

var objectSeeds = []string{
	`{}`, `{"id":1}`, ` { "a" : [ ] , "b" : [1, -2.5e+3, 0, 1E9, true, false, null, {"c":{}}] } `,
	`{"a":"x\n\t\"\\\/\b\f\r\u00e9\uD83D\uDE00é"}`, `{"a":"\ud83d"}`, `{"a":"\ud83dx"}`, `{"a":"\ude00\ud83d"}`,
	`{"a":01}`, `{"a":-}`, `{"a":1.}`, `{"a":1e}`, `{"a":.5}`, `{"a":+1}`, `{"a":nul}`, `{"a":1,}`, `{"a":[1,]}`,
	`{"a" 1}`, `{a:1}`, `{"a":"b`, "{\"a\":\"\x01\"}", "{\"a\":\"\xff\"}", `{"a":"\q"}`, `{"a":"\u12G4"}`, `{"a":"\u12`,
	`{"a":1,"a":2}`, `{"":""}`, `[]`, `null`, `1`, ``, `{} x`, `{"a":1}{"b":2}`, "\ufeff{}", "{\"a\":1}\x00", "{}\v",
	strings.Repeat(`{"a":`, 100) + `1` + strings.Repeat(`}`, 100), `{"a":` + strings.Repeat(`[`, 70) + strings.Repeat(`]`, 70) + `}`,
	`{"a":{"b":{"c":[{"d":1},{"d":2}]}}}`, `{"a":tru`, `{"a":trueX}`, `{"a":"\u0000\u001f"}`,
}

func compareObject(t *testing.T, p *objectParser, line string) {
	t.Helper()
	got, err := p.object([]byte(line))
	want, wantErr := parseObject([]byte(line))
	if !reflect.DeepEqual(got, want) || fmt.Sprint(err) != fmt.Sprint(wantErr) {
		t.Errorf("%q:\ngot  %#v, %v\nwant %#v, %v", line, got, err, want, wantErr)
	}
}

func TestObjectEqualsReference(t *testing.T) {
	var p objectParser
	for _, s := range objectSeeds {
		for i := range len(s) + 1 {
			compareObject(t, &p, s[:i])
		}
	}
}

// TestObjectKeepsNoLine shows that a key does not keep the line it stood in.
func TestObjectKeepsNoLine(t *testing.T) {
	var p objectParser
	line := []byte(`{"key":"value"}`)
	m, err := p.object(line)
	if err != nil {
		t.Fatal(err)
	}
	copy(line, strings.Repeat("#", len(line)))
	if m["key"] != "value" {
		t.Errorf("%v", m)
	}
}

func FuzzObject(f *testing.F) {
	for _, s := range objectSeeds {
		f.Add(s)
	}
	var p objectParser
	f.Fuzz(func(t *testing.T, line string) { compareObject(t, &p, line) })
}

func BenchmarkObject(b *testing.B) {
	line, err := json.Marshal(map[string]any{
		"id": "pages.de/common/tar", "title": "tar", "text": strings.Repeat("> Archivierungswerkzeug, häufig mit gzip.\n\n", 20),
		"metadata": map[string]any{"lang": "de", "platform": "common", "examples": 8, "created": "2019-10-04"},
	})
	if err != nil {
		b.Fatal(err)
	}
	for name, parse := range map[string]func([]byte) (map[string]any, error){
		"fast": new(objectParser).object, "reference": parseObject,
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(line)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := parse(line); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
